"""The port ``Files``, a file system for staged files and layers, and adapters to it.

Paths are absolute, with ``/`` and without a scheme; the :class:`Files` object
determines the file system. A file appears whole or not at all, and no file is
ever replaced: a path that has been handed out keeps its meaning. The
implementation is ``HdfsFiles`` in :mod:`ytf.storage.hdfs`.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Protocol

CHUNK = 1 << 20
"""The largest number of bytes that a read yields at once."""

_TEMPORARY = ".tmp"


@dataclass(frozen=True, slots=True, kw_only=True)
class FileStatus:
    """The metadata of one file or directory.

    YARN compares ``mtime_ms`` before it localizes a file. ``mode`` has the
    permission bits only. The ``size`` of a directory is 0.
    """

    path: str
    is_directory: bool
    size: int
    mtime_ms: int
    owner: str
    group: str
    mode: int

    @property
    def name(self) -> str:
        """The last part of the path."""
        return PurePosixPath(self.path).name


class Files(Protocol):
    """A file system. Calls block and may be made from several threads at once.

    Every failure is an :class:`OSError`, of its usual subclass where there is
    one (``FileNotFoundError``, ``FileExistsError``, ``PermissionError``,
    ``NotADirectoryError``). After any other error, a change may have happened
    nevertheless. Symbolic links are followed where the file system has them.
    """

    def uri(self, path: str) -> str:
        """Return the path with scheme and authority, for other programs."""
        ...

    def stat(self, path: str) -> FileStatus:
        """Return the status of a path, or raise :class:`FileNotFoundError`."""
        ...

    def list(self, path: str) -> list[FileStatus]:
        """Return what is directly in a directory, sorted by name.

        Raises :class:`FileNotFoundError` if there is no directory. Temporary
        files of unfinished writes (:func:`is_temporary`) are in the list.
        """
        ...

    def read(self, path: str, offset: int = 0, length: int | None = None) -> Iterator[bytes]:
        """Yield the bytes from ``offset`` on: ``length`` of them, or all up to the end.

        Past the end it yields nothing. A missing file raises with the first
        piece at the latest. Closing the iterator closes the file.
        """
        ...

    def write(self, path: str, chunks: Iterable[bytes], mode: int = 0o600) -> FileStatus:
        """Create a file from the chunks, whole and durable, with exactly this mode.

        The file is written under a temporary name in the same directory (see
        :func:`temporary_beside`) and then renamed; :class:`FileExistsError` if
        the path is taken by then. The directory must exist. If anything is
        raised, also by ``chunks``, the temporary file is removed; only a
        process that dies leaves one.
        """
        ...

    def mkdir(self, path: str, mode: int = 0o700) -> None:
        """Create a directory with exactly this mode, and missing parents with the same mode.

        A directory that exists stays as it is; :class:`FileExistsError` or
        :class:`NotADirectoryError` if a file is in the way.
        """
        ...

    def acl_writers(self, path: str) -> tuple[str, ...]:
        """Return whom an access control list lets write: ``user:ann``, ``group:staff``.

        Of a path with such a list, the mode has the most that anyone in the list may do in
        the place of what the group may do.
        """
        ...

    def chmod(self, path: str, mode: int) -> None:
        """Set the permission bits of a file or directory."""
        ...

    def delete(self, path: str) -> None:
        """Remove a file, or a directory with its contents. It is no error if there is none."""
        ...

    def rename(self, source: str, target: str) -> None:
        """Move a file or directory within the file system, atomically.

        :class:`FileExistsError` if ``target`` exists already,
        :class:`FileNotFoundError` if ``source`` or the directory of ``target`` does not.
        """
        ...


class ReplacingFiles(Files, Protocol):
    """A file system with files of users, whose paths may get other contents."""

    def replace(self, source: str, target: str) -> None:
        """Move a file atomically; a file that is at ``target`` is replaced.

        Raises :class:`FileNotFoundError` as :meth:`rename` does.
        """
        ...

    def remove_empty_directory(self, path: str) -> bool:
        """Remove a directory that has nothing in it; returns whether it is gone."""
        ...


def temporary_beside(path: str) -> str:
    """Return a new temporary name in the same directory, for writing the file ``path``."""
    place = PurePosixPath(path)
    return str(place.with_name(f".{place.name}.{uuid.uuid4().hex}{_TEMPORARY}"))


def is_temporary(name: str) -> bool:
    """Whether :func:`temporary_beside` made this name: a write is under way, or was killed."""
    return name.startswith(".") and name.endswith(_TEMPORARY)


def clock_ms(files: Files, directory: str) -> int:
    """Return the file system's own time: the modification time of a file just written there.

    The ages of files are computed with it, since this machine's clock may differ.
    """
    place = temporary_beside(f"{directory}/time")
    try:
        return files.write(place, []).mtime_ms
    finally:
        files.delete(place)


class FileSource:
    """Implements ``ByteSource`` of :mod:`ytf.hadoop.logs` for one file."""

    def __init__(self, files: Files, path: str) -> None:
        self._files = files
        self._path = path
        self.name = files.uri(path)
        self.size = files.stat(path).size

    def read(self, offset: int, length: int) -> Iterator[bytes]:
        """Yield ``length`` bytes from ``offset`` on, in pieces."""
        return self._files.read(self._path, offset, length)


class FileTree:
    """Implements ``LogTree`` of :mod:`ytf.hadoop.logs` for a file system."""

    def __init__(self, files: Files) -> None:
        self._files = files

    def names(self, directory: str) -> list[str]:
        """Return the names in a directory, sorted."""
        return [each.name for each in self._files.list(directory)]

    def source(self, path: str) -> FileSource:
        """Open one file for reading."""
        return FileSource(self._files, path)
