"""What containers wrote, read where Hadoop keeps it: on the node, or aggregated.

While a container runs its NodeManager shows its logs (:mod:`.node`); after the
application's end they lie in the cluster's file system, one TFile for each
node (:mod:`.find`, :mod:`.aggregated`). Knows nothing of jobs.
"""

from ytf.hadoop.logs.aggregated import ContainerLog, read_container_logs
from ytf.hadoop.logs.errors import LogDamagedError, LogFormatError
from ytf.hadoop.logs.find import AggregatedFile, LogTree, find_aggregated
from ytf.hadoop.logs.node import NodeLog, list_node_logs, read_node_log, stream_node_log
from ytf.hadoop.logs.source import ByteSource

__all__ = [
    "AggregatedFile",
    "ByteSource",
    "ContainerLog",
    "LogDamagedError",
    "LogFormatError",
    "LogTree",
    "NodeLog",
    "find_aggregated",
    "list_node_logs",
    "read_container_logs",
    "read_node_log",
    "stream_node_log",
]
