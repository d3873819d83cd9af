"""A stand-in master whose strings a test holds.

As a program (``python puppet.py SOCKET …``) it is started by the node in place
of a master, connects to the test's socket, says who it is, and from then on
passes lines both ways. The test's end is :class:`Strings`.
"""

from __future__ import annotations

import json
import os
import select
import socket
import sys
from pathlib import Path
from typing import Any

DEADLINE_S = 15.0


class Puppet:
    """One started master, seen from the test."""

    def __init__(self, connection: socket.socket) -> None:
        connection.settimeout(DEADLINE_S)
        self._connection = connection
        self._file = connection.makefile("rb")
        about = self.receive()
        self.pid: int = about["pid"]
        self.arguments: list[str] = about["arguments"]

    @property
    def attempt(self) -> int:
        return int(self.arguments[self.arguments.index("--attempt") + 1])

    def receive(self) -> dict[str, Any]:
        """The next message that is not a ping; those are answered."""
        while (message := self.receive_any()).get("op") == "ping":
            self.send(op="pong")
        return message

    def receive_any(self) -> dict[str, Any]:
        line = self._file.readline()
        assert line, "the master is gone"
        message: dict[str, Any] = json.loads(line)
        return message

    def send(self, **message: Any) -> None:
        self._connection.sendall(json.dumps(message).encode() + b"\n")

    def launch(self, container: str, argv: list[str], cwd: Path, **more: Any) -> None:
        order: dict[str, Any] = {
            "env": {},
            "stdout": os.devnull,
            "memory_mb": 512,
            "logs": "/no/such/logs",
            "attempt": 1,
            **more,
        }
        cwd.mkdir(parents=True, exist_ok=True)
        self.send(op="launch", container=container, argv=argv, cwd=str(cwd), **order)

    def is_cut_off(self) -> bool:
        """Whether the node has closed the line (waits for it)."""
        return self._file.readline() == b""

    def end(self) -> None:
        """Let the master exit 0."""
        self._file.close()
        self._connection.close()


class Strings:
    """Where puppets connect to."""

    def __init__(self, path: Path) -> None:
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(path))
        self._listener.listen()
        self._listener.settimeout(DEADLINE_S)
        self._puppets: list[Puppet] = []
        self.command = [sys.executable, "-I", "-S", __file__, str(path)]

    def next(self) -> Puppet:
        """The next master that is started."""
        puppet = Puppet(self._listener.accept()[0])
        self._puppets.append(puppet)
        return puppet

    def close(self) -> None:
        """End all that are left."""
        for puppet in self._puppets:
            puppet.end()
        self._listener.close()


def _be_a_puppet(path: str, arguments: list[str]) -> None:
    test = socket.socket(socket.AF_UNIX)
    test.connect(path)
    test.sendall(json.dumps({"pid": os.getpid(), "arguments": arguments}).encode() + b"\n")
    node = socket.socket(fileno=int(os.environ["YTF_NODE_FD"]))
    if "YTF_READY_FD" in os.environ:
        ready = int(os.environ["YTF_READY_FD"])
        os.write(ready, b"ready\n")
        os.close(ready)
    while True:
        for readable in select.select([test, node], [], [])[0]:
            data = readable.recv(65536)
            if not data:
                return
            (node if readable is test else test).sendall(data)


if __name__ == "__main__":
    _be_a_puppet(sys.argv[1], sys.argv[2:])
