"""Reading the journal: torn and missing blobs, and journals of other versions."""

from __future__ import annotations

import pytest

from tests.journal.journals import entries, numbers, replayed, start
from tests.storage.memory import MemoryBlobs
from ytf.errors import InternalError
from ytf.journal.format import Header, encode_segment
from ytf.journal.writer import Journal


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
