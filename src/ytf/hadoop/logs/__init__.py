"""Reads the logs of containers: from their NodeManager, or aggregated in the file system.

While a container runs, its NodeManager serves its logs (:mod:`.node_manager`).
After the application's end, YARN aggregates them in the cluster's file system,
one TFile for each node (:mod:`.aggregated`, :mod:`.tfile`).
"""

from ytf.hadoop.logs.aggregated import (
    AggregatedFile,
    ContainerLog,
    LogTree,
    find_aggregated,
    read_container_logs,
)
from ytf.hadoop.logs.node_manager import NodeLog, list_node_logs, stream_node_log
from ytf.hadoop.logs.tfile import ByteSource, LogDamagedError, LogFormatError

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
    "stream_node_log",
]
