"""The daemons of one cluster as processes: who runs, who should, what they last said."""

from __future__ import annotations

import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterable

from ytf.testing.hadoop import probes, processes
from ytf.testing.hadoop.daemons import (
    DATA_NODE,
    NAME_NODE,
    NODE_MANAGER,
    RESOURCE_MANAGER,
    ZOOKEEPER,
    Daemon,
    Kind,
)
from ytf.testing.hadoop.errors import ClusterError
from ytf.testing.hadoop.jvm import Jvm
from ytf.testing.hadoop.layout import Layout
from ytf.testing.hadoop.record import Record

ACTIVE, STANDBY = "ACTIVE", "STANDBY"
GRACE_S = 10.0
_POLL_S = 0.1
_LAST_LINES = 15


class Fleet:
    """Starts, ends and watches daemons by name. Knows nothing of when a cluster is ready."""

    def __init__(self, layout: Layout, record: Record) -> None:
        self.layout = layout
        self.record = record
        # Whose silence is no failure: those that do not run, or were ended on purpose.
        self._resting = {name for name in record.daemons if self.pid(name) is None}

    def daemon(self, name: str) -> Daemon:
        """Raises ``ClusterError`` for a name that is none."""
        daemons = self.record.daemons
        if name not in daemons:
            raise ClusterError(f"there is no daemon {name}", hint=f"there are {', '.join(daemons)}")
        return daemons[name]

    def of_kind(self, kind: Kind) -> list[Daemon]:
        """Every daemon of a kind."""
        return [daemon for daemon in self.record.daemons.values() if daemon.kind is kind]

    def pid(self, name: str) -> int | None:
        """The process of a daemon, None if it does not run."""
        return processes.live_pid(self.layout.pid(self.daemon(name).name))

    def spawn(self, name: str, jvm: Jvm) -> None:
        """Start a daemon; it is expected to live from now on."""
        daemon = self.daemon(name)
        conf = self.layout.conf(name)
        arguments = [str(conf / "zoo.cfg")] if daemon.kind is ZOOKEEPER else []
        pid = processes.spawn(
            jvm.command(conf, daemon.kind.main_class, *arguments),
            cwd=self.layout.logs,
            log=self.layout.log(name),
            environ=jvm.environ(),
        )
        processes.write_pid(self.layout.pid(name), pid)
        self._resting.discard(name)

    def format(self, jvm: Jvm) -> None:
        """Make an empty file system, and let a second NameNode begin with the same."""
        command = jvm.command(
            self.layout.conf("nn"), self.daemon("nn").kind.main_class, "-format", "-nonInteractive"
        )
        with self.layout.log("nn").open("ab") as log:
            done = subprocess.run(
                command,
                cwd=self.layout.logs,
                env=jvm.environ(),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                check=False,
            )
        if done.returncode != 0:
            raise self.failure("nn", f"could not format HDFS (exit code {done.returncode})")
        for other in self.of_kind(NAME_NODE)[1:]:
            # What -bootstrapStandby would fetch from the first, once that runs.
            shutil.copytree(
                self.layout.data("nn"), self.layout.data(other.name), dirs_exist_ok=True
            )

    def kill(self, name: str, number: signal.Signals = signal.SIGKILL) -> None:
        """Send a signal; returns when the daemon is over, if the signal is a deadly one."""
        pid = self.pid(name)
        if pid is None:
            raise ClusterError(f"{name} does not run")
        if number not in (signal.SIGKILL, signal.SIGTERM):
            processes.kill([pid], number)
            return
        self._resting.add(name)
        processes.kill([pid], number)
        self.wait(lambda: self.pid(name) is None, f"{name} to end", GRACE_S)

    def end(self, names: Iterable[str]) -> None:
        """End daemons in good order: SIGTERM, and SIGKILL after a grace."""
        names = list(names)
        self._resting.update(names)
        processes.end([self.layout.pid(name) for name in names], GRACE_S)

    def end_all(self) -> None:
        """No daemon and no container is left when it returns."""
        # NodeManagers first: they end their containers, and say good-bye to the
        # ResourceManager, for which they would wait if it were gone.
        self.end(daemon.name for daemon in self.of_kind(NODE_MANAGER))
        self.end(self.record.daemons)
        processes.kill_all_of(self.layout.root)

    def wait(self, condition: Callable[[], bool], what: str, timeout_s: float) -> None:
        """Return when ``condition`` holds; a daemon that cannot be asked makes it false.

        Raises ``ClusterError`` at the deadline, or when a daemon ends meanwhile
        that should live.
        """
        deadline = time.monotonic() + timeout_s
        while not holds(condition):
            self._check_alive()
            if time.monotonic() >= deadline:
                raise ClusterError(
                    f"waited {timeout_s:.0f} s in vain for {what}",
                    hint=f"the daemons' logs are in {self.layout.logs}",
                )
            time.sleep(_POLL_S)

    def log_tail(self, name: str, lines: int = _LAST_LINES) -> str:
        """The last lines of a daemon's log, without the frames of stack traces."""
        log = self.layout.log(name)
        text = log.read_text(errors="replace") if log.exists() else ""
        telling = [line for line in text.splitlines() if not line.startswith("\t")]
        return "\n".join(telling[-lines:])

    def failure(self, name: str, what: str) -> ClusterError:
        """The error of a daemon that did not do its part."""
        return ClusterError(
            f"{self.daemon(name).kind.title} {name} {what}; the last lines of its log:\n"
            f"{self.log_tail(name)}",
            hint=f"all of it is in {self.layout.log(name)}",
        )

    def role(self, daemon: Daemon) -> str | None:
        """``ACTIVE`` or ``STANDBY``; None for what has none, or does not answer or know yet."""
        if daemon.kind not in (NAME_NODE, RESOURCE_MANAGER) or self.pid(daemon.name) is None:
            return None
        try:
            said = probes.role(daemon)
        except probes.UNREACHABLE:
            return None
        return said if said in (ACTIVE, STANDBY) else None

    def active(self, kind: Kind) -> Daemon | None:
        """The ResourceManager or NameNode that serves."""
        found = (each for each in self.of_kind(kind) if self.role(each) == ACTIVE)
        return next(found, None)

    def running_nodes(self) -> list[str]:
        """The ids of the nodes that run, as YARN names them; none without a ResourceManager."""
        rm = self.active(RESOURCE_MANAGER)
        return list(probes.running_nodes(rm)) if rm is not None else []

    def serves(self, name: str) -> bool:
        """Whether a daemon does what it is for: a client that calls it now is heard.

        A ResourceManager of a pair also stands by, once the other one is active.
        """
        daemon = self.daemon(name)
        if daemon.kind is ZOOKEEPER:
            return probes.zookeeper_serves(daemon)
        if daemon.kind is NODE_MANAGER:
            return self._is_registered(daemon)
        if daemon.kind is RESOURCE_MANAGER:
            return self._rm_serves(daemon)
        if daemon.kind is DATA_NODE:
            return self._is_known(daemon) and self.hdfs_is_writable()
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

    def _rm_serves(self, rm: Daemon) -> bool:
        """Whether a ResourceManager is active and hears its clients, or has its place in a pair."""
        # Its web server answers seconds before it is either.
        role = self.role(rm)
        if role == STANDBY:
            return self.active(RESOURCE_MANAGER) is not None
        return role == ACTIVE and probes.accepts(rm, "rpc")

    def _is_known(self, data_node: Daemon) -> bool:
        """Whether every NameNode that runs has heard of this very process of a DataNode."""
        running = [each for each in self.of_kind(NAME_NODE) if self.pid(each.name) is not None]
        return {each.ports["rpc"] for each in running} <= probes.registrations(data_node)

    def _is_registered(self, node: Daemon) -> bool:
        """Whether the ResourceManager has heard of this very process of a NodeManager."""
        rm = self.active(RESOURCE_MANAGER)
        if rm is None:
            return False
        started = self.layout.pid(node.name).stat().st_mtime
        port = node.ports["rpc"]
        return any(
            name.endswith(f":{port}") and healthy >= started
            for name, healthy in probes.running_nodes(rm).items()
        )

    def _check_alive(self) -> None:
        for name in self.record.daemons:
            if name not in self._resting and self.pid(name) is None:
                raise self.failure(name, "ended")


def holds(condition: Callable[[], bool]) -> bool:
    """Whether a condition is true; it is not where a daemon cannot be asked."""
    try:
        return condition()
    except probes.UNREACHABLE:
        return False
