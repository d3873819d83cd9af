"""A backend without processes: jobs that go through the statuses a test gives."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ytf.backends.api import (
    KEEP_S,
    Access,
    Hold,
    JobHandle,
    LogLine,
    Rubbish,
    Tell,
    silent,
    unheld,
)
from ytf.client.plan import Plan
from ytf.errors import NotFoundError
from ytf.specs.cluster import ClusterSpec
from ytf.specs.names import JobId, TaskId
from ytf.specs.status import (
    FinalStatus,
    JobEvent,
    JobState,
    JobStatus,
    JobSummary,
    TaskState,
    TaskStatus,
)

JOB = JobId("local_1_a")


def task(group: str, index: int, state: TaskState, **fields: Any) -> TaskStatus:
    """A task in its first attempt."""
    return TaskStatus(group=group, index=index, state=state, **{"attempt": 1, **fields})


def status(state: JobState, *tasks: TaskStatus, diagnostics: str = "") -> JobStatus:
    """A job that began at 100 s and, if it is over, took 12."""
    return JobStatus(
        id=JOB,
        name="TensorFlow",
        user="alice",
        queue="default",
        backend="local",
        state=state,
        final_status=FinalStatus(state.value) if state.is_final else None,
        diagnostics=diagnostics,
        started=100.0,
        finished=112.0 if state.is_final else None,
        tasks=tasks,
    )


class FakeHandle:
    """Each look at the job shows its next status; the last one stays."""

    def __init__(self, *story: JobStatus) -> None:
        self.job = JOB
        self.story = list(story)
        self.killed: list[str] = []
        self.lines: list[LogLine] = []
        self.tells: list[str] = []
        self.asked: list[TaskId] = []
        self.spec: ClusterSpec | None = None
        self.happened: list[JobEvent] = []

    def status(self) -> JobStatus:
        return self.story[0]

    def wait(self, known: JobStatus | None = None, timeout_s: float = 30.0) -> JobStatus:
        if len(self.story) > 1:
            self.story.pop(0)
        return self.story[0]

    def cluster_spec(self) -> ClusterSpec | None:
        return self.spec

    def events(self) -> list[JobEvent]:
        return self.happened

    def kill(self, reason: str) -> None:
        self.killed.append(reason)
        self.story = [self.story[0], status(JobState.KILLED)]

    def access(self) -> Access:
        raise NotFoundError(f"nobody can take part in {self.job}")

    def logs(self, tasks: list[TaskId], *, follow: bool, tell: Tell = silent) -> Iterator[LogLine]:
        for text in self.tells:
            tell(text)
        self.asked = list(tasks)
        return (line for line in self.lines if line.task in tasks)


List = list
"""Inside the backend, ``list`` is a method."""


class FakeBackend:
    """Accepts every plan as the one job it has."""

    name = "local"

    def __init__(self, handle: FakeHandle) -> None:
        self.handle = handle
        self.submitted: list[Plan] = []
        self.tells: List[str] = []
        self.sweeps = 0
        self.rubbish: Rubbish = []
        self.collections: List[tuple[float, bool, bool]] = []

    def user(self) -> str:
        return "alice"

    def submit(self, plan: Plan, tell: Tell = silent, hold: Hold = unheld) -> JobHandle:
        for text in self.tells:
            tell(text)
        hold()
        self.submitted.append(plan)
        return self.handle

    def open(self, job: JobId) -> JobHandle:
        if job != self.handle.job:
            raise NotFoundError(f"there is no job {job}")
        return self.handle

    def list(self) -> List[JobSummary]:
        now = self.handle.status()
        return [
            JobSummary(
                id=now.id,
                name=now.name,
                user=now.user,
                queue=now.queue,
                backend=now.backend,
                state=now.state,
                started=now.started,
                finished=now.finished,
            )
        ]

    def sweep(self, *, keep_s: float = KEEP_S) -> List[JobId]:
        self.sweeps += 1
        return []

    def collect(
        self, *, keep_s: float, dryrun: bool = False, verify: bool = False, tell: Tell = silent
    ) -> Rubbish:
        self.collections.append((keep_s, dryrun, verify))
        return self.rubbish
