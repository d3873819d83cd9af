"""Journals of numbered entries, for tests."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable

import msgspec

from tests.storage.memory import DISK_FULL
from ytf.journal.format import Entry
from ytf.journal.writer import Journal
from ytf.machine.events import (
    MasterStarted,
)
from ytf.storage.blobs import Blobs


def entry(number: int) -> Entry:
    return Entry(at=float(number), event=MasterStarted(attempt=number))


def entries(*numbers: int) -> list[Entry]:
    return [entry(number) for number in numbers]


def numbers(found: list[Entry]) -> list[int]:
    return [int(one.at) for one in found]


async def start(blobs: Blobs, attempt: int) -> tuple[Journal, list[int]]:
    """A new journal and the numbers that it replayed, those of its snapshot included."""
    journal = await Journal.open(blobs, attempt, timeout_s=5.0, retry_s=0.001)
    replay = await journal.replay()
    begin = msgspec.json.decode(replay.snapshot, type=list[int]) if replay.snapshot else []
    return journal, begin + numbers(replay.entries)


async def replayed(blobs: Blobs, attempt: int) -> list[int]:
    journal, found = await start(blobs, attempt)
    await journal.close()
    return found


class Gate:
    """Holds each write of segments until opened; tells when one has arrived."""

    def __init__(self) -> None:
        self.arrived = threading.Event()
        self.opened = threading.Event()

    def __call__(self, name: str, data: bytes) -> None:
        self.arrived.set()
        assert self.opened.wait(60)

    async def wait(self) -> None:
        assert await asyncio.to_thread(self.arrived.wait, 10)


async def settle() -> None:
    """Let every task that can run do so."""
    for _ in range(5):
        await asyncio.sleep(0)


def failing(times: int) -> Callable[[str, bytes], None]:
    left = iter(range(times))

    def fail(name: str, data: bytes) -> None:
        if next(left, None) is not None:
            raise DISK_FULL

    return fail


async def claim(blobs: Blobs, attempt: int) -> None:
    await Journal.open(blobs, attempt)
