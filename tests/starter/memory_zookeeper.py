"""A ZooKeeper in this process, for what a starter asks of one: every look at a node is noted.

``MemoryZooKeeper.session`` takes the place of ``ZooKeeperSession``.
"""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Sequence
from types import SimpleNamespace

from ytf.starter.zookeeper_session import NO_NODE, NODE_EXISTS, ZooKeeperError

Paths = set[str]


class MemoryZooKeeper:
    """The nodes, and which of them sessions have looked at: ``("get", path)``."""

    def __init__(self, *paths: str) -> None:
        self.lock = threading.RLock()
        self.nodes: dict[str, tuple[bytes, int, int]] = {}
        self.looks: list[tuple[str, str]] = []
        self.on_get: Callable[[str], object] = lambda path: None
        self._sessions: list[MemorySession] = []
        self._zxid = 0
        for path in paths:
            self.set(path, b"")

    def session(self, servers: Sequence[str], session_s: float) -> MemorySession:
        made = MemorySession(self, len(self._sessions) + 1)
        self._sessions.append(made)
        return made

    def set(self, path: str, data: bytes, owner: int = 0) -> None:
        """Give a node these data, as anybody may."""
        with self.lock:
            self._zxid += 1
            self.nodes[path] = data, owner, self._zxid
            self._tell(path)

    def delete(self, path: str) -> None:
        with self.lock:
            del self.nodes[path]
            self._tell(path)

    def looks_at(self, path: str) -> int:
        with self.lock:
            return sum(looked == path for _, looked in self.looks)

    def _tell(self, path: str) -> None:
        for session in self._sessions:
            session.note_change(path)


class MemorySession:
    """What ``ZooKeeperSession`` is to the node of a task."""

    def __init__(self, zookeeper: MemoryZooKeeper, number: int) -> None:
        self.id = number
        self._zookeeper = zookeeper
        self._watched: set[str] = set()
        self._changed: set[str] = set()
        self._reading, self._writing = socket.socketpair()

    def connect(self) -> None:
        """It always is."""

    def drop(self) -> None:
        """It never is lost."""

    def exists(self, path: str) -> SimpleNamespace | None:
        with self._zookeeper.lock:
            self._zookeeper.looks.append(("exists", path))
            self._watched.add(path)
            return self._stat(path)

    def get(self, path: str) -> tuple[bytes, SimpleNamespace]:
        with self._zookeeper.lock:
            self._zookeeper.looks.append(("get", path))
            stat = self._stat(path)
            if stat is None:
                raise ZooKeeperError(NO_NODE)
            found = self._zookeeper.nodes[path][0]
            self._zookeeper.on_get(path)
            return found, stat

    def create(self, path: str, data: bytes) -> None:
        with self._zookeeper.lock:
            if path in self._zookeeper.nodes:
                raise ZooKeeperError(NODE_EXISTS)
            if path.rpartition("/")[0] not in self._zookeeper.nodes:
                raise ZooKeeperError(NO_NODE)
            self._zookeeper.set(path, data, self.id)

    def set(self, path: str, data: bytes) -> None:
        self._zookeeper.set(path, data, self.id)

    def delete(self, path: str) -> None:
        self._zookeeper.delete(path)

    def note_change(self, path: str) -> None:
        if path in self._watched:
            self._watched.discard(path)
            self._changed.add(path)
            self._writing.send(b"e")

    def take_events(self) -> Paths:
        with self._zookeeper.lock:
            changed, self._changed = self._changed, set()
            return changed

    def fileno(self) -> int:
        return self._reading.fileno()

    def receive(self) -> None:
        self._reading.recv(1)

    def keep_alive(self) -> float:
        return 10.0

    def close(self) -> None:
        self._reading.close()
        self._writing.close()

    def _stat(self, path: str) -> SimpleNamespace | None:
        if path not in self._zookeeper.nodes:
            return None
        data, owner, zxid = self._zookeeper.nodes[path]
        return SimpleNamespace(length=len(data), owner=owner, changed=zxid)
