"""Decodes data into objects of our classes, in several threads at once.

msgspec finds out how to decode a class when it is first asked to. If two threads do that at
the same time, one may use what the other has not finished, and the process crashes (seen
with 0.22, of two submissions in one process). So it is done here, by one thread at a time.
"""

from __future__ import annotations

import functools
import threading
from typing import Any, TypeVar

import msgspec

T = TypeVar("T")

_making = threading.Lock()


def decode_json(data: bytes | str, kind: type[T]) -> T:
    """Decode a JSON text. Raises ``msgspec.DecodeError``."""
    found: T = _decoder(kind).decode(data)
    return found


def convert(data: object, kind: type[T]) -> T:
    """Make an object of plain data. Raises ``msgspec.ValidationError``."""
    _decoder(kind)  # what msgspec has found out about a class, it keeps with the class
    return msgspec.convert(data, kind)


def _decoder(kind: Any) -> msgspec.json.Decoder[Any]:
    with _making:
        return _make_decoder(kind)


@functools.cache
def _make_decoder(kind: Any) -> msgspec.json.Decoder[Any]:
    return msgspec.json.Decoder(kind)
