"""TFile: records of a key and a value of any size, in the blocks of a BCFile.

A key has its length before it. A value comes in chunks, each with its length:
a negative one says that another chunk follows.
Mirrors ``org.apache.hadoop.io.file.tfile.{TFile,Chunk}``.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from ytf.hadoop.logs.bcfile import BCFile
from ytf.hadoop.logs.source import ByteSource
from ytf.hadoop.logs.stream import ByteStream

_LONGEST_KEY = 1 << 16


@dataclass(frozen=True, slots=True)
class Record:
    """One key with its value in pieces, to be taken before the next record is asked for."""

    key: bytes
    value: Iterator[bytes]


def read_records(source: ByteSource) -> Iterator[Record]:
    """The records of a TFile in their order, streamed. What is not taken is passed over."""
    for block in BCFile(source).blocks():
        while block.left:
            key = block.exactly(block.number(), _LONGEST_KEY)
            value = _chunks(block)
            yield Record(key, value)
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
