"""Restoring and syncing a directory: what is taken, what is left, what is refused."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from tests.storage.checkpoint_sync.programs import (
    INTERVAL_S,
    ROOT,
    Attempt,
    Clock,
    contents_of,
    new_directory,
    plain_files,
)
from tests.storage.memory_files import Disk, MemoryFiles
from ytf.storage.checkpoint_sync import local_directory, store
from ytf.storage.checkpoint_sync.engine import FOREVER_NS
from ytf.storage.checkpoint_sync.local_directory import NoSpaceError, TooManyFilesError
from ytf.storage.checkpoint_sync.store import (
    SILENT_S,
    BrokenSnapshotError,
    FencedWriterError,
    RemovedError,
    TakenError,
    TooLargeError,
)


@pytest.fixture
def disk() -> Disk:
    return Disk()


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def attempt(tmp_path: Path, disk: Disk, clock: Clock) -> Attempt:
    attempt = Attempt(new_directory(tmp_path, 1), disk, clock)
    attempt.begin()
    return attempt


@pytest.fixture
def next_attempt(tmp_path: Path, disk: Disk, clock: Clock) -> Attempt:
    """An attempt in another container."""
    return Attempt(new_directory(tmp_path, 2), disk, clock, 2)


def test_a_restored_directory_is_the_same(attempt: Attempt, next_attempt: Attempt) -> None:
    attempt.program.save(1)
    attempt.program.write("dir with space/ünïcode", b"\0\xff")
    attempt.program.write("run.sh", b"#!/bin/sh")
    (attempt.program.directory / "run.sh").chmod(0o750)
    (attempt.program.directory / "empty").write_bytes(b"")
    attempt.clock.pass_s(1)
    os.utime(attempt.program.directory / "empty", ns=(10**18, 10**18))
    attempt.sync()
    assert next_attempt.begin() == attempt.program.contents()
    restored = next_attempt.program.directory
    assert (restored / "run.sh").stat().st_mode & 0o777 == 0o750
    for name in attempt.program.contents():
        original = (attempt.program.directory / name).stat()
        assert (restored / name).stat().st_mtime_ns == original.st_mtime_ns
    assert next_attempt.sync() == 0
    assert "restored: 6 files" in next_attempt.told[-1]


def test_a_file_counts_once_it_was_left_alone(attempt: Attempt, disk: Disk, clock: Clock) -> None:
    attempt.program.overwrite("model.pt", b"half of")
    attempt.engine.sync()
    clock.pass_s(INTERVAL_S - 1)
    assert attempt.engine.sync() == 0
    attempt.program.overwrite("model.pt", b"half of it, and the rest")
    clock.pass_s(1)
    assert attempt.engine.sync() == 0
    clock.pass_s(INTERVAL_S)
    assert attempt.engine.sync() == 1
    assert plain_files(disk) == {"model.pt": b"half of it, and the rest"}


def test_what_was_written_before_a_half_written_file_is_synced(
    attempt: Attempt, disk: Disk, clock: Clock
) -> None:
    attempt.program.overwrite("model.pt", b"first")
    attempt.sync()
    attempt.program.write("before", b"whole")
    attempt.program.overwrite("model.pt", b"half of the sec")
    attempt.program.write("after", b"means that the second is complete")
    clock.pass_s(INTERVAL_S)
    attempt.engine.sync()
    attempt.program.overwrite("model.pt", b"half of the second")
    clock.pass_s(INTERVAL_S)
    assert attempt.engine.sync() == 1
    assert plain_files(disk) == {"model.pt": b"first", "before": b"whole"}


def test_checkpoints_that_come_faster_than_the_interval_are_synced(
    attempt: Attempt, disk: Disk, clock: Clock
) -> None:
    number = 0
    for _ in range(5):
        seen = number
        for _ in range(4):
            number += 1
            attempt.program.save(number, keep=2)
            clock.pass_s(INTERVAL_S / 4)
        attempt.engine.sync()
        if seen:
            plain = plain_files(disk)
            assert plain["checkpoint"] == b"ckpt-%d" % seen
            assert plain[f"ckpt-{seen}.data"] == b"data %d" % seen


def test_a_file_that_is_open_for_writing_is_not_whole(
    attempt: Attempt, disk: Disk, clock: Clock
) -> None:
    attempt.program.write("before", b"1")
    attempt.program.overwrite("model.pt", b"first")
    attempt.program.write("after", b"2")
    with (attempt.program.directory / "model.pt").open("ab"):
        attempt.sync()
        assert set(plain_files(disk)) == {"before"}
        # One that is never closed is taken in the end.
        clock.pass_s(10 * INTERVAL_S)
        attempt.sync()
        assert set(plain_files(disk)) == {"before", "model.pt", "after"}


def test_events_are_shown_while_they_are_written(
    attempt: Attempt, disk: Disk, clock: Clock
) -> None:
    name = "logs/events.out.tfevents.1700000000.node.1.0.v2"
    attempt.program.append(name, b"one;")
    with (attempt.program.directory / name).open("ab") as file:
        attempt.engine.sync()
        clock.pass_s(INTERVAL_S)
        attempt.engine.sync()
        assert plain_files(disk) == {name: b"one;"}
        clock.pass_s(INTERVAL_S)
        file.write(b"two;")
        file.flush()
        attempt.sync()
        assert plain_files(disk) == {name: b"one;two;"}


def test_removed_checkpoints_are_removed_after_new_ones_have_come(
    attempt: Attempt, disk: Disk, clock: Clock
) -> None:
    attempt.program.save(1)
    attempt.sync()
    attempt.program.save(2)
    clock.pass_s(INTERVAL_S)
    attempt.engine.sync()
    assert plain_files(disk)["checkpoint"] == b"ckpt-1"
    assert "ckpt-1.data" in plain_files(disk)
    attempt.sync()
    assert plain_files(disk) == attempt.program.contents()


def test_an_empty_directory_removes_nothing(attempt: Attempt, disk: Disk) -> None:
    attempt.program.save(1)
    attempt.sync()
    for name in attempt.program.contents():
        attempt.program.remove(name)
    attempt.sync()
    assert set(plain_files(disk)) == {"checkpoint", "ckpt-1.data", "ckpt-1.index"}


def test_files_of_others_are_not_touched(
    attempt: Attempt, next_attempt: Attempt, disk: Disk
) -> None:
    others = MemoryFiles(disk)
    others.write(f"{ROOT}/model.pt", [b"not ours"])
    others.write(f"{ROOT}/notes.txt", [b"not ours"])
    attempt.program.overwrite("model.pt", b"ours")
    attempt.sync()
    attempt.program.overwrite("model.pt", b"ours, later")
    attempt.sync()
    assert plain_files(disk) == {"model.pt": b"not ours", "notes.txt": b"not ours"}
    assert list(attempt.engine.store.blocked) == ["model.pt"]
    assert next_attempt.begin() == {"model.pt": b"ours, later"}
    others.delete(f"{ROOT}/model.pt")
    next_attempt.sync()
    assert plain_files(disk)["model.pt"] == b"ours, later"
    assert next_attempt.engine.store.blocked == {}


def test_a_failed_program_leaves_what_was_whole(
    attempt: Attempt, next_attempt: Attempt, clock: Clock
) -> None:
    attempt.program.overwrite("model.pt", b"whole")
    clock.pass_s(INTERVAL_S + 1)
    attempt.program.overwrite("torn.pt", b"half of")
    attempt.engine.finish(clock.now_ns - INTERVAL_S * 10**9)
    assert next_attempt.begin() == {"model.pt": b"whole"}


def test_a_program_that_ended_well_leaves_everything(
    attempt: Attempt, next_attempt: Attempt
) -> None:
    attempt.program.save(3)
    attempt.engine.finish(FOREVER_NS)
    assert next_attempt.begin() == attempt.program.contents()


def test_the_last_sync_shows_a_file_where_a_directory_was(attempt: Attempt, disk: Disk) -> None:
    attempt.program.write("a/b", b"1")
    attempt.program.write("c", b"1")
    attempt.sync()
    attempt.program.remove("a/b")
    (attempt.program.directory / "a").rmdir()
    attempt.program.write("a", b"2")
    attempt.program.remove("c")
    attempt.program.write("c/d", b"2")
    attempt.engine.finish(FOREVER_NS)
    assert plain_files(disk) == {"a": b"2", "c/d": b"2"}
    assert attempt.engine.store.blocked == {}


def test_in_the_same_container_what_was_torn_is_replaced(
    attempt: Attempt, disk: Disk, clock: Clock
) -> None:
    attempt.program.overwrite("model.pt", b"whole")
    attempt.sync()
    attempt.program.overwrite("model.pt", b"half of")
    attempt.engine.finish(clock.now_ns - INTERVAL_S * 10**9)
    clock.pass_s(100 * INTERVAL_S)
    again = Attempt(attempt.program.directory, disk, clock, 2)
    assert again.begin() == {"model.pt": b"whole"}
    again.sync()
    assert plain_files(disk) == {"model.pt": b"whole"}
    beside = attempt.program.directory.with_name(".checkpoints.ytf-sync")
    assert contents_of(beside / "replaced") == {"model.pt": b"half of"}


def test_in_the_same_container_nothing_is_lost_that_hdfs_did_not_take(
    attempt: Attempt, disk: Disk, clock: Clock
) -> None:
    attempt.program.save(1)
    attempt.sync()
    assert attempt.files is not None
    attempt.files.before = away
    attempt.program.save(2)
    with pytest.raises(ConnectionError):
        attempt.engine.finish(FOREVER_NS)
    wanted = attempt.program.contents()
    again = Attempt(attempt.program.directory, disk, clock, 2)
    assert again.begin() == wanted
    assert plain_files(disk) == wanted


def away(number: int) -> None:
    raise ConnectionError("HDFS is away")


def test_failures_of_hdfs_in_the_middle_are_made_up_for(
    attempt: Attempt, next_attempt: Attempt, disk: Disk
) -> None:
    assert attempt.files is not None
    failed: set[int] = set()

    def fail_once(number: int) -> None:
        if number % 5 == 0 and number not in failed:
            failed.add(number)
            raise ConnectionError("HDFS is away")

    attempt.files.before = fail_once
    for number in range(1, 4):
        attempt.program.save(number)
        for _ in range(60):
            try:
                attempt.sync()
                break
            except ConnectionError:
                continue
        else:
            pytest.fail("it never came through")
        assert plain_files(disk) == attempt.program.contents()
    assert next_attempt.begin() == attempt.program.contents()


def test_a_lost_answer_of_a_publication_is_found_out(
    attempt: Attempt, disk: Disk, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert attempt.files is not None
    write = attempt.files.write

    def lose_answer(path: str, chunks: object, mode: int = 0o600) -> object:
        written = write(path, chunks, mode)  # type: ignore[arg-type]
        if "manifest" in path:
            raise ConnectionError("no answer")
        return written

    attempt.program.save(1)
    attempt.engine.sync()
    attempt.clock.pass_s(INTERVAL_S)
    monkeypatch.setattr(attempt.files, "write", lose_answer)
    with pytest.raises(ConnectionError):
        attempt.engine.sync()
    assert plain_files(disk) == {}
    monkeypatch.undo()
    assert attempt.engine.sync() == 0
    assert plain_files(disk) == attempt.program.contents()


def test_a_damaged_snapshot_is_an_error(
    attempt: Attempt, next_attempt: Attempt, disk: Disk
) -> None:
    attempt.program.save(1)
    attempt.sync()
    disk.files[f"{ROOT}/ckpt-1.data"] = b"DATA 1"
    with pytest.raises(BrokenSnapshotError, match=r"ckpt-1\.data.*not what was synced"):
        next_attempt.begin()
    MemoryFiles(disk).delete(f"{ROOT}/ckpt-1.data")
    with pytest.raises(BrokenSnapshotError, match=r"run10 cannot be restored.*ckpt-1\.data"):
        next_attempt.begin()
    assert next_attempt.program.contents() == {}


def test_too_small_a_disk_is_told_before_it_is_full(
    attempt: Attempt, next_attempt: Attempt, monkeypatch: pytest.MonkeyPatch
) -> None:
    attempt.program.save(1)
    attempt.sync()

    class Usage:
        free = 5

    monkeypatch.setattr("shutil.disk_usage", lambda path: Usage)
    with pytest.raises(NoSpaceError, match="needs 19 bytes on the disk, which has 5"):
        next_attempt.begin()


def test_too_many_files_are_refused(attempt: Attempt, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(local_directory, "MOST_FILES", 2)
    attempt.program.save(1)
    with pytest.raises(TooManyFilesError, match="more than 2 files"):
        attempt.sync()


def test_another_job_waits_until_the_first_is_silent(
    attempt: Attempt, tmp_path: Path, disk: Disk, clock: Clock
) -> None:
    attempt.program.save(1)
    attempt.sync()
    other = Attempt(new_directory(tmp_path, 2), disk, clock, 1, job="job_2")
    disk.now_ms += 20_000
    with pytest.raises(TakenError, match=r"worker:0 \(attempt 1\) of job job_1 .* 20 s ago"):
        other.begin()
    disk.now_ms += round(SILENT_S * 1000) - 20_000 - 1
    with pytest.raises(TakenError):
        other.begin()
    attempt.engine.store.beat()
    disk.now_ms += 1000
    with pytest.raises(TakenError):
        other.begin()
    disk.now_ms += round(SILENT_S * 1000)
    assert other.begin() == attempt.program.contents()
    with pytest.raises(FencedWriterError, match="of job job_2"):
        attempt.engine.store.beat()


def test_another_job_goes_on_where_one_has_ended(
    attempt: Attempt, tmp_path: Path, disk: Disk, clock: Clock
) -> None:
    attempt.program.save(1)
    attempt.engine.finish(FOREVER_NS)
    attempt.engine.store.release()
    other = Attempt(new_directory(tmp_path, 2), disk, clock, 1, job="job_2")
    assert other.begin() == attempt.program.contents()


def test_what_somebody_removed_is_synced_anew(attempt: Attempt, disk: Disk) -> None:
    attempt.program.save(1)
    attempt.sync()
    MemoryFiles(disk).delete(ROOT)
    with pytest.raises(RemovedError, match="removed by somebody else"):
        attempt.sync()
    attempt.engine.start_over()
    attempt.sync()
    assert plain_files(disk) == attempt.program.contents()


def test_names_that_are_no_text_are_left_out(attempt: Attempt, disk: Disk) -> None:
    attempt.program.save(1)
    attempt.told.clear()
    (attempt.program.directory / os.fsdecode(b"\xff")).write_bytes(b"x")
    attempt.sync()
    assert set(plain_files(disk)) == {"checkpoint", "ckpt-1.data", "ckpt-1.index"}
    assert attempt.told == ["'\\udcff' is not synced: its name is not UTF-8"]


def test_of_many_names_that_are_left_out_some_are_told(attempt: Attempt) -> None:
    attempt.program.save(1)
    attempt.told.clear()
    for number in range(15):
        (attempt.program.directory / os.fsdecode(b"\xff%d" % number)).write_bytes(b"x")
    attempt.sync()
    assert len(attempt.told) == 11
    assert attempt.told[-1] == "5 more like these are not synced"


def test_no_file_gets_into_the_area_of_the_store(
    attempt: Attempt, next_attempt: Attempt, disk: Disk
) -> None:
    attempt.program.save(1)
    attempt.program.write("sub/.ytf-sync/x", b"below another directory")
    wanted = attempt.program.contents()
    attempt.program.write(".ytf-sync/claim-9/claim.json", b"not a claim")
    attempt.told.clear()
    attempt.sync()
    assert not [path for path in disk.files if "claim-9" in path]
    assert attempt.told == [
        ".ytf-sync is not synced: what is synced has a directory of this name of its own"
    ]
    assert next_attempt.begin() == wanted


def test_with_a_full_local_disk_everything_is_synced(
    attempt: Attempt, next_attempt: Attempt, monkeypatch: pytest.MonkeyPatch
) -> None:
    attempt.program.save(1)
    attempt.sync()
    attempt.program.save(2)
    attempt.told.clear()

    def full(*arguments: object, **options: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(Path, "mkdir", full)
        patch.setattr(Path, "write_text", full)
        attempt.engine.finish(FOREVER_NS)
    assert [text.partition(": ")[0] for text in attempt.told] == ["cannot note what is synced"]
    assert "No space left on device" in attempt.told[0]
    assert next_attempt.begin() == attempt.program.contents()


def test_what_could_not_be_noted_is_not_taken_from_an_older_note(
    attempt: Attempt, disk: Disk, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    attempt.program.overwrite("model.pt", b"whole")
    attempt.sync()
    attempt.program.overwrite("model.pt", b"half of")

    def full(*arguments: object, **options: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(Path, "write_text", full)
        attempt.engine.finish(clock.now_ns - INTERVAL_S * 10**9)
    clock.pass_s(100 * INTERVAL_S)
    again = Attempt(attempt.program.directory, disk, clock, 2)
    assert again.begin() == {"model.pt": b"whole"}


def test_a_file_that_cannot_be_linked_is_copied(
    attempt: Attempt, disk: Disk, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    attempt.program.save(1)
    attempt.engine.finish(FOREVER_NS)
    wanted = attempt.program.contents()
    attempt.program.overwrite("torn", b"half of")

    def refuse(*arguments: object) -> None:
        raise OSError(errno.EXDEV, "Invalid cross-device link")

    monkeypatch.setattr(os, "link", refuse)
    again = Attempt(attempt.program.directory, disk, clock, 2)
    again.engine.claim()
    (again.program.directory.with_name(".checkpoints.ytf-sync") / "state").unlink()
    again.engine.restore()
    assert again.program.contents() == wanted
    assert again.sync() == 0


def test_a_time_before_1970_can_be_restored(attempt: Attempt, next_attempt: Attempt) -> None:
    attempt.program.write("old", b"1")
    os.utime(attempt.program.directory / "old", ns=(-5, -5))
    attempt.sync()
    assert next_attempt.begin() == {"old": b"1"}
    assert next_attempt.sync() == 0


def test_a_manifest_that_nobody_could_read_is_not_written(
    attempt: Attempt, next_attempt: Attempt, monkeypatch: pytest.MonkeyPatch
) -> None:
    attempt.program.write("first", b"1")
    attempt.sync()
    attempt.program.write("n" * 200, b"2")
    monkeypatch.setattr(store, "MANIFEST_LIMIT", 300)
    with pytest.raises(TooLargeError, match=r"names of the 2 files .* may have 300"):
        attempt.sync()
    attempt.engine.store.settle()
    assert next_attempt.begin() == {"first": b"1"}


def test_a_directory_that_is_a_link_is_replaced_and_not_followed(
    attempt: Attempt, next_attempt: Attempt, tmp_path: Path, disk: Disk, clock: Clock
) -> None:
    """YARN gives containers links to files that it shares among them."""
    attempt.program.save(1)
    attempt.sync()
    shared = tmp_path / "shared"
    shared.mkdir()
    (shared / "first").write_bytes(b"1")
    for number in (2, 3):
        next_attempt.program.directory.symlink_to(shared)
        assert next_attempt.begin() == attempt.program.contents()
        assert contents_of(shared) == {"first": b"1"}
        next_attempt.program.directory.rename(tmp_path / f"away {number}")


def test_a_link_to_a_file_is_that_file(attempt: Attempt, next_attempt: Attempt) -> None:
    attempt.program.write("ckpt-1", b"one")
    (attempt.program.directory / "last").symlink_to("ckpt-1")
    (attempt.program.directory / "loop").symlink_to(".")
    attempt.sync()
    assert next_attempt.begin() == {"ckpt-1": b"one", "last": b"one"}
