"""A job whose state tests set, in place of a master."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

from ytf.errors import UnreachableError
from ytf.specs.ids import ContainerId, JobId, NodeId, TaskId
from ytf.specs.status import ClusterSpec, JobEvent, JobState, JobStatus, StarterAddress


@dataclass
class FakeJob:
    """A job whose state a test sets."""

    version: int = 1
    state: JobState = JobState.RUNNING
    spec: ClusterSpec | None = None
    journal_works: bool = True
    killed: list[tuple[str, str]] = field(default_factory=list)
    shells: list[tuple[str, str]] = field(default_factory=list)
    waiting: int = 0
    _change: asyncio.Event = field(default_factory=asyncio.Event)

    def set(self, state: JobState) -> None:
        self.state = state
        self.version += 1
        self._change.set()

    def status(self) -> JobStatus:
        return JobStatus(
            id=JobId("local_1"), name="n", user="u", queue="q", backend="local", state=self.state
        )

    def status_with_usage(self) -> JobStatus:
        return self.status()

    async def changed(self, version: int) -> None:
        self.waiting += 1
        try:
            while self.version == version:
                await self._change.wait()
        finally:
            self.waiting -= 1

    def cluster_spec(self) -> ClusterSpec | None:
        return self.spec

    def events(self) -> list[JobEvent]:
        return [JobEvent(at=1.0, event="started", text="ü")]

    def starters(self) -> list[StarterAddress]:
        return [
            StarterAddress(
                task=TaskId("ps:0"), container=ContainerId("c1"), node=NodeId("n:1"), control="h:7"
            )
        ]

    def note_shell(self, task: TaskId, by: str) -> None:
        self.shells.append((task, by))

    async def kill(self, by: str, reason: str) -> None:
        if not self.journal_works:
            raise UnreachableError("the journal cannot be written: disk full")
        self.killed.append((by, reason))
