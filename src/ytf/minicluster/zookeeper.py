"""Real ZooKeeper servers on this machine, one or an ensemble, without the rest of a cluster."""

from __future__ import annotations

import socket
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING

from ytf.minicluster.configuration import LOG4J, zoo_cfg
from ytf.minicluster.daemons import HOST, free_ports
from ytf.minicluster.directory import ClusterDirectory
from ytf.minicluster.java import find_java
from ytf.minicluster.jvm import Jvm
from ytf.minicluster.options import DEFAULT_VERSION
from ytf.minicluster.releases import fetch
from ytf.minicluster.supervisor import ClusterError

if TYPE_CHECKING:
    from typing_extensions import Self

_ALONE = "org.apache.zookeeper.server.ZooKeeperServerMain"
_MEMBER = "org.apache.zookeeper.server.quorum.QuorumPeerMain"
_HEAP_MB = 128
_START_S = 60.0
_POLL_S = 0.02
_ANSWER_S = 2.0
# The server ends with the process that has started it, also if that is killed: its stdin ends.
_RUN = '"$@" </dev/null >>"$LOG" 2>&1 & cat >/dev/null; kill -9 $!; wait'


class ZooKeeperEnsemble:
    """Some servers, numbered from 0; they end with this process, even if it is killed.

    One server runs alone. Several form a quorum. They need Java and, the first
    time, Maven and the network.
    """

    def __init__(self, directory: Path, servers: int = 1) -> None:
        self._directory = ClusterDirectory(directory.absolute())
        ports = free_ports(3 * servers)
        self._ports = [ports[3 * number : 3 * number + 3] for number in range(servers)]
        self._running: dict[int, subprocess.Popen[bytes]] = {}
        self._jvm: Jvm | None = None

    def __enter__(self) -> Self:
        self.start(*range(len(self._ports)))
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.kill(*self._running)

    @property
    def addresses(self) -> list[str]:
        """``host:port`` of each server, for clients."""
        return [f"{HOST}:{client}" for client, _, _ in self._ports]

    def start(self, *numbers: int) -> None:
        """Start servers, with the data that they had; returns when each of them serves clients."""
        for number in numbers:
            self._running[number] = self._spawn(number)
        for number in numbers:
            self._wait_until_serving(number)

    def kill(self, *numbers: int) -> None:
        """Kill servers (SIGKILL); returns when they are dead."""
        for number in numbers:
            stdin = self._running[number].stdin
            assert stdin is not None
            stdin.close()
        for number in numbers:
            self._running.pop(number).wait()

    def restart(self) -> None:
        """Kill all servers at once, and start them again."""
        numbers = list(self._running)
        self.kill(*numbers)
        self.start(*numbers)

    def serves(self, number: int) -> bool:
        """Whether a server answers, as a member of a quorum if it is to be one."""
        try:
            with socket.create_connection((HOST, self._ports[number][0]), _ANSWER_S) as server:
                server.sendall(b"srvr")
                return b"Mode:" in server.recv(4096)
        except OSError:
            return False

    def _spawn(self, number: int) -> subprocess.Popen[bytes]:
        name = f"zk{number}"
        conf, data = self._directory.conf(name), self._directory.data(name)
        for place in (conf, data, self._directory.logs, self._directory.data("tmp")):
            place.mkdir(parents=True, exist_ok=True)
        lines = zoo_cfg(data, self._ports[number][0])
        if len(self._ports) > 1:
            lines += ["initLimit=60", "syncLimit=20", *self._members()]
            (data / "myid").write_text(f"{number + 1}\n")
        (conf / "zoo.cfg").write_text("\n".join(lines) + "\n")
        (conf / "log4j.properties").write_text(LOG4J)
        jvm = self._java()
        program = _MEMBER if len(self._ports) > 1 else _ALONE
        command = jvm.command(conf, program, str(conf / "zoo.cfg"))
        return subprocess.Popen(
            ["sh", "-c", _RUN, "sh", *command],
            stdin=subprocess.PIPE,
            env={**jvm.environ(), "LOG": str(self._directory.log(name))},
            # A Ctrl-C on the terminal is for the tests.
            start_new_session=True,
        )

    def _members(self) -> Sequence[str]:
        return [
            f"server.{number + 1}={HOST}:{peers}:{election}"
            for number, (_, peers, election) in enumerate(self._ports)
        ]

    def _java(self) -> Jvm:
        if self._jvm is None:
            release = fetch(DEFAULT_VERSION, lambda text: None)
            self._jvm = Jvm(find_java(DEFAULT_VERSION), release, self._directory, _HEAP_MB)
        return self._jvm

    def _wait_until_serving(self, number: int) -> None:
        deadline = time.monotonic() + _START_S
        while not self.serves(number):
            if time.monotonic() > deadline:
                raise ClusterError(
                    f"ZooKeeper server {number} does not serve after {_START_S:.0f} s",
                    hint=f"the servers' logs are in {self._directory.logs}",
                )
            time.sleep(_POLL_S)
