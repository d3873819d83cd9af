"""Where the bytes of an aggregated log come from: anything that can be read from any place."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol


class ByteSource(Protocol):
    """A file that does not change."""

    @property
    def name(self) -> str:
        """How messages call it."""
        ...

    @property
    def size(self) -> int:
        """How many bytes it has."""
        ...

    def read(self, offset: int, length: int) -> Iterator[bytes]:
        """``length`` bytes from ``offset`` on, in pieces; fewer if it ends before."""
        ...
