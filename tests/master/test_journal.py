"""The journal: durable before acknowledged, in order, across deaths of masters and disks."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import threading
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import msgspec
import pytest

from tests.storage.memory import DISK_FULL, DiedError, MemoryBlobs, Process
from ytf.errors import InternalError, UnreachableError
from ytf.master.events import (
    AnyEvent,
    Cause,
    ContainerCompleted,
    KillRequested,
    MasterStarted,
    StarterRegistered,
    TaskExited,
)
from ytf.master.journal import FencedError, Journal, JournalError
from ytf.master.segments import Entry, Header, encode_segment
from ytf.specs.names import ContainerId, TaskId
from ytf.storage.blobs import Blobs, LocalBlobs


def entry(number: int) -> Entry:
    return Entry(at=float(number), event=MasterStarted(attempt=number))


def entries(*numbers: int) -> list[Entry]:
    return [entry(number) for number in numbers]


def numbers(found: list[Entry]) -> list[int]:
    return [int(one.at) for one in found]


async def start(blobs: Blobs, attempt: int) -> tuple[Journal, list[int]]:
    """A master's beginning: the journal and the numbers it replayed, snapshots unfolded."""
    journal = await Journal.open(blobs, attempt, patience_s=5.0, retry_s=0.001)
    replay = await journal.replay()
    begin = msgspec.json.decode(replay.snapshot, type=list[int]) if replay.snapshot else []
    return journal, begin + numbers(replay.entries)


async def replayed(blobs: Blobs, attempt: int) -> list[int]:
    journal, found = await start(blobs, attempt)
    await journal.close()
    return found


@pytest.fixture
def disk() -> MemoryBlobs:
    return MemoryBlobs()


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


@pytest.fixture
def process(disk: MemoryBlobs) -> Process:
    return Process(disk)


@pytest.fixture
async def journal(process: Process) -> AsyncIterator[Journal]:
    journal, _ = await start(process, 1)
    yield journal
    with contextlib.suppress(JournalError, DiedError):
        await journal.close()


class Gate:
    """Holds each write of segments until opened; tells when one has arrived."""

    def __init__(self) -> None:
        self.arrived = threading.Event()
        self.opened = threading.Event()

    def __call__(self, name: str, data: bytes) -> None:
        self.arrived.set()
        assert self.opened.wait(10)

    async def wait(self) -> None:
        assert await asyncio.to_thread(self.arrived.wait, 10)


async def settle() -> None:
    """Let every task that can run do so."""
    for _ in range(5):
        await asyncio.sleep(0)


# Recording and replaying


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


# Disks that fail


def failing(times: int) -> Callable[[str, bytes], None]:
    left = iter(range(times))

    def fail(name: str, data: bytes) -> None:
        if next(left, None) is not None:
            raise DISK_FULL

    return fail


async def test_a_full_disk_is_waited_for(process: Process, journal: Journal) -> None:
    process.before = failing(3)
    await asyncio.gather(*(journal.append(entries(n)) for n in range(1, 4)))
    assert journal.last_error is None
    assert await replayed(process.disk, 2) == [1, 2, 3]


async def test_impatient_callers_are_told_and_nothing_is_lost_or_reordered(
    process: Process,
) -> None:
    journal = await Journal.open(process, 1, patience_s=0.02, retry_s=0.001)
    await journal.replay()
    process.before = failing(10**9)
    with pytest.raises(JournalError, match="No space left on device") as caught:
        await journal.append(entries(1))
    assert isinstance(caught.value, UnreachableError)
    assert caught.value.hint is not None
    with pytest.raises(JournalError):
        await journal.append(entries(2))
    assert journal.last_error is DISK_FULL
    process.before = failing(0)
    journal._patience_s = 5.0
    await journal.append(entries(3))
    assert journal.last_error is None
    assert await replayed(process.disk, 2) == [1, 2, 3]


async def test_a_disk_that_hangs_is_told_too(process: Process) -> None:
    journal = await Journal.open(process, 1, patience_s=0.02, retry_s=0.001)
    await journal.replay()
    process.before = gate = Gate()
    with pytest.raises(JournalError, match=r"has not answered for 0\.02 s"):
        await journal.append(entries(1))
    gate.opened.set()
    journal._patience_s = 5.0
    await journal.close()
    assert await replayed(process.disk, 2) == [1]


async def test_a_write_that_failed_after_it_was_done(process: Process, journal: Journal) -> None:
    process.after = failing(1)
    await journal.append(entries(1))
    await journal.append(entries(2))
    assert await replayed(process.disk, 2) == [1, 2]


async def test_close_on_a_dead_disk_says_what_is_lost(process: Process) -> None:
    journal = await Journal.open(process, 1, patience_s=0.02, retry_s=0.001)
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


# Torn and missing blobs


async def test_a_last_segment_cut_anywhere_is_survived(disk: MemoryBlobs) -> None:
    journal, _ = await start(disk, 1)
    for number in (1, 2):
        await journal.append(entries(number))
    await journal.close()
    last = "0001/00000002.segment"
    whole = disk.data[last]
    for length in range(len(whole)):
        disk.data = {n: d for n, d in disk.data.items() if n.startswith("0001/")}
        disk.data[last] = whole[:length]
        successor, found = await start(disk, 2)
        assert found == [1]
        assert successor.last_error is None


async def test_one_changed_byte_is_recognised(disk: MemoryBlobs) -> None:
    journal, _ = await start(disk, 1)
    for number in (1, 2):
        await journal.append(entries(number))
    name = "0001/00000002.segment"
    whole = disk.data[name]
    for at in range(len(whole)):
        disk.data = {n: d for n, d in disk.data.items() if n.startswith("0001/")}
        disk.data[name] = whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :]
        assert await replayed(disk, 2) == [1]


async def test_damage_is_named(disk: MemoryBlobs) -> None:
    journal, _ = await start(disk, 1)
    for number in (1, 2, 3):
        await journal.append(entries(number))
    del disk.data["0001/00000002.segment"]
    replay = await (await Journal.open(disk, 2)).replay()
    assert numbers(replay.entries) == [1]
    assert replay.torn == ["0001/00000002.segment"]


async def test_a_history_goes_on_after_a_torn_end(disk: MemoryBlobs) -> None:
    journal, _ = await start(disk, 1)
    for number in (1, 2):
        await journal.append(entries(number))
    torn = "0001/00000002.segment"
    disk.data[torn] = disk.data[torn][:-9]
    second, _ = await start(disk, 2)
    await second.append(entries(3))
    replay = await (await Journal.open(disk, 3)).replay()
    assert numbers(replay.entries) == [1, 3]
    # The second attempt never stood on it, so to the third it is no damage.
    assert replay.torn == []


async def test_a_master_that_died_before_it_began_changes_nothing(disk: MemoryBlobs) -> None:
    journal, _ = await start(disk, 1)
    await journal.append(entries(1))
    await Journal.open(disk, 2)
    disk.data["0003/00000001.segment"] = b"{"
    assert await replayed(disk, 4) == [1]


async def test_a_journal_of_another_version_is_not_taken_for_torn(disk: MemoryBlobs) -> None:
    header = Header(kind="segment", version=2, attempt=1, sequence=1)
    disk.data["0001/00000001.segment"] = encode_segment(header, [])
    with pytest.raises(InternalError, match="version 2"):
        await (await Journal.open(disk, 2)).replay()
    header = Header(kind="segment", attempt=1, sequence=1)
    disk.data["0001/00000001.segment"] = encode_segment(header, [b'{"at":1,"event":{}}'])
    with pytest.raises(InternalError, match="cannot read"):
        await (await Journal.open(disk, 3)).replay()


# Fencing


@pytest.mark.parametrize("attempt", [1, 2])
async def test_a_claimed_attempt_is_refused(disk: MemoryBlobs, attempt: int) -> None:
    await Journal.open(disk, 2)
    with pytest.raises(FencedError, match=f"attempt {attempt} is no longer in charge"):
        await Journal.open(disk, attempt)


async def test_two_masters_of_one_attempt_that_meet_at_the_claim(process: Process) -> None:
    rival = Process(process.disk)
    process.before = lambda name, data: asyncio.run(_open(rival, 1))
    with pytest.raises(FencedError):
        await Journal.open(process, 1)


async def _open(blobs: Blobs, attempt: int) -> None:
    await Journal.open(blobs, attempt)


async def test_an_old_master_is_fenced_for_good(process: Process, journal: Journal) -> None:
    await journal.append(entries(1))
    second, found = await start(process.disk, 2)
    assert found == [1]
    for _ in range(2):
        with pytest.raises(FencedError):
            await journal.append(entries(66))
    with pytest.raises(FencedError):
        await journal.snapshot(b"[66]")
    await journal.close()
    await second.append(entries(2))
    assert await replayed(process.disk, 3) == [1, 2]


async def test_a_claim_just_before_a_segment_lands(process: Process, journal: Journal) -> None:
    """The new master has read already: the old one's segment must not be acknowledged."""
    await journal.append(entries(1))
    seen: list[int] = []

    def take_over(name: str, data: bytes) -> None:
        seen.extend(asyncio.run(replayed(process.disk, 2)))

    process.before = take_over
    with pytest.raises(FencedError):
        await journal.append(entries(2))
    assert seen == [1]
    assert "0001/00000002.segment" in process.disk.data
    # And since attempt 2 did not see it, it never counts, though attempt 2 recorded nothing.
    assert await replayed(process.disk, 3) == [1]


async def test_a_claim_just_after_a_segment_landed(process: Process, journal: Journal) -> None:
    """The new master reads it; whether the old one says so does not matter."""
    seen: list[int] = []

    def take_over(name: str, data: bytes) -> None:
        seen.extend(asyncio.run(replayed(process.disk, 2)))

    process.after = take_over
    with pytest.raises(FencedError):
        await journal.append(entries(1))
    assert seen == [1]
    assert await replayed(process.disk, 3) == [1]


async def test_a_new_master_can_be_fenced_while_it_replays(
    process: Process, journal: Journal
) -> None:
    await journal.append(entries(1))
    second = Process(process.disk)
    successor = await Journal.open(second, 2)
    second.before = lambda name, data: asyncio.run(_open(process.disk, 3))
    with pytest.raises(FencedError):
        await successor.replay()


async def test_somebody_elses_segment_in_our_place(process: Process, journal: Journal) -> None:
    process.disk.data["0001/00000001.segment"] = b"not ours"
    with pytest.raises(FencedError):
        await journal.append(entries(1))


# Snapshots


async def test_replay_begins_at_the_newest_snapshot(disk: MemoryBlobs) -> None:
    journal, _ = await start(disk, 1)
    await journal.append(entries(1, 2))
    await journal.snapshot(b"[1,2]")
    await journal.append(entries(3))
    replay = await (await Journal.open(disk, 2)).replay()
    assert replay.snapshot == b"[1,2]"
    assert numbers(replay.entries) == [3]


async def test_a_snapshot_clears_what_it_stands_for(disk: MemoryBlobs) -> None:
    for attempt in (1, 2):
        journal, _ = await start(disk, attempt)
        await journal.append(entries(attempt))
        await journal.close()
    journal, _ = await start(disk, 3)
    await journal.append(entries(3))
    await journal.snapshot(b"[0]")
    await journal.append(entries(4))
    await journal.snapshot(b"[1,2,3,4]")
    assert sorted(disk.data) == ["0003/00000003.snapshot", "0003/claim"]
    assert await replayed(disk, 4) == [1, 2, 3, 4]


async def test_a_snapshot_has_its_place_in_the_order(process: Process, journal: Journal) -> None:
    gate = Gate()
    process.before = gate
    tasks = [asyncio.create_task(journal.append(entries(1)))]
    await gate.wait()
    tasks.append(asyncio.create_task(journal.append(entries(2))))
    await settle()
    tasks.append(asyncio.create_task(journal.snapshot(b"[1,2]")))
    await settle()
    tasks.append(asyncio.create_task(journal.append(entries(3))))
    await settle()
    gate.opened.set()
    await asyncio.gather(*tasks)
    assert await replayed(process.disk, 2) == [1, 2, 3]


async def test_later_attempts_stand_on_an_earlier_snapshot(disk: MemoryBlobs) -> None:
    journal, _ = await start(disk, 1)
    await journal.append(entries(1))
    await journal.snapshot(b"[1]")
    await journal.append(entries(2))
    second, found = await start(disk, 2)
    assert found == [1, 2]
    await second.append(entries(3))
    assert await replayed(disk, 3) == [1, 2, 3]
    assert await replayed(disk, 4) == [1, 2, 3]


async def test_a_snapshot_of_any_bytes(disk: MemoryBlobs) -> None:
    state = bytes(range(256)) + b'\n{"count":0,"crc32":0}\n\n'
    journal, _ = await start(disk, 1)
    await journal.snapshot(state)
    replay = await (await Journal.open(disk, 2)).replay()
    assert replay.snapshot == state


async def test_two_snapshots_of_one_moment(disk: MemoryBlobs) -> None:
    journal, _ = await start(disk, 1)
    await journal.append(entries(1))
    await journal.snapshot(b"[1]")
    await journal.snapshot(b"[1]")
    assert await replayed(disk, 2) == [1]


async def test_a_torn_snapshot_gives_way_to_the_segments(
    process: Process, journal: Journal
) -> None:
    await journal.append(entries(1))
    # It dies before it clears anything.
    process.after = lambda name, data: process.die()
    with pytest.raises(DiedError):
        await journal.snapshot(b"[1]")
    name = "0001/00000001.snapshot"
    process.disk.data[name] = process.disk.data[name][:-1]
    replay = await (await Journal.open(process.disk, 2)).replay()
    assert replay.snapshot is None
    assert numbers(replay.entries) == [1]
    assert replay.torn == [name]


async def test_a_snapshot_that_does_not_fit_stands_in_nobodys_way(
    process: Process, journal: Journal
) -> None:
    def no_room(name: str, data: bytes) -> None:
        if name.endswith(".snapshot"):
            raise DISK_FULL

    process.before = no_room
    results = await asyncio.gather(
        journal.append(entries(1)),
        journal.snapshot(b"[1]"),
        journal.append(entries(2)),
        return_exceptions=True,
    )
    assert results[0] is results[2] is None
    assert isinstance(results[1], JournalError)
    assert await replayed(process.disk, 2) == [1, 2]


async def test_nothing_is_cleared_under_a_successor_that_reads(
    process: Process, journal: Journal
) -> None:
    await journal.append(entries(1))
    before = dict(process.disk.data)
    process.before = lambda name, data: asyncio.run(_open(process.disk, 2))
    with pytest.raises(FencedError):
        await journal.snapshot(b"[1]")
    assert before.items() <= process.disk.data.items()


async def test_what_cannot_be_cleared_does_no_harm(
    process: Process, journal: Journal, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stuck(name: str) -> None:
        raise OSError(errno.EROFS, "Read-only file system")

    monkeypatch.setattr(process, "delete", stuck)
    await journal.append(entries(1))
    await journal.snapshot(b"[1]")
    await journal.append(entries(2))
    assert await replayed(process.disk, 2) == [1, 2]


async def test_on_a_real_disk_with_leftovers(tmp_path: Path) -> None:
    blobs = LocalBlobs(tmp_path)
    journal, _ = await start(blobs, 1)
    await journal.append(entries(1))
    (tmp_path / "0001" / ".999999999.x.tmp").write_bytes(b"half a segm")
    second, found = await start(blobs, 2)
    assert found == [1]
    await second.append(entries(2))
    await second.snapshot(b"[1,2]")
    assert blobs.list() == ["0002"]
    assert blobs.list("0002") == ["00000002.snapshot", "claim"]
    assert await replayed(blobs, 3) == [1, 2]
