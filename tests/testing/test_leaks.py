"""The leak check finds what is left, waits for it, and removes it."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from ytf.testing.leaks import leftovers, no_leaks, processes_of

FOREVER = [sys.executable, "-c", "import signal; print(flush=True); signal.pause()"]


@pytest.fixture
def home(tmp_path: Path) -> Path:
    (tmp_path / "home" / "jobs").mkdir(parents=True)
    return tmp_path / "home"


@pytest.fixture
def started() -> Iterator[list[subprocess.Popen[bytes]]]:
    processes: list[subprocess.Popen[bytes]] = []
    yield processes
    for process in processes:
        process.kill()
        process.communicate()


def run(
    started: list[subprocess.Popen[bytes]], env: dict[str, str], cwd: Path | None = None
) -> int:
    process = subprocess.Popen(FOREVER, env=env, cwd=cwd, stdout=subprocess.PIPE)
    started.append(process)
    assert process.stdout is not None
    process.stdout.readline()
    return process.pid


def test_nothing_left_is_fine(home: Path) -> None:
    with no_leaks(home, timeout_s=0):
        pass
    with no_leaks(home / "never made", timeout_s=0):
        pass


def test_a_process_is_found_by_its_environment_and_killed(
    home: Path, started: list[subprocess.Popen[bytes]]
) -> None:
    pid = run(started, {"YTF_HOME": str(home)})
    assert list(processes_of(home)) == [pid]
    with pytest.raises(AssertionError, match=r"process \d+: .*signal\.pause"), no_leaks(home, 0.05):
        pass
    assert started[0].wait(60) == -9


def test_a_process_is_found_by_its_directory(
    home: Path, started: list[subprocess.Popen[bytes]]
) -> None:
    pid = run(started, {}, cwd=home / "jobs")
    assert list(processes_of(home)) == [pid]


def test_other_homes_are_nobodys_business(
    home: Path, tmp_path: Path, started: list[subprocess.Popen[bytes]]
) -> None:
    run(started, {"YTF_HOME": str(home) + "2"}, cwd=tmp_path)
    with no_leaks(home, timeout_s=0):
        pass
    assert started[0].poll() is None


def test_a_zombie_is_not_alive(home: Path, started: list[subprocess.Popen[bytes]]) -> None:
    pid = run(started, {"YTF_HOME": str(home)})
    started[0].kill()
    os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
    assert processes_of(home) == {}


def test_a_staged_job_is_found(home: Path) -> None:
    (home / "jobs" / "local_1").mkdir()
    with pytest.raises(AssertionError, match="staged: jobs/local_1"), no_leaks(home, 0.02):
        assert leftovers(home) == ["staged: jobs/local_1"]


def test_what_goes_in_time_is_no_leak(home: Path) -> None:
    staged = home / "jobs" / "local_1"
    staged.mkdir()
    later = threading.Timer(0.05, staged.rmdir)
    with no_leaks(home):
        later.start()
    later.join()


def test_the_tests_own_failure_comes_first(
    home: Path, started: list[subprocess.Popen[bytes]]
) -> None:
    run(started, {"YTF_HOME": str(home)})
    with pytest.raises(ZeroDivisionError), no_leaks(home):
        raise ZeroDivisionError
    assert started[0].wait(60) == -9
