"""The defaults of Hadoop that we rely on, and the names it has given up.

From core-default.xml, hdfs-default.xml and yarn-default.xml; only what some
code of ours asks for.
"""

from __future__ import annotations

DEFAULTS = {
    # core
    "fs.defaultFS": "file:///",
    "hadoop.tmp.dir": "/tmp/hadoop-${user.name}",
    "hadoop.security.authentication": "simple",
    "hadoop.security.token.service.use_ip": "true",
    "hadoop.rpc.protection": "authentication",
    "ipc.client.connect.timeout": "20000",
    "ipc.client.rpc-timeout.ms": "120000",
    "ipc.client.ping": "true",
    "ipc.ping.interval": "60000",
    "ipc.maximum.response.length": "134217728",
    # hdfs
    "dfs.replication": "3",
    # yarn: the ResourceManager
    "yarn.resourcemanager.hostname": "0.0.0.0",
    "yarn.resourcemanager.ha.enabled": "false",
    "yarn.resourcemanager.am.max-attempts": "2",
    "yarn.resourcemanager.connect.max-wait.ms": "900000",
    "yarn.resourcemanager.connect.retry-interval.ms": "30000",
    "yarn.resourcemanager.rm.container-allocation.expiry-interval-ms": "600000",
    "yarn.resourcemanager.placement-constraints.handler": "disabled",
    "yarn.am.liveness-monitor.expiry-interval-ms": "900000",
    "yarn.nm.liveness-monitor.expiry-interval-ms": "600000",
    "yarn.client.failover-sleep-base-ms": "1000",
    "yarn.acl.enable": "false",
    "yarn.http.policy": "HTTP_ONLY",
    # yarn: nodes and logs
    "yarn.node-labels.enabled": "false",
    "yarn.scheduler.include-port-in-node-name": "false",
    "yarn.scheduler.minimum-allocation-mb": "1024",
    "yarn.scheduler.maximum-allocation-mb": "8192",
    "yarn.log-aggregation-enable": "false",
    "yarn.nodemanager.remote-app-log-dir": "/tmp/logs",
    "yarn.nodemanager.remote-app-log-dir-suffix": "logs",
    "yarn.nodemanager.sleep-delay-before-sigkill.ms": "250",
}

RENAMED = {
    "fs.default.name": "fs.defaultFS",
    "dfs.federation.nameservices": "dfs.nameservices",
}
