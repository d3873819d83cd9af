"""A ZooKeeper in this process, for what a master asks of one: every call is noted.

``MemoryZooKeeper.connection_to`` takes the place of the registry's connection.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Coroutine, Sequence
from types import SimpleNamespace
from typing import Any

from kazoo.exceptions import NodeExistsError, NoNodeError, NotEmptyError

from ytf.registry.zookeeper_client import DISCONNECTED


class MemoryZooKeeper:
    """The nodes, and what was called. ``failing`` are the exceptions of calls by their names."""

    def __init__(self) -> None:
        self.losses = 0
        self.servers: Sequence[str] = ["memory"]
        self.nodes: dict[str, bytes] = {"/": b""}
        self.calls: list[tuple[str, str]] = []
        self.longest_read = 0
        self.failing: dict[str, Exception] = {}
        self._watches: dict[str, list[asyncio.Event]] = {}

    def connection_to(self, servers: Sequence[str]) -> MemoryZooKeeper:
        return self

    # What others do.

    def write(self, path: str, data: bytes) -> None:
        """Make a node, and those above it, or give it other data."""
        above = path.rpartition("/")[0]
        if above and above not in self.nodes:
            self.write(above, b"")
        self.nodes[path] = data
        self._tell(path)

    def children(self, path: str) -> list[str]:
        return [
            each[len(path) + 1 :]
            for each in self.nodes
            if each.startswith(f"{path}/") and "/" not in each[len(path) + 1 :]
        ]

    def called(self, name: str, path: str = "") -> int:
        return sum(each == name and where.startswith(path) for each, where in self.calls)

    # The registry's connection.

    async def connection(self) -> None:
        """It is always there."""

    async def lost(self) -> None:
        await asyncio.Event().wait()

    async def close(self) -> None:
        """Nothing is open."""

    async def repeat(self, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        while True:
            with contextlib.suppress(*DISCONNECTED):
                await work()
                return
            await asyncio.sleep(0)

    async def exists(
        self, path: str, changed: asyncio.Event | None = None
    ) -> SimpleNamespace | None:
        if changed is not None:
            self._watches.setdefault(path, []).append(changed)
        found: SimpleNamespace | None = await self.call("exists", path)
        return found

    async def get(self, path: str) -> bytes:
        data: bytes = await self.call("get", path)
        return data

    async def call(self, name: str, path: str, *arguments: Any, **more: Any) -> Any:
        self.calls.append((name, path))
        await asyncio.sleep(0)
        if name in self.failing:
            raise self.failing[name]
        return getattr(self, f"_{name}")(path, *arguments)

    def _exists(self, path: str) -> SimpleNamespace | None:
        if path not in self.nodes:
            return None
        data = self.nodes[path]
        return SimpleNamespace(dataLength=len(data), numChildren=len(self.children(path)))

    def _get(self, path: str) -> bytes:
        self._check(path)
        self.longest_read = max(self.longest_read, len(self.nodes[path]))
        return self.nodes[path]

    def _set(self, path: str, data: bytes) -> None:
        self._check(path)
        self.write(path, data)

    def _create(self, path: str, data: bytes) -> None:
        if path in self.nodes:
            raise NodeExistsError
        self.write(path, data)

    def _delete(self, path: str) -> None:
        self._check(path)
        if self.children(path):
            raise NotEmptyError
        del self.nodes[path]
        self._tell(path)

    def _get_children(self, path: str) -> list[str]:
        self._check(path)
        return self.children(path)

    def _check(self, path: str) -> None:
        if path not in self.nodes:
            raise NoNodeError

    def _tell(self, path: str) -> None:
        for changed in self._watches.pop(path, []):
            changed.set()
