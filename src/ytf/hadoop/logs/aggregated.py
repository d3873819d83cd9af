"""Aggregated logs: what the containers of one application wrote on one node.

A TFile with a record for each container: its key is the container's id, its
value a list of name, length in decimal digits, and the bytes. Some records are
about the file itself. Mirrors ``AggregatedLogFormat``.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from ytf.hadoop.logs.source import ByteSource
from ytf.hadoop.logs.stream import ByteStream
from ytf.hadoop.logs.tfile import Record, read_records

_ABOUT_THE_FILE = frozenset({"APPLICATION_ACL", "APPLICATION_OWNER", "VERSION"})
_LONGEST_NUMBER = 20


@dataclass(frozen=True, slots=True)
class ContainerLog:
    """One file that a container left in its log directory.

    ``pieces`` are its bytes, to be taken before the next log is asked for.
    """

    container: str
    name: str
    size: int
    pieces: Iterator[bytes]


def read_container_logs(
    source: ByteSource, wanted: Callable[[str], bool] = lambda container: True
) -> Iterator[ContainerLog]:
    """The logs of the containers that are ``wanted``, as they lie in the file; streamed.

    Raises ``LogFormatError`` for a file we do not read and ``LogDamagedError``
    for one that is broken, when the broken place is reached.
    """
    for record in read_records(source):
        key = ByteStream(source.name, iter([record.key]), len(record.key)).java_text()
        if key not in _ABOUT_THE_FILE and wanted(key):
            yield from _logs(source.name, key, record)


def _logs(name: str, container: str, record: Record) -> Iterator[ContainerLog]:
    # How long a value is, nobody knows before its last chunk.
    value = ByteStream(name, record.value, sys.maxsize)
    while not value.ended():
        file = value.java_text()
        size = _decimal(value, value.java_text())
        pieces = _bytes(value, size)
        yield ContainerLog(container, file, size, pieces)
        for _ in pieces:
            pass


def _decimal(value: ByteStream, digits: str) -> int:
    if not (digits.isascii() and digits.isdecimal() and len(digits) < _LONGEST_NUMBER):
        raise value.damaged(f"{digits[:50]!r} is not the length of a log")
    return int(digits)


def _bytes(value: ByteStream, size: int) -> Iterator[bytes]:
    left = size
    while left:
        piece = value.some(left)
        left -= len(piece)
        yield piece
