from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.starter.conftest import RunningStarter, is_alive
from tests.starter.fake_master import FakeMaster
from ytf.starter.orphans import STARTED_BY, kill_orphans, own_mark
from ytf.testing.waiting import eventually

DAEMON = "setsid --fork sleep 1000; while :; do sleep 0.1; done"


@contextmanager
def marked(mark: str) -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen(
        ["sleep", "1000"], env={"PATH": os.environ["PATH"], "A": "1", STARTED_BY: mark, "Z": "2"}
    ) as process:
        # Its variables are there once exec is over.
        eventually(lambda: b"sleep" in Path(f"/proc/{process.pid}/cmdline").read_bytes())
        yield process
        process.kill()


def kill_at_once(*pids: int) -> None:
    """SIGKILL, so that none of them can do anything about the death of another."""
    for pid in pids:
        os.kill(pid, signal.SIGSTOP)
    for pid in pids:
        os.kill(pid, signal.SIGKILL)


def daemon_of(starter: RunningStarter) -> int:
    """The process that has left the program's session, once it runs."""

    def found() -> int | None:
        for pid in starter.processes():
            if Path(f"/proc/{pid}/cmdline").read_bytes() == b"sleep\x001000\x00":
                return pid
        return None

    return eventually(found, describe="the daemon runs") or 0


def test_the_next_starter_kills_what_one_left_that_died_with_its_reaper(
    master: FakeMaster, start: Callable[..., RunningStarter]
) -> None:
    first = start(DAEMON)
    master.meet()
    master.expect("started", 0)
    daemon = daemon_of(first)
    reaper = first.processes()[0]
    kill_at_once(first.pid, reaper)
    first.wait()
    assert is_alive(daemon), "nobody is left who could kill it"
    start("sleep 1000", container="c2", index=1)
    eventually(lambda: not is_alive(daemon), 60, "the daemon is killed")


def test_what_a_living_starter_runs_is_left_alone() -> None:
    with marked(own_mark()) as process:
        kill_orphans()
        assert process.poll() is None


def test_what_a_dead_starter_ran_is_killed(capfd: pytest.CaptureFixture[str]) -> None:
    namespace = own_mark().split(".")[0]
    with marked(f"{namespace}.{os.getpid()}.1") as process:
        kill_orphans()
        assert process.wait(30) == -signal.SIGKILL
    assert f"{process.pid} (sleep 1000)" in capfd.readouterr().err


@pytest.mark.parametrize("mark", ["1.1.1", "", "x", "1.2", "99999999999999999999.1.1"])
def test_marks_of_other_namespaces_and_nonsense_are_left_alone(mark: str) -> None:
    with marked(mark) as process:
        kill_orphans()
        assert process.poll() is None


def test_other_users_are_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    namespace = own_mark().split(".")[0]
    monkeypatch.setattr(os, "geteuid", lambda: 12345)
    with marked(f"{namespace}.{os.getpid()}.1") as process:
        kill_orphans()
        assert process.poll() is None
