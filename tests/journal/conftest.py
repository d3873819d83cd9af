from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator

import pytest

from tests.journal.journals import start
from tests.storage.memory import DiedError, MemoryBlobs, Process
from ytf.journal.writer import Journal, JournalError


@pytest.fixture
def disk() -> MemoryBlobs:
    return MemoryBlobs()


@pytest.fixture
def process(disk: MemoryBlobs) -> Process:
    return Process(disk)


@pytest.fixture
async def journal(process: Process) -> AsyncIterator[Journal]:
    journal, _ = await start(process, 1)
    yield journal
    with contextlib.suppress(JournalError, DiedError):
        await journal.close()
