"""One cluster: made, started, tormented and stopped."""

from __future__ import annotations

import fcntl
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from types import TracebackType
from typing import Any, final

from ytf.errors import RefusedError, SettingsError
from ytf.testing.hadoop import failover, files, furnishing, probes, sharing
from ytf.testing.hadoop.artifacts import Progress, alone, fetch
from ytf.testing.hadoop.daemons import NAME_NODE, NODE_MANAGER, RESOURCE_MANAGER, Daemon, Kind
from ytf.testing.hadoop.errors import ClusterError
from ytf.testing.hadoop.fleet import Fleet
from ytf.testing.hadoop.hdfs_site import hdfs_url
from ytf.testing.hadoop.java import find_java
from ytf.testing.hadoop.jvm import Jvm
from ytf.testing.hadoop.layout import Layout
from ytf.testing.hadoop.lifeline import Lifeline
from ytf.testing.hadoop.options import ClusterOptions
from ytf.testing.hadoop.ports import free_ports
from ytf.testing.hadoop.record import Record

START_TIMEOUT_S = 120.0
_PORT_ROUNDS = 3
# Its lists of paths, shell commands, variables and format strings break on them.
_UNFIT = ":,'\"`$%\\\n"


@dataclass(frozen=True, kw_only=True)
class DaemonStatus:
    """A daemon as it is now."""

    name: str
    kind: str
    state: str
    """``RUNNING`` or ``DEAD``."""
    role: str | None
    """``ACTIVE`` or ``STANDBY``, for one of a pair that says so."""
    pid: int | None
    ports: Mapping[str, int]
    web_url: str | None


def _silent(text: str) -> None:
    """For callers who want to hear nothing."""


@final
class Cluster:
    """A real Hadoop below one directory; a context manager that starts and stops it.

    Daemons are known by name: ``nn``, ``nn2``, ``dn``, ``rm``, ``rm2``, ``nm1``,
    ``nm2`` …, ``zk``. They outlive this process unless they are stopped, or ``tied`` to
    it: then they end with it even if it is killed. With ``share_classes`` the
    first start takes longer, so that all later ones are quicker. Every method that waits has
    a deadline, and ends early with a daemon's last log lines if it has died
    though it should live.
    """

    def __init__(
        self,
        directory: Path,
        options: ClusterOptions | None = None,
        *,
        tied: bool = False,
        share_classes: bool = False,
        progress: Progress = _silent,
    ) -> None:
        directory = directory.absolute()
        unfit = sorted(set(str(directory)) & set(_UNFIT))
        if unfit:
            raise SettingsError(
                f"a cluster cannot be in {directory}: Hadoop does not cope with {' '.join(unfit)} "
                "in its paths",
                hint="set YTF_HOME to another directory",
            )
        self.layout = Layout(directory)
        self._wanted = options
        self._progress = progress
        self._tied = tied
        self._share_classes = share_classes
        self._lifeline: Lifeline | None = None
        self._opened: Fleet | None = None

    @classmethod
    def open(cls, directory: Path, *, progress: Progress = _silent) -> Cluster:
        """The cluster that somebody made there; raises ``NotFoundError`` if there is none."""
        cluster = cls(directory, progress=progress)
        cluster._opened = Fleet(cluster.layout, Record.read(cluster.layout.record))
        return cluster

    def __enter__(self) -> Cluster:
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.stop()

    # What it is

    @property
    def options(self) -> ClusterOptions:
        """What it was made with."""
        return self._fleet.record.options

    @property
    def daemons(self) -> dict[str, Daemon]:
        """Every daemon by its name, with its addresses."""
        return self._fleet.record.daemons

    @property
    def conf_dir(self) -> Path:
        """The configuration for clients: ``HADOOP_CONF_DIR``."""
        return self.layout.client_conf

    @property
    def environ(self) -> dict[str, str]:
        """The variables by which clients find it."""
        return {"HADOOP_CONF_DIR": str(self.conf_dir), "YARN_CONF_DIR": str(self.conf_dir)}

    @property
    def hdfs_url(self) -> str:
        """``hdfs://host:port`` of the NameNode; of two, ``hdfs://`` and their nameservice."""
        return hdfs_url(self.options, self.daemons)

    def status(self) -> list[DaemonStatus]:
        """Every daemon as it is now."""
        pids = {name: self.pid(name) for name in self.daemons}
        return [
            DaemonStatus(
                name=daemon.name,
                kind=daemon.kind.title,
                state="DEAD" if pids[daemon.name] is None else "RUNNING",
                role=self._fleet.role(daemon) if self.options.ha else None,
                pid=pids[daemon.name],
                ports=daemon.ports,
                web_url=daemon.web_url,
            )
            for daemon in self.daemons.values()
        ]

    def pid(self, name: str) -> int | None:
        """The process of a daemon, None if it does not run."""
        return self._fleet.pid(name)

    def log_tail(self, name: str) -> str:
        """The last lines of a daemon's log; all of it is ``layout.log(name)``."""
        return self._fleet.log_tail(name)

    # Its life

    def start(self, timeout_s: float = START_TIMEOUT_S) -> None:
        """Start it and return once every node runs and HDFS can be written.

        A cluster that was stopped with ``keep`` goes on with its data. Whatever
        goes wrong, no process is left. Raises ``RefusedError`` if it is up
        already, ``ClusterError`` if a daemon ends or does not get ready.
        """
        if self._tied and self._lifeline is None:
            self._lifeline = Lifeline(self.layout.root)
        with self._alone():
            if self.layout.record.exists():
                self._resume(timeout_s)
            else:
                self._create(timeout_s)
            if self._share_classes:
                self._make_archive(self._jvm())

    def stop(self, *, keep: bool = False) -> None:
        """End every daemon and every container, and remove the directory unless ``keep``.

        To be called in any state, any number of times.
        """
        with self._alone():
            if self.layout.record.exists():
                self._fleet.end_all()
            if not keep:
                if self.layout.root.is_dir():
                    shutil.rmtree(self.layout.root)
                self._opened = None
        if self._lifeline is not None:
            self._lifeline.cut()
            self._lifeline = None

    def kill(self, name: str, number: signal.Signals = signal.SIGKILL) -> None:
        """Send a daemon a signal; returns when it is over, if the signal is a deadly one."""
        self._fleet.kill(name, number)

    def stop_daemon(self, name: str) -> None:
        """End one daemon in good order: SIGTERM, and SIGKILL after a grace."""
        self._fleet.end([self._fleet.daemon(name).name])

    def restart(self, name: str, timeout_s: float = START_TIMEOUT_S) -> None:
        """Start a daemon again, ended first if it runs; returns when it serves.

        A NameNode of two stands by if the other one is active.
        """
        self.stop_daemon(name)
        self._fleet.spawn(name, self._jvm())
        if self.options.ha and self.daemons[name].kind is NAME_NODE:
            failover.ensure_active(self._fleet, name, timeout_s)
        self.wait_until_serving(name, timeout_s)

    def fail_over_hdfs(self, timeout_s: float = START_TIMEOUT_S) -> str:
        """Make the other NameNode the active one; its name, once HDFS can be written again.

        Whether the active one lives, hangs or is dead: see ``failover.fail_over``.
        ResourceManagers do that by themselves.
        """
        failover.fail_over(self._fleet)
        self.wait_for_hdfs(timeout_s)
        return self.active_nn().name

    def add_node(self, timeout_s: float = START_TIMEOUT_S) -> str:
        """Start one more NodeManager and return its name once it runs in the cluster."""
        fleet = self._fleet
        options = replace(self.options, nodes=self.options.nodes + 1)
        name = options.node_names[-1]
        names = NODE_MANAGER.port_names
        ports = dict(zip(names, free_ports(len(names)), strict=True))
        fleet.record = Record(options=options, ports={**fleet.record.ports, name: ports})
        files.write_conf(self.layout, fleet.record, fleet.daemon(name))
        fleet.record.write(self.layout.record)
        fleet.spawn(name, self._jvm())
        self.wait_until_serving(name, timeout_s)
        return name

    # What others ask of it

    def active_rm(self) -> Daemon:
        """The ResourceManager that serves; raises ``ClusterError`` if none does."""
        return self._active(RESOURCE_MANAGER)

    def active_nn(self) -> Daemon:
        """The NameNode that serves; raises ``ClusterError`` if none does."""
        return self._active(NAME_NODE)

    def rm_rest(self, path: str, method: str = "GET", body: object = None) -> Any:
        """Ask the active ResourceManager's REST: ``rm_rest("/apps")`` is ``/ws/v1/cluster/apps``.

        Raises ``OSError`` for an answer that is no success.
        """
        return probes.request(self.active_rm(), method, f"/ws/v1/cluster{path}", body)

    def running_nodes(self) -> list[str]:
        """The ids of the nodes that run, as YARN names them."""
        return self._fleet.running_nodes()

    def wait_for_nodes(self, count: int, timeout_s: float = START_TIMEOUT_S) -> None:
        """Return when exactly ``count`` nodes run."""
        self._fleet.wait(
            lambda: len(self.running_nodes()) == count, f"{count} running nodes", timeout_s
        )

    def wait_for_hdfs(self, timeout_s: float = START_TIMEOUT_S) -> None:
        """Return when HDFS can be written."""
        self._fleet.wait(self._fleet.hdfs_is_writable, "HDFS to be writable", timeout_s)

    def wait_until_serving(self, name: str, timeout_s: float = START_TIMEOUT_S) -> None:
        """Return when a daemon does what it is for: a node runs, a ResourceManager hears clients.

        Of a pair, one that stands by serves too.
        """
        self._fleet.wait(lambda: self._fleet.serves(name), f"{name} to serve", timeout_s)

    def java(
        self, main_class: str, *arguments: str, timeout_s: float = 60.0
    ) -> subprocess.CompletedProcess[str]:
        """Run one of Hadoop's own programs as a client: ``org.apache.hadoop.fs.FsShell``, …"""
        jvm = self._jvm()
        return subprocess.run(
            jvm.command(self.conf_dir, main_class, *arguments),
            env=jvm.environ(),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
            timeout=timeout_s,
        )

    # How it is done

    @property
    def _fleet(self) -> Fleet:
        if self._opened is None:
            self._opened = Fleet(self.layout, Record.read(self.layout.record))
        return self._opened

    def _active(self, kind: Kind) -> Daemon:
        found = self._fleet.active(kind)
        if found is None:
            raise ClusterError(f"no {kind.title} is active")
        return found

    def _jvm(self) -> Jvm:
        options = self.options if self._opened else self._wanted or ClusterOptions()
        release = fetch(options.version, self._progress)
        lists = self.layout.data("tmp") if self._share_classes else None
        return Jvm(find_java(options.version), release, self.layout, options.heap_mb, lists)

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """One start or stop of a cluster at a time; the lock goes with the process."""
        root = self.layout.root
        root.parent.mkdir(parents=True, exist_ok=True)
        with (root.parent / f".{root.name}.lock").open("w") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                self._progress(f"waiting for another command on cluster {root.name}")
                fcntl.flock(lock, fcntl.LOCK_EX)
            yield

    def _make_archive(self, jvm: Jvm) -> None:
        lists = list(jvm.class_lists.glob("*.classes")) if jvm.class_lists else []
        if not lists:
            return
        with alone(self._progress):
            if not sharing.archive(jvm.release, jvm.java).exists():
                self._progress("preparing quicker starts, once (half a minute) ...")
                try:
                    sharing.make_archive(jvm.release, jvm.java, lists)
                except SettingsError as error:
                    self._progress(f"starts will stay as they are: {error}")
        for one in lists:
            one.unlink()

    def _create(self, timeout_s: float) -> None:
        """Make a new cluster; where somebody took one of its ports meanwhile, on others."""
        options = self._wanted or ClusterOptions()
        jvm = self._jvm()
        rounds = _PORT_ROUNDS
        while True:
            rounds -= 1
            record = Record.new(options)
            files.make(self.layout, record)
            fleet = self._opened = Fleet(self.layout, record)
            try:
                self._bring_up(fleet, jvm, timeout_s, new=True)
            except BaseException as error:
                fleet.end_all()
                files.forget(self.layout)
                self._opened = None
                clash = isinstance(error, ClusterError) and "BindException" in str(error)
                if not clash or not rounds:
                    raise
                self._progress("somebody took a port meanwhile: trying others")
            else:
                return

    def _resume(self, timeout_s: float) -> None:
        """Start the daemons of a cluster that was made before."""
        name = self.layout.root.name
        fleet = self._fleet
        running = [daemon for daemon in self.daemons if self.pid(daemon) is not None]
        if running:
            raise RefusedError(
                f"cluster {name} is up already ({', '.join(running)})",
                hint="stop it first (ytf cluster down), or give the new one another --name",
            )
        if self._wanted is not None and self._wanted != self.options:
            raise RefusedError(
                f"cluster {name} was kept with other options than these",
                hint="remove it first (ytf cluster down), or give the new one another --name",
            )
        try:
            self._bring_up(fleet, self._jvm(), timeout_s, new=False)
        except BaseException:
            fleet.end_all()
            raise

    def _bring_up(self, fleet: Fleet, jvm: Jvm, timeout_s: float, *, new: bool) -> None:
        deadline = time.monotonic() + timeout_s

        def left() -> float:
            return max(0.0, deadline - time.monotonic())

        names = list(self.daemons)
        self._progress(f"starting {len(names)} daemons of Hadoop {self.options.version} ...")
        name_nodes = [each.name for each in fleet.of_kind(NAME_NODE)]
        # Everyone but a NameNode waits for the others by itself.
        for name in names:
            if name not in name_nodes:
                fleet.spawn(name, jvm)
        if new:
            fleet.format(jvm)
        for name in name_nodes:
            fleet.spawn(name, jvm)
        if "zk" in names:
            self.wait_until_serving("zk", left())
            self._progress("ZooKeeper is up")
        if self.options.ha:
            failover.ensure_active(fleet, "nn", left())
        self.wait_for_hdfs(left())
        if new:
            furnishing.make_hdfs_directories(self.active_nn())
        for name in name_nodes:
            self.wait_until_serving(name, left())
        self._progress("HDFS is up")
        self.wait_for_nodes(self.options.nodes, left())
        for daemon in fleet.of_kind(RESOURCE_MANAGER):
            self.wait_until_serving(daemon.name, left())
        if new and self.options.labels:
            furnishing.give_labels(fleet.record, self.active_rm(), self.running_nodes())
        nodes = self.options.nodes
        self._progress(f"YARN is up with {nodes} node{'s' if nodes > 1 else ''}")
