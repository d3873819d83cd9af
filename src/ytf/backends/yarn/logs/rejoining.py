"""Finding the place again where reading ended, once the bytes have moved.

A log that grows too long is cut by its starter: its end, of a fixed length,
becomes the older half, and the newest begins anew. Every place has then moved
towards the beginning, by a length that nobody tells.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

REMEMBERED = 4096
"""By how many bytes a place is known: those before it."""
_FIRST_WINDOW = 1 << 20
_GROWTH = 16
_FEWEST = 64
"""Fewer bytes than these could be anywhere."""


def find_again(last: bytes, read: Callable[[int], Iterator[bytes]], *, size: int, most: int) -> int:
    """Where ``last``, the bytes told last, ends in an older half; 0, all is new, if nowhere.

    ``read`` reads the half from an offset on; ``most`` is where they ended
    before the cut. Bytes only move towards the beginning and a starter looks
    often, so that the last of several fitting places is it, and most likely
    near the end: that is read first.
    """
    end = min(size, most)
    window = _FIRST_WINDOW
    while True:
        begin = max(end - window, 0)
        data = b"".join(read(begin))
        found = data.rfind(last, 0, most - begin)
        if found >= 0:
            return begin + found + len(last)
        if _ends_within(last, data):
            return begin + len(data)
        if begin == 0:
            return _begins_within(last, data)
        window *= _GROWTH


def _ends_within(last: bytes, data: bytes) -> bool:
    """Whether more was told than was kept: what came between the copy and the cut is lost."""
    return any(data.endswith(last[:length]) for length in range(len(last) - 1, _FEWEST, -1))


def _begins_within(last: bytes, data: bytes) -> int:
    """How much of the beginning was told: more was written than is kept."""
    begin = data[: len(last)]
    lengths = range(len(last) - 1, _FEWEST, -1)
    return next((length for length in lengths if begin.startswith(last[-length:])), 0)
