"""What YARN tells: containers, nodes, applications, queues. Frozen, and free of protobuf.

Numbers that only a newer server knows become ``UNKNOWN``, never an error.
"""

from __future__ import annotations

from enum import IntEnum

import msgspec

from ytf.hadoop.security.tokens import Token
from ytf.hadoop.yarn.ids import ApplicationId, AttemptId, ContainerId, NodeId
from ytf.hadoop.yarn.resources import Resource, ResourceType


class _Known(IntEnum):
    """An enumeration with a place for numbers of newer servers."""

    @classmethod
    def _missing_(cls, value: object) -> _Known:
        return cls["UNKNOWN"]

    def __str__(self) -> str:
        return self.name


class ApplicationState(_Known):
    """How far an application has come. ``ACCEPTED``: the queue has taken it."""

    UNKNOWN = 0
    NEW = 1
    NEW_SAVING = 2
    SUBMITTED = 3
    ACCEPTED = 4
    RUNNING = 5
    FINISHED = 6
    FAILED = 7
    KILLED = 8

    @property
    def ended(self) -> bool:
        """Whether nothing can happen any more."""
        return self in (ApplicationState.FINISHED, ApplicationState.FAILED, ApplicationState.KILLED)


class FinalStatus(_Known):
    """What a master said of its application when it left."""

    UNKNOWN = -1
    UNDEFINED = 0
    SUCCEEDED = 1
    FAILED = 2
    KILLED = 3
    ENDED = 4


class AttemptState(_Known):
    """How far one master of an application has come."""

    UNKNOWN = 0
    NEW = 1
    SUBMITTED = 2
    SCHEDULED = 3
    ALLOCATED_SAVING = 4
    ALLOCATED = 5
    LAUNCHED = 6
    FAILED = 7
    RUNNING = 8
    FINISHING = 9
    FINISHED = 10
    KILLED = 11


class ContainerState(_Known):
    """How far a container has come."""

    UNKNOWN = 0
    NEW = 1
    RUNNING = 2
    COMPLETE = 3


class NodeState(_Known):
    """How a node is."""

    UNKNOWN = 0
    NEW = 1
    RUNNING = 2
    UNHEALTHY = 3
    DECOMMISSIONED = 4
    LOST = 5
    REBOOTED = 6
    DECOMMISSIONING = 7
    SHUTDOWN = 8

    @property
    def usable(self) -> bool:
        """Whether its containers can live."""
        return self in (NodeState.NEW, NodeState.RUNNING, NodeState.DECOMMISSIONING)


class QueueState(_Known):
    """Whether a queue takes applications."""

    UNKNOWN = 0
    STOPPED = 1
    RUNNING = 2
    DRAINING = 3


class LogStatus(_Known):
    """How far the logs of an application have been gathered."""

    UNKNOWN = 0
    DISABLED = 1
    NOT_STARTED = 2
    RUNNING = 3
    SUCCEEDED = 4
    FAILED = 5
    TIMED_OUT = 6
    RUNNING_WITH_FAILURE = 7


class MasterCommand(_Known):
    """What old servers tell a master in words that newer ones make an exception."""

    UNKNOWN = 0
    RESYNC = 1
    SHUTDOWN = 2


class ServiceState(_Known):
    """Which of a pair a daemon is."""

    UNKNOWN = -1
    INITIALIZING = 0
    ACTIVE = 1
    STANDBY = 2


class Container(msgspec.Struct, frozen=True, kw_only=True):
    """A container that was given to us. ``token`` starts it on its node, once."""

    id: ContainerId
    node: NodeId
    node_http_address: str
    resource: Resource
    priority: int
    allocation_request_id: int
    token: Token


class ContainerStatus(msgspec.Struct, frozen=True, kw_only=True):
    """How a container is, or how it ended (:mod:`ytf.hadoop.yarn.exits`)."""

    container: ContainerId
    state: ContainerState
    exit_status: int
    diagnostics: str


class ContainerFailure(msgspec.Struct, frozen=True, kw_only=True):
    """Why a NodeManager did not do something to one container of a call."""

    container: ContainerId
    class_name: str
    message: str


class NodeToken(msgspec.Struct, frozen=True):
    """What a master shows to one NodeManager. It comes once: keep it."""

    node: NodeId
    token: Token


class NodeReport(msgspec.Struct, frozen=True, kw_only=True):
    """One node of the cluster."""

    node: NodeId
    http_address: str
    rack: str
    used: Resource
    capability: Resource
    containers: int
    state: NodeState
    health: str
    labels: tuple[str, ...]
    decommissioning_timeout_s: int | None

    @property
    def free(self) -> Resource:
        """What nobody uses."""
        return self.capability - self.used


class NodeLabel(msgspec.Struct, frozen=True):
    """A partition of the cluster. A non-exclusive one lends its idle nodes to others."""

    name: str
    exclusive: bool


class ResourceUsage(msgspec.Struct, frozen=True, kw_only=True):
    """What an application holds and has used."""

    used_containers: int
    used: Resource
    needed: Resource
    memory_mb_seconds: int
    vcore_seconds: int


class ApplicationReport(msgspec.Struct, frozen=True, kw_only=True):
    """All the ResourceManager tells of an application. Times are ms since 1970, 0: not yet.

    ``tracking_url`` leads through the RM's proxy, ``original_tracking_url`` to
    the master itself. ``client_token`` is there on secure clusters,
    ``master_token`` for the owner of an unmanaged application.
    """

    id: ApplicationId
    name: str
    type: str
    user: str
    queue: str
    state: ApplicationState
    final_status: FinalStatus
    diagnostics: str
    progress: float
    host: str
    rpc_port: int
    tracking_url: str
    original_tracking_url: str
    attempt: AttemptId | None
    tags: tuple[str, ...]
    priority: int
    submitted_ms: int
    started_ms: int
    launched_ms: int
    finished_ms: int
    usage: ResourceUsage | None
    log_status: LogStatus
    node_label_expression: str
    unmanaged: bool
    client_token: Token | None
    master_token: Token | None


class AttemptReport(msgspec.Struct, frozen=True, kw_only=True):
    """One master of an application."""

    id: AttemptId
    state: AttemptState
    diagnostics: str
    host: str
    tracking_url: str
    original_tracking_url: str
    container: ContainerId | None
    started_ms: int
    finished_ms: int


class NewApplication(msgspec.Struct, frozen=True):
    """An id to submit under, and the most a single container may have."""

    id: ApplicationId
    maximum: Resource


class ClusterMetrics(msgspec.Struct, frozen=True, kw_only=True):
    """How many nodes there are, by state."""

    nodes: int
    active: int
    lost: int
    unhealthy: int
    decommissioned: int
    decommissioning: int
    shutdown: int


class QueueInfo(msgspec.Struct, frozen=True, kw_only=True):
    """A queue, with what is going on in it. Capacities are shares, 0 to 1.

    ``maximum`` is the most it may ever hold; not all schedulers tell.
    """

    name: str
    path: str
    state: QueueState
    capacity: float
    maximum_capacity: float
    used_capacity: float
    labels: tuple[str, ...]
    default_label: str
    maximum: Resource | None
    max_master_share: float | None
    running: int
    pending: int
    available: Resource | None
    children: tuple[QueueInfo, ...]


class Registration(msgspec.Struct, frozen=True, kw_only=True):
    """What a master learns when it registers."""

    maximum: Resource
    queue: str
    resource_types: tuple[ResourceType, ...]
    previous_containers: tuple[Container, ...]
    node_tokens: tuple[NodeToken, ...]
    client_token_key: bytes


class Allocation(msgspec.Struct, frozen=True, kw_only=True):
    """All that one heartbeat brings.

    ``preempted`` will be taken in any case, ``preemptable`` are proposals;
    ``previous_containers`` are those of an earlier attempt that nodes report
    late. ``rejected`` are the allocation request ids of scheduling requests
    that cannot be placed.
    """

    allocated: tuple[Container, ...]
    completed: tuple[ContainerStatus, ...]
    previous_containers: tuple[Container, ...]
    updated_nodes: tuple[NodeReport, ...]
    node_tokens: tuple[NodeToken, ...]
    preempted: tuple[ContainerId, ...]
    preemptable: tuple[ContainerId, ...]
    rejected: tuple[int, ...]
    headroom: Resource
    cluster_nodes: int
    command: MasterCommand | None
    master_token: Token | None


class ServiceStatus(msgspec.Struct, frozen=True, kw_only=True):
    """Whether a daemon is the active one of its pair."""

    state: ServiceState
    ready: bool
    reason: str
