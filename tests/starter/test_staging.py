"""A starter that stages files in before its program, and out after it."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from tests.starter.conftest import is_alive
from tests.starter.fake_master import FakeMaster
from tests.starter.steps import Start
from ytf.backends.launch import helper_arguments
from ytf.testing.waiting import eventually

HELPER = helper_arguments()


def fake_helper(place: Path, *runs: str) -> list[str]:
    """The arguments of a helper whose n-th run does this; it has told its pid before."""
    code = f"""
import os, json, sys, time
place = {str(place)!r}
request = json.loads(sys.stdin.readline())
number = len(os.listdir(place))
with open(f"{{place}}/.{{number}}", "w") as file:
    file.write(str(os.getpid()))
os.rename(f"{{place}}/.{{number}}", f"{{place}}/{{number}}")
exec({list(runs)!r}[number])
"""
    place.mkdir()
    return ["-c", code]


def pid_of_run(place: Path, number: int) -> int:
    eventually((place / str(number)).exists, describe=f"run {number} of the helper")
    return int((place / str(number)).read_text())


def test_files_are_there_before_the_program_and_kept_after_it(
    master: FakeMaster, start: Start, tmp_path: Path
) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data/a b.txt").write_text("hello")
    starter = start(
        "mkdir out; cp 'in/a b.txt' out/copy; exit 0",
        helper=HELPER,
        stage_in=[{"url": str(tmp_path / "data"), "to": "in", "shard": False}],
        stage_out=[{"dir": "out", "url": str(tmp_path / "kept"), "always": False}],
    )
    master.meet()
    end = master.expect("exited", 0)
    assert (end["exit_code"], end["reason"]) == (0, "")
    assert (tmp_path / "kept/copy").read_text() == "hello"
    said = starter.output(stream="stderr")
    assert "ytf: stage-in: 1 file, 5 B, in" in said
    assert "ytf: stage-out: out to file://" in said


def test_a_program_that_failed_leaves_only_what_is_always_kept(
    master: FakeMaster, start: Start, tmp_path: Path
) -> None:
    start(
        "mkdir a b; exit 3",
        helper=HELPER,
        stage_out=[
            {"dir": name, "url": str(tmp_path / "kept" / name), "always": name == "b"}
            for name in ("a", "b")
        ],
    )
    master.meet()
    end = master.expect("exited", 0)
    assert (end["exit_code"], end["reason"]) == (3, "")
    assert os.listdir(tmp_path / "kept") == ["b"]


def test_a_helper_that_is_killed_is_started_again(
    master: FakeMaster, start: Start, tmp_path: Path
) -> None:
    runs = tmp_path / "runs"
    starter = start(
        "echo it runs",
        helper=fake_helper(runs, "time.sleep(1000)", "print(json.dumps({'done': 'all'}))"),
        stage_in=[{"url": "/x", "to": None, "shard": False}],
    )
    master.meet()
    os.kill(pid_of_run(runs, 0), signal.SIGKILL)
    assert master.expect("exited", 0)["exit_code"] == 0
    said = starter.output(stream="stderr")
    assert "it was killed by signal 9; it is started again" in said
    assert "ytf: stage-in: all" in said


def test_a_helper_that_always_fails_is_not_started_for_ever(
    master: FakeMaster, start: Start, tmp_path: Path
) -> None:
    runs = tmp_path / "runs"
    fails = "sys.stderr.write('ImportError: no hdfs_native'); sys.exit(70)"
    start("true", helper=fake_helper(runs, *[fails] * 9), stage_in=[{"url": "/x"}])
    master.meet()
    end = master.expect("exited", 0)
    assert end["exit_code"] == 126
    assert end["reason"] == (
        "stage-in failed: its helper process failed: it ended with exit code 70: "
        "ImportError: no hdfs_native"
    )
    assert len(os.listdir(runs)) == 4


@pytest.mark.parametrize("phase", ["in", "out"])
def test_a_stop_ends_the_helper(
    master: FakeMaster, start: Start, tmp_path: Path, phase: str
) -> None:
    runs = tmp_path / "runs"
    hangs = "print(json.dumps({'progress': '1 of 2 files'}), flush=True); time.sleep(1000)"
    if phase == "in":
        starter = start("true", helper=fake_helper(runs, hangs), stage_in=[{"url": "/x"}])
        number = 0
    else:
        outputs = [{"dir": "o", "url": "/x", "always": False}]
        starter = start("true", helper=fake_helper(runs, "", hangs), stage_out=outputs)
        number = 1
    master.meet()
    pid = pid_of_run(runs, number)
    master.wait_for(
        lambda: any(
            poll.get("activity") == f"stage-{phase}: 1 of 2 files" for poll in master.polls
        ),
        "a heartbeat that tells what it does",
    )
    master.order(stop=True)
    assert starter.wait() == 0
    assert not is_alive(pid)
    assert not [report for report in master.reports if report.kind == "exited"]
