"""Whoever reads a journal knows what its master knew."""

from __future__ import annotations

import pytest

from tests.backends.yarn.job.staged import SPEC, running
from ytf.master.chronicle import Chronicle
from ytf.master.events import BackendNoted
from ytf.master.replay import Replay
from ytf.master.segments import Entry

STORY = [
    Entry(1000.0 + n, event)
    for n, event in enumerate([*(e for batch in running() for e in batch), BackendNoted(text="x")])
]


@pytest.mark.parametrize("known", [None, 0, 2, len(STORY)])
def test_a_journal_tells_the_same_wherever_its_snapshot_was_made(known: int | None) -> None:
    live = Chronicle(SPEC)
    snapshot = None
    for n, entry in enumerate(STORY):
        if n == known:
            snapshot = live.snapshot()
        live.take_in(entry.event, entry.at)
    if known == len(STORY):
        snapshot = live.snapshot()
    read = Chronicle(SPEC)
    read.restore(Replay(snapshot=snapshot, entries=STORY[known or 0 :]))
    assert read.machine.memory == live.machine.memory
    assert read.story.events == live.story.events
    assert [event.task for event in read.story.events if event.event == "ContainerAllocated"] == [
        "ps:0",
        "worker:0",
    ]
