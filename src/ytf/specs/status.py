"""What is told about a job: the contract behind ``ytf status --json`` and its kin."""

from __future__ import annotations

from enum import Enum

import msgspec

from ytf.specs.names import ContainerId, JobId, NodeId, TaskId


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
    """One task. The field names are a contract."""

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


class JobStatus(msgspec.Struct, frozen=True, kw_only=True):
    """One job and its tasks. The field names are a contract.

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


class StarterPlace(msgspec.Struct, frozen=True, kw_only=True):
    """Where the starter in a task's container listens, ``host:port``: ``control``."""

    task: TaskId
    container: ContainerId
    node: NodeId | None
    control: str


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
    """One line of ``ytf events``: when, what kind, about whom, in words."""

    at: float
    event: str
    task: str | None = None
    text: str = ""


class JobRecord(msgspec.Struct, frozen=True, kw_only=True):
    """All that stays of a job after its end."""

    status: JobStatus
    spec: dict[str, object]
    cluster_spec: dict[str, object] | None
    events: tuple[JobEvent, ...]
