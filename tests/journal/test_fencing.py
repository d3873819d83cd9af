"""Only the newest master attempt gets its entries acknowledged."""

from __future__ import annotations

import asyncio

import pytest

from tests.journal.journals import claim, entries, replayed, start
from tests.storage.memory import MemoryBlobs, Process
from ytf.journal.writer import FencedError, Journal


@pytest.mark.parametrize("attempt", [1, 2])
async def test_a_claimed_attempt_is_refused(disk: MemoryBlobs, attempt: int) -> None:
    await Journal.open(disk, 2)
    with pytest.raises(FencedError, match=f"attempt {attempt} is no longer in charge"):
        await Journal.open(disk, attempt)


async def test_two_masters_of_one_attempt_that_meet_at_the_claim(process: Process) -> None:
    rival = Process(process.disk)
    process.before = lambda name, data: asyncio.run(claim(rival, 1))
    with pytest.raises(FencedError):
        await Journal.open(process, 1)


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
    second.before = lambda name, data: asyncio.run(claim(process.disk, 3))
    with pytest.raises(FencedError):
        await successor.replay()


async def test_somebody_elses_segment_in_our_place(process: Process, journal: Journal) -> None:
    process.disk.data["0001/00000001.segment"] = b"not ours"
    with pytest.raises(FencedError):
        await journal.append(entries(1))
