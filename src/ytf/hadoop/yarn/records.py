"""YARN's records as frozen structs: resources, containers, nodes, applications, queues.

Most are made from answers, by :mod:`ytf.hadoop.yarn.decode`; a ``Resource`` is
also part of requests. Enum values that only a newer server has become
``UNKNOWN``, never an error.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum

import msgspec

from ytf.hadoop.proto import records_pb2
from ytf.hadoop.proto.messages import text
from ytf.hadoop.security.credentials import Token
from ytf.hadoop.yarn.ids import ApplicationId, AttemptId, ContainerId, NodeId

_MEMORY, _VCORES = "memory-mb", "vcores"
_COUNTABLE = 0
_UNITS = {
    "p": 10**-12, "n": 10**-9, "u": 10**-6, "m": 10**-3, "": 1,
    "k": 10**3, "M": 10**6, "G": 10**9, "T": 10**12, "P": 10**15,
    "Ki": 2**10, "Mi": 2**20, "Gi": 2**30, "Ti": 2**40, "Pi": 2**50,
}  # fmt: skip
"""``UnitsConversionUtil``: the RM may answer in another unit than that of the request."""


class _Known(IntEnum):
    """An enum in which values of newer servers become ``UNKNOWN``."""

    @classmethod
    def _missing_(cls, value: object) -> _Known:
        return cls["UNKNOWN"]

    def __str__(self) -> str:
        return self.name


class ApplicationState(_Known):
    """The state of an application. ``ACCEPTED``: its queue has accepted it."""

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
        """Whether the state is a final one."""
        return self in (ApplicationState.FINISHED, ApplicationState.FAILED, ApplicationState.KILLED)


class FinalApplicationStatus(_Known):
    """The result of an application, as its master reported it when it unregistered."""

    UNKNOWN = -1
    UNDEFINED = 0
    SUCCEEDED = 1
    FAILED = 2
    KILLED = 3
    ENDED = 4


class AttemptState(_Known):
    """The state of an attempt, which is one run of an application's master."""

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
    """The state of a container."""

    UNKNOWN = 0
    NEW = 1
    RUNNING = 2
    COMPLETE = 3


class ContainerExitStatus(IntEnum):
    """Why YARN ended a container.

    Other statuses are exit codes of the process: 0 to 255, 128 + n for signal n.
    """

    INVALID = -1000
    """The container still runs."""
    ABORTED = -100
    """The container was released by its master, lost with its node, or not started in time."""
    DISKS_FAILED = -101
    PREEMPTED = -102
    KILLED_EXCEEDED_VMEM = -103
    KILLED_EXCEEDED_PMEM = -104
    KILLED_BY_APPMASTER = -105
    KILLED_BY_RESOURCEMANAGER = -106
    KILLED_AFTER_APP_COMPLETION = -107
    KILLED_BY_CONTAINER_SCHEDULER = -108
    """The container was an opportunistic one and had to make room."""
    KILLED_FOR_EXCESS_LOGS = -109


class NodeState(_Known):
    """The state of a node."""

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
        """Whether containers can run on it."""
        return self in (NodeState.NEW, NodeState.RUNNING, NodeState.DECOMMISSIONING)


class QueueState(_Known):
    """Whether a queue accepts applications."""

    UNKNOWN = 0
    STOPPED = 1
    RUNNING = 2
    DRAINING = 3


class LogStatus(_Known):
    """The status of an application's log aggregation."""

    UNKNOWN = 0
    DISABLED = 1
    NOT_STARTED = 2
    RUNNING = 3
    SUCCEEDED = 4
    FAILED = 5
    TIMED_OUT = 6
    RUNNING_WITH_FAILURE = 7


class MasterCommand(_Known):
    """A command of an old server to a master. Newer servers answer with an exception instead."""

    UNKNOWN = 0
    RESYNC = 1
    SHUTDOWN = 2


class Resource(msgspec.Struct, frozen=True):
    """Memory in MB (as YARN counts: MiB), virtual cores, and other types by name: ``yarn.io/gpu``.

    Other types are whole numbers of their smallest unit.
    """

    memory_mb: int = 0
    vcores: int = 0
    others: dict[str, int] = {}

    def fits_in(self, room: Resource) -> bool:
        """Whether ``room`` has enough of every type."""
        return not self.excess_over(room)

    def excess_over(self, room: Resource) -> dict[str, tuple[int, int]]:
        """The types of which ``room`` has too little: name → (wanted, available)."""
        there = room.amounts()
        return {
            name: (wanted, there.get(name, 0))
            for name, wanted in self.amounts().items()
            if wanted > there.get(name, 0)
        }

    def amounts(self) -> dict[str, int]:
        """All amounts by type, with YARN's names of memory and cores."""
        return {_MEMORY: self.memory_mb, _VCORES: self.vcores, **self.others}

    def __hash__(self) -> int:
        return hash((self.memory_mb, self.vcores, frozenset(self.others.items())))

    def __mul__(self, times: int) -> Resource:
        others = {name: amount * times for name, amount in self.others.items()}
        return Resource(self.memory_mb * times, self.vcores * times, others)

    def __add__(self, other: Resource) -> Resource:
        names = {**self.others, **other.others}
        return Resource(
            self.memory_mb + other.memory_mb,
            self.vcores + other.vcores,
            {name: self.others.get(name, 0) + other.others.get(name, 0) for name in names},
        )

    def __sub__(self, other: Resource) -> Resource:
        return self + other * -1

    def __str__(self) -> str:
        parts = [f"{self.memory_mb} MB", f"{self.vcores} vcores"]
        parts += [f"{amount} {name}" for name, amount in self.others.items()]
        return ", ".join(parts)

    def to_message(self) -> records_pb2.Resource:
        """The protobuf message. Memory and cores have fields of their own."""
        return records_pb2.Resource(
            memory_mb=self.memory_mb,
            vcores=self.vcores,
            values=[
                records_pb2.ResourceValue(key=name, value=amount, units="", type=_COUNTABLE)
                for name, amount in self.others.items()
            ],
        )

    @classmethod
    def from_message(cls, message: records_pb2.Resource) -> Resource:
        """Decode the protobuf message."""
        values = {text(value.key): _plain(value) for value in message.values}
        # Newer servers repeat memory and cores in the map. All servers send the fields.
        others = {name: n for name, n in values.items() if name not in (_MEMORY, _VCORES)}
        return cls(message.memory_mb, message.vcores, others)


class ResourceType(msgspec.Struct, frozen=True):
    """A resource type of the cluster."""

    name: str
    units: str


def unknown_types(wanted: Resource, known: Mapping[str, int]) -> list[str]:
    """The types that the cluster does not know. It would ignore them silently in a request."""
    return [name for name in wanted.others if name not in known]


class Container(msgspec.Struct, frozen=True, kw_only=True):
    """An allocated container. Its ``token`` allows to start it on its node, once."""

    id: ContainerId
    node: NodeId
    node_http_address: str
    resource: Resource
    priority: int
    allocation_request_id: int
    token: Token


class ContainerStatus(msgspec.Struct, frozen=True, kw_only=True):
    """The state of a container. ``exit_status``: see :class:`ContainerExitStatus`."""

    container: ContainerId
    state: ContainerState
    exit_status: int
    diagnostics: str


class ContainerFailure(msgspec.Struct, frozen=True, kw_only=True):
    """The error of a NodeManager for one container of a call."""

    container: ContainerId
    class_name: str
    message: str


class NodeToken(msgspec.Struct, frozen=True):
    """The token with which a master authenticates to one NodeManager. It is sent once: keep it."""

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
        """The unused resources."""
        return self.capability - self.used


class NodeLabel(msgspec.Struct, frozen=True):
    """A partition of the cluster. A non-exclusive one lends its idle nodes to others."""

    name: str
    exclusive: bool


class ResourceUsage(msgspec.Struct, frozen=True, kw_only=True):
    """The resources that an application holds now and has used in total."""

    used_containers: int
    used: Resource
    needed: Resource
    memory_mb_seconds: int
    vcore_seconds: int


class ApplicationReport(msgspec.Struct, frozen=True, kw_only=True):
    """The ResourceManager's report of an application. Times are ms since 1970; 0 means not yet.

    ``tracking_url`` is that of the RM's proxy, ``original_tracking_url`` that of
    the master itself. Secure clusters send a ``client_token``. The owner of an
    unmanaged application gets its ``master_token``.
    """

    id: ApplicationId
    name: str
    type: str
    user: str
    queue: str
    state: ApplicationState
    final_status: FinalApplicationStatus
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
    """The report of an attempt, which is one run of an application's master."""

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
    """An id for a new application, and the largest resources of a single container."""

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
    """A queue and its use. Capacities are shares from 0 to 1.

    ``maximum`` is the most it may ever use; not all schedulers report it.
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


class RegisterResponse(msgspec.Struct, frozen=True, kw_only=True):
    """The ResourceManager's answer to the registration of a master."""

    maximum: Resource
    queue: str
    resource_types: tuple[ResourceType, ...]
    previous_containers: tuple[Container, ...]
    node_tokens: tuple[NodeToken, ...]
    client_token_key: bytes


class AllocateResponse(msgspec.Struct, frozen=True, kw_only=True):
    """The ResourceManager's answer to a heartbeat.

    ``preempted`` containers will be killed in any case, ``preemptable`` ones may be;
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


def _plain(value: records_pb2.ResourceValue) -> int:
    return int(value.value * _UNITS.get(text(value.units), 1))
