"""Compares what is about to be written with the space that a disk has left."""

from __future__ import annotations

import os
import threading

from ytf.errors import RefusedError
from ytf.specs.amounts import format_bytes

CHECK_EVERY = 32 << 20
_LARGEST_RESERVE = 1 << 30
_RESERVE_SHARE = 50


class DiskFullError(RefusedError, OSError):
    """A disk has too little space left; nothing more is written to it."""


class DiskSpace:
    """The free space of the disk with a directory, of which a reserve is left. Thread-safe.

    The reserve is a fiftieth of the disk, at most 1 GiB: a node whose disk is full
    loses more than this job.
    """

    def __init__(self, directory: str, node: str) -> None:
        self._directory = directory
        self._node = node
        self._lock = threading.Lock()
        self._unchecked = 0
        found = os.statvfs(directory)
        self._reserve = min(found.f_blocks * found.f_frsize // _RESERVE_SHARE, _LARGEST_RESERVE)

    def require(self, size: int) -> None:
        """Raise ``DiskFullError`` unless so many bytes fit, besides the reserve."""
        free = self._free()
        if size > max(free - self._reserve, 0):
            raise DiskFullError(
                f"{format_bytes(size)} are to be written, and the disk of {self._directory} on "
                f"{self._node} has {format_bytes(free)} free, of which "
                f"{format_bytes(self._reserve)} are kept free"
            )

    def wrote(self, size: int) -> None:
        """Count bytes just written; raises ``DiskFullError`` when the reserve is reached."""
        with self._lock:
            self._unchecked += size
            if self._unchecked < CHECK_EVERY:
                return
            self._unchecked = 0
        free = self._free()
        if free < self._reserve:
            raise DiskFullError(
                f"the disk of {self._directory} on {self._node} is almost full, "
                f"{format_bytes(free)} are left: another process has used what was free before"
            )

    def _free(self) -> int:
        found = os.statvfs(self._directory)
        return found.f_bavail * found.f_frsize
