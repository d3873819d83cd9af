"""A backend without processes: jobs that go through the statuses a test gives."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ytf.backends.api import (
    RECORD_RETENTION_S,
    CheckInterrupt,
    JobCredentials,
    JobHandle,
    LogLine,
    Notify,
    OnCommit,
    Plan,
    RemovedItem,
    RemovedItems,
    ignore_notice,
    never_interrupted,
    no_commit_hook,
)
from ytf.errors import NotFoundError, RefusedError
from ytf.specs.ids import JobId, TaskId
from ytf.specs.status import (
    ClusterSpec,
    FinalStatus,
    JobEvent,
    JobState,
    JobStatus,
    JobSummary,
    TaskState,
    TaskStatus,
)
from ytf.storage.files import Files

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

    def __init__(self, *statuses: JobStatus) -> None:
        self.job = JOB
        self.statuses = list(statuses)
        self.killed: list[str] = []
        self.lines: list[LogLine] = []
        self.tells: list[str] = []
        self.asked: list[TaskId] = []
        self.spec: ClusterSpec | None = None
        self.happened: list[JobEvent] = []

    def status(self) -> JobStatus:
        return self.statuses[0]

    def why_waiting(self) -> str:
        now = self.status()
        return now.diagnostics if now.state is JobState.SUBMITTED else ""

    def wait(self, known: JobStatus | None = None, timeout_s: float = 30.0) -> JobStatus:
        if len(self.statuses) > 1:
            self.statuses.pop(0)
        return self.statuses[0]

    def cluster_spec(self) -> ClusterSpec | None:
        return self.spec

    def events(self) -> list[JobEvent]:
        return self.happened

    def kill(self, reason: str) -> None:
        self.killed.append(reason)
        self.statuses = [self.statuses[0], status(JobState.KILLED)]

    def remove(self) -> RemovedItem:
        if not self.status().state.is_final:
            raise RefusedError(f"job {self.job} has not ended")
        return RemovedItem(what="record and logs", where="/h", size=1200)

    def results(self) -> tuple[Files, str]:
        raise FileNotFoundError(self.job)

    def credentials(self) -> JobCredentials:
        raise NotFoundError(f"nobody can take part in {self.job}")

    def logs(
        self,
        tasks: list[TaskId],
        *,
        follow: bool,
        notify: Notify = ignore_notice,
        check: CheckInterrupt = never_interrupted,
    ) -> Iterator[LogLine]:
        for text in self.tells:
            notify(text)
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
        self.removed_items: RemovedItems = []
        self.collections: List[tuple[float, bool, bool]] = []

    def user(self) -> str:
        return "alice"

    def submit(
        self,
        plan: Plan,
        notify: Notify = ignore_notice,
        on_commit: OnCommit = no_commit_hook,
        check: CheckInterrupt = never_interrupted,
    ) -> JobHandle:
        for text in self.tells:
            notify(text)
        check()
        on_commit()
        self.submitted.append(plan)
        return self.handle

    def results_url(self) -> str:
        return "/h/{job}/results/{task}"

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

    def gc_dead_jobs(self, *, keep_s: float = RECORD_RETENTION_S) -> List[JobId]:
        self.sweeps += 1
        return []

    def gc(
        self,
        *,
        keep_s: float,
        dryrun: bool = False,
        verify: bool = False,
        notify: Notify = ignore_notice,
    ) -> RemovedItems:
        self.collections.append((keep_s, dryrun, verify))
        return self.removed_items
