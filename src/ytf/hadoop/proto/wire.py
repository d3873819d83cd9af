"""Messages to bytes and back, with every way to fail turned into one error.

What comes from a peer is hostile until parsed. The protobuf runtimes disagree
on how they refuse it (and upb hands out invalid text as ``bytes``), so all
reading goes through :func:`parse` and :func:`text`.
"""

from __future__ import annotations

import struct
from typing import TypeVar

from google.protobuf.message import DecodeError, EncodeError, Message

from ytf.errors import InternalError

M = TypeVar("M", bound=Message)

_MOST_VARINT_BYTES = 5
"""A length is at most 32 bits: five groups of seven."""

_REFUSALS = (DecodeError, ValueError, IndexError, KeyError, struct.error, RecursionError)
"""What the runtimes raise on bytes that are not a message: not only DecodeError."""


class MalformedError(ValueError):
    """The bytes of a peer are not what its protocol says. Never leaves ``hadoop``."""


def parse(kind: type[M], data: bytes) -> M:
    """The message in ``data``, all of it; raises :class:`MalformedError`."""
    name = kind.DESCRIPTOR.name
    try:
        message = kind.FromString(data)
    except _REFUSALS as exc:
        raise MalformedError(f"{len(data)} bytes that are no {name}: {exc}") from exc
    # Not all runtimes look at required fields when they parse.
    if not message.IsInitialized():
        raise MalformedError(f"a {name} that lacks a required field")
    return message


def serialize(message: Message) -> bytes:
    """The bytes of a message of ours. A missing required field is our own bug."""
    try:
        return message.SerializeToString()
    except EncodeError as exc:
        raise InternalError(f"a {type(message).__name__} is incomplete: {exc}") from exc


def text(value: str | bytes) -> str:
    """A string field of a peer, whatever bytes it put there."""
    return value if isinstance(value, str) else value.decode("utf-8", "replace")


def delimited(data: bytes) -> bytes:
    """``data`` with its length before it, as a varint."""
    return varint(len(data)) + data


def varint(value: int) -> bytes:
    """A number below 2**32 in protobuf's own encoding."""
    groups = bytearray()
    while value > 0x7F:
        groups.append(value & 0x7F | 0x80)
        value >>= 7
    groups.append(value)
    return bytes(groups)


def read_delimited(data: bytes, start: int) -> tuple[bytes, int]:
    """The delimited bytes at ``start`` and where they end; raises :class:`MalformedError`."""
    length, shift, at = 0, 0, start
    while True:
        if at >= len(data) or at - start >= _MOST_VARINT_BYTES:
            raise MalformedError(f"no length at byte {start} of {len(data)}")
        group = data[at]
        at += 1
        length |= (group & 0x7F) << shift
        shift += 7
        if group < 0x80:
            break
    if length > len(data) - at:
        raise MalformedError(f"a length of {length} where {len(data) - at} bytes are left")
    return data[at : at + length], at + length
