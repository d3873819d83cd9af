"""How a layer is packed: one ``.tar.gz``, the same for the same files.

YARN unpacks an archive by its name's ending; ``docs/adr/0006-layers.md`` has
the numbers behind this one. The stream is gzip members of a megabyte each,
which every gunzip reads as one, and which can be compressed side by side.
"""

from __future__ import annotations

import hashlib
import io
import os
import tarfile
import zlib
from collections import deque
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from types import TracebackType
from typing import IO

import msgspec

from ytf.errors import SettingsError
from ytf.packaging.layers import UNKNOWN, Entry, Going, stamp, unstopped

SUFFIX = ".tar.gz"

_BLOCK = 1 << 20
_LEVEL = 1
_GZIP = 31
_MTIME = 315_532_800  # 1980, the first year that zip files know: nothing may be older.


class Archive(msgspec.Struct, frozen=True, kw_only=True):
    """A packed layer on this machine: its bytes are known by size and hash."""

    path: Path
    size: int
    sha256: str


def pack(entries: list[Entry], path: Path, going: Going = unstopped) -> Archive:
    """Write the archive of these entries, sorted here, to a new file.

    Raises ``SettingsError`` if a file changes while it is read. Whatever is
    raised leaves a file that is no archive.
    """
    with open(path, "xb") as file:
        # Not tarfile's own compression, which is one stream on one processor.
        with GzipBlocks(file, going) as stream, _tar(stream) as archive:
            for entry in sorted(entries, key=lambda entry: entry.path):
                _add(archive, entry)
        file.flush()
        return Archive(path=path, size=stream.size, sha256=stream.sha256.hexdigest())


def _tar(stream: GzipBlocks) -> tarfile.TarFile:
    return tarfile.open(fileobj=stream, mode="w|", format=tarfile.GNU_FORMAT, bufsize=_BLOCK)


def _add(archive: tarfile.TarFile, entry: Entry) -> None:
    info = tarfile.TarInfo(entry.path)
    info.mtime = _MTIME
    info.mode = 0o755 if entry.executable else 0o644
    if entry.target:
        info.type, info.linkname = tarfile.SYMTYPE, entry.target
        archive.addfile(info)
    elif entry.data is not None:
        info.size = len(entry.data)
        archive.addfile(info, io.BytesIO(entry.data))
    else:
        with open(entry.source, "rb") as source:
            found = os.fstat(source.fileno())
            if entry.stamp != UNKNOWN and entry.stamp != stamp(found):
                # The layer was named by what was there before.
                raise SettingsError(
                    f"{entry.source} was changed while it was being packed",
                    hint="submit again when nothing is being installed into the environment",
                )
            info.size = found.st_size
            archive.addfile(info, source)


class GzipBlocks(io.RawIOBase):
    """Compresses what is written, on all processors, into a file; knows its size and hash."""

    def __init__(self, file: IO[bytes], going: Going = unstopped) -> None:
        self._file = file
        self._going = going
        self._workers = os.cpu_count() or 1
        self._pool = ThreadPoolExecutor(self._workers)
        self._under_way: deque[Future[bytes]] = deque()
        self._buffer = bytearray()
        self.size = 0
        self.sha256 = hashlib.sha256()

    def writable(self) -> bool:
        """It is for nothing else."""
        return True

    def write(self, data: bytes, /) -> int:  # type: ignore[override]  # tarfile writes bytes only
        """Take bytes in; blocks while all processors have enough to do."""
        self._buffer += data
        while len(self._buffer) >= _BLOCK:
            block = bytes(self._buffer[:_BLOCK])
            del self._buffer[:_BLOCK]
            self._submit(block)
        return len(data)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        try:
            if value is None:
                self._submit(bytes(self._buffer))
                while self._under_way:
                    self._drain()
        finally:
            self._pool.shutdown(cancel_futures=True)
            self.close()

    def _submit(self, block: bytes) -> None:
        self._going()
        self._under_way.append(self._pool.submit(_member, block))
        if len(self._under_way) > 2 * self._workers:
            self._drain()

    def _drain(self) -> None:
        member = self._under_way.popleft().result()
        self._file.write(member)
        self.size += len(member)
        self.sha256.update(member)


def _member(block: bytes) -> bytes:
    # A header without a time or a name: zlib writes none by itself.
    compressor = zlib.compressobj(_LEVEL, zlib.DEFLATED, _GZIP)
    return compressor.compress(block) + compressor.flush()
