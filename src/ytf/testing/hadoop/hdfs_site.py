"""HDFS's part of the configuration: one NameNode, or a nameservice of two."""

from __future__ import annotations

from collections.abc import Mapping

from ytf.testing.hadoop.daemons import NAME_NODE, Daemon
from ytf.testing.hadoop.layout import Layout
from ytf.testing.hadoop.options import ClusterOptions

NAMESERVICE = "ytf"
NN_IDS = {"nn": "nn1", "nn2": "nn2"}
"""A NameNode's id in the configuration of a pair."""

_HA = "org.apache.hadoop.hdfs.server.namenode.ha"


def hdfs_url(options: ClusterOptions, daemons: Mapping[str, Daemon]) -> str:
    """``hdfs://host:port`` of the one NameNode; of two, ``hdfs://`` and their nameservice."""
    return f"hdfs://{NAMESERVICE if options.ha else daemons['nn'].address('rpc')}"


def hdfs_site(
    options: ClusterOptions, layout: Layout, daemons: Mapping[str, Daemon], daemon: Daemon | None
) -> dict[str, str]:
    """``hdfs-site.xml`` of a daemon; of the clients for None."""
    data_node = daemons["dn"]
    site = {
        "dfs.replication": "1",
        # Out of safe mode as soon as the blocks are there, not 30 s later.
        "dfs.namenode.safemode.extension": "0",
        "dfs.datanode.address": data_node.address("data"),
        "dfs.datanode.ipc.address": data_node.address("rpc"),
        "dfs.datanode.http.address": data_node.address("web"),
        "dfs.datanode.data.dir": str(layout.data("dn")),
        "dfs.heartbeat.interval": "1",
        # There is no second DataNode to go on with.
        "dfs.client.block.write.replace-datanode-on-failure.enable": "false",
    }
    site |= _pair(layout, daemons) if options.ha else _addresses(daemons["nn"], "")
    if daemon is not None and daemon.kind is NAME_NODE:
        site["dfs.namenode.name.dir"] = str(layout.data(daemon.name))
        if options.ha:
            site["dfs.ha.namenode.id"] = NN_IDS[daemon.name]
    return site


def _addresses(name_node: Daemon, suffix: str) -> dict[str, str]:
    return {
        f"dfs.namenode.rpc-address{suffix}": name_node.address("rpc"),
        f"dfs.namenode.http-address{suffix}": name_node.address("web"),
    }


def _pair(layout: Layout, daemons: Mapping[str, Daemon]) -> dict[str, str]:
    site = {
        "dfs.nameservices": NAMESERVICE,
        f"dfs.ha.namenodes.{NAMESERVICE}": ",".join(NN_IDS.values()),
        # A directory that both can write needs no JournalNodes.
        "dfs.namenode.shared.edits.dir": str(layout.shared_edits),
        # For Hadoop's own haadmin: whoever calls it has to know that the other is dead.
        "dfs.ha.fencing.methods": "shell(/bin/true)",
        f"dfs.client.failover.proxy.provider.{NAMESERVICE}": (
            f"{_HA}.ConfiguredFailoverProxyProvider"
        ),
        "dfs.client.failover.sleep.base.millis": "200",
        "dfs.client.failover.sleep.max.millis": "1000",
    }
    for name, nn_id in NN_IDS.items():
        site |= _addresses(daemons[name], f".{NAMESERVICE}.{nn_id}")
    return site
