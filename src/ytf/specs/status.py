"""The observed state of jobs and tasks: what ``ytf status``, ``list`` and ``events`` print.

The field names are a contract with readers of ``--json``.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum

import msgspec

from ytf.specs.ids import ContainerId, JobId, NodeId, TaskId
from ytf.specs.usage import TaskUsage

_NOTE = "note: "
"""Begins a line of a job's diagnostics that its user should read whether or not it failed."""


class JobInfo(msgspec.Struct, frozen=True, kw_only=True):
    """The user, time and backend of a submission; a part of ``job.json``."""

    id: JobId
    user: str
    submitted_at: float
    backend: str


class JobState(Enum):
    """The states of a job, as users see them."""

    SUBMITTED = "SUBMITTED"
    STARTING = "STARTING"
    RUNNING = "RUNNING"
    SUCCEEDED = "SUCCEEDED"
    FAILED = "FAILED"
    KILLED = "KILLED"

    @property
    def is_final(self) -> bool:
        """Whether the job is over."""
        return self in (JobState.SUCCEEDED, JobState.FAILED, JobState.KILLED)


class FinalStatus(Enum):
    """How a job ended."""

    SUCCEEDED = "SUCCEEDED"
    FAILED = "FAILED"
    KILLED = "KILLED"


class TaskState(Enum):
    """The states of a task, as users see them."""

    PENDING = "PENDING"
    ALLOCATED = "ALLOCATED"
    STARTING = "STARTING"
    RUNNING = "RUNNING"
    SUCCEEDED = "SUCCEEDED"
    FAILED = "FAILED"
    KILLED = "KILLED"
    LOST = "LOST"

    @property
    def is_final(self) -> bool:
        """Whether the task's current attempt is over."""
        return self in (TaskState.SUCCEEDED, TaskState.FAILED, TaskState.KILLED, TaskState.LOST)


class TaskStatus(msgspec.Struct, frozen=True, kw_only=True):
    """One task."""

    group: str
    index: int
    state: TaskState
    attempt: int
    exit_code: int | None = None
    signal: int | None = None
    host: str | None = None
    port: int | None = None
    container: str | None = None
    node: str | None = None
    log_url: str | None = None
    reason: str = ""
    memory_mb: int | None = None
    """The memory that its container was requested with; None if it has none (the client)."""
    vcores: int | None = None
    usage: TaskUsage | None = None
    """What its program uses, or used in all; None if nothing is known of it."""

    @property
    def live_usage(self) -> TaskUsage | None:
        """What its running program uses; None if none runs, or nothing is known of this attempt."""
        usage = self.usage
        is_live = usage is not None and usage.attempt == self.attempt
        return usage if is_live and self.state is TaskState.RUNNING else None


class JobStatus(msgspec.Struct, frozen=True, kw_only=True):
    """One job and its tasks.

    ``final_status`` is None until the job is over; times are seconds since 1970.
    """

    id: JobId
    name: str
    user: str
    queue: str
    backend: str
    state: JobState
    final_status: FinalStatus | None = None
    diagnostics: str = ""
    started: float | None = None
    finished: float | None = None
    tracking_url: str | None = None
    tensorboard_url: str | None = None
    tasks: tuple[TaskStatus, ...] = ()

    @property
    def notes(self) -> list[str]:
        """The lines of the diagnostics that were made with :func:`with_notes`."""
        return [line for line in self.diagnostics.splitlines() if line.startswith(_NOTE)]


def with_notes(diagnostics: str, notes: Iterable[str]) -> str:
    """Diagnostics and notes, each note as one line that :attr:`JobStatus.notes` finds.

    A note is a sentence about a job that runs or has ended, however it ended:
    that tasks wait for each other, that output was lost, that a disk is full.
    """
    lines = [_NOTE + " ".join(note.split()) for note in notes]
    return "\n".join([diagnostics, *lines] if diagnostics else lines)


class StarterAddress(msgspec.Struct, frozen=True, kw_only=True):
    """The address of the starter in a task's container: ``control`` is ``host:port``."""

    task: TaskId
    container: ContainerId
    node: NodeId | None
    control: str


class LogLocation(msgspec.Struct, frozen=True, kw_only=True):
    """Where a task's newest attempt writes.

    ``control`` is the address of its starter, None once the starter has ended.
    ``url`` is the page with the logs.
    """

    container: ContainerId
    control: str | None
    url: str | None


class JobSummary(msgspec.Struct, frozen=True, kw_only=True):
    """One line of ``ytf list``."""

    id: JobId
    name: str
    user: str
    queue: str
    backend: str
    state: JobState
    started: float | None = None
    finished: float | None = None


class JobEvent(msgspec.Struct, frozen=True, kw_only=True):
    """One line of ``ytf events``: time, kind, task and text."""

    at: float
    event: str
    task: str | None = None
    text: str = ""


class ClusterSpec(msgspec.Struct, frozen=True, kw_only=True):
    """The cluster spec: group → ``host:port`` of each task, by index.

    ``generation`` counts the restarts of the whole job. ``revision`` counts the
    published cluster specs: a higher one replaces a lower one.
    """

    generation: int
    revision: int
    members: dict[str, tuple[str, ...]]


class JobRecord(msgspec.Struct, frozen=True, kw_only=True):
    """What is kept of a job after its end."""

    status: JobStatus
    spec: dict[str, object]
    cluster_spec: dict[str, object] | None
    events: tuple[JobEvent, ...]
