"""Appending to the journal: order, group commit, disks that fail, closing."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path

import pytest

from tests.journal.journals import Gate, entries, entry, failing, numbers, replayed, settle, start
from tests.storage.memory import DISK_FULL, MemoryBlobs, Process
from ytf.errors import InternalError, UnreachableError
from ytf.journal.format import Entry
from ytf.journal.writer import Journal, JournalError
from ytf.machine.events import (
    AnyEvent,
    Cause,
    ContainerCompleted,
    KillRequested,
    MasterStarted,
    StarterRegistered,
    TaskExited,
)
from ytf.specs.ids import ContainerId, TaskId
from ytf.storage.blobs import LocalBlobs


async def test_an_empty_journal(disk: MemoryBlobs) -> None:
    journal = await Journal.open(disk, 1)
    replay = await journal.replay()
    assert (replay.snapshot, replay.entries, replay.torn) == (None, [], [])
    assert journal.last_error is None


async def test_every_kind_of_event_comes_back_equal(tmp_path: Path) -> None:
    task, container = TaskId("worker:0"), ContainerId("c")
    events: list[AnyEvent] = [
        MasterStarted(attempt=1),
        StarterRegistered(
            task=task, attempt=1, container=container, host="h", port=None, control="h:1"
        ),
        TaskExited(
            task=task,
            attempt=1,
            container=container,
            exit_code=None,
            signal=9,
            ended_at=1.5,
            tail="Zeile\nä\u2028\0☃",
        ),
        ContainerCompleted(container=container, cause=Cause.MEMORY, exit_code=137),
        KillRequested(by="me", reason='"quoted"\n'),
    ]
    wanted = [Entry(at=1700000000.123456, event=event) for event in events]
    blobs = LocalBlobs(tmp_path)
    journal, _ = await start(blobs, 1)
    await journal.append(wanted)
    await journal.close()
    replay = await (await Journal.open(blobs, 2)).replay()
    assert replay.entries == wanted


async def test_the_names_are_as_documented(process: Process, journal: Journal) -> None:
    await journal.append(entries(1))
    await journal.append(entries(2))
    assert sorted(process.disk.data) == [
        "0001/00000001.segment",
        "0001/00000002.segment",
        "0001/claim",
    ]


async def test_many_masters_one_history(disk: MemoryBlobs) -> None:
    for attempt in range(1, 6):
        journal, found = await start(disk, attempt)
        assert found == list(range(1, attempt))
        await journal.append(entries(attempt))
        await journal.close()


async def test_attempt_numbers_may_skip_and_grow_beyond_four_digits(disk: MemoryBlobs) -> None:
    wanted: list[int] = []
    for attempt in (3, 9999, 10000, 20001):
        journal, found = await start(disk, attempt)
        assert found == wanted
        wanted.append(attempt)
        await journal.append(entries(attempt))
        await journal.close()


async def test_nothing_appended_is_nothing_written(process: Process, journal: Journal) -> None:
    await journal.append([])
    assert process.writes == ["0001/claim"]


async def test_append_before_replay_is_our_bug(disk: MemoryBlobs) -> None:
    journal = await Journal.open(disk, 1)
    with pytest.raises(InternalError, match="replayed before"):
        await journal.append(entries(1))


async def test_an_entry_that_cannot_be_written_hurts_only_its_caller(
    disk: MemoryBlobs, journal: Journal
) -> None:
    bad = Entry(at=1.0, event=KillRequested(by="\udc80"))
    with pytest.raises(UnicodeEncodeError):
        await journal.append([entry(1), bad])
    await journal.append(entries(2))
    assert await replayed(disk, 2) == [2]


# Group commit


async def test_what_arrives_during_a_write_shares_the_next_segment(
    process: Process, journal: Journal
) -> None:
    gate = Gate()
    process.before = gate
    first = asyncio.create_task(journal.append(entries(1)))
    await gate.wait()
    others = [asyncio.create_task(journal.append(entries(n, n + 100))) for n in range(2, 30)]
    await settle()
    assert not first.done()
    gate.opened.set()
    await asyncio.gather(first, *others)
    assert process.writes[1:] == ["0001/00000001.segment", "0001/00000002.segment"]
    wanted = [1, *(m for n in range(2, 30) for m in (n, n + 100))]
    assert await replayed(process.disk, 2) == wanted


async def test_a_cancelled_caller_loses_no_entry(process: Process, journal: Journal) -> None:
    gate = Gate()
    process.before = gate
    tasks = [asyncio.create_task(journal.append(entries(n))) for n in (1, 2)]
    await gate.wait()
    for task in tasks:
        task.cancel()
    await asyncio.wait(tasks)
    assert all(task.cancelled() for task in tasks)
    gate.opened.set()
    await journal.append(entries(3))
    assert await replayed(process.disk, 2) == [1, 2, 3]


async def test_close_flushes_and_leaves_no_task(process: Process, journal: Journal) -> None:
    gate = Gate()
    process.before = gate
    append = asyncio.create_task(journal.append(entries(1)))
    await gate.wait()
    later = asyncio.create_task(journal.append(entries(2)))
    await settle()
    gate.opened.set()
    await journal.close()
    await asyncio.gather(append, later)
    await journal.close()
    assert asyncio.all_tasks() == {asyncio.current_task()}
    with pytest.raises(InternalError, match="closed"):
        await journal.append(entries(3))
    assert await replayed(process.disk, 2) == [1, 2]


async def test_a_write_does_not_wait_for_other_work_in_threads(disk: MemoryBlobs) -> None:
    journal, _ = await start(disk, 1)
    free = threading.Event()
    # More than the loop has threads: files are being copied, say.
    busy = [asyncio.create_task(asyncio.to_thread(free.wait)) for _ in range(64)]
    await asyncio.sleep(0)
    try:
        await journal.append(entries(1))
    finally:
        free.set()
        await asyncio.gather(*busy)
    await journal.close()
    assert await replayed(disk, 2) == [1]


# Disks that fail


async def test_a_full_disk_is_waited_for(process: Process, journal: Journal) -> None:
    process.before = failing(3)
    await asyncio.gather(*(journal.append(entries(n)) for n in range(1, 4)))
    assert journal.last_error is None
    assert await replayed(process.disk, 2) == [1, 2, 3]


async def test_impatient_callers_are_told_and_nothing_is_lost_or_reordered(
    process: Process,
) -> None:
    journal = await Journal.open(process, 1, timeout_s=0.02, retry_s=0.001)
    await journal.replay()
    assert journal.trouble() == ""
    process.before = failing(10**9)
    with pytest.raises(JournalError, match="No space left on device") as caught:
        await journal.append(entries(1))
    assert isinstance(caught.value, UnreachableError)
    assert caught.value.hint is not None
    # Only the first one waits: this one is told at once.
    journal._timeout_s = 600.0
    with pytest.raises(JournalError):
        await journal.append(entries(2))
    assert journal.last_error is DISK_FULL
    assert "No space left on device" in journal.trouble()
    assert not await journal.caught_up(0.01)
    process.before = failing(0)
    assert await journal.caught_up(30.0)
    await journal.append(entries(3))
    assert journal.last_error is None
    assert journal.trouble() == ""
    assert await replayed(process.disk, 2) == [1, 2, 3]


async def test_a_disk_that_hangs_is_told_too(
    process: Process, monkeypatch: pytest.MonkeyPatch
) -> None:
    journal = await Journal.open(process, 1, timeout_s=0.02, retry_s=0.001)
    await journal.replay()
    process.before = gate = Gate()
    with pytest.raises(JournalError, match=r"has not answered for 0\.02 s"):
        await journal.append(entries(1))
    assert journal.trouble() == ""
    monkeypatch.setattr("ytf.journal.writer._SLOW_S", 0.0)
    assert journal.trouble() == "its writes are not answered"
    gate.opened.set()
    journal._timeout_s = 5.0
    await journal.close()
    assert await replayed(process.disk, 2) == [1]


async def test_a_write_that_failed_after_it_was_done(process: Process, journal: Journal) -> None:
    process.after = failing(1)
    await journal.append(entries(1))
    await journal.append(entries(2))
    assert await replayed(process.disk, 2) == [1, 2]


async def test_close_on_a_dead_disk_says_what_is_lost(process: Process) -> None:
    journal = await Journal.open(process, 1, timeout_s=0.02, retry_s=0.001)
    await journal.replay()
    process.before = failing(10**9)
    waiting = asyncio.create_task(journal.append(entries(1, 2)))
    await settle()
    with pytest.raises(JournalError, match="2 entries are not"):
        await journal.close()
    with pytest.raises(JournalError):
        await waiting
    assert asyncio.all_tasks() == {asyncio.current_task()}


async def test_replay_may_be_tried_again(process: Process, journal: Journal) -> None:
    await journal.append(entries(1))
    second = Process(process.disk)
    successor = await Journal.open(second, 2)
    second.after = failing(1)
    with pytest.raises(JournalError, match="replayed"):
        await successor.replay()
    assert numbers((await successor.replay()).entries) == [1]
    await successor.append(entries(2))
    assert await replayed(process.disk, 3) == [1, 2]


async def test_open_on_a_dead_disk(process: Process) -> None:
    process.before = failing(1)
    with pytest.raises(JournalError, match="claimed"):
        await Journal.open(process, 1)


async def test_a_bug_in_the_disk_layer_is_not_swallowed(process: Process) -> None:
    def broken(name: str, data: bytes) -> None:
        raise ZeroDivisionError

    journal = await Journal.open(process, 1)
    await journal.replay()
    process.before = broken
    with pytest.raises(ZeroDivisionError):
        await journal.append(entries(1))
