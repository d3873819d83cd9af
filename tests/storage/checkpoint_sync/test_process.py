"""The helper process beside a program: what it tells, what it goes on trying, when it gives up."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.storage.checkpoint_sync.programs import Attempt, Clock, new_directory, plain_files
from tests.storage.memory_files import Disk
from ytf.storage.checkpoint_sync import __main__ as process_module
from ytf.storage.checkpoint_sync.__main__ import Finish, SyncProcess
from ytf.storage.checkpoint_sync.engine import FOREVER_NS
from ytf.storage.checkpoint_sync.store import FencedWriterError, TakenError

SOON = 0.001


class Process:
    """A process beside an attempt, and what it has told."""

    def __init__(self, attempt: Attempt) -> None:
        self.attempt = attempt
        self.told: list[Any] = []
        self.sync = SyncProcess(attempt.engine, SOON, self.told.append)

    def texts(self) -> list[str]:
        return [message["text"] for message in self.told]


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process_module, "_FIRST_PAUSE_S", SOON)
    monkeypatch.setattr(process_module, "_LONGEST_PAUSE_S", SOON)


@pytest.fixture
def disk() -> Disk:
    return Disk()


@pytest.fixture
def process(tmp_path: Path, disk: Disk) -> Process:
    return Process(Attempt(new_directory(tmp_path, 1), disk, Clock()))


def fail_times(attempt: Attempt, times: int, error: Exception) -> None:
    """Let the next changes in HDFS fail."""
    left = [times]

    def fail(number: int) -> None:
        if left[0]:
            left[0] -= 1
            raise error

    assert attempt.files is not None
    attempt.files.before = fail


def test_it_waits_for_hdfs_before_the_program_starts(process: Process, disk: Disk) -> None:
    fail_times(process.attempt, 5, ConnectionError("HDFS is away"))
    process.sync.begin(restore=True)
    assert process.texts() == ["HDFS is away; trying again"]
    assert process.attempt.told == [
        "nothing was synced to memory:/user/me/run10 so far: nothing is restored"
    ]


def test_it_does_not_wait_for_ever(process: Process, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process_module, "BEGIN_S", 0.01)
    fail_times(process.attempt, 10**6, ConnectionError("HDFS is away"))
    with pytest.raises(ConnectionError, match="HDFS is away"):
        process.sync.begin(restore=True)


def test_what_will_not_pass_is_an_error_at_once(process: Process) -> None:
    fail_times(process.attempt, 1, PermissionError("not yours"))
    with pytest.raises(PermissionError, match="not yours"):
        process.sync.begin(restore=True)


def test_another_job_is_waited_for_and_named(
    process: Process, tmp_path: Path, disk: Disk, monkeypatch: pytest.MonkeyPatch
) -> None:
    process.sync.begin(restore=True)
    other = Process(Attempt(new_directory(tmp_path, 2), disk, Clock(), job="job_2"))
    monkeypatch.setattr(process_module, "SILENT_S", 0.01)
    monkeypatch.setattr(process_module, "BEAT_S", 0.01)
    with pytest.raises(TakenError, match="is in use") as caught:
        other.sync.begin(restore=True)
    assert "worker:0 (attempt 1) of job job_1 on node syncs its checkpoints" in str(caught.value)
    assert len(other.texts()) == 1


def test_the_last_sync_is_tried_until_it_is_done(process: Process, disk: Disk) -> None:
    process.sync.begin(restore=True)
    process.attempt.program.save(1)
    fail_times(process.attempt, 3, ConnectionError("HDFS is away"))
    process.sync.finish(Finish(FOREVER_NS, 60))
    process.sync.run()
    assert plain_files(disk) == process.attempt.program.contents()
    assert process.texts() == [
        "the checkpoints are not synced: HDFS is away; trying again",
        "the checkpoints are synced again",
        "in sync with memory:/user/me/run10: 3 files, 19 bytes",
    ]


def test_the_last_sync_has_a_limit(process: Process) -> None:
    process.sync.begin(restore=True)
    process.attempt.program.save(1)
    fail_times(process.attempt, 10**6, ConnectionError("HDFS is away"))
    process.sync.finish(Finish(FOREVER_NS, 0.01))
    with pytest.raises(ConnectionError, match="HDFS is away"):
        process.sync.run()


def test_one_that_is_fenced_ends(process: Process, tmp_path: Path, disk: Disk) -> None:
    process.sync.begin(restore=True)
    process.attempt.program.save(1)
    new = Attempt(new_directory(tmp_path, 2), disk, Clock(), 2)
    new.begin()
    process.sync.finish(Finish(FOREVER_NS, 60))
    with pytest.raises(FencedWriterError, match="attempt 2"):
        process.sync.run()
    assert plain_files(disk) == {}


def test_what_somebody_removed_is_told_and_synced_anew(process: Process, disk: Disk) -> None:
    process.sync.begin(restore=True)
    process.attempt.program.save(1)
    process.attempt.sync()
    for path in [path for path in disk.modes if path.startswith("/user/me/run10")]:
        disk.files.pop(path, None)
        disk.modes.pop(path)
    process.sync.finish(Finish(FOREVER_NS, 60))
    process.sync.run()
    assert plain_files(disk) == process.attempt.program.contents()
    assert "everything is synced anew" in process.texts()[0]
