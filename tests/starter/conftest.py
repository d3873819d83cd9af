from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from tests.starter.fake_master import SECRET, FakeMaster
from ytf.backends.launch import starter_command
from ytf.starter.process_tree import scan_descendants
from ytf.testing.waiting import eventually

PATIENCE_S = 15.0
PYTHON = os.environ.get("YTF_TEST_STARTER_PYTHON", sys.executable)
"""The interpreter starters run on: nodes may have an older one than ours."""


def is_alive(pid: int) -> bool:
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False
    return stat.rpartition(")")[2].split()[0] != "Z"


def command_line(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except (FileNotFoundError, ProcessLookupError):
        return b""  # ended since it was listed


class RunningStarter:
    """A real starter in a real process, with a working directory and logs of its own."""

    def __init__(self, folder: Path, master: str, program: str, **settings: object) -> None:
        self.cwd = folder / "work"
        self.cwd.mkdir(exist_ok=True)
        self.log_dir = folder / "logs"
        self.master_file = folder / "master.json"
        secret = folder / "secret"
        if not secret.exists():
            secret.write_bytes(SECRET)
        group = str(settings.pop("group", "worker"))
        index = str(settings.pop("index", 0))
        extra = settings.pop("environ", {})
        argv = settings.pop("argv", starter_command(str(settings.pop("python", PYTHON))))
        assert isinstance(argv, list)
        given: dict[str, object] = {
            "job": "local_1",
            "container": "c1",
            "attempt": 0,
            "generation": 0,
            "master": master,
            "master_file": None,
            "secret_file": str(secret),
            "host": "127.0.0.1",
            "log_dir": str(self.log_dir),
            "port": "hold",
            "wait_for_peers": True,
            "framework": "tensorflow",
            "registry": "rest",
            "grace_s": 5.0,
            "master_silence_s": 60.0,
            "log_limit_mb": 512,
            "heartbeat_timeout_s": 30.0,
            "parent": os.getpid(),
        }
        given.update(settings)
        env = {
            "PATH": os.environ["PATH"],
            "DTF_TASK_PROGRAM": program,
            "DTF_TASK_JOB_NAME": group,
            "DTF_TASK_INDEX": index,
            "YTF_STARTER": json.dumps(given),
        }
        assert isinstance(extra, dict)
        env.update(extra)
        self._log = (folder / "starter.log").open("ab")
        self.process = subprocess.Popen(
            argv,
            env=env,
            cwd=self.cwd,
            stdin=subprocess.DEVNULL,
            stdout=self._log,
            stderr=self._log,
            start_new_session=True,
        )
        self.log = folder / "starter.log"

    @property
    def pid(self) -> int:
        return self.process.pid

    def wait(self) -> int:
        return self.process.wait(PATIENCE_S)

    def output(self, attempt: int = 0, stream: str = "stdout") -> str:
        return (self.log_dir / str(attempt) / stream).read_text()

    def processes(self) -> list[int]:
        return scan_descendants(self.pid)

    def close(self) -> None:
        below = self.processes()
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait(PATIENCE_S)
        self._log.close()
        eventually(lambda: not any(is_alive(pid) for pid in below), describe=f"the end of {below}")


@pytest.fixture
def master() -> Iterator[FakeMaster]:
    with closing(FakeMaster(SECRET)) as fake:
        yield fake


@pytest.fixture
def start(tmp_path: Path, master: FakeMaster) -> Iterator[Callable[..., RunningStarter]]:
    """Start starters; at the end none may have left a process behind."""
    started: list[RunningStarter] = []

    def begin(program: str, **settings: object) -> RunningStarter:
        url = str(settings.pop("master", master.url))
        starter = RunningStarter(tmp_path, url, program, **settings)
        started.append(starter)
        return starter

    yield begin
    for starter in started:
        starter.close()


@pytest.fixture(autouse=True)
def default_signals() -> Iterator[None]:
    """Forking a reaper blocks signals for a moment: none may stay blocked."""
    yield
    assert signal.pthread_sigmask(signal.SIG_BLOCK, ()) == set()
