"""The nodes of a cluster, as whoever places containers looks at them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from urllib.parse import quote

from ytf.hadoop.conf import Configuration
from ytf.hadoop.yarn.ids import NodeId
from ytf.hadoop.yarn.records import NodeReport

NameOf = Callable[[NodeId], str]


def name_of(conf: Configuration) -> NameOf:
    """What the scheduler calls a node (``SchedulerNode.getNodeName``)."""
    if conf.get_bool("yarn.scheduler.include-port-in-node-name", False):
        return str
    return lambda node: node.host


def log_page(scheme: str, http_address: str, container: str, user: str) -> str:
    """A node's page of the logs of a container."""
    return f"{scheme}://{http_address}/node/containerlogs/{container}/{quote(user, safe='')}"


def with_label(nodes: Iterable[NodeReport], label: str | None) -> list[NodeReport]:
    """The nodes that take containers and are of a partition; no label is one of its own."""
    wanted = {label} if label else set()
    return [node for node in nodes if node.state.usable and set(node.labels) == wanted]
