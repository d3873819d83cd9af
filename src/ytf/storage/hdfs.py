"""HDFS as the storage ports want it, over hdfs-native: no JVM on our side.

Errors are of our own tree and the ``OSError`` that the ports promise, both at
once: see :mod:`ytf.storage.hdfs_errors`.
"""

from __future__ import annotations

import contextlib
import posixpath
import uuid
from collections.abc import AsyncIterator, Iterable, Iterator
from itertools import chain

import hdfs_native
from hdfs_native import AsyncClient

from ytf.hadoop.conf import Configuration
from ytf.storage.blob_reading import BlobReader
from ytf.storage.files import CHUNK, FileStatus, temporary_beside
from ytf.storage.hdfs_errors import HdfsNotADirectoryError, HdfsNotEmptyError, HdfsNotFoundError
from ytf.storage.hdfs_link import HdfsLink
from ytf.storage.hdfs_writing import move_into_place, write_small, write_stream

_SCRATCH = ".tmp"


def path_of(url: str) -> str:
    """The path within its file system of an ``hdfs://`` URL, or of a bare path.

    Taken literally, as Hadoop does: ``%20`` is three characters.
    """
    if not url.startswith("hdfs://"):
        return _clean(url)
    return _clean("/" + url.removeprefix("hdfs://").partition("/")[2])


class HdfsFiles:
    """The files of one HDFS."""

    def __init__(self, link: HdfsLink) -> None:
        self.link = link

    @classmethod
    def open(cls, url: str, conf: Configuration) -> HdfsFiles:
        """The HDFS that a URL is in; its path does not matter. Nothing is connected yet."""
        return cls(HdfsLink(url, conf))

    def uri(self, path: str) -> str:
        """See :meth:`Files.uri`. Hadoop's own form: nothing in the path is quoted."""
        return f"{self.link.authority}{_clean(path)}"

    def stat(self, path: str) -> FileStatus:
        """See :meth:`Files.stat`."""
        path = _clean(path)
        found = self.link.call(
            f"look at {path}",
            lambda client: client.get_file_info(path),
            changes=False,
            repeatable=True,
        )
        return _status(path, found)

    def list(self, path: str) -> list[FileStatus]:
        """See :meth:`Files.list`."""
        path = _clean(path)
        found = self.link.call(
            f"list {path}",
            lambda client: _listing(client, path),
            changes=False,
            repeatable=True,
        )
        if len(found) == 1 and not found[0].isdir and found[0].path == path:
            raise HdfsNotADirectoryError(f"cannot list {self.uri(path)}: it is a file")
        return sorted((_status(each.path, each) for each in found), key=lambda each: each.name)

    def read(self, path: str, offset: int = 0, length: int | None = None) -> Iterator[bytes]:
        """See :meth:`Files.read`."""
        path = _clean(path)
        doing = f"read {path}"
        reader = self.link.call(
            doing, lambda client: client.read(path), changes=False, repeatable=True
        )
        left = max(0, len(reader) - offset)
        if length is not None:
            left = min(left, length)
        if left == 0:
            return
        stream = reader.read_range_stream(offset, left)
        while left > 0:
            piece = self.link.call(doing, lambda _: _next_piece(stream), changes=False)
            if not piece:
                raise HdfsNotFoundError(f"cannot {doing}: {left} bytes are missing at its end")
            left -= len(piece)
            yield piece

    def write(self, path: str, chunks: Iterable[bytes], mode: int = 0o600) -> FileStatus:
        """See :meth:`Files.write`."""
        path = _clean(path)
        temporary = temporary_beside(path)
        try:
            pieces = iter(chunks)
            head = _head(pieces)
            if len(head) <= CHUNK:
                write_small(self.link, temporary, head, mode)
            else:
                write_stream(self.link, temporary, chain([head], pieces), mode)
            move_into_place(self.link, temporary, path)
        except BaseException:
            # What cannot be removed either is what a dying process leaves, too.
            with contextlib.suppress(OSError):
                self.delete(temporary)
            raise
        return self.stat(path)

    def mkdir(self, path: str, mode: int = 0o700) -> None:
        """See :meth:`Files.mkdir`."""
        path = _clean(path)
        try:
            self._mkdir_one(path, mode)
        except HdfsNotFoundError:
            self.mkdir(posixpath.dirname(path), mode)
            self._mkdir_one(path, mode)

    def chmod(self, path: str, mode: int) -> None:
        """See :meth:`Files.chmod`."""
        path = _clean(path)
        self.link.call(
            f"set the mode of {path}",
            lambda client: client.set_permission(path, mode),
            changes=True,
            repeatable=True,
        )

    def delete(self, path: str) -> None:
        """See :meth:`Files.delete`."""
        path = _clean(path)
        self.link.call(
            f"delete {path}",
            lambda client: client.delete(path, True),
            changes=True,
            repeatable=True,
        )

    def rename(self, source: str, target: str) -> None:
        """See :meth:`Files.rename`."""
        source, target = _clean(source), _clean(target)
        self.link.call(
            f"rename {source} to {target}",
            lambda client: client.rename(source, target, False),
            changes=True,
        )

    def _mkdir_one(self, path: str, mode: int) -> None:
        self.link.call(
            f"make the directory {path}",
            lambda client: client.mkdirs(path, mode, False),
            changes=True,
            repeatable=True,
        )


class HdfsBlobs(BlobReader):
    """Blobs as files below a directory of HDFS, readable by their owner only.

    A blob is written into a directory of its own below the root (``.tmp``),
    synced, closed, and renamed into its place, which never replaces anything.
    What a killed process left half-written stays there, unseen, and goes with
    the root: nobody but its writer may touch it, for its absence is how a
    writer whose connection broke knows that the rename was done.
    """

    def __init__(self, link: HdfsLink, root: str) -> None:
        super().__init__(HdfsFiles(link), _clean(root))
        self._link = link

    def write(self, name: str, data: bytes) -> None:
        """See :meth:`Blobs.write`."""
        target = self._path(name)
        temporary = f"{self._root}/{_SCRATCH}/{uuid.uuid4().hex}"
        try:
            self._write(temporary, data)
            self._move(temporary, target)
        except BaseException:
            # What cannot be removed either is what a dying process leaves, too.
            with contextlib.suppress(OSError):
                self._files.delete(temporary)
            raise

    def delete(self, name: str) -> None:
        """See :meth:`Blobs.delete`."""
        path = self._path(name)
        self._delete_alone(path)
        folder = posixpath.dirname(path)
        # A directory in use refuses, also if somebody writes at this very moment.
        with contextlib.suppress(HdfsNotEmptyError):
            while folder != self._root:
                self._delete_alone(folder)
                folder = posixpath.dirname(folder)

    def _write(self, temporary: str, data: bytes) -> None:
        try:
            write_small(self._link, temporary, data, 0o600)
        except HdfsNotFoundError:
            self._files.mkdir(posixpath.dirname(temporary))
            write_small(self._link, temporary, data, 0o600)

    def _move(self, temporary: str, target: str, tries: int = 5) -> None:
        try:
            move_into_place(self._link, temporary, target)
        except HdfsNotFoundError:
            if tries == 0:
                raise
            # Its directory is not there yet, or went with its last blob.
            self._files.mkdir(posixpath.dirname(target))
            self._move(temporary, target, tries - 1)

    def _delete_alone(self, path: str) -> None:
        self._link.call(
            f"delete {path}",
            lambda client: client.delete(path, False),
            changes=True,
            repeatable=True,
        )


def _clean(path: str) -> str:
    if not path.startswith("/"):
        raise ValueError(f"not an absolute path: {path!r}")
    return "/" + "/".join(part for part in path.split("/") if part)


def _status(path: str, found: hdfs_native.FileStatus) -> FileStatus:
    return FileStatus(
        path=path,
        is_directory=found.isdir,
        size=found.length,
        mtime_ms=found.modification_time,
        owner=found.owner,
        mode=found.permission & 0o7777,
    )


async def _listing(client: AsyncClient, path: str) -> list[hdfs_native.FileStatus]:
    return [each async for each in client.list_status(path)]


async def _next_piece(stream: AsyncIterator[bytes]) -> bytes:
    """About ``CHUNK`` bytes: the packets of a DataNode are too small to hand on one by one."""
    piece = bytearray()
    while len(piece) < CHUNK:
        packet = await anext(stream, b"")
        if not packet:
            break
        piece += packet
    return bytes(piece)


def _head(pieces: Iterator[bytes]) -> bytes:
    """All of a small file, or the beginning of a larger one."""
    head = bytearray()
    for piece in pieces:
        head += piece
        if len(head) > CHUNK:
            break
    return bytes(head)
