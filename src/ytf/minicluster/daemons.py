"""The daemons of a cluster: their names, their Java classes and their ports."""

from __future__ import annotations

import random
import socket
from collections.abc import Mapping
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path

from ytf.minicluster.options import ClusterOptions

HOST = "127.0.0.1"

_LOWEST_PORT = 10_000
_EPHEMERAL = Path("/proc/sys/net/ipv4/ip_local_port_range")


@dataclass(frozen=True)
class DaemonKind:
    """One of Hadoop's server programs."""

    title: str
    main_class: str
    port_names: tuple[str, ...]


_HDFS = "org.apache.hadoop.hdfs.server"
_YARN = "org.apache.hadoop.yarn.server"
NAME_NODE = DaemonKind("NameNode", f"{_HDFS}.namenode.NameNode", ("rpc", "web"))
DATA_NODE = DaemonKind("DataNode", f"{_HDFS}.datanode.DataNode", ("data", "rpc", "web"))
RESOURCE_MANAGER = DaemonKind(
    "ResourceManager",
    f"{_YARN}.resourcemanager.ResourceManager",
    ("rpc", "scheduler", "tracker", "admin", "web"),
)
NODE_MANAGER = DaemonKind(
    "NodeManager", f"{_YARN}.nodemanager.NodeManager", ("rpc", "localizer", "collector", "web")
)
ZOOKEEPER = DaemonKind("ZooKeeper", "org.apache.zookeeper.server.ZooKeeperServerMain", ("client",))


@dataclass(frozen=True)
class Daemon:
    """One daemon of a cluster. Its name is ``nn``, ``nn2``, ``dn``, ``rm``, ``nm1``, ``zk`` …"""

    name: str
    kind: DaemonKind
    ports: Mapping[str, int]

    def address(self, port_name: str) -> str:
        """``host:port`` of one of its ports."""
        return f"{HOST}:{self.ports[port_name]}"

    @property
    def web_url(self) -> str | None:
        """The URL of its web page, if it has one."""
        return f"http://{self.address('web')}/" if "web" in self.ports else None


def daemon_kinds(options: ClusterOptions) -> dict[str, DaemonKind]:
    """The kind of every daemon by its name, in the order in which they are started."""
    found = {"zk": ZOOKEEPER} if options.has_zookeeper else {}
    found |= dict.fromkeys(_numbered("nn", options), NAME_NODE)
    found["dn"] = DATA_NODE
    found |= dict.fromkeys(_numbered("rm", options), RESOURCE_MANAGER)
    return found | dict.fromkeys(options.node_names, NODE_MANAGER)


def _numbered(name: str, options: ClusterOptions) -> tuple[str, ...]:
    return (name, f"{name}2") if options.ha else (name,)


def free_ports(count: int) -> list[int]:
    """Different ports of 127.0.0.1 that were free a moment ago.

    They are below the ephemeral range. So no outgoing connection can take a
    daemon's port while the daemon is down, and it can restart on the same one.
    """
    candidates = list(range(_LOWEST_PORT, int(_EPHEMERAL.read_text().split()[0])))
    if len(candidates) < 100 * count:
        candidates = list(range(_LOWEST_PORT, 65_536))
    random.shuffle(candidates)
    found: list[int] = []
    with ExitStack() as listeners:
        while len(found) < count:
            port = candidates.pop()
            listener = listeners.enter_context(socket.socket())
            with suppress(OSError):
                listener.bind((HOST, port))
                found.append(port)
    return found
