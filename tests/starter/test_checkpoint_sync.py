"""A starter that keeps a directory of its program in sync, by a real helper process."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

from tests.starter.fake_master import FakeMaster
from tests.starter.steps import Start, run_to
from ytf.backends.launch import helper_arguments
from ytf.processes import children, command_line
from ytf.storage.checkpoint_sync.store import CheckpointStore, Writer
from ytf.storage.local_files import LocalFiles
from ytf.testing.waiting import eventually

HELPER = helper_arguments()
SAVES = (
    "mkdir -p c; cat c/saved; trap 'echo saved $YTF_ATTEMPT > c/saved; exit {code}' TERM; "
    "echo ready; while :; do sleep 0.05; done"
)


def synced(place: Path, **more: float) -> dict[str, Any]:
    sync = {"dir": "c", "to": str(place), "interval_s": 1, "final_s": 30, **more}
    return {"helper": HELPER, "checkpoint_sync": sync}


def helper_of(starter: int, other_than: int = 0) -> int:
    def found() -> int:
        pids = [pid for pid in children(starter) if "checkpoint_sync" in command_line(pid)]
        return next((pid for pid in pids if pid != other_than), 0)

    return eventually(found, describe="the helper process runs")


def test_a_helper_that_is_killed_is_started_again(
    master: FakeMaster, start: Start, tmp_path: Path
) -> None:
    place, gate = tmp_path / "kept", tmp_path / "go"
    starter = start(
        f"mkdir c; echo 1 > c/one; echo ready; until [ -e {gate} ]; do sleep 0.05; done; "
        "echo 2 > c/two",
        **synced(place),
    )
    run_to(master, starter)
    first = helper_of(starter.process.pid)
    os.kill(first, signal.SIGKILL)
    eventually(lambda: helper_of(starter.process.pid) != first, describe="another one")
    eventually((place / "one").exists, describe="the file to be synced")
    gate.touch()
    assert master.expect("exited", 0)["exit_code"] == 0
    assert (place / "two").read_text() == "2\n"
    assert "it was killed by signal 9; trying again in 1 s" in starter.output(stream="stderr")


def kill_while_restoring(starter: int, times: int) -> int:
    """Kill one helper after the other; returns the last one's pid."""
    pid = 0
    for _ in range(times):
        pid = helper_of(starter, other_than=pid)
        os.kill(pid, signal.SIGKILL)
    return pid


def hold(place: Path) -> CheckpointStore:
    """Let another job have the directory: a helper waits for it before it restores."""
    place.mkdir()
    other = Writer(job="other", task="worker:0", attempt=0, host="node", nonce="1")
    store = CheckpointStore(LocalFiles(), str(place), other)
    store.claim()
    return store


def test_a_helper_that_is_killed_while_it_restores_is_started_again(
    master: FakeMaster, start: Start, tmp_path: Path
) -> None:
    held = hold(tmp_path / "kept")
    starter = start("mkdir -p c; echo 1 > c/one", **synced(tmp_path / "kept"))
    master.meet()
    killed = kill_while_restoring(starter.process.pid, 3)
    helper_of(starter.process.pid, other_than=killed)
    held.release()
    assert master.expect("exited", 0)["exit_code"] == 0
    assert (tmp_path / "kept/one").read_text() == "1\n"
    said = starter.output(stream="stderr")
    assert said.count("it was killed by signal 9; it is started again") == 3


def test_a_helper_that_is_always_killed_is_not_started_for_ever(
    master: FakeMaster, start: Start, tmp_path: Path
) -> None:
    hold(tmp_path / "kept")
    starter = start("echo it runs", **synced(tmp_path / "kept"))
    kill_while_restoring(starter.process.pid, 4)
    end = master.expect("exited", 0)
    assert end["exit_code"] == 126
    assert end["reason"].startswith("the checkpoints could not be restored: ")
    assert "killed by signal 9" in end["reason"]
    assert "it runs" not in starter.output()


def test_what_a_program_saves_when_it_is_told_to_end_is_synced_and_restored(
    master: FakeMaster, start: Start, tmp_path: Path
) -> None:
    place = tmp_path / "kept"
    starter = start(SAVES.format(code=9), **synced(place))
    run_to(master, starter)
    master.order(attempt=1, generation=1)
    master.meet(attempt=1, generation=1)
    master.expect("started", 1)
    assert (place / "saved").read_text() == "saved 0\n"
    eventually(
        lambda: "saved 0" in starter.output(attempt=1), describe="the program finds what it saved"
    )
    master.order(stop=True)
    assert starter.wait() == 0
    assert (place / "saved").read_text() == "saved 1\n"


def test_a_directory_that_cannot_be_used_starts_no_program(
    master: FakeMaster, start: Start, tmp_path: Path
) -> None:
    (tmp_path / "kept").write_text("a file")
    starter = start("echo it runs", **synced(tmp_path / "kept"))
    end_kind = master.expect("exited", 0)
    assert end_kind["exit_code"] == 126
    assert end_kind["reason"].startswith("the checkpoints could not be restored: ")
    assert "it runs" not in starter.output()
