"""All that is known of a running job: the job machine's memory, as plain data.

A task's life, drawn once::

                    ┌────────────── lost before its program ran ──────────────┐
                    ▼                                                         │
    ┌─────────┐ allocated ┌───────────┐ registered ┌──────────┐ started ┌─────┴───┐
    │ PENDING ├──────────▶│ ALLOCATED ├───────────▶│ STARTING ├────────▶│ RUNNING │
    └─────────┘           └───────────┘            └──────────┘         └────┬────┘
         ▲                      ▲                                            │
         │ no container         │ same container                             ▼
         └────────── next attempt, by policy ◀───────── SUCCEEDED FAILED KILLED LOST

A container and a task are told apart because a task may be restarted in the
container it has, and a container may outlive the task's interest in it.
"""

from __future__ import annotations

from enum import Enum

import msgspec

from ytf.specs.cluster import ClusterSpec
from ytf.specs.names import ContainerId, NodeId, RequestId, TaskId
from ytf.specs.status import FinalStatus, TaskState


class Failure(msgspec.Struct, frozen=True, kw_only=True):
    """One task's failure, with all a diagnosis needs."""

    task: TaskId
    attempt: int
    ended_at: float
    node: NodeId | None
    host: str | None
    exit_code: int | None = None
    signal: int | None = None
    reason: str = ""
    tail: str = ""
    hint: str = ""
    infrastructure: bool = False
    """The cluster's fault: retried without counting."""
    port_lost: bool = False


class Task(msgspec.Struct, kw_only=True):
    """One task; ``request`` is set while it wishes for a container, then ``container``."""

    id: TaskId
    state: TaskState = TaskState.PENDING
    attempt: int = 1
    generation: int = 1
    requests: int = 0
    request: RequestId | None = None
    container: ContainerId | None = None
    node: NodeId | None = None
    host: str | None = None
    port: int | None = None
    exit_code: int | None = None
    signal: int | None = None
    reason: str = ""
    restarts: int = 0
    """Restarts that count against ``max_restarts``."""
    launch_failures: int = 0
    port_losses: int = 0
    dropped: bool = False
    """Given up because the job starts with fewer tasks (``min``)."""
    last_container: ContainerId | None = None
    """Where its newest attempt ran, for logs."""


class Container(msgspec.Struct, kw_only=True):
    """A container that has not been seen to end.

    ``wanted``: a task still counts on it. ``registered``: its starter has
    reported, so that it survives a master's restart.
    """

    task: TaskId
    node: NodeId | None
    """None for the client's, which is on no node of the backend's."""
    wanted: bool = True
    registered: bool = False
    master_attempt: int = 1
    """Which master launched it: only a later one doubts what it has not heard of."""
    control: str | None = None
    stopping: bool = False


class Stopping(Enum):
    """Whom the end of the job has reached."""

    NOBODY = "nobody"
    ALL_BUT_EVALUATORS = "all-but-evaluators"
    ALL = "all"


class JobMemory(msgspec.Struct, kw_only=True):
    """The whole state: what a snapshot holds."""

    tasks: dict[TaskId, Task]
    containers: dict[ContainerId, Container] = {}
    ended: set[ContainerId] = set()
    node_failures: dict[NodeId, int] = {}
    deadlines: dict[str, float] = {}
    master_attempt: int = 0
    took_over_at: float | None = None
    """When the newest master took over from another; what ended before that is told late."""
    began_at: float | None = None
    last_at: float = 0.0
    running_since: float | None = None
    finished_at: float | None = None
    generation: int = 1
    revision: int = 0
    published: ClusterSpec | None = None
    moved: bool = False
    """Somebody registered or was given up since the cluster spec was last made."""
    restarts: int = 0
    """Restarts of the whole job that count."""
    final: FinalStatus | None = None
    """Decided, though tasks may still be stopping."""
    stopping: Stopping = Stopping.NOBODY
    waiting: str = ""
    """Why containers are still awaited, as the backend last said."""
    diagnostics: str = ""
    first_failure: Failure | None = None
    finished: bool = False
    """FinishJob has been said: nothing can change any more."""
