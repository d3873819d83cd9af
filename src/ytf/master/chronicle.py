"""A job as its events have made it: the machine and the story, the same for whoever tells them.

The master that runs the job keeps one up to date; whoever reads the journal,
the next master or a client of a job that has none, gets the same one from it.
"""

from __future__ import annotations

import msgspec

from ytf.master import story as stories
from ytf.master.commands import AnyCommand, LaunchStarter
from ytf.master.events import AnyEvent
from ytf.master.machine import Machine
from ytf.master.replay import Replay
from ytf.master.state import JobMemory
from ytf.master.view import Story
from ytf.specs.job import JobSpec
from ytf.specs.names import ContainerId, TaskId
from ytf.specs.status import JobEvent


class _Snapshot(msgspec.Struct, frozen=True, kw_only=True):
    memory: JobMemory
    events: list[JobEvent]


class Chronicle:
    """One job's machine and story. No clock, no I/O: what is to be done is told and not done."""

    def __init__(self, spec: JobSpec) -> None:
        self.machine = Machine(spec)
        self.story = Story()
        self._tasks: dict[ContainerId, TaskId] = {}

    def restore(self, replay: Replay) -> None:
        """Become what a journal tells. To be called on a new one; nothing is to be done of it."""
        if replay.snapshot is not None:
            kept = msgspec.json.decode(replay.snapshot, type=_Snapshot)
            self.machine = Machine(self.machine.spec, kept.memory)
            self.story.events = kept.events
            self._tasks = {c: known.task for c, known in kept.memory.containers.items()}
        for entry in replay.entries:
            self.take_in(entry.event, entry.at)

    def take_in(self, event: AnyEvent, at: float) -> list[AnyCommand]:
        """Let the machine handle an event, and note both sides of it in the story."""
        out = self.machine.handle(event, at)
        for command in out:
            if isinstance(command, LaunchStarter):
                self._tasks[command.container] = command.task
        self.story.events.append(stories.tell_event(event, at, self._tasks))
        told = (stories.tell_command(command, at) for command in out)
        self.story.events.extend(line for line in told if line is not None)
        return out

    def snapshot(self) -> bytes:
        """All of it, for the journal."""
        return msgspec.json.encode(_Snapshot(memory=self.machine.memory, events=self.story.events))
