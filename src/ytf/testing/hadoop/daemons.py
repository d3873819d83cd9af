"""The daemons of a cluster: their names, their programs, the ports they need."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ytf.testing.hadoop.options import ClusterOptions
from ytf.testing.hadoop.ports import HOST


@dataclass(frozen=True)
class Kind:
    """A sort of daemon."""

    title: str
    main_class: str
    port_names: tuple[str, ...]


_HDFS = "org.apache.hadoop.hdfs.server"
_YARN = "org.apache.hadoop.yarn.server"
NAME_NODE = Kind("NameNode", f"{_HDFS}.namenode.NameNode", ("rpc", "web"))
DATA_NODE = Kind("DataNode", f"{_HDFS}.datanode.DataNode", ("data", "rpc", "web"))
RESOURCE_MANAGER = Kind(
    "ResourceManager",
    f"{_YARN}.resourcemanager.ResourceManager",
    ("rpc", "scheduler", "tracker", "admin", "web"),
)
NODE_MANAGER = Kind(
    "NodeManager", f"{_YARN}.nodemanager.NodeManager", ("rpc", "localizer", "collector", "web")
)
ZOOKEEPER = Kind("ZooKeeper", "org.apache.zookeeper.server.ZooKeeperServerMain", ("client",))


@dataclass(frozen=True)
class Daemon:
    """One daemon of a cluster and its name: ``nn``, ``nn2``, ``dn``, ``rm``, ``nm1``, ``zk`` …"""

    name: str
    kind: Kind
    ports: Mapping[str, int]

    def address(self, port_name: str) -> str:
        """``host:port`` of one of its ports."""
        return f"{HOST}:{self.ports[port_name]}"

    @property
    def web_url(self) -> str | None:
        """Its web page, if it has one."""
        return f"http://{self.address('web')}/" if "web" in self.ports else None


def kinds(options: ClusterOptions) -> dict[str, Kind]:
    """Every daemon's name and kind, in the order in which they are started."""
    found = {"zk": ZOOKEEPER} if options.has_zookeeper else {}
    found |= dict.fromkeys(_numbered("nn", options), NAME_NODE)
    found["dn"] = DATA_NODE
    found |= dict.fromkeys(_numbered("rm", options), RESOURCE_MANAGER)
    return found | dict.fromkeys(options.node_names, NODE_MANAGER)


def _numbered(name: str, options: ClusterOptions) -> tuple[str, ...]:
    return (name, f"{name}2") if options.ha else (name,)
