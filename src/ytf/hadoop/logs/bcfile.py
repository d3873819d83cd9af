"""BCFile, the outer shell of a TFile: compressed blocks and an index at the end.

::

    magic │ data blocks … │ meta blocks … │ meta index │ where that begins │ version │ magic

A block is described by a *region*: offset, size as stored, size when unpacked.
The meta block ``BCFile.index`` has the data blocks' codec and regions.
Mirrors ``org.apache.hadoop.io.file.tfile.BCFile``.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from dataclasses import dataclass

from ytf.hadoop.logs.errors import LogFormatError
from ytf.hadoop.logs.source import ByteSource
from ytf.hadoop.logs.stream import ByteStream

MAGIC = bytes.fromhex("d111d36891b5d7b639df414092bae150")

_TAIL = 8 + 4 + len(MAGIC)
_MAJOR_VERSION = 1
_LARGEST_INDEX = 16 << 20
_DATA_INDEX = "data:BCFile.index"
_PIECE = 1 << 18


@dataclass(frozen=True, slots=True)
class Region:
    """Where a block lies."""

    offset: int
    stored_size: int
    size: int


class BCFile:
    """The blocks of a file. Raises :class:`LogDamagedError` for what cannot be.

    Memory is bounded whatever the file says; so is time, by its size.
    """

    def __init__(self, source: ByteSource) -> None:
        self._source = source
        tail_at = source.size - _TAIL
        if tail_at < len(MAGIC):
            raise LogFormatError(f"{source.name} is no TFile: it has {source.size} bytes")
        if self._raw(0, len(MAGIC)).exactly(len(MAGIC), 16) != MAGIC:
            raise LogFormatError(
                f"{source.name} is no TFile",
                hint="aggregated logs in other forms (IndexedFile) are read by `yarn logs` only",
            )
        tail = self._raw(tail_at, _TAIL)
        index_at = int.from_bytes(tail.exactly(8, 8), "big")
        major = int.from_bytes(tail.exactly(2, 2), "big")
        tail.exactly(2, 2)
        if tail.exactly(len(MAGIC), 16) != MAGIC:
            raise tail.damaged("it has no end; perhaps it is still being written")
        if major != _MAJOR_VERSION:
            raise LogFormatError(f"{source.name} is a TFile of version {major}, not 1")
        if not 0 <= index_at <= tail_at:
            raise tail.damaged("its index lies outside")
        self._codec, self._index = self._data_index(index_at, tail_at)

    def blocks(self) -> Iterator[ByteStream]:
        """The data blocks, unpacked, one after another."""
        index = ByteStream(self._source.name, iter([self._index]), len(self._index))
        stored = 0
        for _ in range(index.number()):
            region = self._region(index)
            stored += region.stored_size
            if stored > self._source.size or (region.stored_size == 0 and region.size > 0):
                raise index.damaged("its blocks are larger than it is")
            yield self._block(region, self._codec)

    def _data_index(self, start: int, end: int) -> tuple[str, bytes]:
        """The codec of the data blocks, and their count and regions as they are written."""
        entries = self._raw(start, end - start)
        for _ in range(entries.number()):
            name, codec, region = entries.text(), entries.text(), self._region(entries)
            if name == _DATA_INDEX:
                block = self._block(region, codec)
                whole = block.exactly(region.size, _LARGEST_INDEX)
                index = ByteStream(self._source.name, iter([whole]), len(whole))
                return index.text(), whole[len(whole) - index.left :]
        raise entries.damaged(f"it has no {_DATA_INDEX}")

    def _region(self, stream: ByteStream) -> Region:
        region = Region(stream.number(), stream.number(), stream.number())
        if min(region.offset, region.stored_size, region.size) < 0 or (
            region.offset + region.stored_size > self._source.size
        ):
            raise stream.damaged("a block lies outside")
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
    """What was deflated, in small pieces however far it spreads."""
    # Hadoop's "gz" has zlib's header, whatever its name says; 32 takes both.
    inflate = zlib.decompressobj(zlib.MAX_WBITS | 32)
    try:
        for piece in pieces:
            rest = piece
            while rest and not inflate.eof:
                yield inflate.decompress(rest, _PIECE)
                rest = inflate.unconsumed_tail
        yield inflate.flush()
    except zlib.error as exc:
        raise ByteStream(name, iter(()), 0).damaged(f"it cannot be unpacked ({exc})") from exc
