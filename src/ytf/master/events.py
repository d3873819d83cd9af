"""What can happen to a job, in the past tense: the job machine's only input.

Events are facts observed by an adapter, and are what the journal records.
Every one may arrive late, twice or out of order; the machine copes.
"""

from __future__ import annotations

from enum import Enum

import msgspec

from ytf.specs.names import ContainerId, NodeId, RequestId, TaskId


class Cause(Enum):
    """Why a container ended, as told by the backend."""

    EXITED = "exited"
    """The starter ended by itself or by a signal nobody of ours sent."""
    RELEASED = "released"
    """We asked for it."""
    MEMORY = "memory"
    """It used more memory than it had asked for."""
    LOGS = "logs"
    """It wrote more logs than the node allows."""
    PREEMPTED = "preempted"
    NODE_LOST = "node-lost"
    DISK_FAILED = "disk-failed"
    EXPIRED = "expired"
    """Allocated, but not launched in time."""
    REVOKED = "revoked"
    """The cluster took it back, for reasons of its own."""

    @property
    def is_infrastructure(self) -> bool:
        """Whether the cluster, not the program, is to blame."""
        return self in _INFRASTRUCTURE


_INFRASTRUCTURE = frozenset(
    {Cause.PREEMPTED, Cause.NODE_LOST, Cause.DISK_FAILED, Cause.EXPIRED, Cause.REVOKED}
)


class Event(msgspec.Struct, frozen=True, kw_only=True, tag=True, forbid_unknown_fields=True):
    """Base of all events."""


class MasterStarted(Event, frozen=True, kw_only=True):
    """A master took over the job; the first one has attempt 1."""

    attempt: int


class ContainersRecovered(Event, frozen=True, kw_only=True):
    """The backend told a restarted master which containers still live.

    ``complete``: a container that is not named is gone. Otherwise it may still
    turn up (YARN's nodes report one by one), and only a deadline decides.
    """

    containers: tuple[ContainerId, ...]
    complete: bool


class ContainerAllocated(Event, frozen=True, kw_only=True):
    """A wish was granted: the container exists and wants a starter."""

    request: RequestId
    container: ContainerId
    node: NodeId


class RequestRefused(Event, frozen=True, kw_only=True):
    """A wish can never be granted, and why."""

    request: RequestId
    reason: str


class LaunchFailed(Event, frozen=True, kw_only=True):
    """The backend could not start a starter in a container; the container is gone."""

    container: ContainerId
    reason: str


class ContainerCompleted(Event, frozen=True, kw_only=True):
    """A container ended, with all its processes.

    ``diagnostics`` is why, where more can be said than by the cause alone;
    ``detail`` are the backend's own words, for who looks closer.
    """

    container: ContainerId
    cause: Cause
    exit_code: int | None = None
    signal: int | None = None
    diagnostics: str = ""
    detail: str = ""
    needed_mb: int | None = None
    """With this much memory it would have gone on, where it had less and that is known."""
    tail: str = ""
    """The end of its program's stderr, where the backend can read it."""


class NodeLost(Event, frozen=True, kw_only=True):
    """A node is gone, and every container on it."""

    node: NodeId


class BackendNoted(Event, frozen=True, kw_only=True):
    """The backend has something to say to whoever looks at the job; nothing follows from it.

    ``is_waiting``: it is why containers are still awaited, and of interest until
    they are there.
    """

    text: str
    is_waiting: bool = False


class BackendGone(Event, frozen=True, kw_only=True):
    """The backend is gone for good, and every container with it; why, in one sentence."""

    reason: str


class StarterRegistered(Event, frozen=True, kw_only=True):
    """A starter has its port and waits for the cluster spec.

    ``port`` is None for a task that serves nobody (the client); ``control`` is
    the ``host:port`` at which the starter itself listens.
    """

    task: TaskId
    attempt: int
    container: ContainerId
    host: str
    port: int | None
    control: str | None


class StarterLost(Event, frozen=True, kw_only=True):
    """A starter has not been heard of for too long."""

    container: ContainerId
    silent_s: float


class TaskStarted(Event, frozen=True, kw_only=True):
    """The user's program of an attempt is running."""

    task: TaskId
    attempt: int
    container: ContainerId


class TaskExited(Event, frozen=True, kw_only=True):
    """The user's program of an attempt ended, and its processes are proved dead.

    ``ended_at`` is when, by the starter's clock: reports may be late after a
    master's restart. ``tail`` is the end of stderr, ``hint`` what we know of
    such an end. ``port_lost``: the starter found somebody else on the port that
    the program had been promised.
    ``reason`` is set where the starter itself failed (no such command, …).
    """

    task: TaskId
    attempt: int
    container: ContainerId
    exit_code: int | None
    signal: int | None
    ended_at: float
    tail: str = ""
    hint: str = ""
    reason: str = ""
    port_lost: bool = False


class KillRequested(Event, frozen=True, kw_only=True):
    """Somebody who may wants the job to end."""

    by: str
    reason: str = ""


class DeadlinePassed(Event, frozen=True, kw_only=True):
    """One of the machine's own deadlines has come.

    ``note`` is what the backend can say about it (for allocation: what the
    queue had to give).
    """

    deadline: str
    note: str = ""


AnyEvent = (
    MasterStarted
    | ContainersRecovered
    | ContainerAllocated
    | RequestRefused
    | LaunchFailed
    | ContainerCompleted
    | NodeLost
    | BackendNoted
    | BackendGone
    | StarterRegistered
    | StarterLost
    | TaskStarted
    | TaskExited
    | KillRequested
    | DeadlinePassed
)

BackendEvent = (
    ContainerAllocated
    | RequestRefused
    | LaunchFailed
    | ContainerCompleted
    | ContainersRecovered
    | NodeLost
    | BackendNoted
    | BackendGone
    | KillRequested
)
"""What a backend may tell the master."""
