"""A projection that is restored from a journal equals the one of the master that wrote it."""

from __future__ import annotations

import pytest

from tests.backends.yarn.staged_jobs import SPEC, running
from ytf.journal.format import Entry
from ytf.machine.events import MessageNoted
from ytf.machine.projection import Projection

EVENTS = [
    Entry(1000.0 + n, event)
    for n, event in enumerate([*(e for batch in running() for e in batch), MessageNoted(text="x")])
]


@pytest.mark.parametrize("known", [None, 0, 2, len(EVENTS)])
def test_a_journal_tells_the_same_wherever_its_snapshot_was_made(known: int | None) -> None:
    live = Projection(SPEC)
    snapshot = None
    for n, entry in enumerate(EVENTS):
        if n == known:
            snapshot = live.snapshot()
        live.apply(entry.event, entry.at)
    if known == len(EVENTS):
        snapshot = live.snapshot()
    read = Projection(SPEC)
    read.restore(snapshot, ((entry.at, entry.event) for entry in EVENTS[known or 0 :]))
    assert read.machine.state == live.machine.state
    assert read.events == live.events
    assert [event.task for event in read.events if event.event == "container-allocated"] == [
        "ps:0",
        "worker:0",
    ]
