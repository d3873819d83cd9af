"""The configuration files of a cluster, and the directories of a new one.

What is not set here has Hadoop's default.
"""

from __future__ import annotations

import getpass
import shutil
from collections.abc import Mapping
from pathlib import Path
from xml.sax.saxutils import escape

from ytf.minicluster.daemons import (
    HOST,
    NAME_NODE,
    NODE_MANAGER,
    RESOURCE_MANAGER,
    ZOOKEEPER,
    Daemon,
)
from ytf.minicluster.directory import ClusterDirectory, ClusterRecord
from ytf.minicluster.options import ClusterOptions

Properties = dict[str, str]

GPU = "yarn.io/gpu"
NVIDIA_SMI = "bin/nvidia-smi"
"""A command of a node's own, in its configuration directory."""
_CONTAINER_PATH = "/usr/local/bin:/usr/local/sbin:/usr/bin:/usr/sbin:/bin:/sbin"
RM_IDS = {"rm": "rm1", "rm2": "rm2"}
"""The id of each ResourceManager of a pair, by the daemon's name."""

_RM = "org.apache.hadoop.yarn.server.resourcemanager"
_NM = "org.apache.hadoop.yarn.server.nodemanager"


def conf_files(
    options: ClusterOptions,
    directory: ClusterDirectory,
    daemons: Mapping[str, Daemon],
    daemon: Daemon | None,
) -> dict[str, str]:
    """The files of a daemon's configuration directory as name → text; for None the clients'."""
    if daemon is not None and daemon.kind is ZOOKEEPER:
        lines = zoo_cfg(directory.data(daemon.name), daemon.ports["client"])
        return {"zoo.cfg": "\n".join(lines) + "\n", "log4j.properties": LOG4J}
    sites = {
        "core-site.xml": _core(options, directory, daemons),
        "hdfs-site.xml": hdfs_site(options, directory, daemons, daemon),
        "yarn-site.xml": _yarn(options, directory, daemons)
        | (_own_yarn(options, directory, daemon) if daemon else {}),
    }
    for key, value in options.properties.items():
        sites[_site_of(key)][key] = value
    if options.gpus and options.counts_gpus:
        sites["resource-types.xml"] = {"yarn.resource-types": GPU}
    if daemon is not None and daemon.kind is RESOURCE_MANAGER:
        sites["capacity-scheduler.xml"] = _capacity_scheduler(options)
    files = {"log4j.properties": LOG4J}
    if daemon is not None and daemon.kind is NODE_MANAGER and options.gpus:
        if options.counts_gpus:
            key = f"yarn.nodemanager.resource-type.{GPU}"
            sites["node-resources.xml"] = {key: str(options.gpus)}
        # What a node adds to the variables of its containers. They do not inherit its own.
        commands = (directory.conf(daemon.name) / NVIDIA_SMI).parent
        sites["yarn-site.xml"]["yarn.nodemanager.admin-env"] = f"PATH={commands}:{_CONTAINER_PATH}"
        files[NVIDIA_SMI] = _nvidia_smi(daemon.name, options.gpus)
    return {name: to_xml(site) for name, site in sites.items()} | files


def _nvidia_smi(node: str, gpus: int) -> str:
    """A command that lists the GPUs of a node, which nobody uses, as NVIDIA's does."""
    rows = "\n".join(f"{index}, GPU-{node}-{index}" for index in range(gpus))
    return f'#!/bin/sh\ncase "$1" in --query-gpu=*) cat <<"EOF"\n{rows}\nEOF\nesac\n'


def to_xml(properties: Mapping[str, str]) -> str:
    """The text of a Hadoop configuration file."""
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


def _core(
    options: ClusterOptions, directory: ClusterDirectory, daemons: Mapping[str, Daemon]
) -> Properties:
    return {
        "fs.defaultFS": hdfs_url(options, daemons),
        "hadoop.tmp.dir": str(directory.data("tmp")),
        # The user of anonymous requests to web pages. Our own user may read logs.
        "hadoop.http.staticuser.user": getpass.getuser(),
        # The default makes a client wait 20 s for a daemon that is not there yet.
        "ipc.client.connect.retry.interval": "200",
        "ipc.client.connect.max.retries": "50",
    }


def _yarn(
    options: ClusterOptions, directory: ClusterDirectory, daemons: Mapping[str, Daemon]
) -> Properties:
    """The part of ``yarn-site.xml`` that daemons and clients share."""
    site = {
        "yarn.acl.enable": "false",
        "yarn.scheduler.minimum-allocation-mb": "64",
        "yarn.scheduler.maximum-allocation-mb": str(options.node_memory_mb),
        "yarn.scheduler.maximum-allocation-vcores": str(options.node_vcores),
        # All nodes are on one host: without it the scheduler could not tell them apart.
        "yarn.scheduler.include-port-in-node-name": "true",
        "yarn.resourcemanager.scheduler.class": f"{_RM}.scheduler.capacity.CapacityScheduler",
        "yarn.resourcemanager.recovery.enabled": "true",
        # After a restart the scheduler allocates nothing for this long (10 s by default).
        "yarn.resourcemanager.work-preserving-recovery.scheduling-wait-ms": "1000",
        # A job may ask for so many attempts of its master; the default stays Hadoop's, 2.
        "yarn.resourcemanager.am.global.max-attempts": "10",
        # A lost node is noticed in seconds, not in ten minutes. The rolling interval of
        # the master's tokens must be longer than three times the expiry of a master.
        "yarn.nm.liveness-monitor.expiry-interval-ms": "20000",
        "yarn.am.liveness-monitor.expiry-interval-ms": "20000",
        "yarn.resourcemanager.am-rm-tokens.master-key-rolling-interval-secs": "90",
        "yarn.resourcemanager.nodemanagers.heartbeat-interval-ms": "1000",
        "yarn.resourcemanager.connect.retry-interval.ms": "500",
        "yarn.log-aggregation-enable": "true",
        "yarn.nodemanager.remote-app-log-dir": "/tmp/logs",
        "yarn.timeline-service.enabled": "false",
    }
    site |= _rm_pair(daemons) if options.ha else _rm_addresses(daemons["rm"], "")
    if options.has_zookeeper:
        site["hadoop.zk.address"] = daemons["zk"].address("client")
        # For clients of ytf that use it as their registry.
        site["hadoop.registry.zk.quorum"] = daemons["zk"].address("client")
    if options.ha:
        site["yarn.resourcemanager.store.class"] = f"{_RM}.recovery.ZKRMStateStore"
        # The elector of 3.5 reads this name instead of hadoop.zk.address.
        site["yarn.resourcemanager.zk-address"] = daemons["zk"].address("client")
        site["hadoop.zk.timeout-ms"] = "4000"
        site["yarn.resourcemanager.zk-timeout-ms"] = "4000"
    else:
        site["yarn.resourcemanager.store.class"] = f"{_RM}.recovery.FileSystemRMStateStore"
        site["yarn.resourcemanager.fs.state-store.uri"] = _uri(directory, "rm")
    if options.labels:
        site["yarn.node-labels.enabled"] = "true"
        site["yarn.node-labels.fs-store.root-dir"] = _uri(directory, "labels")
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


def _rm_pair(daemons: Mapping[str, Daemon]) -> Properties:
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


def _own_yarn(options: ClusterOptions, directory: ClusterDirectory, daemon: Daemon) -> Properties:
    """The part of ``yarn-site.xml`` that only one daemon has."""
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
        "yarn.nodemanager.local-dirs": str(directory.data(daemon.name) / "local"),
        "yarn.nodemanager.log-dirs": str(directory.data(daemon.name) / "logs"),
        # A node that is restarted after a crash takes its containers over.
        "yarn.nodemanager.recovery.enabled": "true",
        "yarn.nodemanager.recovery.dir": str(directory.data(daemon.name) / "recovery"),
        "yarn.nodemanager.resource.memory-mb": str(options.node_memory_mb),
        "yarn.nodemanager.resource.cpu-vcores": str(options.node_vcores),
        "yarn.nodemanager.container-executor.class": f"{_NM}.DefaultContainerExecutor",
        "yarn.nodemanager.vmem-check-enabled": "false",
        # "true" leaves it to cgroups (ContainersMonitorImpl), which we do not use.
        "yarn.nodemanager.resource.memory.enforced": "false",
        # It would mark a disk as bad that is 90 % full.
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
            # There is only one user: it may use the whole queue.
            f"{own}.user-limit-factor": "100",
            f"{own}.accessible-node-labels": "*",
        }
        for label in labels:
            site[f"{own}.accessible-node-labels.{label}.capacity"] = str(queue.capacity)
            site[f"{own}.accessible-node-labels.{label}.maximum-capacity"] = "100"
    return site


def _uri(directory: ClusterDirectory, daemon: str) -> str:
    """The URI of a data directory. Hadoop's ``Path`` needs unescaped spaces."""
    return f"file://{directory.data(daemon)}"


def zoo_cfg(data: Path, client_port: int) -> list[str]:
    """The lines of ``zoo.cfg`` for a server that runs alone."""
    return [
        "tickTime=500",
        f"dataDir={data}",
        f"clientPort={client_port}",
        f"clientPortAddress={HOST}",
        "admin.enableServer=false",
        "4lw.commands.whitelist=srvr",
        "maxClientCnxns=0",
        "minSessionTimeout=1000",
    ]


# To stderr: the daemon's log also has what the JVM itself prints.
LOG4J = """\
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

NAMESERVICE = "ytf"
NN_IDS = {"nn": "nn1", "nn2": "nn2"}
"""The id of each NameNode of a pair, by the daemon's name."""

_HDFS_HA = "org.apache.hadoop.hdfs.server.namenode.ha"


def hdfs_url(options: ClusterOptions, daemons: Mapping[str, Daemon]) -> str:
    """``hdfs://host:port`` of the NameNode; with two, ``hdfs://`` and their nameservice."""
    return f"hdfs://{NAMESERVICE if options.ha else daemons['nn'].address('rpc')}"


def hdfs_site(
    options: ClusterOptions,
    directory: ClusterDirectory,
    daemons: Mapping[str, Daemon],
    daemon: Daemon | None,
) -> dict[str, str]:
    """``hdfs-site.xml`` of a daemon; for None the clients'."""
    data_node = daemons["dn"]
    site = {
        "dfs.replication": "1",
        # HDFS leaves safe mode as soon as the blocks are reported, not 30 s later.
        "dfs.namenode.safemode.extension": "0",
        "dfs.datanode.address": data_node.address("data"),
        "dfs.datanode.ipc.address": data_node.address("rpc"),
        "dfs.datanode.http.address": data_node.address("web"),
        "dfs.datanode.data.dir": str(directory.data("dn")),
        "dfs.heartbeat.interval": "1",
        # There is no second DataNode that could replace the first.
        "dfs.client.block.write.replace-datanode-on-failure.enable": "false",
    }
    site |= (
        _name_node_pair(directory, daemons)
        if options.ha
        else _name_node_addresses(daemons["nn"], "")
    )
    if daemon is not None and daemon.kind is NAME_NODE:
        site["dfs.namenode.name.dir"] = str(directory.data(daemon.name))
        if options.ha:
            site["dfs.ha.namenode.id"] = NN_IDS[daemon.name]
    return site


def _name_node_addresses(name_node: Daemon, suffix: str) -> dict[str, str]:
    return {
        f"dfs.namenode.rpc-address{suffix}": name_node.address("rpc"),
        f"dfs.namenode.http-address{suffix}": name_node.address("web"),
    }


def _name_node_pair(directory: ClusterDirectory, daemons: Mapping[str, Daemon]) -> dict[str, str]:
    site = {
        "dfs.nameservices": NAMESERVICE,
        f"dfs.ha.namenodes.{NAMESERVICE}": ",".join(NN_IDS.values()),
        # Both can write to a shared directory, so no JournalNodes are needed.
        "dfs.namenode.shared.edits.dir": str(directory.shared_edits),
        # For Hadoop's own haadmin. Its caller must know that the other NameNode is dead.
        "dfs.ha.fencing.methods": "shell(/bin/true)",
        f"dfs.client.failover.proxy.provider.{NAMESERVICE}": (
            f"{_HDFS_HA}.ConfiguredFailoverProxyProvider"
        ),
        "dfs.client.failover.sleep.base.millis": "200",
        "dfs.client.failover.sleep.max.millis": "1000",
    }
    for name, nn_id in NN_IDS.items():
        site |= _name_node_addresses(daemons[name], f".{NAMESERVICE}.{nn_id}")
    return site


def create_files(directory: ClusterDirectory, record: ClusterRecord) -> None:
    """Write all files that a cluster needs before its first start, the record last."""
    if directory.root.is_dir():
        # It has the logs of a cluster that could not be started.
        shutil.rmtree(directory.root)
    directory.root.mkdir(mode=0o700)
    for each in (
        directory.logs,
        directory.shared_edits,
        directory.data("tmp"),
        directory.data("labels"),
    ):
        each.mkdir(parents=True)
    write_conf(directory, record, None)
    for daemon in record.daemons.values():
        write_conf(directory, record, daemon)
    record.write(directory.record)


def write_conf(directory: ClusterDirectory, record: ClusterRecord, daemon: Daemon | None) -> None:
    """Write one daemon's configuration and make its data directory; for None the clients'."""
    conf = directory.client_conf if daemon is None else directory.conf(daemon.name)
    conf.mkdir(parents=True)
    for name, text in conf_files(record.options, directory, record.daemons, daemon).items():
        (conf / name).parent.mkdir(exist_ok=True)
        (conf / name).write_text(text, encoding="utf-8")
        if name == NVIDIA_SMI:
            (conf / name).chmod(0o755)
    # HDFS's jars have no web pages, but its servers need these directories to start.
    for pages in ("hdfs", "datanode"):
        (conf / "webapps" / pages).mkdir(parents=True)
    if daemon is not None:
        directory.data(daemon.name).mkdir()


def remove_all_but_logs(directory: ClusterDirectory) -> None:
    """Remove a cluster that could not be started, except its logs."""
    directory.record.unlink(missing_ok=True)
    for part in directory.root.iterdir():
        if part.is_dir() and part != directory.logs:
            shutil.rmtree(part)
