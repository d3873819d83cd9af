from __future__ import annotations

from pathlib import Path

import pytest

from tests.starter.configs import make_config, make_environ
from ytf.starter.config import ConfigError, StarterConfig


def test_what_is_left_out_has_a_default() -> None:
    config = make_config()
    assert config.task == "worker:0"
    assert config.wait_for_peers is True
    assert (config.grace_s, config.master_silence_s, config.heartbeat_timeout_s) == (
        10.0,
        1800.0,
        30.0,
    )
    assert config.log_limit_mb == 512
    assert config.parent is None
    assert config.master_file is None
    assert config.host is None


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"job": ...}, "YTF_STARTER lacks 'job'"),
        (
            {"port": "maybe"},
            "'port' must be one of hold, release, serve_horovod, none, not 'maybe'",
        ),
        ({"attempt": -1}, "'attempt' must be a whole number"),
        ({"attempt": True}, "'attempt' must be a whole number"),
        ({"grace_s": "10"}, "'grace_s' must be a number"),
        ({"master": "node:1"}, "'master' must be of the form http://host:port"),
        ({"master": "http://node:0"}, "'master' must be of the form http://host:port"),
        ({"wait_for_peers": 1}, "'wait_for_peers' must be true or false"),
        ({"index": "x"}, "DTF_TASK_INDEX is 'x', not a number"),
        (
            {"framework": "keras"},
            "'framework': there is no framework 'keras': ytf knows horovod",
        ),
        ({"framework": ...}, "YTF_STARTER lacks 'framework'"),
        ({"registry": "zookeeper"}, "'registry' must be one of rest, zk, not 'zookeeper'"),
        ({"registry": ...}, "YTF_STARTER lacks 'registry': one of rest"),
        ({"log_dir": 3}, "'log_dir' must be a string or null"),
        ({"ranked": [["worker"]]}, r"'ranked' must be a list of \[group, processes\]"),
        ({"processes": -1}, "'processes' must be a whole number"),
    ],
)
def test_errors_name_the_key(settings: dict[str, object], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        make_config(**settings)


@pytest.mark.parametrize("text", ["", "{", "[]"])
def test_settings_must_be_a_json_object(text: str) -> None:
    with pytest.raises(ConfigError, match="YTF_STARTER"):
        StarterConfig({**make_environ(), "YTF_STARTER": text})


def test_the_secret_is_the_files_bytes(tmp_path: Path) -> None:
    path = tmp_path / "secret"
    path.write_bytes(b" \x00secret\n")
    assert make_config(secret_file=str(path)).secret() == b" \x00secret\n"
    path.write_bytes(b"")
    with pytest.raises(ConfigError, match="empty"):
        make_config(secret_file=str(path)).secret()
    path.unlink()
    with pytest.raises(ConfigError, match="cannot be read"):
        make_config(secret_file=str(path)).secret()
