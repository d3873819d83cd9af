"""A fake master process whose messages a test reads and writes.

The node starts this file as a program (``python fake_master.py SOCKET …``) in
place of a master. It connects to the test's socket, sends its pid and
arguments, and then relays lines between the node and the test. The test's end
is :class:`FakeMasters`.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import socket
import sys
from pathlib import Path
from typing import Any

DEADLINE_S = 60.0


class FakeMaster:
    """One started master, as the test sees it."""

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
        """Return the next message that is not a ping; answer pings."""
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
        """Wait for the next line; return whether the node has closed the socket instead."""
        return self._file.readline() == b""

    def end(self) -> None:
        """Let the master relay what was sent, and exit 0.

        What the node still sends is read: a relay that cannot pass that on
        would die before it has relayed everything.
        """
        with contextlib.suppress(OSError):  # a master that was killed is gone already
            self._connection.shutdown(socket.SHUT_WR)
            while self._file.read1(65536):
                pass
        self._file.close()
        self._connection.close()


class FakeMasters:
    """Accepts the connections of the fake masters that the node starts."""

    def __init__(self, path: Path) -> None:
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(path))
        self._listener.listen()
        self._listener.settimeout(DEADLINE_S)
        self._masters: list[FakeMaster] = []
        self.command = [sys.executable, "-I", "-S", __file__, str(path)]

    def next(self) -> FakeMaster:
        """Return the next master that is started."""
        master = FakeMaster(self._listener.accept()[0])
        self._masters.append(master)
        return master

    def close(self) -> None:
        """End all masters that are left."""
        for master in self._masters:
            master.end()
        self._listener.close()


def _relay(path: str, arguments: list[str]) -> None:
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
    _relay(sys.argv[1], sys.argv[2:])
