"""Reads TFile, the file format of aggregated logs: records of a key and a value of any size.

A TFile is stored in a BCFile, which has compressed blocks and an index at the end::

    magic │ data blocks … │ meta blocks … │ meta index │ its offset │ version │ magic

A block is described by a *region*: offset, stored size, unpacked size. The meta
block ``BCFile.index`` has the codec and the regions of the data blocks. In a
data block, a key follows its length, and a value comes in chunks, each after
its length: a negative length means that another chunk follows. Mirrors
``org.apache.hadoop.io.file.tfile.{TFile,BCFile,Chunk}``.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

from ytf.errors import YtfError

MAGIC = bytes.fromhex("d111d36891b5d7b639df414092bae150")

_TAIL_BYTES = 8 + 4 + len(MAGIC)
_MAJOR_VERSION = 1
_MAX_INDEX_BYTES = 16 << 20
_MAX_KEY_BYTES = 1 << 16
_DATA_INDEX = "data:BCFile.index"
_PIECE_BYTES = 1 << 18


class LogDamagedError(YtfError):
    """An aggregated log is truncated or corrupt."""


class LogFormatError(YtfError):
    """A log has a format that ytf does not read."""


class ByteSource(Protocol):
    """A file that does not change and can be read at any offset."""

    @property
    def name(self) -> str:
        """The name of the file in messages."""
        ...

    @property
    def size(self) -> int:
        """The number of its bytes."""
        ...

    def read(self, offset: int, length: int) -> Iterator[bytes]:
        """``length`` bytes from ``offset`` on, in pieces; fewer if the file ends before."""
        ...


@dataclass(frozen=True, slots=True)
class TFileRecord:
    """A key and its value in pieces. Take the pieces before you take the next record."""

    key: bytes
    value: Iterator[bytes]


def read_records(source: ByteSource) -> Iterator[TFileRecord]:
    """The records of a TFile in their order, streamed. Pieces that are not taken are skipped."""
    for block in BCFile(source).blocks():
        while block.left:
            key = block.exactly(block.number(), _MAX_KEY_BYTES)
            value = _chunks(block)
            yield TFileRecord(key, value)
            for _ in value:
                pass


def _chunks(block: ByteStream) -> Iterator[bytes]:
    last = False
    while not last:
        length = block.number()
        last = length >= 0
        left = abs(length)
        while left:
            piece = block.some(left)
            left -= len(piece)
            yield piece


@dataclass(frozen=True, slots=True)
class Region:
    """The position and the sizes of a block."""

    offset: int
    stored_size: int
    size: int


class BCFile:
    """The blocks of a BCFile. Raises :class:`LogDamagedError` if it is corrupt.

    The memory it needs is bounded, whatever the file contains. The time is
    bounded by the size of the file.
    """

    def __init__(self, source: ByteSource) -> None:
        self._source = source
        tail_at = source.size - _TAIL_BYTES
        if tail_at < len(MAGIC):
            raise LogFormatError(f"{source.name} is no TFile: it has {source.size} bytes")
        if self._raw(0, len(MAGIC)).exactly(len(MAGIC), 16) != MAGIC:
            raise LogFormatError(
                f"{source.name} is no TFile",
                hint="aggregated logs in other forms (IndexedFile) are read by `yarn logs` only",
            )
        tail = self._raw(tail_at, _TAIL_BYTES)
        index_at = int.from_bytes(tail.exactly(8, 8), "big")
        major = int.from_bytes(tail.exactly(2, 2), "big")
        tail.exactly(2, 2)
        if tail.exactly(len(MAGIC), 16) != MAGIC:
            raise tail.damaged("it has no end; perhaps it is still being written")
        if major != _MAJOR_VERSION:
            raise LogFormatError(f"{source.name} is a TFile of version {major}, not 1")
        if not 0 <= index_at <= tail_at:
            raise tail.damaged("its index is outside of the file")
        self._codec, self._index = self._data_index(index_at, tail_at)

    def blocks(self) -> Iterator[ByteStream]:
        """The data blocks in their order, unpacked."""
        index = ByteStream(self._source.name, iter([self._index]), len(self._index))
        stored = 0
        for _ in range(index.number()):
            region = self._region(index)
            stored += region.stored_size
            if stored > self._source.size or (region.stored_size == 0 and region.size > 0):
                raise index.damaged("its blocks are larger than it is")
            yield self._block(region, self._codec)

    def _data_index(self, start: int, end: int) -> tuple[str, bytes]:
        """The codec of the data blocks, and their encoded count and regions."""
        entries = self._raw(start, end - start)
        for _ in range(entries.number()):
            name, codec, region = entries.text(), entries.text(), self._region(entries)
            if name == _DATA_INDEX:
                block = self._block(region, codec)
                whole = block.exactly(region.size, _MAX_INDEX_BYTES)
                index = ByteStream(self._source.name, iter([whole]), len(whole))
                return index.text(), whole[len(whole) - index.left :]
        raise entries.damaged(f"it has no {_DATA_INDEX}")

    def _region(self, stream: ByteStream) -> Region:
        region = Region(stream.number(), stream.number(), stream.number())
        if min(region.offset, region.stored_size, region.size) < 0 or (
            region.offset + region.stored_size > self._source.size
        ):
            raise stream.damaged("a block is outside of the file")
        return region

    def _raw(self, offset: int, length: int) -> ByteStream:
        return ByteStream(self._source.name, self._source.read(offset, length), length)

    def _block(self, region: Region, codec: str) -> ByteStream:
        name = self._source.name
        pieces = self._source.read(region.offset, region.stored_size)
        if codec == "none":
            return ByteStream(name, pieces, min(region.size, region.stored_size))
        if codec == "gz":
            return ByteStream(name, _inflated(name, pieces), region.size)
        raise LogFormatError(
            f"{name} is compressed with {codec!r}; ytf reads 'none' and 'gz'",
            hint="`yarn logs` reads it; the cluster's choice is "
            "yarn.nodemanager.log-aggregation.compression-type",
        )


def _inflated(name: str, pieces: Iterator[bytes]) -> Iterator[bytes]:
    """The inflated bytes, in small pieces however well the data is compressed."""
    # Hadoop's codec "gz" writes zlib's header; with 32 both headers are accepted.
    inflate = zlib.decompressobj(zlib.MAX_WBITS | 32)
    try:
        for piece in pieces:
            rest = piece
            while rest and not inflate.eof:
                yield inflate.decompress(rest, _PIECE_BYTES)
                rest = inflate.unconsumed_tail
        yield inflate.flush()
    except zlib.error as exc:
        raise ByteStream(name, iter(()), 0).damaged(f"it cannot be unpacked ({exc})") from exc


class ByteStream:
    """Decodes numbers, texts and bytes from a stream that may be truncated or hostile.

    ``limit`` is the number of bytes that the file says the stream has. It holds
    one piece at a time. Reading beyond the end, or more than the caller
    allows, raises :class:`LogDamagedError`.
    """

    def __init__(self, name: str, pieces: Iterator[bytes], limit: int) -> None:
        self.name = name
        self._pieces = pieces
        self._piece = b""
        self._at = 0
        self.left = limit

    def some(self, most: int = _PIECE_BYTES) -> bytes:
        """At least one byte and at most ``most``."""
        if self.ended():
            raise self.damaged("it ends too early")
        taken = self._piece[self._at : self._at + min(most, self.left)]
        if not taken:
            raise self.damaged("a part of it is longer than it is")
        self._at += len(taken)
        self.left -= len(taken)
        return taken

    def ended(self) -> bool:
        """Whether no byte is left; for a stream of unknown length."""
        while self._at >= len(self._piece):
            piece = next(self._pieces, None)
            if piece is None:
                return True
            self._piece, self._at = piece, 0
        return False

    def exactly(self, count: int, most: int) -> bytes:
        """``count`` bytes. More than ``most`` is an error."""
        if not 0 <= count <= most:
            raise self.damaged(f"a length of {count}")
        if count > self.left:
            raise self.damaged("a part of it is longer than it is")
        taken = bytearray()
        while len(taken) < count:
            taken += self.some(count - len(taken))
        return bytes(taken)

    def number(self) -> int:
        """A variable-length number as ``org.apache.hadoop.io.file.tfile.Utils.readVLong``."""
        first = int.from_bytes(self.exactly(1, 1), "big", signed=True)
        if first >= -32:
            return first
        kind = (first + 128) // 8
        if kind >= 7:
            return (first + 52) << 8 | self._unsigned(1)
        if kind >= 3:
            return (first + 88) << 16 | self._unsigned(2)
        if kind >= 1:
            return (first + 112) << 24 | self._unsigned(3)
        length = first + 129
        if length < 4:
            raise self.damaged("it contains an invalid number")
        return int.from_bytes(self.exactly(length, 8), "big", signed=True)

    def text(self, most: int = 1024) -> str:
        """A text as ``Utils.readString``: its length, then UTF-8."""
        return self._decoded(self.exactly(self.number(), most))

    def java_text(self) -> str:
        """A text as ``DataInput.readUTF``: two bytes of length, then Java's modified UTF-8."""
        raw = self.exactly(self._unsigned(2), 1 << 16).replace(b"\xc0\x80", b"\0")
        return self._decoded(raw)

    def damaged(self, what: str) -> LogDamagedError:
        """The error to raise if the stream is corrupt."""
        return LogDamagedError(
            f"the aggregated log {self.name} is damaged: {what}",
            hint="its node may have failed while it was written; `yarn logs` will fail as well",
        )

    def _unsigned(self, count: int) -> int:
        return int.from_bytes(self.exactly(count, 8), "big")

    def _decoded(self, raw: bytes) -> str:
        try:
            # Java writes a character beyond the first plane as two surrogates.
            surrogates = raw.decode("utf-8", "surrogatepass")
            return surrogates.encode("utf-16", "surrogatepass").decode("utf-16")
        except UnicodeError:
            raise self.damaged("a text that is not UTF-8") from None
