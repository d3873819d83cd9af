"""Starts, ends and watches the daemons of one cluster by name."""

from __future__ import annotations

import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterable

from ytf.errors import YtfError
from ytf.minicluster import probes, processes
from ytf.minicluster.daemons import (
    DATA_NODE,
    NAME_NODE,
    NODE_MANAGER,
    RESOURCE_MANAGER,
    ZOOKEEPER,
    Daemon,
    DaemonKind,
)
from ytf.minicluster.directory import ClusterDirectory, ClusterRecord
from ytf.minicluster.jvm import Jvm

ACTIVE, STANDBY = "ACTIVE", "STANDBY"
GRACE_S = 10.0
_POLL_S = 0.1
_LAST_LINES = 15


class ClusterError(YtfError):
    """A daemon ended or did not become ready. The message has the last lines of its log."""


class DaemonSupervisor:
    """Starts, ends and watches daemons. Does not know when a cluster as a whole is ready."""

    def __init__(self, directory: ClusterDirectory, record: ClusterRecord) -> None:
        self.directory = directory
        self.record = record
        # Daemons whose absence is no failure: not running now, or ended on purpose later.
        self._expected_down = {name for name in record.daemons if self.pid(name) is None}

    def daemon(self, name: str) -> Daemon:
        """The daemon of a name; raises ``ClusterError`` if there is none."""
        daemons = self.record.daemons
        if name not in daemons:
            raise ClusterError(f"there is no daemon {name}", hint=f"there are {', '.join(daemons)}")
        return daemons[name]

    def of_kind(self, kind: DaemonKind) -> list[Daemon]:
        """All daemons of a kind."""
        return [daemon for daemon in self.record.daemons.values() if daemon.kind is kind]

    def pid(self, name: str) -> int | None:
        """The pid of a daemon, None if it does not run."""
        return processes.live_pid(self.directory.pid(self.daemon(name).name))

    def spawn(self, name: str, jvm: Jvm) -> None:
        """Start a daemon. From now on its end is a failure."""
        daemon = self.daemon(name)
        conf = self.directory.conf(name)
        arguments = [str(conf / "zoo.cfg")] if daemon.kind is ZOOKEEPER else []
        pid = processes.spawn(
            jvm.command(conf, daemon.kind.main_class, *arguments),
            cwd=self.directory.logs,
            log=self.directory.log(name),
            environ=jvm.environ(),
        )
        processes.write_pid(self.directory.pid(name), pid)
        self._expected_down.discard(name)

    def format_hdfs(self, jvm: Jvm) -> None:
        """Make an empty file system, for a second NameNode too."""
        command = jvm.command(
            self.directory.conf("nn"),
            self.daemon("nn").kind.main_class,
            "-format",
            "-nonInteractive",
        )
        with self.directory.log("nn").open("ab") as log:
            done = subprocess.run(
                command,
                cwd=self.directory.logs,
                env=jvm.environ(),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                check=False,
            )
        if done.returncode != 0:
            raise self.daemon_error("nn", f"could not format HDFS (exit code {done.returncode})")
        for other in self.of_kind(NAME_NODE)[1:]:
            # The same files that -bootstrapStandby would fetch from the first once that runs.
            shutil.copytree(
                self.directory.data("nn"), self.directory.data(other.name), dirs_exist_ok=True
            )

    def kill(self, name: str, number: signal.Signals = signal.SIGKILL) -> None:
        """Send a daemon a signal; return when it has ended, or for SIGSTOP when it has stopped."""
        pid = self.pid(name)
        if pid is None:
            raise ClusterError(f"{name} does not run")
        if number not in (signal.SIGKILL, signal.SIGTERM):
            processes.kill([pid], number)
            if number is signal.SIGSTOP:
                self.wait(lambda: processes.is_stopped(pid), f"{name} to stop", GRACE_S)
            return
        self._expected_down.add(name)
        processes.kill([pid], number)
        self.wait(lambda: self.pid(name) is None, f"{name} to end", GRACE_S)

    def stop(self, names: Iterable[str]) -> None:
        """End daemons: SIGTERM, and SIGKILL after ``GRACE_S``."""
        names = list(names)
        self._expected_down.update(names)
        processes.terminate([self.directory.pid(name) for name in names], GRACE_S)

    def stop_all(self) -> None:
        """End every daemon and every container, in such an order that they can start again."""
        # NodeManagers first: they unregister from the ResourceManager, for which they would
        # wait if it were gone.
        self._stop_nodes()
        self.stop(self.record.daemons)
        processes.kill_all_of(self.directory.root)

    def kill_all(self) -> None:
        """End every container, and every daemon at once: the cluster is not to start again."""
        self._expected_down.update(self.record.daemons)
        if processes.containers_of(self.directory.root):
            self._stop_nodes()
        processes.kill_all_of(self.directory.root)

    def _stop_nodes(self) -> None:
        """End the NodeManagers, which end their containers, and containers that have none."""
        self.stop(daemon.name for daemon in self.of_kind(NODE_MANAGER))
        # A starter, or what it leaves beside it, removes its docker container. It could not if
        # all its processes were killed at once, like daemons.
        processes.terminate_containers(self.directory.root, GRACE_S)

    def wait(self, condition: Callable[[], bool], what: str, timeout_s: float) -> None:
        """Return when ``condition`` is true. A daemon that does not answer makes it false.

        Raises ``ClusterError`` at the deadline, or when a daemon ends that
        should run.
        """
        deadline = time.monotonic() + timeout_s
        while not is_true(condition):
            self._check_alive()
            if time.monotonic() >= deadline:
                raise ClusterError(
                    f"waited {timeout_s:.0f} s in vain for {what}",
                    hint=f"the daemons' logs are in {self.directory.logs}",
                )
            time.sleep(_POLL_S)

    def log_tail(self, name: str, lines: int = _LAST_LINES) -> str:
        """The last lines of a daemon's log, without the frames of stack traces."""
        log = self.directory.log(name)
        text = log.read_text(errors="replace") if log.exists() else ""
        shown = [line for line in text.splitlines() if not line.startswith("\t")]
        return "\n".join(shown[-lines:])

    def daemon_error(self, name: str, what: str) -> ClusterError:
        """The error that says what a daemon did wrong, with the last lines of its log."""
        return ClusterError(
            f"{self.daemon(name).kind.title} {name} {what}; the last lines of its log:\n"
            f"{self.log_tail(name)}",
            hint=f"all of it is in {self.directory.log(name)}",
        )

    def role(self, daemon: Daemon) -> str | None:
        """``ACTIVE`` or ``STANDBY``.

        None for a kind of daemon without roles, and for a daemon that does not
        answer or has no role yet.
        """
        if daemon.kind not in (NAME_NODE, RESOURCE_MANAGER) or self.pid(daemon.name) is None:
            return None
        try:
            role = probes.role(daemon)
        except probes.UNREACHABLE:
            return None
        return role if role in (ACTIVE, STANDBY) else None

    def active(self, kind: DaemonKind) -> Daemon | None:
        """The active ResourceManager or NameNode."""
        found = (each for each in self.of_kind(kind) if self.role(each) == ACTIVE)
        return next(found, None)

    def running_nodes(self) -> list[str]:
        """YARN's ids of the running nodes; none without an active ResourceManager."""
        rm = self.active(RESOURCE_MANAGER)
        return list(probes.running_nodes(rm)) if rm is not None else []

    def serves(self, name: str) -> bool:
        """Whether a daemon would serve a client that calls it now.

        The standby of a pair of ResourceManagers serves once the other one is active.
        """
        daemon = self.daemon(name)
        if daemon.kind is ZOOKEEPER:
            return probes.zookeeper_serves(daemon)
        if daemon.kind is NODE_MANAGER:
            return self._node_manager_serves(daemon)
        if daemon.kind is RESOURCE_MANAGER:
            return self._resource_manager_serves(daemon)
        if daemon.kind is DATA_NODE:
            return self._data_node_serves(daemon)
        role = self.role(daemon)
        return (
            role is not None
            and probes.accepts(daemon, "rpc")
            and (role == STANDBY or self.hdfs_is_writable())
        )

    def hdfs_is_writable(self) -> bool:
        """Whether there is an active NameNode with a DataNode, out of safe mode."""
        name_node = self.active(NAME_NODE)
        return name_node is not None and probes.hdfs_is_writable(name_node)

    def _resource_manager_serves(self, rm: Daemon) -> bool:
        """Whether it is active and accepts calls, or is the standby of an active one."""
        # Its web server answers seconds before it is either.
        role = self.role(rm)
        if role == STANDBY:
            return self.active(RESOURCE_MANAGER) is not None
        return role == ACTIVE and probes.accepts(rm, "rpc")

    def _data_node_serves(self, data_node: Daemon) -> bool:
        """Whether this process has registered with every running NameNode, and HDFS is writable."""
        running = [each for each in self.of_kind(NAME_NODE) if self.pid(each.name) is not None]
        registered = {each.ports["rpc"] for each in running} <= probes.registrations(data_node)
        return registered and self.hdfs_is_writable()

    def _node_manager_serves(self, node: Daemon) -> bool:
        """Whether this process, not an earlier one, has registered with the ResourceManager."""
        rm = self.active(RESOURCE_MANAGER)
        if rm is None:
            return False
        started = self.directory.pid(node.name).stat().st_mtime
        port = node.ports["rpc"]
        return any(
            name.endswith(f":{port}") and health_time >= started
            for name, health_time in probes.running_nodes(rm).items()
        )

    def _check_alive(self) -> None:
        for name in self.record.daemons:
            if name not in self._expected_down and self.pid(name) is None:
                raise self.daemon_error(name, "ended")


def is_true(condition: Callable[[], bool]) -> bool:
    """Whether a condition is true; false if a daemon it depends on does not answer."""
    try:
        return condition()
    except probes.UNREACHABLE:
        return False
