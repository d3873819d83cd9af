"""``MiniCluster``: creates, starts, disturbs and stops a Hadoop cluster on this machine."""

from __future__ import annotations

import fcntl
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, final

from ytf.errors import RefusedError, SettingsError
from ytf.home import make_private_directory
from ytf.minicluster import admin, configuration, probes
from ytf.minicluster.daemons import NAME_NODE, RESOURCE_MANAGER, Daemon, DaemonKind
from ytf.minicluster.directory import ClusterDirectory, ClusterRecord
from ytf.minicluster.java import find_java
from ytf.minicluster.jvm import Jvm, cds_archive, make_cds_archive
from ytf.minicluster.options import ClusterOptions
from ytf.minicluster.processes import OwnerWatchdog
from ytf.minicluster.releases import Progress, cache_lock, fetch
from ytf.minicluster.supervisor import ClusterError, DaemonSupervisor

START_TIMEOUT_S = 120.0
_PORT_ROUNDS = 3
# Hadoop's lists of paths, shell commands, variables and format strings break on them.
_UNFIT = ":,'\"`$%\\\n"


@dataclass(frozen=True, kw_only=True)
class DaemonStatus:
    """The present state of a daemon."""

    name: str
    kind: str
    state: str
    """``RUNNING`` or ``DEAD``."""
    role: str | None
    """``ACTIVE`` or ``STANDBY`` for one of a pair, None if it does not answer."""
    pid: int | None
    ports: Mapping[str, int]
    web_url: str | None


def _ignore(text: str) -> None:
    """The default of ``on_progress``."""


def _unless_gone(_call: object, _path: str, error: tuple[Any, Any, Any]) -> None:
    """Ignore that a file is gone: what ends with a container removes files of its own."""
    if not isinstance(error[1], FileNotFoundError):
        raise error[1]


@final
class MiniCluster:
    """A real Hadoop below one directory. As a context manager it starts and stops.

    Daemons have names: ``nn``, ``nn2``, ``dn``, ``rm``, ``rm2``, ``nm1``,
    ``nm2`` …, ``zk``. They outlive this process unless they are stopped. With
    ``stop_with_owner`` they end with this process, even if it is killed. With
    ``share_classes`` the first start takes longer and all later ones are
    quicker (class data sharing). Every method that waits has a deadline. It
    raises earlier, with a daemon's last log lines, if a daemon ends that should run.
    """

    def __init__(
        self,
        directory: Path,
        options: ClusterOptions | None = None,
        *,
        stop_with_owner: bool = False,
        share_classes: bool = False,
        on_progress: Progress = _ignore,
    ) -> None:
        directory = directory.absolute()
        unfit = sorted(set(str(directory)) & set(_UNFIT))
        if unfit:
            raise SettingsError(
                f"a cluster cannot be in {directory}: Hadoop does not cope with {' '.join(unfit)} "
                "in its paths",
                hint="set YTF_HOME to another directory",
            )
        self.directory = ClusterDirectory(directory)
        self._requested = options
        self._on_progress = on_progress
        self._stop_with_owner = stop_with_owner
        self._share_classes = share_classes
        self._watchdog: OwnerWatchdog | None = None
        self._opened: DaemonSupervisor | None = None

    @classmethod
    def open(cls, directory: Path, *, on_progress: Progress = _ignore) -> MiniCluster:
        """The cluster that exists in a directory; raises ``NotFoundError`` if there is none."""
        cluster = cls(directory, on_progress=on_progress)
        record = ClusterRecord.read(cluster.directory.record)
        cluster._opened = DaemonSupervisor(cluster.directory, record)
        return cluster

    def __enter__(self) -> MiniCluster:
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.stop()

    # Properties

    @property
    def options(self) -> ClusterOptions:
        """The options it was created with."""
        return self._supervisor.record.options

    @property
    def daemons(self) -> dict[str, Daemon]:
        """Every daemon by its name, with its addresses."""
        return self._supervisor.record.daemons

    @property
    def conf_dir(self) -> Path:
        """The configuration for clients: ``HADOOP_CONF_DIR``."""
        return self.directory.client_conf

    @property
    def environ(self) -> dict[str, str]:
        """The variables by which clients find it."""
        return {"HADOOP_CONF_DIR": str(self.conf_dir), "YARN_CONF_DIR": str(self.conf_dir)}

    @property
    def hdfs_url(self) -> str:
        """``hdfs://host:port`` of the NameNode; with two, ``hdfs://`` and their nameservice."""
        return configuration.hdfs_url(self.options, self.daemons)

    def status(self) -> list[DaemonStatus]:
        """The present state of every daemon."""
        pids = {name: self.pid(name) for name in self.daemons}
        return [
            DaemonStatus(
                name=daemon.name,
                kind=daemon.kind.title,
                state="DEAD" if pids[daemon.name] is None else "RUNNING",
                role=self._supervisor.role(daemon) if self.options.ha else None,
                pid=pids[daemon.name],
                ports=daemon.ports,
                web_url=daemon.web_url,
            )
            for daemon in self.daemons.values()
        ]

    def pid(self, name: str) -> int | None:
        """The pid of a daemon, None if it does not run."""
        return self._supervisor.pid(name)

    def log_tail(self, name: str) -> str:
        """The last lines of a daemon's log. The whole log is ``directory.log(name)``."""
        return self._supervisor.log_tail(name)

    # Start, stop and failures

    def start(self, timeout_s: float = START_TIMEOUT_S) -> None:
        """Start it and return when every node runs and HDFS can be written.

        A cluster that was stopped with ``keep`` continues with its data. If the
        start fails, no process is left. Raises ``RefusedError`` if the cluster
        is up already, ``ClusterError`` if a daemon ends or does not become ready.
        """
        if self._stop_with_owner and self._watchdog is None:
            self._watchdog = OwnerWatchdog(self.directory.root)
        with self._lock():
            if self.directory.record.exists():
                self._resume(timeout_s)
            else:
                self._create(timeout_s)
            if self._share_classes:
                self._make_cds_archive(self._jvm())

    def stop(self, *, keep: bool = False) -> None:
        """End every daemon and every container, and remove the directory unless ``keep``.

        It may be called in any state, any number of times.
        """
        with self._lock():
            if self.directory.record.exists():
                if keep:
                    self._supervisor.stop_all()
                else:
                    self._supervisor.kill_all()
            if not keep:
                if self.directory.root.is_dir():
                    shutil.rmtree(self.directory.root, onerror=_unless_gone)
                self._opened = None
        if self._watchdog is not None:
            self._watchdog.close()
            self._watchdog = None

    def kill(self, name: str, number: signal.Signals = signal.SIGKILL) -> None:
        """Send a daemon a signal; return when it has ended, or for SIGSTOP when it has stopped."""
        self._supervisor.kill(name, number)

    def stop_daemon(self, name: str) -> None:
        """End one daemon: SIGTERM, and SIGKILL after ten seconds."""
        self._supervisor.stop([self._supervisor.daemon(name).name])

    def restart(self, name: str, timeout_s: float = START_TIMEOUT_S) -> None:
        """Start a daemon again, ending it first if it runs, and return when it serves.

        One of two NameNodes becomes the standby if the other one is active.
        """
        self.stop_daemon(name)
        self._supervisor.spawn(name, self._jvm())
        if self.options.ha and self.daemons[name].kind is NAME_NODE:
            admin.ensure_active(self._supervisor, name, timeout_s)
        self.wait_until_serving(name, timeout_s)

    def fail_over_hdfs(self, timeout_s: float = START_TIMEOUT_S) -> str:
        """Make the other NameNode the active one; return its name when HDFS can be written again.

        The active one may run, hang or be dead: see ``admin.fail_over``.
        ResourceManagers fail over by themselves.
        """
        admin.fail_over(self._supervisor)
        self.wait_for_hdfs(timeout_s)
        return self.active_nn().name

    # Requests to the daemons

    def active_rm(self) -> Daemon:
        """The active ResourceManager; raises ``ClusterError`` if there is none."""
        return self._active(RESOURCE_MANAGER)

    def active_nn(self) -> Daemon:
        """The active NameNode; raises ``ClusterError`` if there is none."""
        return self._active(NAME_NODE)

    def rm_rest(self, path: str, method: str = "GET", body: object = None) -> Any:
        """Call the active ResourceManager's REST API: ``/apps`` is ``/ws/v1/cluster/apps``.

        Raises ``OSError`` for any status but 2xx.
        """
        return probes.request(self.active_rm(), method, f"/ws/v1/cluster{path}", body)

    def running_nodes(self) -> list[str]:
        """YARN's ids of the running nodes."""
        return self._supervisor.running_nodes()

    def wait_for_nodes(self, count: int, timeout_s: float = START_TIMEOUT_S) -> None:
        """Return when exactly ``count`` nodes run."""
        self._supervisor.wait(
            lambda: len(self.running_nodes()) == count, f"{count} running nodes", timeout_s
        )

    def wait_for_hdfs(self, timeout_s: float = START_TIMEOUT_S) -> None:
        """Return when HDFS can be written."""
        self._supervisor.wait(self._supervisor.hdfs_is_writable, "HDFS to be writable", timeout_s)

    def wait_until_serving(self, name: str, timeout_s: float = START_TIMEOUT_S) -> None:
        """Return when a daemon would serve a client that calls it.

        A NodeManager serves when it has registered. The standby of a pair serves too.
        """
        self._supervisor.wait(lambda: self._supervisor.serves(name), f"{name} to serve", timeout_s)

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

    # Implementation

    @property
    def _supervisor(self) -> DaemonSupervisor:
        if self._opened is None:
            record = ClusterRecord.read(self.directory.record)
            self._opened = DaemonSupervisor(self.directory, record)
        return self._opened

    def _active(self, kind: DaemonKind) -> Daemon:
        found = self._supervisor.active(kind)
        if found is None:
            raise ClusterError(f"no {kind.title} is active")
        return found

    def _jvm(self) -> Jvm:
        options = self.options if self._opened else self._requested or ClusterOptions()
        release = fetch(options.version, self._on_progress)
        lists = self.directory.data("tmp") if self._share_classes else None
        return Jvm(find_java(options.version), release, self.directory, options.heap_mb, lists)

    @contextmanager
    def _lock(self) -> Iterator[None]:
        """Only one process starts or stops a cluster at a time. The lock ends with the process."""
        root = self.directory.root
        make_private_directory(root.parent, is_checked=False)  # the caller has named it
        with (root.parent / f".{root.name}.lock").open("w") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                self._on_progress(f"waiting for another command on cluster {root.name}")
                fcntl.flock(lock, fcntl.LOCK_EX)
            yield

    def _make_cds_archive(self, jvm: Jvm) -> None:
        lists = list(jvm.class_lists.glob("*.classes")) if jvm.class_lists else []
        if not lists:
            return
        with cache_lock(self._on_progress):
            if not cds_archive(jvm.release, jvm.java).exists():
                self._on_progress("preparing quicker starts, once (half a minute) ...")
                try:
                    make_cds_archive(jvm.release, jvm.java, lists)
                except SettingsError as error:
                    self._on_progress(f"starts will stay as they are: {error}")
        for one in lists:
            one.unlink()

    def _create(self, timeout_s: float) -> None:
        """Create a new cluster. If another process takes one of its ports, try other ports."""
        options = self._requested or ClusterOptions()
        jvm = self._jvm()
        rounds = _PORT_ROUNDS
        while True:
            rounds -= 1
            record = ClusterRecord.new(options)
            configuration.create_files(self.directory, record)
            supervisor = self._opened = DaemonSupervisor(self.directory, record)
            try:
                self._start_daemons(supervisor, jvm, timeout_s, new=True)
            except BaseException as error:
                supervisor.stop_all()
                configuration.remove_all_but_logs(self.directory)
                self._opened = None
                clash = isinstance(error, ClusterError) and "BindException" in str(error)
                if not clash or not rounds:
                    raise
                self._on_progress("another process took a port meanwhile: trying others")
            else:
                return

    def _resume(self, timeout_s: float) -> None:
        """Start the daemons of a cluster that was created before."""
        name = self.directory.root.name
        supervisor = self._supervisor
        running = [daemon for daemon in self.daemons if self.pid(daemon) is not None]
        if running:
            raise RefusedError(
                f"cluster {name} is up already ({', '.join(running)})",
                hint="stop it first (ytf cluster down), or give the new one another --name",
            )
        if self._requested is not None and self._requested != self.options:
            raise RefusedError(
                f"cluster {name} was kept with other options than these",
                hint="remove it first (ytf cluster down), or give the new one another --name",
            )
        try:
            self._start_daemons(supervisor, self._jvm(), timeout_s, new=False)
        except BaseException:
            supervisor.stop_all()
            raise

    def _start_daemons(
        self, supervisor: DaemonSupervisor, jvm: Jvm, timeout_s: float, *, new: bool
    ) -> None:
        deadline = time.monotonic() + timeout_s

        def left() -> float:
            return max(0.0, deadline - time.monotonic())

        names = list(self.daemons)
        self._on_progress(f"starting {len(names)} daemons of Hadoop {self.options.version} ...")
        name_nodes = [each.name for each in supervisor.of_kind(NAME_NODE)]
        # A NameNode needs a formatted file system; every other daemon waits for the rest.
        for name in names:
            if name not in name_nodes:
                supervisor.spawn(name, jvm)
        if new:
            supervisor.format_hdfs(jvm)
        for name in name_nodes:
            supervisor.spawn(name, jvm)
        if "zk" in names:
            self.wait_until_serving("zk", left())
            self._on_progress("ZooKeeper is up")
        if self.options.ha:
            admin.ensure_active(supervisor, "nn", left())
        self.wait_for_hdfs(left())
        if new:
            admin.make_hdfs_directories(self.active_nn())
        for name in name_nodes:
            self.wait_until_serving(name, left())
        self._on_progress("HDFS is up")
        self.wait_for_nodes(self.options.nodes, left())
        for daemon in supervisor.of_kind(RESOURCE_MANAGER):
            self.wait_until_serving(daemon.name, left())
        if new and self.options.labels:
            admin.assign_labels(supervisor.record, self.active_rm(), self.running_nodes())
        nodes = self.options.nodes
        self._on_progress(f"YARN is up with {nodes} node{'s' if nodes > 1 else ''}")
