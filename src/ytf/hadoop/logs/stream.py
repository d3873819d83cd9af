"""Taking numbers, texts and bytes from a stream that may be cut off or hostile."""

from __future__ import annotations

from collections.abc import Iterator

from ytf.hadoop.logs.errors import LogDamagedError

_PIECE = 1 << 18


class ByteStream:
    """A stream of at most ``limit`` bytes, which is how many the file says there are.

    Holds one piece at a time. Whatever is asked for beyond the stream's end, or
    is larger than the asker allows, raises :class:`LogDamagedError`.
    """

    def __init__(self, name: str, pieces: Iterator[bytes], limit: int) -> None:
        self.name = name
        self._pieces = pieces
        self._piece = b""
        self._at = 0
        self.left = limit

    def some(self, most: int = _PIECE) -> bytes:
        """At least one byte and at most ``most``."""
        if self.ended():
            raise self.damaged("it ends too early")
        taken = self._piece[self._at : self._at + min(most, self.left)]
        if not taken:
            raise self.damaged("something reaches beyond its end")
        self._at += len(taken)
        self.left -= len(taken)
        return taken

    def ended(self) -> bool:
        """Whether nothing is left; for a stream whose length nobody knew."""
        while self._at >= len(self._piece):
            piece = next(self._pieces, None)
            if piece is None:
                return True
            self._piece, self._at = piece, 0
        return False

    def exactly(self, count: int, most: int) -> bytes:
        """``count`` bytes, if that is no more than ``most``."""
        if not 0 <= count <= most:
            raise self.damaged(f"a length of {count}")
        if count > self.left:
            raise self.damaged("something reaches beyond its end")
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
            raise self.damaged("a number that cannot be")
        return int.from_bytes(self.exactly(length, 8), "big", signed=True)

    def text(self, most: int = 1024) -> str:
        """A text as ``Utils.readString``: its length, then UTF-8."""
        return self._decoded(self.exactly(self.number(), most))

    def java_text(self) -> str:
        """A text as ``DataInput.readUTF``: two bytes of length, then Java's own UTF-8."""
        raw = self.exactly(self._unsigned(2), 1 << 16).replace(b"\xc0\x80", b"\0")
        return self._decoded(raw)

    def damaged(self, what: str) -> LogDamagedError:
        """The error to raise when something in the stream cannot be."""
        return LogDamagedError(
            f"the aggregated log {self.name} is damaged: {what}",
            hint="its node may have failed while it was written; `yarn logs` will fail as well",
        )

    def _unsigned(self, count: int) -> int:
        return int.from_bytes(self.exactly(count, 8), "big")

    def _decoded(self, raw: bytes) -> str:
        try:
            # Java writes a character beyond the first plane as two halves.
            halves = raw.decode("utf-8", "surrogatepass")
            return halves.encode("utf-16", "surrogatepass").decode("utf-16")
        except UnicodeError:
            raise self.damaged("a text that is not UTF-8") from None
