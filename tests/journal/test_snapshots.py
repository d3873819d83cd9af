"""Snapshots replace the entries before them."""

from __future__ import annotations

import asyncio
import errno
from pathlib import Path

import pytest

from tests.journal.journals import Gate, claim, entries, numbers, replayed, settle, start
from tests.storage.memory import DISK_FULL, DiedError, MemoryBlobs, Process
from ytf.journal.writer import FencedError, Journal, JournalError
from ytf.storage.blobs import LocalBlobs


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
    process.before = lambda name, data: asyncio.run(claim(process.disk, 2))
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
