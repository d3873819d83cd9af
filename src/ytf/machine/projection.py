"""Applies events to the job machine; keeps what users read of them; makes and restores snapshots.

The master keeps one up to date while it runs the job. The next master, and the
client of a job without a master, restore the same one from the journal.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from ytf.decoding import decode_json
from ytf.machine import event_text
from ytf.machine.commands import AnyCommand, LaunchStarter
from ytf.machine.events import AnyEvent
from ytf.machine.machine import Machine
from ytf.machine.state import MachineState
from ytf.specs.ids import ContainerId, TaskId
from ytf.specs.job import JobSpec
from ytf.specs.status import JobEvent


class _Snapshot(msgspec.Struct, frozen=True, kw_only=True):
    state: MachineState
    events: list[JobEvent]


class Projection:
    """The machine of one job and its events. It returns commands and executes none."""

    def __init__(self, spec: JobSpec) -> None:
        self.machine = Machine(spec)
        self.events: list[JobEvent] = []
        self._tasks: dict[ContainerId, TaskId] = {}

    def restore(self, snapshot: bytes | None, entries: Iterable[tuple[float, AnyEvent]]) -> None:
        """Restore the state from a journal. The commands that follow are dropped.

        ``entries`` are the events after the snapshot, each with the time it was seen.
        """
        if snapshot is not None:
            kept = decode_json(snapshot, _Snapshot)
            self.machine = Machine(self.machine.spec, kept.state)
            self.events = kept.events
            self._tasks = {c: known.task for c, known in kept.state.containers.items()}
        for at, event in entries:
            self.apply(event, at)

    def apply(self, event: AnyEvent, at: float) -> list[AnyCommand]:
        """Let the machine handle an event; returns its commands.

        The event and its commands are added to ``events``, as users read them.
        """
        out = self.machine.handle(event, at)
        for command in out:
            if isinstance(command, LaunchStarter):
                self._tasks[command.container] = command.task
        self.events.append(event_text.describe_event(event, at, self._tasks))
        described = (event_text.describe_command(command, at) for command in out)
        self.events.extend(each for each in described if each is not None)
        return out

    def snapshot(self) -> bytes:
        """The state and the events, for the journal."""
        return msgspec.json.encode(_Snapshot(state=self.machine.state, events=self.events))
