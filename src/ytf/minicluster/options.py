"""``ClusterOptions``: the options of ``ytf cluster up`` as data, with their checks and parsers."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from ytf.errors import SpecError

VERSIONS = ("3.3.6", "3.4.3", "3.5.0")
"""The tested Hadoop releases. Others on Maven Central may work."""
DEFAULT_VERSION = "3.4.3"

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*")
_LABEL = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]*")
_VERSION = re.compile(r"\d+\.\d+\.\d+[A-Za-z0-9.-]*")


@dataclass(frozen=True)
class Queue:
    """A queue below ``root`` and its guaranteed share in per cent."""

    name: str
    capacity: int


@dataclass(frozen=True, kw_only=True)
class ClusterOptions:
    """How a new cluster is built; raises ``SpecError`` for impossible values.

    Memory and vcores are what a node *offers*. Nothing is reserved, so they may
    exceed what the machine has: only the real use of the tasks counts.
    """

    version: str = DEFAULT_VERSION
    nodes: int = 2
    node_memory_mb: int = 32768
    node_vcores: int = 32
    gpus: int = 0
    """GPUs of each node that only an ``nvidia-smi`` of ours shows: no device is needed."""
    counts_gpus: bool = True
    """Whether YARN counts them as a resource."""
    queues: tuple[Queue, ...] = (Queue("default", 100),)
    preemption: bool = False
    labels: Mapping[str, str] = field(default_factory=dict)
    """NodeManager → its node label: ``{"nm2": "gpu"}``."""
    zookeeper: bool = False
    ha: bool = False
    """Two ResourceManagers with automatic failover, a ZooKeeper for it, and two NameNodes."""
    heap_mb: int = 256
    """The greatest heap of each daemon."""
    properties: Mapping[str, str] = field(default_factory=dict)
    """Hadoop properties that override ours. The prefix (``dfs.``, ``yarn.``) selects the file."""

    def __post_init__(self) -> None:
        _check_number("--nodes", self.nodes, 1, 64)
        _check_number("--memory", self.node_memory_mb, 128, 2**31 - 1)
        _check_number("--vcores", self.node_vcores, 1, 2**31 - 1)
        _check_number("--gpus", self.gpus, 0, 1024)
        _check_number("--heap", self.heap_mb, 96, 65536)
        if not _VERSION.fullmatch(self.version):
            raise SpecError(
                f"{self.version!r} is not a release of Hadoop",
                where="--hadoop",
                hint=f"tested are {', '.join(VERSIONS)}",
            )
        _check_queues(self.queues)
        for node, label in self.labels.items():
            if node not in self.node_names:
                raise SpecError(
                    f"there is no node {node}",
                    where="--labels",
                    hint=f"nodes are {', '.join(self.node_names)}",
                )
            if not _LABEL.fullmatch(label):
                raise SpecError(f"{label!r} is not a label", where="--labels")

    @property
    def node_names(self) -> tuple[str, ...]:
        """``nm1``, ``nm2`` …"""
        return tuple(f"nm{number}" for number in range(1, self.nodes + 1))

    @property
    def has_zookeeper(self) -> bool:
        """Whether a ZooKeeper is started, because it was asked for or for ``ha``."""
        return self.zookeeper or self.ha


def check_name(name: str) -> str:
    """Return a cluster's name if it can be that of a directory; else raise ``SpecError``."""
    if not _NAME.fullmatch(name):
        raise SpecError(
            f"{name!r} is not a name",
            where="--name",
            hint="use letters, digits, dots, dashes and underscores, beginning with a letter "
            "or digit",
        )
    return name


def parse_queues(text: str) -> tuple[Queue, ...]:
    """Parse ``default:60,ml:40``. A single queue may omit its 100."""
    if text and "," not in text and ":" not in text:
        return (Queue(text, 100),)
    queues = []
    for word in text.split(","):
        name, colon, capacity = word.partition(":")
        if not (name and colon and capacity.isascii() and capacity.isdigit()):
            raise SpecError(
                f"{word!r} is not <queue>:<per cent>",
                where="--queues",
                hint="e.g. default:60,ml:40",
            )
        queues.append(Queue(name, int(capacity)))
    return tuple(queues)


def parse_labels(text: str) -> dict[str, str]:
    """Parse ``gpu=nm2,big=nm1`` to node → label. A node can have one label."""
    labels: dict[str, str] = {}
    for word in text.split(","):
        label, equals, node = word.partition("=")
        if not (label and equals and node):
            raise SpecError(
                f"{word!r} is not <label>=<node>", where="--labels", hint="e.g. gpu=nm2"
            )
        if node in labels:
            raise SpecError(f"{node} cannot have two labels", where="--labels")
        labels[node] = label
    return labels


def parse_property(text: str) -> tuple[str, str]:
    """Parse ``key=value``, a property of Hadoop."""
    key, equals, value = text.partition("=")
    if not (key and equals):
        raise SpecError(f"{text!r} is not <property>=<value>", where="-D")
    return key, value


def _check_number(where: str, number: int, least: int, most: int) -> None:
    if not least <= number <= most:
        raise SpecError(f"{number} is not between {least} and {most}", where=where)


def _check_queues(queues: tuple[Queue, ...]) -> None:
    names = [queue.name for queue in queues]
    if len(set(names)) != len(names) or not names:
        raise SpecError("each queue must be named once", where="--queues")
    for name in names:
        if not _LABEL.fullmatch(name) or name == "root":
            raise SpecError(f"{name!r} is not a name of a queue", where="--queues")
    total = sum(queue.capacity for queue in queues)
    if total != 100:
        raise SpecError(f"the queues' shares are {total} % together, not 100", where="--queues")
