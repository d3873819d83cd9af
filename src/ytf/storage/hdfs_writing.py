"""Writing to HDFS: whole files under temporary names, then moved into place once.

HDFS shows a file while it is being written and keeps it when its writer dies,
so only a rename makes one appear whole. hdfs-native repeats a call whose
connection broke, so a rename's failure is believed only if its source is still
there, and a name that nobody else knows may be taken by ourselves.

Where a standby NameNode takes over, all of this but :func:`write_stream` waits
for it and goes on.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from functools import partial

from hdfs_native import AsyncClient, AsyncFileWriter, WriteOptions

from ytf.errors import OutcomeUnknownError, RefusedError, UnreachableError
from ytf.storage.hdfs_errors import HdfsNotFoundError
from ytf.storage.hdfs_link import HdfsLink

_NUDGE_S = 0.02
_NUDGES = 6


def write_small(link: HdfsLink, path: str, data: bytes, mode: int) -> None:
    """Make a file of bytes at hand; on the DataNodes' disks and closed when this returns.

    The directory must be there, and the path be one that nobody else knows.
    """
    doing = f"write {path}"
    try:
        if link.call(doing, lambda client: _write_nudged(client, path, data, mode), changes=True):
            return
        # It was nudged too early, which costs the file: once more, with patience.
    except (UnreachableError, OutcomeUnknownError):
        if not link.has_standby:
            raise
    link.call(doing, lambda client: client.delete(path, False), changes=True, repeatable=True)
    write_stream(link, path, iter([data]), mode)


def write_stream(link: HdfsLink, path: str, pieces: Iterator[bytes], mode: int) -> None:
    """Make a file of pieces as they come; each has the link's time-out to itself.

    The directory must be there, and the path be one that nobody else knows.
    """
    doing = f"write {path}"
    writer = link.call(doing, lambda client: _create(client, path, mode), changes=True)
    for piece in pieces:
        link.call(doing, partial(_write_piece, writer, piece), changes=True)
    link.call(doing, lambda _: writer.close(), changes=True)


def move_into_place(link: HdfsLink, temporary: str, target: str, tries: int = 2) -> None:
    """Rename a file that nobody else knows of; over nothing, and exactly once.

    Raises ``HdfsExistsError`` if ``target`` is taken and ``HdfsNotFoundError``
    if its directory is missing; then the temporary file is still there.
    """
    try:
        link.call(
            f"rename {temporary} to {target}",
            lambda client: client.rename(temporary, target, False),
            changes=True,
        )
    except (RefusedError, HdfsNotFoundError):
        if _is_there(link, temporary):
            raise
    except (UnreachableError, OutcomeUnknownError):
        if not link.has_standby or tries == 1:
            raise
        if _is_there(link, temporary):
            move_into_place(link, temporary, target, tries - 1)


def _is_there(link: HdfsLink, path: str) -> bool:
    try:
        link.call(
            f"look at {path}",
            lambda client: client.get_file_info(path),
            changes=False,
            repeatable=True,
        )
    except HdfsNotFoundError:
        return False
    return True


async def _create(client: AsyncClient, path: str, mode: int) -> AsyncFileWriter:
    options = WriteOptions(permission=mode, overwrite=False, create_parent=False)
    try:
        return await client.create(path, options)
    except FileExistsError:
        # By the first of hdfs-native's own two tries, whose answer was lost.
        await client.delete(path, False)
        return await client.create(path, options)


async def _write_piece(writer: AsyncFileWriter, piece: bytes, client: AsyncClient) -> None:
    await writer.write(piece)


async def _write_nudged(client: AsyncClient, path: str, data: bytes, mode: int) -> bool:
    """Write and close a file without hdfs-native's naps; False if that went wrong.

    The NameNode calls a file complete once a DataNode has reported its last
    block, and that report races with the client's own call. When the client
    wins, which is the rule, ``close()`` sleeps for half a second before it asks
    again. Cancelled in its sleep and called again, it asks at once. Cancelled
    before it has asked at all, it has lost the block and never comes to an
    end: so it is given some round trips of time, of the length that syncing
    the data has just taken.
    """
    writer = await _create(client, path, mode)
    if not data:
        await writer.close()
        return True
    await writer.write(data)
    began = time.monotonic()
    await writer.hsync()
    nap_s = _NUDGE_S + 4 * (time.monotonic() - began)
    if await _closes_within(writer, nap_s):
        return True
    for _ in range(_NUDGES):
        nap_s *= 1.5
        try:
            if await _closes_within(writer, nap_s):
                return True
        except (OSError, RuntimeError):
            # It had asked, and been told that all is well, when it was cancelled.
            return False
    return False


async def _closes_within(writer: AsyncFileWriter, timeout_s: float) -> bool:
    try:
        await asyncio.wait_for(writer.close(), timeout_s)
    except (TimeoutError, asyncio.TimeoutError):
        return False
    return True
