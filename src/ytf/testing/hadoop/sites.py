"""The configuration files of a cluster, as text. Pure: options and places in, files out.

Hadoop's defaults hold for whatever is not said here.
"""

from __future__ import annotations

import getpass
from collections.abc import Iterable, Mapping
from xml.sax.saxutils import escape

from ytf.testing.hadoop.daemons import NODE_MANAGER, RESOURCE_MANAGER, ZOOKEEPER, Daemon
from ytf.testing.hadoop.hdfs_site import hdfs_site, hdfs_url
from ytf.testing.hadoop.layout import Layout
from ytf.testing.hadoop.options import ClusterOptions
from ytf.testing.hadoop.ports import HOST

Properties = dict[str, str]

GPU = "yarn.io/gpu"
RM_IDS = {"rm": "rm1", "rm2": "rm2"}
"""A ResourceManager's id in the configuration of a pair."""

_RM = "org.apache.hadoop.yarn.server.resourcemanager"
_NM = "org.apache.hadoop.yarn.server.nodemanager"


def conf_files(
    options: ClusterOptions, layout: Layout, daemons: Mapping[str, Daemon], daemon: Daemon | None
) -> dict[str, str]:
    """File name → text of a daemon's configuration directory; of the clients' for None."""
    if daemon is not None and daemon.kind is ZOOKEEPER:
        return {"zoo.cfg": _zoo_cfg(layout, daemon), "log4j.properties": _LOG4J}
    sites = {
        "core-site.xml": _core(options, layout, daemons),
        "hdfs-site.xml": hdfs_site(options, layout, daemons, daemon),
        "yarn-site.xml": _yarn(options, layout, daemons)
        | (_own_yarn(options, layout, daemon) if daemon else {}),
    }
    for key, value in options.properties.items():
        sites[_site_of(key)][key] = value
    if options.gpus:
        sites["resource-types.xml"] = {"yarn.resource-types": GPU}
    if daemon is not None and daemon.kind is RESOURCE_MANAGER:
        sites["capacity-scheduler.xml"] = _capacity_scheduler(options)
    if daemon is not None and daemon.kind is NODE_MANAGER and options.gpus:
        key = f"yarn.nodemanager.resource-type.{GPU}"
        sites["node-resources.xml"] = {key: str(options.gpus)}
    return {name: to_xml(site) for name, site in sites.items()} | {"log4j.properties": _LOG4J}


def to_xml(properties: Mapping[str, str]) -> str:
    """A Hadoop configuration file."""
    lines = (
        f"  <property><name>{escape(key)}</name><value>{escape(value)}</value></property>"
        for key, value in properties.items()
    )
    return "\n".join(
        ['<?xml version="1.0" encoding="UTF-8"?>', "<configuration>", *lines, "</configuration>\n"]
    )


def _site_of(key: str) -> str:
    if key.startswith("dfs."):
        return "hdfs-site.xml"
    return "yarn-site.xml" if key.startswith("yarn.") else "core-site.xml"


def _core(options: ClusterOptions, layout: Layout, daemons: Mapping[str, Daemon]) -> Properties:
    return {
        "fs.defaultFS": hdfs_url(options, daemons),
        "hadoop.tmp.dir": str(layout.data("tmp")),
        # Who the web pages' anonymous visitor is: with our own name, they may read logs.
        "hadoop.http.staticuser.user": getpass.getuser(),
        # The default makes a client wait 20 s for a daemon that is not there yet.
        "ipc.client.connect.retry.interval": "200",
        "ipc.client.connect.max.retries": "50",
    }


def _yarn(options: ClusterOptions, layout: Layout, daemons: Mapping[str, Daemon]) -> Properties:
    """What daemons and clients have in common."""
    site = {
        "yarn.acl.enable": "false",
        "yarn.scheduler.minimum-allocation-mb": "64",
        "yarn.scheduler.maximum-allocation-mb": str(options.node_memory_mb),
        "yarn.scheduler.maximum-allocation-vcores": str(options.node_vcores),
        # All nodes are one host: without it a scheduler could not tell them apart.
        "yarn.scheduler.include-port-in-node-name": "true",
        "yarn.resourcemanager.scheduler.class": f"{_RM}.scheduler.capacity.CapacityScheduler",
        "yarn.resourcemanager.recovery.enabled": "true",
        # After a restart the scheduler holds back for this long (10 s by default).
        "yarn.resourcemanager.work-preserving-recovery.scheduling-wait-ms": "1000",
        "yarn.resourcemanager.am.global-max-attempts": "10",
        # A lost node is noticed in seconds, not in ten minutes. The roll-over of the
        # master's tokens has to be slower than three times its expiry.
        "yarn.nm.liveness-monitor.expiry-interval-ms": "20000",
        "yarn.am.liveness-monitor.expiry-interval-ms": "20000",
        "yarn.resourcemanager.am-rm-tokens.master-key-rolling-interval-secs": "90",
        "yarn.resourcemanager.nodemanagers.heartbeat-interval-ms": "1000",
        "yarn.resourcemanager.connect.retry-interval.ms": "500",
        "yarn.log-aggregation-enable": "true",
        "yarn.nodemanager.remote-app-log-dir": "/tmp/logs",
        "yarn.timeline-service.enabled": "false",
    }
    site |= _pair(daemons) if options.ha else _rm_addresses(daemons["rm"], "")
    if options.has_zookeeper:
        site["hadoop.zk.address"] = daemons["zk"].address("client")
        # For clients of ytf that use it as their registry.
        site["hadoop.registry.zk.quorum"] = daemons["zk"].address("client")
    if options.ha:
        site["yarn.resourcemanager.store.class"] = f"{_RM}.recovery.ZKRMStateStore"
        # The name by which the elector of 3.5 asks for hadoop.zk.address.
        site["yarn.resourcemanager.zk-address"] = daemons["zk"].address("client")
        site["hadoop.zk.timeout-ms"] = "4000"
        site["yarn.resourcemanager.zk-timeout-ms"] = "4000"
    else:
        site["yarn.resourcemanager.store.class"] = f"{_RM}.recovery.FileSystemRMStateStore"
        site["yarn.resourcemanager.fs.state-store.uri"] = _uri(layout, "rm")
    if options.labels:
        site["yarn.node-labels.enabled"] = "true"
        site["yarn.node-labels.fs-store.root-dir"] = _uri(layout, "labels")
    if options.preemption:
        site |= _preemption()
    return site


def _rm_addresses(rm: Daemon, suffix: str) -> Properties:
    names = {
        "address": "rpc",
        "scheduler.address": "scheduler",
        "resource-tracker.address": "tracker",
        "admin.address": "admin",
        "webapp.address": "web",
    }
    site = {f"yarn.resourcemanager.{key}{suffix}": rm.address(port) for key, port in names.items()}
    return site | {f"yarn.resourcemanager.hostname{suffix}": HOST}


def _pair(daemons: Mapping[str, Daemon]) -> Properties:
    site = {
        "yarn.resourcemanager.ha.enabled": "true",
        "yarn.resourcemanager.ha.rm-ids": ",".join(RM_IDS.values()),
        "yarn.resourcemanager.cluster-id": "ytf",
        "yarn.client.failover-sleep-base-ms": "200",
        "yarn.client.failover-sleep-max-ms": "1000",
    }
    for name, rm_id in RM_IDS.items():
        site |= _rm_addresses(daemons[name], f".{rm_id}")
    return site


def _preemption() -> Properties:
    policy = "yarn.resourcemanager.monitor.capacity.preemption"
    return {
        "yarn.resourcemanager.scheduler.monitor.enable": "true",
        "yarn.resourcemanager.scheduler.monitor.policies": (
            f"{_RM}.monitor.capacity.ProportionalCapacityPreemptionPolicy"
        ),
        # The defaults are for big clusters: a tenth of it per round, 15 s of grace.
        f"{policy}.monitoring_interval": "1000",
        f"{policy}.max_wait_before_kill": "3000",
        f"{policy}.total_preemption_per_round": "1.0",
        f"{policy}.natural_termination_factor": "1.0",
    }


def _own_yarn(options: ClusterOptions, layout: Layout, daemon: Daemon) -> Properties:
    """What only one daemon's configuration says."""
    if daemon.kind is RESOURCE_MANAGER and options.ha:
        return {"yarn.resourcemanager.ha.id": RM_IDS[daemon.name]}
    if daemon.kind is not NODE_MANAGER:
        return {}
    return {
        "yarn.nodemanager.hostname": HOST,
        "yarn.nodemanager.address": daemon.address("rpc"),
        "yarn.nodemanager.localizer.address": daemon.address("localizer"),
        "yarn.nodemanager.collector-service.address": daemon.address("collector"),
        "yarn.nodemanager.webapp.address": daemon.address("web"),
        "yarn.nodemanager.local-dirs": str(layout.data(daemon.name) / "local"),
        "yarn.nodemanager.log-dirs": str(layout.data(daemon.name) / "logs"),
        "yarn.nodemanager.recovery.dir": str(layout.data(daemon.name) / "recovery"),
        "yarn.nodemanager.resource.memory-mb": str(options.node_memory_mb),
        "yarn.nodemanager.resource.cpu-vcores": str(options.node_vcores),
        "yarn.nodemanager.container-executor.class": f"{_NM}.DefaultContainerExecutor",
        "yarn.nodemanager.vmem-check-enabled": "false",
        # Enforced strictly it is left to cgroups (ContainersMonitorImpl), which we do not use.
        "yarn.nodemanager.resource.memory.enforced": "false",
        # It would call a laptop's disk bad for being 90 % full.
        "yarn.nodemanager.disk-health-checker.enable": "false",
        "yarn.nodemanager.aux-services": "",
    }


def _capacity_scheduler(options: ClusterOptions) -> Properties:
    root = "yarn.scheduler.capacity.root"
    labels = sorted(set(options.labels.values()))
    site = {
        "yarn.scheduler.capacity.maximum-am-resource-percent": "0.9",
        "yarn.scheduler.capacity.resource-calculator": (
            "org.apache.hadoop.yarn.util.resource.DominantResourceCalculator"
        ),
        f"{root}.queues": ",".join(queue.name for queue in options.queues),
    }
    site |= {f"{root}.accessible-node-labels.{label}.capacity": "100" for label in labels}
    for queue in options.queues:
        own = f"{root}.{queue.name}"
        site |= {
            f"{own}.capacity": str(queue.capacity),
            f"{own}.maximum-capacity": "100",
            # One user may have all of it: there is but one.
            f"{own}.user-limit-factor": "100",
            f"{own}.accessible-node-labels": "*",
        }
        for label in labels:
            site[f"{own}.accessible-node-labels.{label}.capacity"] = str(queue.capacity)
            site[f"{own}.accessible-node-labels.{label}.maximum-capacity"] = "100"
    return site


def _uri(layout: Layout, daemon: str) -> str:
    """A directory of this machine as Hadoop's ``Path`` reads it: with its spaces as they are."""
    return f"file://{layout.data(daemon)}"


def _zoo_cfg(layout: Layout, daemon: Daemon) -> str:
    lines: Iterable[str] = (
        "tickTime=500",
        f"dataDir={layout.data(daemon.name)}",
        f"clientPort={daemon.ports['client']}",
        f"clientPortAddress={HOST}",
        "admin.enableServer=false",
        "4lw.commands.whitelist=srvr",
        "maxClientCnxns=0",
        "minSessionTimeout=1000",
    )
    return "\n".join(lines) + "\n"


# To the one file that also has what the JVM itself prints.
_LOG4J = """\
log4j.rootLogger=INFO,console
log4j.appender.console=org.apache.log4j.ConsoleAppender
log4j.appender.console.target=System.err
log4j.appender.console.layout=org.apache.log4j.PatternLayout
log4j.appender.console.layout.ConversionPattern=%d{ISO8601} %p %c{2}: %m%n
log4j.logger.org.apache.hadoop.util.NativeCodeLoader=ERROR
log4j.logger.org.apache.hadoop.metrics2=WARN
log4j.logger.org.eclipse.jetty=WARN
log4j.logger.com.sun.jersey=WARN
log4j.logger.BlockStateChange=WARN
"""
