"""The ports ``Blobs`` and ``ReadableBlobs``, which hold a journal, and their local implementation.

A blob is a named, immutable piece of data in a directory. The port promises
only what both a local file system and HDFS can keep: a blob appears whole or
not at all, and once :meth:`Blobs.write` has returned, it survives a power
failure. Nothing is ever appended to or changed. ``HdfsBlobs`` is in
:mod:`ytf.storage.hdfs`.
"""

from __future__ import annotations

import contextlib
import errno
import os
import posixpath
import uuid
from pathlib import Path, PurePosixPath
from typing import Protocol

from ytf.storage.files import Files

_TEMPORARY = ".tmp"


class ReadableBlobs(Protocol):
    """A tree of blobs that can only be read. Calls block.

    Names are relative paths with ``/``; no part of a name begins with a dot.
    Every failure is an :class:`OSError`.
    """

    def list(self, directory: str = "") -> list[str]:
        """Return the names directly in a directory, sorted; [] if there is no such directory.

        A write that returned before this call began is seen.
        """
        ...

    def read(self, name: str) -> bytes:
        """Return the bytes of a blob, or raise :class:`FileNotFoundError`."""
        ...


class Blobs(ReadableBlobs, Protocol):
    """A tree of blobs that can be changed. Calls block, so an event loop makes them in threads.

    A directory is made with its first blob and removed with its last. The root
    is made and removed by others: a write after its removal raises
    :class:`FileNotFoundError` and makes nothing. After a failed write, the blob
    may exist nevertheless.
    """

    def write(self, name: str, data: bytes) -> None:
        """Create a blob, whole and durable; :class:`FileExistsError` if the name is taken."""
        ...

    def delete(self, name: str) -> None:
        """Remove a blob. It is no error if there is none."""
        ...


class LocalBlobs:
    """Blobs as local files below a directory, readable by their owner only.

    A blob is written to a temporary file in the same directory, synced, and
    hard-linked to its name: a link, unlike a rename, never replaces a file.
    Temporary files of killed processes are never listed. They are removed
    when their directory is listed next.
    """

    def __init__(self, path: Path) -> None:
        self._root = path

    def list(self, directory: str = "") -> list[str]:
        """See :meth:`Blobs.list`."""
        folder = self._path(directory) if directory else self._root
        try:
            names = _remove_abandoned_writes(folder)
        except (FileNotFoundError, NotADirectoryError):
            return []
        return [name for name in names if not name.startswith(".")]

    def read(self, name: str) -> bytes:
        """See :meth:`Blobs.read`."""
        return self._path(name).read_bytes()

    def write(self, name: str, data: bytes) -> None:
        """See :meth:`Blobs.write`."""
        target = self._path(name)
        self._make_directory(target.parent)
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
        while folder != self._root and folder.is_dir() and not _remove_abandoned_writes(folder):
            # Another process may write into it at this moment: then it stays.
            with contextlib.suppress(OSError):
                folder.rmdir()
            folder = folder.parent

    def _make_directory(self, path: Path) -> None:
        """Make a directory below the root, and its parents, each synced in the one above it."""
        if path == self._root or path.is_dir():
            return
        self._make_directory(path.parent)
        path.mkdir(mode=0o700, exist_ok=True)
        sync_directory(path.parent)

    def _path(self, name: str) -> Path:
        return self._root.joinpath(*_parts(name))


class TooLongError(OSError):
    """The blobs are longer than their reader wants to read."""


class BlobReader:
    """Implements ``ReadableBlobs`` for a directory of any file system.

    ``most_bytes``: how much may be read in all; more raises :class:`TooLongError`.
    """

    def __init__(self, files: Files, root: str, *, most_bytes: int | None = None) -> None:
        self._files = files
        self._root = root
        self._left = most_bytes

    def list(self, directory: str = "") -> list[str]:
        """See :meth:`ReadableBlobs.list`."""
        folder = self._path(directory) if directory else self._root
        try:
            found = self._files.list(folder)
        except (FileNotFoundError, NotADirectoryError):
            return []
        return [each.name for each in found if not each.name.startswith(".")]

    def read(self, name: str) -> bytes:
        """See :meth:`ReadableBlobs.read`."""
        left = self._left
        data = b"".join(self._files.read(self._path(name), 0, None if left is None else left + 1))
        if left is not None:
            if len(data) > left:
                raise TooLongError(errno.EFBIG, "too long", self._path(name))
            self._left = left - len(data)
        return data

    def _path(self, name: str) -> str:
        return posixpath.join(self._root, *_parts(name))


def _parts(name: str) -> tuple[str, ...]:
    parts = PurePosixPath(name).parts
    if not parts or any(part.startswith((".", "/")) for part in parts):
        raise ValueError(f"not the name of a blob: {name!r}")
    return parts


def _write_synced(path: Path, data: bytes) -> None:
    with open(path, "xb", opener=lambda name, flags: os.open(name, flags, 0o600)) as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def sync_directory(path: str | Path) -> None:
    """Make the creation, removal and renaming of files in a directory durable."""
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _remove_abandoned_writes(folder: Path) -> list[str]:
    """Remove temporary files of other processes from a directory; return all other names, sorted.

    If such a process is still alive, that one write of it fails, and nothing else.
    """
    ours = f".{os.getpid()}."
    left = []
    for name in sorted(os.listdir(folder)):
        if name.startswith(".") and name.endswith(_TEMPORARY) and not name.startswith(ours):
            (folder / name).unlink(missing_ok=True)
        else:
            left.append(name)
    return left
