"""Named, immutable pieces of data in directories: all that the journal asks of a disk.

The port is what both a local file system and HDFS can promise: a blob appears
whole or not at all, and once :meth:`Blobs.write` has returned it survives a
power cut. Nothing is ever appended to or changed.
"""

from __future__ import annotations

import contextlib
import os
import uuid
from pathlib import Path, PurePosixPath
from typing import Protocol

_TEMPORARY = ".tmp"


class ReadableBlobs(Protocol):
    """A tree of blobs for who only looks at it. Calls block.

    Names are relative paths with ``/``; no part of one begins with a dot.
    Every failure is an :class:`OSError`.
    """

    def list(self, directory: str = "") -> list[str]:
        """The names right in a directory, sorted; empty if there is no such directory.

        A write that returned before the call began is seen.
        """
        ...

    def read(self, name: str) -> bytes:
        """A blob's bytes, or :class:`FileNotFoundError`."""
        ...


class Blobs(ReadableBlobs, Protocol):
    """A tree of blobs. Calls block, so an event loop makes them in threads.

    Directories come with their first blob and go with their last. After a
    failure, a write may still have happened.
    """

    def write(self, name: str, data: bytes) -> None:
        """Make a blob, whole and durable, or raise; :class:`FileExistsError` if there is one."""
        ...

    def delete(self, name: str) -> None:
        """Remove a blob. One that is not there is as good as removed."""
        ...


class LocalBlobs:
    """Blobs as files below a directory, readable by their owner only.

    A blob is written beside its place, synced, and linked into it: a link,
    unlike a rename, never replaces what is there. What a killed process left
    half-written is never shown, and goes when its directory is listed next.
    """

    def __init__(self, path: Path) -> None:
        self._root = path

    def list(self, directory: str = "") -> list[str]:
        """See :meth:`Blobs.list`."""
        folder = self._path(directory) if directory else self._root
        try:
            return [name for name in _sweep(folder) if not name.startswith(".")]
        except (FileNotFoundError, NotADirectoryError):
            return []

    def read(self, name: str) -> bytes:
        """See :meth:`Blobs.read`."""
        return self._path(name).read_bytes()

    def write(self, name: str, data: bytes) -> None:
        """See :meth:`Blobs.write`."""
        target = self._path(name)
        _make_directory(target.parent)
        temporary = target.with_name(f".{os.getpid()}.{uuid.uuid4().hex}{_TEMPORARY}")
        try:
            _write_synced(temporary, data)
            os.link(temporary, target)
        finally:
            temporary.unlink(missing_ok=True)
        sync_directory(target.parent)

    def delete(self, name: str) -> None:
        """See :meth:`Blobs.delete`."""
        path = self._path(name)
        path.unlink(missing_ok=True)
        folder = path.parent
        while folder != self._root and folder.is_dir() and not _sweep(folder):
            # Somebody may write into it at this very moment: then it stays.
            with contextlib.suppress(OSError):
                folder.rmdir()
            folder = folder.parent

    def _path(self, name: str) -> Path:
        parts = PurePosixPath(name).parts
        if not parts or any(part.startswith((".", "/")) for part in parts):
            raise ValueError(f"not the name of a blob: {name!r}")
        return self._root.joinpath(*parts)


def _write_synced(path: Path, data: bytes) -> None:
    with open(path, "xb", opener=lambda name, flags: os.open(name, flags, 0o600)) as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def _make_directory(path: Path) -> None:
    """Make a directory and its parents, each durable in the one above it."""
    if path.is_dir():
        return
    _make_directory(path.parent)
    path.mkdir(mode=0o700, exist_ok=True)
    sync_directory(path.parent)


def sync_directory(path: str | Path) -> None:
    """Make durable what was made or renamed in a directory."""
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _sweep(folder: Path) -> list[str]:
    """Remove what other processes left half-written in a directory; what stays, sorted.

    A process that still lives loses nothing but that one write, which then fails.
    """
    ours = f".{os.getpid()}."
    left = []
    for name in sorted(os.listdir(folder)):
        if name.startswith(".") and name.endswith(_TEMPORARY) and not name.startswith(ours):
            (folder / name).unlink(missing_ok=True)
        else:
            left.append(name)
    return left
