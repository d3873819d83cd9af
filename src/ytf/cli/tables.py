"""Prints tables and JSON: tables in colour on a terminal, as aligned text elsewhere.

Cells and values may come from others: control characters are shown, not obeyed.
"""

from __future__ import annotations

import datetime as dt
import os
import re
import shutil
import sys
import textwrap
import unicodedata
from collections.abc import Sequence
from typing import TextIO

from ytf.terminal_text import printable_json, printable_line

_ANSI = {
    **dict.fromkeys(("RUNNING", "SUCCEEDED"), "32"),
    "FAILED": "1;31",
    "KILLED": "33",
    "LOST": "31",
    **dict.fromkeys(("ALLOCATED", "STARTING"), "36"),
}
_STATE = re.compile(rf"(?<=  )(?:{'|'.join(_ANSI)})(?= *\n|  )")
_USEFUL_WIDTH = 12
"""A cell is not shortened below this as long as another column can be left out."""
_LEAST_WIDTH = 4
_LEAST_TEXT_WIDTH = 24
"""Text is not wrapped more narrowly, but by the terminal itself."""
_LATEST_S = 253_000_000_000
"""In the year 9987."""


def show(
    headers: Sequence[str],
    rows: Sequence[Sequence[str]],
    stream: TextIO,
    *,
    drop: Sequence[str] = (),
    cut: Sequence[str] = (),
) -> None:
    """Print a table: with colours on a terminal, as plain text elsewhere.

    On a terminal that is too narrow, first columns in ``drop`` are left out, then
    cells of the columns in ``cut`` are shortened; the others always stay whole.
    Without either, the last column is wrapped between words. So no id is ever cut
    or broken. Text for other programs has everything, a row in a line.
    """
    # First of all: widths are those of what is shown.
    rows = [[printable_line(cell) for cell in row] for row in rows]
    if not stream.isatty():
        stream.write(plain(headers, rows))
        return
    width = shutil.get_terminal_size().columns
    if drop or cut:
        text = plain(*fit(headers, rows, width, drop=drop, cut=cut))
    else:
        text = wrapped(headers, rows, width)
    stream.write(coloured(text))


def fit(
    headers: Sequence[str],
    rows: Sequence[Sequence[str]],
    width: int,
    *,
    drop: Sequence[str],
    cut: Sequence[str],
) -> tuple[list[str], list[list[str]]]:
    """The part of a table that fits a width, if it can be made to fit: see :func:`show`."""
    kept = list(headers)

    def needed() -> int:
        return sum(2 + _column_width(headers, rows, each) for each in kept) - 2

    for name in drop:
        spare = sum(max(0, _column_width(headers, rows, each) - _USEFUL_WIDTH) for each in cut)
        if needed() - spare > width:
            kept.remove(name)
    places = [headers.index(name) for name in kept]
    left = [[row[place] for place in places] for row in rows]
    for name in cut:
        excess = needed() - width
        if excess > 0:
            most = max(_LEAST_WIDTH, _column_width(headers, rows, name) - excess)
            for row in left:
                row[kept.index(name)] = shortened(row[kept.index(name)], most)
    return kept, left


def wrapped(headers: Sequence[str], rows: Sequence[Sequence[str]], width: int) -> str:
    """A table like :func:`plain`, the last column of which is wrapped between words."""
    indent = sum(2 + _column_width(headers, rows, name) for name in headers[:-1])
    room = max(width - indent, _LEAST_TEXT_WIDTH)
    lines: list[list[str]] = []
    for *cells, last in rows:
        first, *more = textwrap.wrap(
            last, room, break_long_words=False, break_on_hyphens=False
        ) or [""]
        lines.append([*(cell or "-" for cell in cells), first])
        lines += ([*[" "] * len(cells), part] for part in more)
    return plain(headers, lines)


def shortened(text: str, width: int) -> str:
    """A text that needs at most so many columns of a terminal, with ``…`` for what is left out."""
    if _width(text) <= width:
        return text
    while text and _width(text) > width - 1:
        text = text[:-1]
    return f"{text}…"


def _column_width(headers: Sequence[str], rows: Sequence[Sequence[str]], name: str) -> int:
    place = headers.index(name)
    return max(map(_width, (name, *(row[place] for row in rows))))


def coloured(text: str) -> str:
    """A plain table with states in colour."""
    if "NO_COLOR" in os.environ:
        return text
    return _STATE.sub(lambda found: f"\x1b[{_ANSI[found[0]]}m{found[0]}\x1b[0m", text)


def plain(headers: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table with columns two spaces apart. An empty cell is a ``-``, to keep fields countable.

    Wide characters and characters without width are taken into account.
    """
    lines = [
        [h.upper() for h in headers],
        *([printable_line(cell) or "-" for cell in row] for row in rows),
    ]
    widths = [max(_width(line[i]) for line in lines) for i in range(len(headers))]
    return "".join(
        "  ".join(
            cell + " " * (width - _width(cell)) for cell, width in zip(line, widths, strict=True)
        ).rstrip()
        + "\n"
        for line in lines
    )


def _width(text: str) -> int:
    """How many columns of a terminal a text needs."""
    return sum(
        # Combining marks and format characters take no column.
        0
        if unicodedata.category(char) in ("Mn", "Me", "Cf")
        else 2
        if unicodedata.east_asian_width(char) in "WF"
        else 1
        for char in text
    )


def when(seconds: float | None) -> str:
    """A time in the local time zone; empty for None."""
    if seconds is None:
        return ""
    return _local_time(seconds).strftime("%Y-%m-%d %H:%M:%S")


def when_short(seconds: float | None) -> str:
    """A time in the local time zone, for people: the time of today, or the day and the time."""
    if seconds is None:
        return ""
    then, now = _local_time(seconds), dt.datetime.now()
    if then.date() == now.date():
        return then.strftime("%H:%M:%S")
    return then.strftime("%m-%d %H:%M" if then.year == now.year else "%Y-%m-%d")


def _local_time(seconds: float) -> dt.datetime:
    """A time in the years that Python knows, whatever the record of another user says."""
    return dt.datetime.fromtimestamp(min(max(0.0, seconds), _LATEST_S))


def print_json(encoded: bytes) -> None:
    """Print one JSON document on stdout, indented, in UTF-8 whatever the locale."""
    import msgspec

    sys.stdout.flush()
    text = printable_json(msgspec.json.format(encoded, indent=2).decode())
    sys.stdout.buffer.write(text.encode() + b"\n")
