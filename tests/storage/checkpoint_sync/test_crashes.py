"""Processes that die anywhere leave the last whole snapshot; fenced ones change nothing."""

from __future__ import annotations

import tempfile
import threading
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.storage.checkpoint_sync.programs import (
    Attempt,
    Clock,
    Contents,
    Program,
    new_directory,
    plain_files,
)
from tests.storage.memory_files import DiedError, Disk
from ytf.storage.checkpoint_sync.store import FencedWriterError

steps = st.sampled_from(["save", "overwrite", "append", "remove", "nested", "remove nested"])


def take(step: str, program: Program, number: int) -> None:
    if step == "save":
        program.save(number)
    elif step == "overwrite":
        program.overwrite("model.pt", b"model %d" % number)
    elif step == "append":
        program.append("events.out.tfevents.1.node", b"event %d;" % number)
    elif step == "nested":
        program.write("export/1/saved model.pb", b"saved %d" % number)
    elif step == "remove nested":
        program.remove("export/1/saved model.pb")
    else:
        program.remove("model.pt")


@settings(max_examples=60)
@given(
    st.lists(st.tuples(steps, steps), min_size=1, max_size=3),
    st.lists(st.integers(1, 60), max_size=4),
)
def test_wherever_processes_die_the_last_whole_snapshot_is_restored(
    program_steps: list[tuple[str, str]], deaths: list[int]
) -> None:
    disk, clock = Disk(), Clock()
    last: Contents = {}
    number = 0
    with tempfile.TemporaryDirectory() as parent:
        for attempt_number, death in enumerate([*deaths, None], start=1):
            directory = new_directory(Path(parent), attempt_number)
            attempt = Attempt(directory, disk, clock, attempt_number)
            if death is not None:
                attempt.die_at(death)
            wanted = last
            try:
                restored = attempt.begin()
                assert restored == last
                for pair in program_steps:
                    number += 1
                    for step in pair:
                        take(step, attempt.program, number)
                    wanted = attempt.program.contents() or last
                    attempt.sync()
                    last = wanted
            except DiedError:
                # It may have died just after the publication: another one would find out.
                seen = Attempt(new_directory(Path(parent), 0), disk, clock, attempt_number + 1)
                found = seen.begin()
                # Files that have vanished are removed by a later snapshot than new ones come.
                assert found in (last, {**last, **wanted}, wanted)
                last = found
        assert plain_files(disk) == last
        assert_tidy(disk)


def assert_tidy(disk: Disk) -> None:
    """Nothing is left but the plain files, one claim and one manifest."""
    ours = sorted(path for path in disk.files if "/.ytf-sync/" in path)
    names = [path.rpartition("/")[2].partition("-")[0] for path in ours]
    assert names in (["claim.json", "manifest"], ["claim.json"]), ours


def scenario(attempt: Attempt) -> None:
    """A life with every kind of change in it."""
    program = attempt.program
    attempt.begin()
    program.save(1)
    program.overwrite("model.pt", b"old model")
    program.write("export/a/b", b"1")
    attempt.sync()
    program.save(2)
    program.overwrite("model.pt", b"old model, trained")
    program.remove("export/a/b")
    attempt.sync()


def count_changes(parent: Path) -> int:
    attempt = Attempt(new_directory(parent, 1), Disk(), Clock())
    scenario(attempt)
    assert attempt.files is not None
    return attempt.files.changes


def test_a_writer_that_dies_at_any_moment_leaves_a_whole_snapshot(tmp_path: Path) -> None:
    first = {
        "checkpoint": b"ckpt-1",
        "ckpt-1.data": b"data 1",
        "ckpt-1.index": b"index 1",
        "export/a/b": b"1",
        "model.pt": b"old model",
    }
    second = {
        "checkpoint": b"ckpt-2",
        "ckpt-2.data": b"data 2",
        "ckpt-2.index": b"index 2",
        "model.pt": b"old model, trained",
    }
    allowed: list[Contents] = [{}, first, {**first, **second}, second]
    reached = 0
    for moment in range(1, count_changes(tmp_path) + 1):
        disk, clock = Disk(), Clock()
        dying = Attempt(new_directory(tmp_path, 1), disk, clock)
        dying.die_at(moment)
        with pytest.raises(DiedError):
            scenario(dying)
        found = Attempt(new_directory(tmp_path, 2), disk, clock, 2).begin()
        # One that dies later never leaves less.
        assert found in allowed[reached:]
        reached = allowed.index(found)
    assert reached == len(allowed) - 1


def test_a_writer_that_is_fenced_at_any_moment_changes_nothing(tmp_path: Path) -> None:
    changes = count_changes(tmp_path)
    assert changes > 40
    for moment in range(1, changes + 1):
        be_fenced(tmp_path, moment)


def be_fenced(parent: Path, moment: int) -> None:
    """Let a process stand still before one of its changes while another takes over."""
    disk, clock = Disk(), Clock()
    old = Attempt(new_directory(parent, 1), disk, clock, 1)
    new = Attempt(new_directory(parent, 2), disk, clock, 2)
    first = {"checkpoint", "ckpt-1.data", "ckpt-1.index", "export/a/b", "model.pt"}
    second = {"checkpoint", "ckpt-2.data", "ckpt-2.index", "model.pt"}

    def take_over(number: int) -> None:
        if number != moment:
            return
        found = new.begin()
        assert set(found) in (set(), first, first | second, second)
        new.program.save(7)
        new.program.overwrite("model.pt", b"new model")
        new.sync()

    assert old.files is not None
    old.files.before = take_over

    def live_on() -> None:
        scenario(old)
        old.sync()

    with pytest.raises(FencedWriterError, match=r"worker:0 \(attempt 2\) of job job_1"):
        live_on()
    new.sync()
    assert plain_files(disk) == new.program.contents()
    assert plain_files(disk)["model.pt"] == b"new model"
    third = Attempt(new_directory(parent, 3), disk, clock, 3)
    assert third.begin() == new.program.contents()
    assert_tidy(disk)


def test_two_writers_that_come_at_once_leave_the_last_snapshot(tmp_path: Path) -> None:
    """The later one stands still at any moment while the earlier one, half-way too, goes on."""
    outcomes = [
        come_at_once(tmp_path, moment, halfway)
        for moment in range(1, 11)
        for halfway in range(1, 12)
    ]
    assert 20 < sum(outcomes) < len(outcomes)


def come_at_once(parent: Path, moment: int, halfway: int) -> bool:
    """Returns whether the earlier one was fenced; the later one restores in any case."""
    disk, clock = Disk(), Clock()
    first = Attempt(new_directory(parent, 1), disk, clock, 1)
    first.begin()
    first.program.save(1)
    first.sync()
    earlier = Attempt(new_directory(parent, 2), disk, clock, 2)
    later = Attempt(new_directory(parent, 3), disk, clock, 3)
    is_halfway, may_go_on = threading.Event(), threading.Event()
    found: list[Contents] = []

    def stand_still(number: int) -> None:
        if number == halfway:
            is_halfway.set()
            assert may_go_on.wait(30)

    def take_over() -> None:
        try:
            found.append(later.begin())
        finally:
            is_halfway.set()

    thread = threading.Thread(target=take_over)

    def let_the_later_one_begin(number: int) -> None:
        if number == moment:
            thread.start()
            assert is_halfway.wait(30)

    assert earlier.files is not None
    assert later.files is not None
    earlier.files.before, later.files.before = let_the_later_one_begin, stand_still
    is_fenced = False
    try:
        earlier.begin()
    except FencedWriterError:
        is_fenced = True
    finally:
        may_go_on.set()
        thread.join(30)
    assert found == [first.program.contents()], (moment, halfway)
    return is_fenced


def turn_over(attempt: Attempt) -> None:
    """A life in which a directory becomes a file, and a file a directory."""
    program = attempt.program
    attempt.begin()
    program.write("a/b", b"in a directory")
    program.write("c", b"a file")
    attempt.sync()
    program.remove("a/b")
    (program.directory / "a").rmdir()
    program.write("a", b"a file")
    program.remove("c")
    program.write("c/d", b"in a directory")
    attempt.sync()


def test_a_directory_may_become_a_file_and_a_file_a_directory(tmp_path: Path) -> None:
    allowed: list[Contents] = [
        {},
        {"a/b": b"in a directory", "c": b"a file"},
        {"a": b"a file", "c/d": b"in a directory"},
    ]
    reached = moment = 0
    has_died = True
    while has_died:
        moment += 1
        disk, clock = Disk(), Clock()
        attempt = Attempt(new_directory(tmp_path, 1), disk, clock)
        attempt.die_at(moment)
        try:
            turn_over(attempt)
            has_died = False
            assert plain_files(disk) == allowed[-1]
        except DiedError:
            pass
        for number in (2, 3):
            found = Attempt(new_directory(tmp_path, number), disk, clock, number).begin()
            assert found in allowed[reached:]
            reached = allowed.index(found)
            assert plain_files(disk) == found
    assert reached == len(allowed) - 1
    assert moment > 20


def test_an_older_attempt_that_comes_late_is_refused(tmp_path: Path) -> None:
    disk, clock = Disk(), Clock()
    new = Attempt(new_directory(tmp_path, 2), disk, clock, 2)
    new.begin()
    with pytest.raises(FencedWriterError, match="attempt 2"):
        Attempt(new_directory(tmp_path, 1), disk, clock, 1).begin()
    new.program.save(1)
    new.sync()
    assert plain_files(disk) == new.program.contents()
