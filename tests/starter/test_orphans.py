from __future__ import annotations

import errno
import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.starter.conftest import RunningStarter, command_line, is_alive
from tests.starter.fake_master import FakeMaster
from ytf.starter import orphans, process_tree
from ytf.starter.orphans import STARTED_BY, kill_orphans, own_mark
from ytf.testing.waiting import eventually

DAEMON = "setsid --fork sleep 1000; while :; do sleep 0.1; done"


@contextmanager
def marked(mark: str) -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen(
        ["sleep", "1000"], env={"PATH": os.environ["PATH"], "A": "1", STARTED_BY: mark, "Z": "2"}
    ) as process:
        try:
            # Its variables are there once exec is over.
            eventually(lambda: b"sleep" in Path(f"/proc/{process.pid}/cmdline").read_bytes())
            yield process
        finally:
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
            if command_line(pid) == b"sleep\x001000\x00":
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


@pytest.mark.parametrize("digits", [10, 300, 5000])
@pytest.mark.parametrize("place", [0, 1, 2])
def test_a_number_of_any_length_neither_raises_nor_kills(digits: int, place: int) -> None:
    """Another user may have chosen the variables of a setuid program."""
    parts = [*own_mark().split(".")[:2], "1"]
    parts[place] = "9" * digits
    if place == 2:
        parts[1] = "9" * digits  # a starter that does not exist
    with marked(".".join(parts)) as process:
        kill_orphans()
        assert process.poll() is None


def test_processes_that_linux_hides_are_neither_dead_nor_ours(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As where /proc is mounted with hidepid: a look at other users' processes is refused."""

    def refused(path: str, mode: str) -> object:
        raise PermissionError(errno.EPERM, "Operation not permitted", path)

    def exists(pid: int, signum: int) -> None:
        raise PermissionError(errno.EPERM, "Operation not permitted")

    mark = own_mark().encode()
    with monkeypatch.context() as patch:
        patch.setattr(process_tree, "open", refused, raising=False)
        assert process_tree.descendants(1) == []
        patch.setattr(os, "kill", exists)
        assert not orphans.starter_is_dead(mark)


def test_no_sweep_raises(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    def fails() -> None:
        raise ValueError("of a kind that nobody thought of")

    monkeypatch.setattr(orphans, "_find_orphans", fails)
    kill_orphans()
    assert "nobody thought of" in capfd.readouterr().err


def test_the_watch_goes_on_when_a_sweep_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[int] = []

    def fails() -> None:
        calls.append(1)
        raise PermissionError("hidden")

    def pause(seconds: float) -> None:
        if len(calls) == 3:
            raise KeyboardInterrupt

    monkeypatch.setattr(time, "sleep", pause)
    with pytest.raises(KeyboardInterrupt):
        orphans.watch_orphans(fails)
    assert len(calls) == 3


def test_other_users_are_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    namespace = own_mark().split(".")[0]
    monkeypatch.setattr(os, "geteuid", lambda: 12345)
    with marked(f"{namespace}.{os.getpid()}.1") as process:
        kill_orphans()
        assert process.poll() is None
