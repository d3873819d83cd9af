"""A real Hadoop on this machine: HDFS, YARN and ZooKeeper, each daemon a JVM of its own.

For tests, and for trying ytf without a cluster (``ytf cluster up``)::

    with Cluster(directory, ClusterOptions(nodes=2)) as cluster:
        environ["HADOOP_CONF_DIR"] = str(cluster.conf_dir)
        cluster.kill("nm1")
        cluster.restart("nm1")
        cluster.wait_for_nodes(2)
"""

from ytf.testing.hadoop.cluster import Cluster
from ytf.testing.hadoop.errors import ClusterError
from ytf.testing.hadoop.options import VERSIONS, ClusterOptions, Queue

__all__ = ["VERSIONS", "Cluster", "ClusterError", "ClusterOptions", "Queue"]
