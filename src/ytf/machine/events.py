"""Events: the input of the job machine, and the content of the journal.

The backend, the registry and the master observe them. An event may arrive late,
twice or out of order; the machine ignores it where it no longer applies.
"""

from __future__ import annotations

from enum import Enum

import msgspec

from ytf.specs.ids import ContainerId, NodeId, RequestId, TaskId
from ytf.specs.usage import TaskUsage


class Cause(Enum):
    """Why a container ended, as reported by the backend."""

    EXITED = "exited"
    """The starter exited, or was ended by a signal that ytf did not send."""
    RELEASED = "released"
    """The master released it."""
    MEMORY = "memory"
    """It used more memory than it had requested."""
    LOGS = "logs"
    """It wrote more logs than the node allows."""
    PREEMPTED = "preempted"
    NODE_LOST = "node-lost"
    DISK_FAILED = "disk-failed"
    EXPIRED = "expired"
    """No starter was launched in it in time."""
    REVOKED = "revoked"
    """The cluster took it back for another reason."""
    NOT_KEPT = "not-kept"
    """The cluster did not keep it when a master died. YARN keeps only the containers of which it
    has already heard, from their nodes, that they run."""

    @property
    def is_infrastructure(self) -> bool:
        """Whether the cluster, and not the program, caused the end."""
        return self in _INFRASTRUCTURE


_INFRASTRUCTURE = frozenset(
    {
        Cause.PREEMPTED,
        Cause.NODE_LOST,
        Cause.DISK_FAILED,
        Cause.EXPIRED,
        Cause.REVOKED,
        Cause.NOT_KEPT,
    }
)


class Event(msgspec.Struct, frozen=True, kw_only=True, tag=True, forbid_unknown_fields=True):
    """Base of all events."""


class MasterStarted(Event, frozen=True, kw_only=True):
    """A master started to run the job. The first one is attempt 1."""

    attempt: int


class ContainersRecovered(Event, frozen=True, kw_only=True):
    """The backend reported to a restarted master which containers are still alive.

    ``complete``: a container that is not listed is gone. Without it, such a
    container may still be reported (YARN's nodes report one by one), and is
    given up only when its starter is silent for too long.
    """

    containers: tuple[ContainerId, ...]
    complete: bool


class ContainerAllocated(Event, frozen=True, kw_only=True):
    """The backend allocated a container for a request. No starter runs in it yet."""

    request: RequestId
    container: ContainerId
    node: NodeId


class RequestRefused(Event, frozen=True, kw_only=True):
    """The backend can never allocate a container for this request."""

    request: RequestId
    reason: str


class LaunchFailed(Event, frozen=True, kw_only=True):
    """The backend could not launch a starter in a container. The container is gone."""

    container: ContainerId
    reason: str


class ContainerCompleted(Event, frozen=True, kw_only=True):
    """A container and all its processes ended.

    ``diagnostics`` explains the cause where the backend knows more than
    ``cause`` says. ``detail`` is the backend's original message.
    """

    container: ContainerId
    cause: Cause
    exit_code: int | None = None
    signal: int | None = None
    diagnostics: str = ""
    detail: str = ""
    needed_mb: int | None = None
    """The memory that it would have needed, if it ran out of memory and this is known."""
    tail: str = ""
    """The end of what its program wrote to ``tail_stream``, if the backend can read it."""
    tail_stream: str = "stderr"
    usage: TaskUsage | None = None
    """What the program in it used last, if the master knows."""


class NodeLost(Event, frozen=True, kw_only=True):
    """A node is lost, and every container on it."""

    node: NodeId


class MessageNoted(Event, frozen=True, kw_only=True):
    """The backend or the registry has a message for the users of the job.

    No policy depends on it.

    ``is_waiting``: the message says why containers are not allocated yet. It is
    part of the job's diagnostics until they are. ``is_warning``: the users have to
    know it; the status shows it from then on.
    """

    text: str
    is_waiting: bool = False
    is_warning: bool = False


class BackendGone(Event, frozen=True, kw_only=True):
    """The backend is gone for good, and every container with it.

    ``reason`` is one sentence.
    """

    reason: str


class StarterRegistered(Event, frozen=True, kw_only=True):
    """A starter has chosen its port and waits for the cluster spec.

    ``port`` is None for a task without a server (the client). ``control`` is
    the ``host:port`` at which the starter itself listens.
    """

    task: TaskId
    attempt: int
    container: ContainerId
    host: str
    port: int | None
    control: str | None


class StarterLost(Event, frozen=True, kw_only=True):
    """A starter has sent nothing for too long.

    ``was_heard``: it has called this master at least once.
    """

    container: ContainerId
    silent_s: float
    was_heard: bool = True


class TaskStarted(Event, frozen=True, kw_only=True):
    """A starter started the user's program of an attempt."""

    task: TaskId
    attempt: int
    container: ContainerId


class TaskExited(Event, frozen=True, kw_only=True):
    """The user's program of an attempt ended. The starter has verified that none of it runs.

    ``ended_at`` is the time by the starter's clock, because a report may be late
    when a master was restarted. ``tail`` is the end of what it wrote to
    ``tail_stream``: stderr, or stdout if stderr is empty. ``hint`` is what the
    master knows about such an exit. ``reason`` is set if the starter itself
    failed (no such command, …). ``port_lost``: another process had taken the
    port that was reserved for the program.
    """

    task: TaskId
    attempt: int
    container: ContainerId
    exit_code: int | None
    signal: int | None
    ended_at: float
    tail: str = ""
    tail_stream: str = "stderr"
    hint: str = ""
    reason: str = ""
    port_lost: bool = False
    output_lost_at: float | None = None
    """When the disk of its logs was first found full; output may be missing since then."""
    usage: TaskUsage | None = None
    """What it used in all."""


class OutputLost(Event, frozen=True, kw_only=True):
    """The disk of a running program's logs is full: output may be missing since ``at``."""

    task: TaskId
    attempt: int
    container: ContainerId
    at: float


class JobBecameIdle(Event, frozen=True, kw_only=True):
    """All running programs have been idle for the spec's ``idle_s``: none used the processor.

    ``since`` is when the last of them did.
    """

    since: float


class JobIdleEnded(Event, frozen=True, kw_only=True):
    """After ``JobBecameIdle``: a program uses the processor, or the job waits for another thing."""


class ShellRequested(Event, frozen=True, kw_only=True):
    """A user asked for a shell in a task's container. The machine does nothing about it."""

    task: TaskId
    by: str


class KillRequested(Event, frozen=True, kw_only=True):
    """A user, or an administrator of the cluster, asked to kill the job."""

    by: str
    reason: str = ""


class DeadlinePassed(Event, frozen=True, kw_only=True):
    """One of the deadlines in ``MachineState.deadlines`` has passed.

    ``note`` is what the master can add to the diagnostics: for ``ALLOCATION``
    what the backend had to offer. ``output`` is what running tasks wrote last,
    where the deadline may fail the job.
    """

    deadline: str
    note: str = ""
    output: str = ""


AnyEvent = (
    MasterStarted
    | ContainersRecovered
    | ContainerAllocated
    | RequestRefused
    | LaunchFailed
    | ContainerCompleted
    | NodeLost
    | MessageNoted
    | BackendGone
    | StarterRegistered
    | StarterLost
    | TaskStarted
    | TaskExited
    | OutputLost
    | JobBecameIdle
    | JobIdleEnded
    | ShellRequested
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
    | MessageNoted
    | BackendGone
    | KillRequested
)
"""The events that a backend may report to the master."""
