"""The state of the job machine, as plain data: tasks, containers, deadlines, outcome.

The states of a task::

           lost before its peers know its address
         ┌──────────────────────┬───────────────────────┐
         ▼                      │                       │
    ┌─────────┐ allocated ┌─────┴─────┐ registered ┌────┴─────┐ started ┌─────────┐
    │ PENDING ├──────────▶│ ALLOCATED ├───────────▶│ STARTING ├────────▶│ RUNNING │
    └────▲────┘           └─────▲─────┘            └──────────┘         └─────────┘
         │ no container         │ same container
         └──────────────────────┴── next attempt, by policy ── SUCCEEDED FAILED KILLED LOST

A PENDING task can become FAILED or KILLED. Each of the other three can become
SUCCEEDED, FAILED, KILLED or LOST. A restart of the whole job also begins the next
attempt of tasks that still run.

Tasks and containers are separate because a task may be restarted in its
container, and a container may still end after its task has left it.
"""

from __future__ import annotations

from enum import Enum

import msgspec

from ytf.machine.commands import ContainerProfile
from ytf.specs.ids import ContainerId, NodeId, RequestId, TaskId
from ytf.specs.status import ClusterSpec, FinalStatus, TaskState
from ytf.specs.usage import TaskUsage


def request_id(task: TaskId, number: int) -> RequestId:
    """The id of a task's container request: ``worker:1#2`` is the second one of worker:1."""
    return RequestId(f"{task}#{number}")


def requesting_task(request: RequestId) -> TaskId:
    """The task that made a container request."""
    return TaskId(request.rpartition("#")[0])


def request_number(request: RequestId) -> int:
    """Which of its task's requests it is; the first is 1."""
    return int(request.rpartition("#")[2])


class Failure(msgspec.Struct, frozen=True, kw_only=True):
    """The failure of one attempt of a task, with all that diagnostics need."""

    task: TaskId
    attempt: int
    ended_at: float
    node: NodeId | None
    host: str | None
    exit_code: int | None = None
    signal: int | None = None
    reason: str = ""
    tail: str = ""
    tail_stream: str = "stderr"
    hint: str = ""
    infrastructure: bool = False
    """The cluster caused it. The retry does not count against ``max_restarts``."""
    port_lost: bool = False
    not_kept: bool = False
    """Its container was lost with the master that died: nobody's failure, whatever the policy."""


class Task(msgspec.Struct, kw_only=True):
    """One task. ``request`` is set while it waits for a container, then ``container`` is."""

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
    """The job started without it, as ``min`` of its group allows."""
    last_container: ContainerId | None = None
    """The container of its newest attempt, for its logs."""
    usage: TaskUsage | None = None
    """What its newest attempt that has ended used, and the most of all attempts."""


class Container(msgspec.Struct, kw_only=True):
    """A container whose end was not reported yet.

    ``needed``: its task still uses it. ``registered``: its starter has
    registered, so the container survives a restart of the master.
    """

    task: TaskId
    node: NodeId | None
    """None for the client, which runs on no node of the backend."""
    needed: bool = True
    registered: bool = False
    master_attempt: int = 1
    """The master attempt that launched it. Only a later one may have to give it up."""
    recovered_by: int = 0
    """The newest master attempt to which the backend reported that it still lives."""
    control: str | None = None
    stopping: bool = False


class Stopping(Enum):
    """Which containers were told to stop, at the end of the job."""

    NONE = "none"
    ALL_BUT_EVALUATORS = "all-but-evaluators"
    """Nor was a TensorBoard that stays."""
    ALL_BUT_TENSORBOARD = "all-but-tensorboard"
    ALL = "all"


class MachineState(msgspec.Struct, kw_only=True):
    """The whole state of one job. A snapshot in the journal contains it."""

    tasks: dict[TaskId, Task]
    containers: dict[ContainerId, Container] = {}
    ended: set[ContainerId] = set()
    profiles: list[ContainerProfile] = []
    """The container profiles that were requested so far; a profile's place is its priority."""
    node_failures: dict[NodeId, int] = {}
    deadlines: dict[str, float] = {}
    master_attempt: int = 0
    took_over_at: float | None = None
    """When the newest master took over from another. Reports of earlier exits come late."""
    began_at: float | None = None
    last_at: float = 0.0
    running_since: float | None = None
    finished_at: float | None = None
    generation: int = 1
    revision: int = 0
    published: ClusterSpec | None = None
    addresses_changed: bool = False
    """A task registered or was dropped since the cluster spec was last published."""
    restarts: int = 0
    """Restarts of the whole job that count against ``max_restarts``."""
    final: FinalStatus | None = None
    """How the job ends. It is decided before all tasks have stopped."""
    stopping: Stopping = Stopping.NONE
    tensorboard_stays: bool = False
    """TensorBoard is not to be stopped with the other tasks of a job that has succeeded."""
    idle_since: float | None = None
    """Since when all running programs are idle, if the master has noticed it."""
    output_lost: dict[TaskId, float] = {}
    """The tasks whose output may be incomplete, and since when: the disk of their logs was full."""
    backend_note: str = ""
    """Why containers are not allocated yet, as the backend said last."""
    warnings: list[str] = []
    """What the backend warned of, each text once."""
    diagnostics: str = ""
    first_failure: Failure | None = None
    finished: bool = False
    """FinishJob was emitted. Nothing changes any more."""
