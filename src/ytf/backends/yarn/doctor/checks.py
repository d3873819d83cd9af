"""All checks of a cluster, in their order, and what each of them depends on."""

from __future__ import annotations

import os
from functools import partial

from ytf.backends.checks import BackendChecks, Check
from ytf.backends.yarn.doctor.cluster import Cluster
from ytf.backends.yarn.doctor.configuration_checks import check_configuration, check_security
from ytf.backends.yarn.doctor.hdfs_checks import HdfsChecks
from ytf.backends.yarn.doctor.probe_job import YarnProbeJob
from ytf.backends.yarn.doctor.yarn_checks import YarnChecks
from ytf.specs.checks import CheckName

_HDFS_S = 40.0
"""For checks that make many calls, each of which has a limit of its own. They also wait for a
standby NameNode that becomes active."""


def yarn_checks(queue: str, python: str | None) -> BackendChecks:
    """The checks for the cluster that this process's environment names."""
    cluster = Cluster(os.environ)
    yarn, hdfs = YarnChecks(cluster, queue), HdfsChecks(cluster)
    logged_in = (CheckName.SECURITY,)
    rm, nodes = (CheckName.RESOURCE_MANAGER,), (CheckName.NODES,)
    name_node, files = (CheckName.NAME_NODE,), (CheckName.HDFS_FILES,)
    checks = [
        Check(name=CheckName.CONFIGURATION, run=partial(check_configuration, cluster)),
        Check(
            name=CheckName.SECURITY,
            run=partial(check_security, cluster),
            needs=(CheckName.CONFIGURATION,),
        ),
        Check(name=CheckName.RESOURCE_MANAGER, run=yarn.resource_manager, needs=logged_in),
        Check(name=CheckName.RM_CLOCK, run=yarn.clock, needs=rm),
        Check(name=CheckName.NODES, run=yarn.nodes, needs=rm),
        Check(name=CheckName.QUEUE, run=yarn.queue, needs=rm),
        Check(name=CheckName.CONTAINERS, run=yarn.containers, needs=rm),
        Check(name=CheckName.MASTER_ATTEMPTS, run=yarn.master_attempts, needs=rm),
        Check(name=CheckName.NODE_RECOVERY, run=yarn.node_recovery, needs=nodes),
        Check(name=CheckName.LOG_AGGREGATION, run=yarn.log_aggregation, needs=rm),
        Check(name=CheckName.NAME_NODE, run=hdfs.name_node, needs=logged_in),
        Check(name=CheckName.HDFS_HOME, run=hdfs.home, needs=name_node, limit_s=_HDFS_S),
        Check(name=CheckName.HDFS_FILES, run=hdfs.files, needs=name_node, limit_s=_HDFS_S),
        Check(name=CheckName.NAME_NODE_CLOCK, run=hdfs.clock, needs=files),
        Check(name=CheckName.LAYERS, run=hdfs.layers, needs=files, limit_s=_HDFS_S),
    ]
    return BackendChecks(checks, YarnProbeJob(cluster, queue, python))
