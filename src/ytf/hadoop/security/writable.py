"""The oldest of Hadoop's encodings: Writable's variable-length numbers and texts.

Not protobuf's varints: the first byte is the number itself from -112 up; below
it says how many big-endian bytes follow, and from -121 down that the number is
the complement of these (``WritableUtils.writeVLong``).
"""

from __future__ import annotations

from ytf.hadoop.proto.wire import MalformedError

_POSITIVE = -112
_NEGATIVE = -120


def vint(value: int) -> bytes:
    """A number of at most 64 bits."""
    if _POSITIVE <= value <= 127:
        return value.to_bytes(1, "big", signed=True)
    mark, magnitude = (_POSITIVE, value) if value >= 0 else (_NEGATIVE, ~value)
    size = (magnitude.bit_length() + 7) // 8
    return (mark - size).to_bytes(1, "big", signed=True) + magnitude.to_bytes(size, "big")


def block(data: bytes) -> bytes:
    """Bytes with their length before them."""
    return vint(len(data)) + data


class Reader:
    """Reads Writables from bytes, never beyond them; raises :class:`MalformedError`."""

    def __init__(self, data: bytes, start: int = 0) -> None:
        self._data = data
        self._at = start

    @property
    def rest(self) -> int:
        """How many bytes are left."""
        return len(self._data) - self._at

    def vint(self) -> int:
        """The next number."""
        first = int.from_bytes(self._take(1), "big", signed=True)
        if first >= _POSITIVE:
            return first
        if first >= _NEGATIVE:
            return int.from_bytes(self._take(_POSITIVE - first), "big")
        return ~int.from_bytes(self._take(_NEGATIVE - first), "big")

    def count(self) -> int:
        """A number of things to follow, each of which takes at least one byte."""
        number = self.vint()
        if not 0 <= number <= self.rest:
            raise MalformedError(f"a count of {number} where {self.rest} bytes are left")
        return number

    def block(self) -> bytes:
        """The next bytes, by the length before them."""
        return self._take(self.count())

    def text(self) -> str:
        """The next text."""
        try:
            return self.block().decode()
        except UnicodeDecodeError as exc:
            raise MalformedError(f"a text that is not UTF-8: {exc}") from exc

    def _take(self, size: int) -> bytes:
        if size > self.rest:
            raise MalformedError(f"it ends {size - self.rest} bytes early")
        taken = self._data[self._at : self._at + size]
        self._at += size
        return taken
