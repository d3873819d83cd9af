"""A real Hadoop on this machine: HDFS, YARN and ZooKeeper, each daemon a JVM of its own.

``ytf cluster`` uses it, so do ytf's tests, and so may yours::

    from ytf.minicluster import ClusterOptions, MiniCluster

    with MiniCluster(directory, ClusterOptions(nodes=2)) as cluster:
        os.environ.update(cluster.environ)
        cluster.kill("nm1")
        cluster.restart("nm1")
        cluster.wait_for_nodes(2)

It needs Java and, the first time, Maven and the network. Nothing else in ytf
imports this package.
"""

from ytf.minicluster.cluster import DaemonStatus, MiniCluster
from ytf.minicluster.options import VERSIONS, ClusterOptions, Queue
from ytf.minicluster.supervisor import ClusterError
from ytf.minicluster.zookeeper import ZooKeeperEnsemble

__all__ = [
    "VERSIONS",
    "ClusterError",
    "ClusterOptions",
    "DaemonStatus",
    "MiniCluster",
    "Queue",
    "ZooKeeperEnsemble",
]
