"""Implements the ports ``Files`` and ``Blobs`` for HDFS with hdfs-native, without a JVM.

Each error is both one of :mod:`ytf.errors` and the ``OSError`` that the ports
promise: see :mod:`ytf.storage.hdfs_client`.

HDFS lists a file while it is being written, and keeps it when its writer dies;
so files are written under temporary names, and only a rename makes a whole file
appear. hdfs-native repeats a call whose connection broke. So an error of a
rename counts only if its source still exists, and a unique name that is already
taken was taken by our own first try. If a standby NameNode takes over,
:func:`write_small` and :func:`move_into_place` wait for it and continue;
:func:`write_stream` fails.
"""

from __future__ import annotations

import asyncio
import contextlib
import posixpath
import time
import uuid
from collections.abc import AsyncIterator, Iterable, Iterator
from functools import partial
from itertools import chain

import hdfs_native
from async_timeout import timeout
from hdfs_native import AsyncClient, AsyncFileWriter, WriteOptions

from ytf.errors import OutcomeUnknownError, RefusedError, UnreachableError
from ytf.hadoop.conf import Configuration
from ytf.storage.blobs import BlobReader
from ytf.storage.files import CHUNK, FileStatus, temporary_beside
from ytf.storage.hdfs_client import HdfsClient
from ytf.storage.hdfs_errors import (
    HdfsNotADirectoryError,
    HdfsNotEmptyError,
    HdfsNotFoundError,
    HdfsRefusedError,
)

_SCRATCH = ".tmp"
_BLOB_DIRECTORY = 0o700
_SMALL = 8 << 20
"""Files up to this size are kept in memory while they are written, to be closed sooner."""
_FIRST_TRY_S = 0.02
_CLOSE_RETRIES = 6


def path_of(url: str) -> str:
    """Return the path part of an ``hdfs://`` URL, or a bare path as it is.

    Nothing is unquoted, as in Hadoop: ``%20`` is three characters.
    """
    if not url.startswith("hdfs://"):
        return _clean(url)
    return _clean("/" + url.removeprefix("hdfs://").partition("/")[2])


class HdfsFiles:
    """Implements :class:`ytf.storage.files.Files` for one HDFS."""

    def __init__(self, client: HdfsClient) -> None:
        self.client = client

    @classmethod
    def open(cls, url: str, conf: Configuration, *, answer_s: float | None = None) -> HdfsFiles:
        """Return the HDFS that a URL names; its path is ignored. No connection is made yet.

        ``answer_s``: see :class:`HdfsClient`.
        """
        return cls(HdfsClient(url, conf, answer_s=answer_s))

    def uri(self, path: str) -> str:
        """See :meth:`Files.uri`. Nothing in the path is quoted, as in Hadoop."""
        return f"{self.client.authority}{_clean(path)}"

    def stat(self, path: str) -> FileStatus:
        """See :meth:`Files.stat`."""
        path = _clean(path)
        found = self.client.call(
            f"look at {path}",
            lambda native: native.get_file_info(path),
            changes=False,
            repeatable=True,
        )
        return _status(path, found)

    def list(self, path: str) -> list[FileStatus]:
        """See :meth:`Files.list`."""
        path = _clean(path)
        found = self.client.call(
            f"list {path}",
            lambda native: _listing(native, path),
            changes=False,
            repeatable=True,
        )
        if len(found) == 1 and not found[0].isdir and found[0].path == path:
            raise HdfsNotADirectoryError(f"cannot list {self.uri(path)}: it is a file")
        return sorted((_status(each.path, each) for each in found), key=lambda each: each.name)

    def read(self, path: str, offset: int = 0, length: int | None = None) -> Iterator[bytes]:
        """See :meth:`Files.read`."""
        path = _clean(path)
        action = f"read {path}"
        reader = self.client.call(
            action, lambda native: native.read(path), changes=False, repeatable=True
        )
        left = max(0, len(reader) - offset)
        if length is not None:
            left = min(left, length)
        if left == 0:
            return
        if left <= CHUNK:
            # A stream would hand over every packet of a DataNode.
            yield self.client.call(
                action,
                lambda _: reader.read_range(offset, left),
                changes=False,
                repeatable=True,
                transfers=True,
            )
            return
        stream = reader.read_range_stream(offset, left)
        while left > 0:
            piece = self.client.call(
                action, lambda _: _next_piece(stream), changes=False, transfers=True
            )
            if not piece:
                raise HdfsNotFoundError(f"cannot {action}: {left} bytes are missing at its end")
            left -= len(piece)
            yield piece

    def write(self, path: str, chunks: Iterable[bytes], mode: int = 0o600) -> FileStatus:
        """See :meth:`Files.write`."""
        path = _clean(path)
        temporary = temporary_beside(path)
        try:
            pieces = iter(chunks)
            head = _head(pieces)
            if len(head) <= _SMALL:
                write_small(self.client, temporary, head, mode, target=path)
            else:
                write_stream(self.client, temporary, chain([head], pieces), mode, target=path)
            move_into_place(self.client, temporary, path)
        except BaseException:
            # If this fails too, the file is left, as by a process that died.
            with contextlib.suppress(OSError):
                self.delete(temporary)
            raise
        return self.stat(path)

    def mkdir(self, path: str, mode: int = 0o700) -> None:
        """See :meth:`Files.mkdir`."""
        path = _clean(path)
        try:
            _mkdir_one(self.client, path, mode)
        except HdfsNotFoundError:
            self.mkdir(posixpath.dirname(path), mode)
            _mkdir_one(self.client, path, mode)

    def acl_writers(self, path: str) -> tuple[str, ...]:
        """See :meth:`Files.acl_writers`. None where the NameNode has no such lists."""
        path = _clean(path)
        try:
            found = self.client.call(
                f"look at the access control list of {path}",
                lambda native: native.get_acl_status(path),
                changes=False,
                repeatable=True,
            )
        except HdfsRefusedError as exc:
            if "Support for ACLs has been disabled" in str(exc):
                return ()
            raise
        return tuple(
            f"{entry.type}:{entry.name}"
            for entry in found.entries
            if entry.scope == "access" and entry.name and "w" in entry.permissions
        )

    def chmod(self, path: str, mode: int) -> None:
        """See :meth:`Files.chmod`."""
        path = _clean(path)
        self.client.call(
            f"set the mode of {path}",
            lambda native: native.set_permission(path, mode),
            changes=True,
            repeatable=True,
        )

    def delete(self, path: str) -> None:
        """See :meth:`Files.delete`."""
        path = _clean(path)
        self.client.call(
            f"delete {path}",
            lambda native: native.delete(path, True),
            changes=True,
            repeatable=True,
        )

    def rename(self, source: str, target: str) -> None:
        """See :meth:`Files.rename`."""
        source, target = _clean(source), _clean(target)
        self.client.call(
            f"rename {source} to {target}",
            lambda native: native.rename(source, target, False),
            changes=True,
        )

    def replace(self, source: str, target: str) -> None:
        """See :meth:`Files.replace`."""
        source, target = _clean(source), _clean(target)
        self.client.call(
            f"rename {source} to {target}",
            lambda native: native.rename(source, target, True),
            changes=True,
        )

    def remove_empty_directory(self, path: str) -> bool:
        """See :meth:`Files.remove_empty_directory`."""
        path = _clean(path)
        try:
            self.client.call(
                f"delete {path}",
                lambda native: native.delete(path, False),
                changes=True,
                repeatable=True,
            )
        except HdfsNotEmptyError:
            return False
        return True


class HdfsBlobs(BlobReader):
    """Blobs as files below a directory of HDFS, readable by their owner only.

    A blob is written to a temporary file in ``<root>/.tmp``, synced, closed,
    and renamed to its name, which never replaces a file. The temporary file of
    a killed process stays there, unlisted, until the root is deleted. No other
    process may remove it: a writer whose connection broke concludes from its
    absence that the rename was done.
    """

    def __init__(self, client: HdfsClient, root: str) -> None:
        super().__init__(HdfsFiles(client), _clean(root))
        self._client = client

    def write(self, name: str, data: bytes) -> None:
        """See :meth:`Blobs.write`."""
        target = self._path(name)
        temporary = f"{self._root}/{_SCRATCH}/{uuid.uuid4().hex}"
        try:
            self._write(temporary, data, target)
            self._move(temporary, target)
        except BaseException:
            # If this fails too, the file is left, as by a process that died.
            with contextlib.suppress(OSError):
                self._files.delete(temporary)
            raise

    def delete(self, name: str) -> None:
        """See :meth:`Blobs.delete`."""
        path = self._path(name)
        self._delete_alone(path)
        folder = posixpath.dirname(path)
        # HDFS refuses to remove a directory that is not empty, also while another process writes.
        with contextlib.suppress(HdfsNotEmptyError):
            while folder != self._root:
                self._delete_alone(folder)
                folder = posixpath.dirname(folder)

    def _write(self, temporary: str, data: bytes, target: str) -> None:
        try:
            write_small(self._client, temporary, data, 0o600, target=target)
        except HdfsNotFoundError:
            self._make_directory(posixpath.dirname(temporary))
            write_small(self._client, temporary, data, 0o600, target=target)

    def _move(self, temporary: str, target: str, tries: int = 5) -> None:
        try:
            move_into_place(self._client, temporary, target)
        except HdfsNotFoundError:
            if tries == 0:
                raise
            # The directory does not exist yet, or was removed with its last blob.
            self._make_directory(posixpath.dirname(target))
            self._move(temporary, target, tries - 1)

    def _make_directory(self, path: str) -> None:
        """Make a directory below the root, and its parents; the root itself must exist.

        HDFS refuses a directory whose parent is missing. So a write that comes late,
        after the job's end, does not make the job's removed directories again.
        """
        if path == self._root:
            self._files.stat(path)
            return
        try:
            _mkdir_one(self._client, path, _BLOB_DIRECTORY)
        except HdfsNotFoundError:
            self._make_directory(posixpath.dirname(path))
            _mkdir_one(self._client, path, _BLOB_DIRECTORY)

    def _delete_alone(self, path: str) -> None:
        self._client.call(
            f"delete {path}",
            lambda native: native.delete(path, False),
            changes=True,
            repeatable=True,
        )


def _mkdir_one(client: HdfsClient, path: str, mode: int) -> None:
    """Make a directory in one that exists."""
    client.call(
        f"make the directory {path}",
        lambda native: native.mkdirs(path, mode, False),
        changes=True,
        repeatable=True,
    )


def write_small(
    client: HdfsClient, path: str, data: bytes, mode: int, *, target: str | None = None
) -> None:
    """Create a file from bytes; on return it is closed and on the DataNodes' disks.

    The client's timeout applies to each ``CHUNK``. The directory must exist, and no other
    process may use the path. Errors name ``target``, the name that a temporary file will have.
    """
    action = f"write {target or path}"
    *pieces, last = _pieces(data)
    try:
        writer = client.call(action, lambda native: _create(native, path, mode), changes=True)
        for piece in pieces:
            client.call(action, partial(_write_piece, writer, piece), changes=True, transfers=True)
        if client.call(
            action, lambda _: _write_with_short_closes(writer, last), changes=True, transfers=True
        ):
            return
        # A close was cancelled too early, which loses the file: write it again, without that.
    except (UnreachableError, OutcomeUnknownError):
        if not client.has_standby:
            raise
    client.call(action, lambda native: native.delete(path, False), changes=True, repeatable=True)
    write_stream(client, path, iter(_pieces(data)), mode, target=target)


def write_stream(
    client: HdfsClient,
    path: str,
    pieces: Iterator[bytes],
    mode: int,
    *,
    target: str | None = None,
) -> None:
    """Create a file from pieces as they come; the client's timeout applies to each of them.

    The directory must exist, and no other process may use the path. Errors name
    ``target``, the name that a temporary file will have.
    """
    action = f"write {target or path}"
    writer = client.call(action, lambda native: _create(native, path, mode), changes=True)
    for piece in pieces:
        client.call(action, partial(_write_piece, writer, piece), changes=True, transfers=True)
    client.call(action, lambda _: writer.close(), changes=True, transfers=True)


def move_into_place(client: HdfsClient, temporary: str, target: str, tries: int = 2) -> None:
    """Rename a temporary file that no other process uses, exactly once, replacing nothing.

    Raises ``HdfsExistsError`` if ``target`` exists, and ``HdfsNotFoundError``
    if its directory does not; then the temporary file still exists.
    """
    try:
        client.call(
            f"rename {temporary} to {target}",
            lambda native: native.rename(temporary, target, False),
            changes=True,
        )
    except (RefusedError, HdfsNotFoundError):
        if _is_there(client, temporary):
            raise
    except (UnreachableError, OutcomeUnknownError):
        if not client.has_standby or tries == 1:
            raise
        if _is_there(client, temporary):
            move_into_place(client, temporary, target, tries - 1)


def _is_there(client: HdfsClient, path: str) -> bool:
    try:
        client.call(
            f"look at {path}",
            lambda native: native.get_file_info(path),
            changes=False,
            repeatable=True,
        )
    except HdfsNotFoundError:
        return False
    return True


async def _create(native: AsyncClient, path: str, mode: int) -> AsyncFileWriter:
    options = WriteOptions(permission=mode, overwrite=False, create_parent=False)
    try:
        return await native.create(path, options)
    except FileExistsError:
        # hdfs-native tried twice: the first try made it, and its answer was lost.
        await native.delete(path, False)
        return await native.create(path, options)


async def _write_piece(writer: AsyncFileWriter, piece: bytes, native: AsyncClient) -> None:
    await writer.write(piece)


async def _write_with_short_closes(writer: AsyncFileWriter, data: bytes) -> bool:
    """Write and close a file without the sleeps of hdfs-native; False if that failed.

    The NameNode completes a file once a DataNode has reported its last block.
    The client's call usually comes before that report; then ``close()`` sleeps
    half a second before it calls again. If it is cancelled while it sleeps, and
    called again, it asks the NameNode at once. If it is cancelled before its
    first call, the block is lost and ``close()`` never returns. So the first
    try gets the time of several round trips, as measured by syncing the data.
    """
    if not data:
        await writer.close()
        return True
    await writer.write(data)
    began = time.monotonic()
    await writer.hsync()
    try_s = _FIRST_TRY_S + 4 * (time.monotonic() - began)
    if await _closes_within(writer, try_s):
        return True
    for _ in range(_CLOSE_RETRIES):
        try_s *= 1.5
        try:
            if await _closes_within(writer, try_s):
                return True
        except (OSError, RuntimeError):
            # The NameNode had completed the file before the last close was cancelled.
            return False
    return False


async def _closes_within(writer: AsyncFileWriter, timeout_s: float) -> bool:
    try:
        async with timeout(timeout_s):
            await writer.close()
    except (TimeoutError, asyncio.TimeoutError):
        return False
    return True


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
        group=found.group,
        mode=found.permission & 0o7777,
    )


async def _listing(native: AsyncClient, path: str) -> list[hdfs_native.FileStatus]:
    return [each async for each in native.list_status(path)]


async def _next_piece(stream: AsyncIterator[bytes]) -> bytes:
    """Read about ``CHUNK`` bytes: the packets of a DataNode are too small to yield singly."""
    piece = bytearray()
    while len(piece) < CHUNK:
        packet = await anext(stream, b"")
        if not packet:
            break
        piece += packet
    return bytes(piece)


def _head(pieces: Iterator[bytes]) -> bytes:
    """Return all of a small file, or the beginning of a larger one."""
    head = bytearray()
    for piece in pieces:
        head += piece
        if len(head) > _SMALL:
            break
    return bytes(head)


def _pieces(data: bytes) -> list[bytes]:
    """Cut into pieces of ``CHUNK`` bytes; there is at least one."""
    return [data[at : at + CHUNK] for at in range(0, max(len(data), 1), CHUNK)]
