"""What a starter makes of a YARN container."""

from __future__ import annotations

import base64
import json
import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from ytf.backends.launch import starter_command
from ytf.hadoop.security import credentials
from ytf.hadoop.security.credentials import Credentials, Token
from ytf.starter.config import ConfigError, StarterConfig
from ytf.starter.desired_state import CANNOT_BEGIN
from ytf.starter.program_logs import ProgramLogs
from ytf.starter.yarn_container import LAUNCH, SECRET_FILE, read_secret, unpack

SECRET = b"s" * 64
STARTER = {
    "job": "application_1_0001",
    "container": "container_1_0001_01_000002",
    "attempt": 1,
    "generation": 0,
    "master": "http://node:1",
    "port": "none",
    "framework": "none",
    "registry": "rest",
    "log_prefix": "worker-0",
}
PROGRAM = {
    "DTF_TASK_PROGRAM": 'echo "it\'s" $X `id`\n',
    "DTF_TASK_JOB_NAME": "worker",
    "DTF_TASK_INDEX": "0",
}


def packed(**launch: object) -> bytes:
    told = {"env": PROGRAM, "defaults": {}, "starter": STARTER, **launch}
    return base64.b64encode(json.dumps(told).encode())


@pytest.fixture
def container(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[bytes, bytes]:
    """The variables of a container whose working directory we are in."""
    monkeypatch.chdir(tmp_path)
    tokens = {"one": Token(b"i" * 300, b"p" * 20, "NMToken", "a:1"), "two": Token(b"", b"", "k")}
    held = Credentials(tokens, {"other": b"x", "ytf.job.secret": SECRET})
    (tmp_path / "container_tokens").write_bytes(credentials.encode(held))
    return {
        b"HOME": b"/home/",
        b"PATH": b"/usr/bin",
        b"NM_HOST": b"node7",
        b"LOG_DIRS": f"{tmp_path}/logs,/elsewhere".encode(),
        b"HADOOP_TOKEN_FILE_LOCATION": os.fsencode(tmp_path / "container_tokens"),
        LAUNCH.encode(): packed(),
    }


def config(environ: dict[bytes, bytes]) -> StarterConfig:
    return StarterConfig({os.fsdecode(k): os.fsdecode(v) for k, v in environ.items()}, environ)


def test_all_that_was_meant_for_the_starter_is_there(
    container: dict[bytes, bytes], tmp_path: Path
) -> None:
    environ = unpack(container)
    made = config(environ)
    assert made.program == PROGRAM["DTF_TASK_PROGRAM"]
    assert (made.task, made.host, made.job) == ("worker:0", "node7", STARTER["job"])
    assert (made.log_dir, made.log_prefix, made.parent) == (f"{tmp_path}/logs", "worker-0", None)
    assert made.secret() == SECRET
    assert stat.S_IMODE((tmp_path / SECRET_FILE).stat().st_mode) == 0o600
    assert SECRET not in b" ".join(environ.values())
    assert LAUNCH.encode() not in environ
    assert environ[b"HOME"] == os.fsencode(tmp_path)
    assert environ[b"PATH"] == b"/usr/bin"


def test_variables_win_and_defaults_do_not(container: dict[bytes, bytes]) -> None:
    container[LAUNCH.encode()] = packed(
        env={**PROGRAM, "PATH": "/mine", "ODD": "\udcff"}, defaults={"NM_HOST": "no", "OMP": "4"}
    )
    environ = unpack(container)
    assert environ[b"PATH"] == b"/mine"
    assert environ[b"ODD"] == b"\xff"
    assert environ[b"NM_HOST"] == b"node7"
    assert environ[b"OMP"] == b"4"


def test_a_home_that_can_be_used_stays(container: dict[bytes, bytes], tmp_path: Path) -> None:
    (tmp_path / "alice").mkdir()
    container[b"HOME"] = os.fsencode(tmp_path / "alice")
    assert unpack(container)[b"HOME"] == container[b"HOME"]


def test_a_container_that_is_started_again(container: dict[bytes, bytes]) -> None:
    assert unpack(container) == unpack(container)


@pytest.mark.parametrize("name", ["NM_HOST", "LOG_DIRS", "HADOOP_TOKEN_FILE_LOCATION"])
def test_what_yarn_always_sets(container: dict[bytes, bytes], name: str) -> None:
    del container[name.encode()]
    with pytest.raises(ConfigError, match=name):
        unpack(container)


@pytest.mark.parametrize("value", [b"%%%", b"bm90IGpzb24=", b"e30=", b"WzFd"])
def test_a_launch_that_is_none(container: dict[bytes, bytes], value: bytes) -> None:
    container[LAUNCH.encode()] = value
    with pytest.raises(ConfigError, match=LAUNCH):
        unpack(container)


def test_no_piece_of_a_credentials_file_is_a_secret() -> None:
    whole = credentials.encode(
        Credentials({"t": Token(b"i" * 200, b"p", "kind")}, {"ytf.job.secret": SECRET})
    )
    assert read_secret(whole) == SECRET
    for length in range(len(whole)):
        with pytest.raises(ValueError, match=r"it is|it has|there is no"):
            read_secret(whole[:length])
    with pytest.raises(ValueError, match="version 0"):
        read_secret(credentials.encode(Credentials({}, {"ytf.job.secret": SECRET}), version=1))
    with pytest.raises(ValueError, match=r"no ytf\.job\.secret"):
        read_secret(credentials.encode(Credentials({}, {"another": SECRET})))


def test_logs_that_lie_flat(tmp_path: Path) -> None:
    logs = ProgramLogs(str(tmp_path), 3, 1, "worker-0")
    for fd in logs.open():
        os.write(fd, b"said\n")
        os.close(fd)
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "worker-0.3.stderr",
        "worker-0.3.stdout",
    ]
    assert logs.tail() == "said"


def test_the_starter_reads_it_by_itself(container: dict[bytes, bytes]) -> None:
    container[LAUNCH.encode()] = packed(starter={**STARTER, "port": "wrong"})
    environ = {os.fsdecode(k): os.fsdecode(v) for k, v in container.items()}
    done = subprocess.run(
        starter_command(sys.executable), env=environ, capture_output=True, text=True, check=False
    )
    assert done.returncode == CANNOT_BEGIN
    assert "'port' must be one of" in done.stderr


def test_gpus_are_locked_in_the_users_own_directory_on_the_node(
    container: dict[bytes, bytes], tmp_path: Path
) -> None:
    user = tmp_path / "usercache" / "alice"
    application = user / "appcache" / "application_1_0001"
    application.mkdir(parents=True)
    container[LAUNCH.encode()] = packed(starter={**STARTER, "gpus": 1})
    container[b"LOCAL_DIRS"] = f"/z/usercache/alice/appcache/a,{application}".encode()
    assert config(unpack(container)).gpu_locks == str(user / "ytf-gpus")
