"""Blobs in memory for tests, with processes that die and writes that fail."""

from __future__ import annotations

import errno
from collections.abc import Callable
from typing import NoReturn

DISK_FULL = OSError(errno.ENOSPC, "No space left on device")


class MemoryBlobs:
    """The blobs themselves, shared by all processes."""

    def __init__(self) -> None:
        self.data: dict[str, bytes] = {}

    def list(self, directory: str = "") -> list[str]:
        prefix = f"{directory}/" if directory else ""
        # dict() first: threads of several "processes" share this disk.
        inside = [n[len(prefix) :] for n in dict(self.data) if n.startswith(prefix)]
        return sorted({name.partition("/")[0] for name in inside})

    def read(self, name: str) -> bytes:
        try:
            return self.data[name]
        except KeyError:
            raise FileNotFoundError(errno.ENOENT, "No such file", name) from None

    def write(self, name: str, data: bytes) -> None:
        if name in self.data:
            raise FileExistsError(errno.EEXIST, "File exists", name)
        self.data[name] = data

    def delete(self, name: str) -> None:
        self.data.pop(name, None)


class DiedError(Exception):
    """The process is dead: not an OSError, since that would be handled."""


class Process:
    """The blobs as one process uses them.

    ``before`` and ``after`` are called around each write, and what they raise
    is raised to the writer. A process dies in the call after ``calls_left``
    calls; if it was writing, it has written the fraction ``torn`` (0 to 1).
    """

    def __init__(self, disk: MemoryBlobs) -> None:
        self.disk = disk
        self.dead = False
        self.calls_left: int | None = None
        self.torn = 0.0
        self.before: Callable[[str, bytes], None] = lambda name, data: None
        self.after: Callable[[str, bytes], None] = lambda name, data: None
        self.writes: list[str] = []

    def die(self) -> NoReturn:
        self.dead = True
        raise DiedError

    def list(self, directory: str = "") -> list[str]:
        self._call()
        return self.disk.list(directory)

    def read(self, name: str) -> bytes:
        self._call()
        return self.disk.read(name)

    def write(self, name: str, data: bytes) -> None:
        try:
            self._call()
        except DiedError:
            written = data[: round(self.torn * len(data))]
            if self.torn and name not in self.disk.data:
                self.disk.data[name] = written
            raise
        self.before(name, data)
        self.disk.write(name, data)
        self.writes.append(name)
        self.after(name, data)

    def delete(self, name: str) -> None:
        self._call()
        self.disk.delete(name)

    def _call(self) -> None:
        if self.calls_left is not None:
            self.calls_left -= 1
        if self.dead or (self.calls_left is not None and self.calls_left < 0):
            self.die()
