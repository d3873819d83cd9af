from __future__ import annotations

import json
from pathlib import Path

import pytest

from ytf.starter.config import Config, ConfigError


def make_environ(**settings: object) -> dict[str, str]:
    group = str(settings.pop("group", "worker"))
    index = str(settings.pop("index", 0))
    given = {
        "job": "local_1",
        "container": "c1",
        "attempt": 0,
        "generation": 0,
        "master": "http://127.0.0.1:1",
        "secret_file": "secret",
        "log_dir": "logs",
        "port": "hold",
        "variables": "tensorflow",
        **settings,
    }
    return {
        "DTF_TASK_PROGRAM": "true",
        "DTF_TASK_JOB_NAME": group,
        "DTF_TASK_INDEX": index,
        "YTF_STARTER": json.dumps({k: v for k, v in given.items() if v is not ...}),
    }


def make_config(**settings: object) -> Config:
    return Config(make_environ(**settings))


def test_what_is_left_out_has_a_default() -> None:
    config = make_config()
    assert config.task == "worker:0"
    assert config.rendezvous is True
    assert (config.grace_s, config.orphan_s, config.heartbeat_s) == (10.0, 1800.0, 30.0)
    assert config.log_limit_mb == 512
    assert config.parent is None
    assert config.master_file is None
    assert config.host is None


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"job": ...}, "YTF_STARTER lacks 'job'"),
        ({"port": "maybe"}, "'port' must be one of hold, release, none, not 'maybe'"),
        ({"attempt": -1}, "'attempt' must be a whole number"),
        ({"attempt": True}, "'attempt' must be a whole number"),
        ({"grace_s": "10"}, "'grace_s' must be a number"),
        ({"master": "node:1"}, "'master' must be of the form http://host:port"),
        ({"master": "http://node:0"}, "'master' must be of the form http://host:port"),
        ({"rendezvous": 1}, "'rendezvous' must be true or false"),
        ({"index": "x"}, "DTF_TASK_INDEX is 'x', not a number"),
        ({"log_dir": 3}, "'log_dir' must be a string or null"),
    ],
)
def test_errors_name_the_key(settings: dict[str, object], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        make_config(**settings)


@pytest.mark.parametrize("text", ["", "{", "[]"])
def test_settings_must_be_a_json_object(text: str) -> None:
    with pytest.raises(ConfigError, match="YTF_STARTER"):
        Config({**make_environ(), "YTF_STARTER": text})


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
