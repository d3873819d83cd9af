"""The files of the journal: names, segments, and the seal around the bytes of a snapshot (ADR 4).

A blob is a header line, a body and a trailer line::

    {"kind":"segment","version":1,"attempt":2,"sequence":7,"replayed":[]}
    {"at":1700000000.0,"event":{"type":"TaskStarted",…}}
    {"count":1,"crc32":1234567890}

The body of a segment has one entry per line. The body of a snapshot is the bytes
that the master gave. The checksum covers everything before the trailer, so a
blob that was truncated or changed is recognised as torn.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Callable, Sequence
from typing import TypeVar

import msgspec

from ytf.errors import InternalError
from ytf.machine.events import AnyEvent

T = TypeVar("T")

VERSION = 1
SEGMENT = "segment"
SNAPSHOT = "snapshot"
CLAIM = "claim"

_DIRECTORY = re.compile(r"\d{4,}")
_BLOB = re.compile(r"(\d{8,})\.(segment|snapshot)")


class Entry(msgspec.Struct, frozen=True):
    """One event, and the time (seconds since 1970) at which the machine handled it."""

    at: float
    event: AnyEvent


class Span(msgspec.Struct, frozen=True, kw_only=True):
    """The part of an earlier attempt that a later one has replayed.

    It is the snapshot with the number ``snapshot``, if there was one, and then
    every segment after it (without a snapshot: from the first one) up to and
    including ``last``.
    """

    attempt: int
    snapshot: int | None
    last: int


class Header(msgspec.Struct, frozen=True, kw_only=True):
    """The first line. Only segment 1 of an attempt has ``replayed``: what it has replayed."""

    kind: str
    version: int = VERSION
    attempt: int
    sequence: int
    replayed: tuple[Span, ...] = ()


class Trailer(msgspec.Struct, frozen=True, kw_only=True):
    """The last line. ``count`` is the number of entries, 0 in a snapshot."""

    count: int
    crc32: int


class TornError(ValueError):
    """A blob is damaged: it is not as it was written."""


_json = msgspec.json.Encoder()
_header = msgspec.json.Decoder(Header)
_trailer = msgspec.json.Decoder(Trailer)
_entry = msgspec.json.Decoder(Entry)


def directory(attempt: int) -> str:
    """The directory of an attempt's blobs."""
    return f"{attempt:04d}"


def blob_name(attempt: int, sequence: int, kind: str) -> str:
    """The name of a segment or snapshot."""
    return f"{directory(attempt)}/{sequence:08d}.{kind}"


def claim_name(attempt: int) -> str:
    """The name of the blob that claims an attempt: its directory exists with it."""
    return f"{directory(attempt)}/{CLAIM}"


def attempts_in(names: Sequence[str]) -> list[int]:
    """The attempts among the names in the journal's directory, lowest first."""
    return sorted(int(name) for name in names if _DIRECTORY.fullmatch(name))


def sequences_in(names: Sequence[str], kind: str) -> list[int]:
    """The numbers of an attempt's segments or snapshots, lowest first."""
    matches = (_BLOB.fullmatch(name) for name in names)
    return sorted(int(match[1]) for match in matches if match and match[2] == kind)


def encode_entry(entry: Entry) -> bytes:
    """One line of a segment."""
    return _json.encode(entry)


def encode_segment(header: Header, lines: Sequence[bytes]) -> bytes:
    """A whole segment, made of encoded entries."""
    return _seal(header, b"".join(line + b"\n" for line in lines), len(lines))


def encode_snapshot(header: Header, state: bytes) -> bytes:
    """A whole snapshot."""
    return _seal(header, state + b"\n", 0)


def decode_segment(data: bytes) -> tuple[Header, list[Entry]]:
    """The reverse of :func:`encode_segment`; raises :class:`TornError`."""
    header, body, trailer = _open(data, SEGMENT)
    entries = _trusted(_entry.decode_lines, body)
    if len(entries) != trailer.count:
        raise TornError(f"{len(entries)} entries where {trailer.count} were written")
    return header, entries


def decode_snapshot(data: bytes) -> bytes:
    """The reverse of :func:`encode_snapshot`; raises :class:`TornError`."""
    return _open(data, SNAPSHOT)[1][:-1]


def _seal(header: Header, body: bytes, count: int) -> bytes:
    data = _json.encode(header) + b"\n" + body
    return data + _json.encode(Trailer(count=count, crc32=zlib.crc32(data))) + b"\n"


def _open(data: bytes, kind: str) -> tuple[Header, bytes, Trailer]:
    if not data.endswith(b"\n"):
        raise TornError("it ends within a line")
    cut = data.rfind(b"\n", 0, -1) + 1
    if cut == 0:
        raise TornError("it ends after its first line")
    try:
        trailer = _trailer.decode(data[cut:])
    except msgspec.MsgspecError as exc:
        raise TornError("it has no trailer") from exc
    if zlib.crc32(data[:cut]) != trailer.crc32:
        raise TornError("its checksum does not match")
    first = data.index(b"\n") + 1
    header = _trusted(_header.decode, data[:first])
    if header.version != VERSION or header.kind != kind:
        raise InternalError(
            f"the journal has a {header.kind} of version {header.version}, "
            f"where this ytf expects a {kind} of version {VERSION}"
        )
    return header, data[first:cut], trailer


def _trusted(decode: Callable[[bytes], T], data: bytes) -> T:
    """Decode data whose checksum is right. If that fails, another version has written it."""
    try:
        return decode(data)
    except msgspec.MsgspecError as exc:
        raise InternalError(
            f"this version of ytf cannot read the journal, which another version wrote: {exc}"
        ) from exc
