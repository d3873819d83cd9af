"""Files and directories, as far as staging and layers need them: on a disk or in HDFS.

Paths are absolute, with ``/``, without a scheme: which file system is meant is
the :class:`Files` object's own affair. A file appears whole or not at all, and
nothing is ever replaced: a path that was once given away keeps its meaning.
"""

from __future__ import annotations

import contextlib
import os
import pwd
import shutil
import stat
import uuid
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Protocol
from urllib.parse import quote

from ytf.storage.blobs import sync_directory

CHUNK = 1 << 20
"""How many bytes a read gives at a time, at most."""

_TEMPORARY = ".tmp"


@dataclass(frozen=True, slots=True, kw_only=True)
class FileStatus:
    """What a file system says of one file or directory.

    ``mtime_ms`` is what YARN compares before it localizes a file, and ``mode``
    holds the permission bits alone. A directory's ``size`` is 0.
    """

    path: str
    is_directory: bool
    size: int
    mtime_ms: int
    owner: str
    mode: int

    @property
    def name(self) -> str:
        """The last part of the path."""
        return PurePosixPath(self.path).name


class Files(Protocol):
    """A file system. Calls block and may be made from several threads at once.

    Every failure is an :class:`OSError`, of its usual subclass where there is
    one (``FileNotFoundError``, ``FileExistsError``, ``PermissionError``,
    ``NotADirectoryError``); after any other, a change may still have happened.
    Links are followed, as far as the file system has them.
    """

    def uri(self, path: str) -> str:
        """The path with scheme and authority, as other programs name it."""
        ...

    def stat(self, path: str) -> FileStatus:
        """What is there, or :class:`FileNotFoundError`."""
        ...

    def list(self, path: str) -> list[FileStatus]:
        """What is right in a directory, sorted by name; :class:`FileNotFoundError` if none.

        Temporary files of writes under way (:func:`is_temporary`) are shown.
        """
        ...

    def read(self, path: str, offset: int = 0, length: int | None = None) -> Iterator[bytes]:
        """The bytes from ``offset`` on, ``length`` of them or to the end, in pieces.

        Beyond the end there is nothing. A file that is not there raises with
        the first piece at the latest. What is not read to the end is closed
        with the iterator.
        """
        ...

    def write(self, path: str, chunks: Iterable[bytes], mode: int = 0o600) -> FileStatus:
        """Make a file of the pieces, whole and durable, with exactly this mode.

        It is written under a temporary name beside its place (see
        :func:`temporary_beside`) and renamed; :class:`FileExistsError` if the
        place is taken, by then. The directory must be there. When anything is
        raised, also by ``chunks``, the temporary file is removed; only a
        process that dies leaves one.
        """
        ...

    def mkdir(self, path: str, mode: int = 0o700) -> None:
        """Make a directory with exactly this mode, and missing parents with the same.

        One that is there stays as it is; :class:`FileExistsError` or
        :class:`NotADirectoryError` if a file is in the way.
        """
        ...

    def chmod(self, path: str, mode: int) -> None:
        """Set the permission bits of a file or directory."""
        ...

    def delete(self, path: str) -> None:
        """Remove a file, or a directory with all in it. What is not there is as good as removed."""
        ...

    def rename(self, source: str, target: str) -> None:
        """Move a file or directory within the file system, at once.

        :class:`FileExistsError` if there is something at ``target`` already,
        :class:`FileNotFoundError` if nothing is at ``source``.
        """
        ...


def temporary_beside(path: str) -> str:
    """A new name, in the same directory, for the file that will be at ``path``."""
    place = PurePosixPath(path)
    return str(place.with_name(f".{place.name}.{uuid.uuid4().hex}{_TEMPORARY}"))


def is_temporary(name: str) -> bool:
    """Whether a name is one of :func:`temporary_beside`: a write that is under way, or died."""
    return name.startswith(".") and name.endswith(_TEMPORARY)


def clock_ms(files: Files, directory: str) -> int:
    """What the file system's own clock says: the time of a file just written there.

    Ages of files are told against it, for our clock may be another.
    """
    place = temporary_beside(f"{directory}/time")
    try:
        return files.write(place, []).mtime_ms
    finally:
        files.delete(place)


class LocalFiles:
    """This machine's own file system."""

    def uri(self, path: str) -> str:
        """See :meth:`Files.uri`."""
        return f"file://{quote(_absolute(path))}"

    def stat(self, path: str) -> FileStatus:
        """See :meth:`Files.stat`."""
        return _status(_absolute(path), os.stat(path))

    def list(self, path: str) -> list[FileStatus]:
        """See :meth:`Files.list`."""
        found = []
        for name in sorted(os.listdir(_absolute(path))):
            inside = os.path.join(path, name)
            # One that went away in between is not in the directory any more.
            with contextlib.suppress(FileNotFoundError):
                found.append(self.stat(inside))
        return found

    def read(self, path: str, offset: int = 0, length: int | None = None) -> Iterator[bytes]:
        """See :meth:`Files.read`."""
        with open(_absolute(path), "rb") as file:
            file.seek(offset)
            left = length
            while left is None or left > 0:
                piece = file.read(CHUNK if left is None else min(CHUNK, left))
                if not piece:
                    return
                if left is not None:
                    left -= len(piece)
                yield piece

    def write(self, path: str, chunks: Iterable[bytes], mode: int = 0o600) -> FileStatus:
        """See :meth:`Files.write`."""
        temporary = temporary_beside(_absolute(path))
        try:
            with open(temporary, "xb", opener=_private) as file:
                file.writelines(chunks)
                file.flush()
                os.fchmod(file.fileno(), mode)
                os.fsync(file.fileno())
            # A link, unlike a rename, never replaces what is there.
            os.link(temporary, path)
        finally:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(temporary)
        sync_directory(os.path.dirname(path))
        return self.stat(path)

    def mkdir(self, path: str, mode: int = 0o700) -> None:
        """See :meth:`Files.mkdir`."""
        if os.path.isdir(_absolute(path)):
            return
        parent = os.path.dirname(path)
        if parent != path:
            self.mkdir(parent, mode)
        try:
            os.mkdir(path, 0o700)
        except FileExistsError:
            if not os.path.isdir(path):
                raise
        else:
            os.chmod(path, mode)
            sync_directory(parent)

    def chmod(self, path: str, mode: int) -> None:
        """See :meth:`Files.chmod`."""
        os.chmod(_absolute(path), mode)

    def delete(self, path: str) -> None:
        """See :meth:`Files.delete`."""
        with contextlib.suppress(FileNotFoundError):
            if os.path.isdir(_absolute(path)) and not os.path.islink(path):
                shutil.rmtree(path)
            else:
                os.unlink(path)

    def rename(self, source: str, target: str) -> None:
        """See :meth:`Files.rename`."""
        if os.path.isdir(_absolute(source)):
            # rename(2) refuses to replace a file or a directory with something
            # in it; an empty one is made room for by taking its name first.
            os.mkdir(_absolute(target), 0o700)
            os.rename(source, target)
        else:
            os.link(source, _absolute(target))
            os.unlink(source)


def _absolute(path: str) -> str:
    if not path.startswith("/"):
        raise ValueError(f"not an absolute path: {path!r}")
    return path


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)


def _status(path: str, found: os.stat_result) -> FileStatus:
    is_directory = stat.S_ISDIR(found.st_mode)
    return FileStatus(
        path=path,
        is_directory=is_directory,
        size=0 if is_directory else found.st_size,
        mtime_ms=found.st_mtime_ns // 1_000_000,
        owner=_name_of(found.st_uid),
        mode=stat.S_IMODE(found.st_mode),
    )


def _name_of(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)
