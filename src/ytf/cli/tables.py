"""Tables: rich on a terminal, plain aligned text in a pipe."""

from __future__ import annotations

import datetime as dt
import sys
import unicodedata
from collections.abc import Sequence
from typing import TYPE_CHECKING, TextIO

if TYPE_CHECKING:
    from rich.table import Table

_COLOURS = {
    "RUNNING": "green",
    "SUCCEEDED": "green",
    "FAILED": "bold red",
    "LOST": "red",
    "KILLED": "yellow",
    "STARTING": "cyan",
    "ALLOCATED": "cyan",
}


def show(headers: Sequence[str], rows: Sequence[Sequence[str]], stream: TextIO) -> None:
    """Print a table, fit for whoever reads the stream."""
    if stream.isatty():
        from rich.console import Console

        Console(file=stream, highlight=False).print(rich_table(headers, rows))
    else:
        stream.write(plain(headers, rows))


def plain(headers: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Columns two spaces apart; an empty cell is a ``-``, so that fields can be counted.

    They are aligned for a terminal, where some characters are wide and some have no width.
    """
    lines = [[h.upper() for h in headers], *([cell or "-" for cell in row] for row in rows)]
    widths = [max(_width(line[i]) for line in lines) for i in range(len(headers))]
    return "".join(
        "  ".join(
            cell + " " * (width - _width(cell)) for cell, width in zip(line, widths, strict=True)
        ).rstrip()
        + "\n"
        for line in lines
    )


def _width(text: str) -> int:
    """How many columns of a terminal a text takes."""
    return sum(
        # Marks go onto the character before; joiners and their like are not seen.
        0
        if unicodedata.category(char) in ("Mn", "Me", "Cf")
        else 2
        if unicodedata.east_asian_width(char) in "WF"
        else 1
        for char in text
    )


def rich_table(headers: Sequence[str], rows: Sequence[Sequence[str]]) -> Table:
    """The same for a terminal, with states in colour."""
    from rich.box import SIMPLE_HEAD
    from rich.table import Table
    from rich.text import Text

    table = Table(box=SIMPLE_HEAD, pad_edge=False)
    for header in headers:
        table.add_column(header)
    for row in rows:
        table.add_row(*(Text(cell, style=_COLOURS.get(cell, "")) for cell in row))
    return table


def when(seconds: float | None) -> str:
    """A moment in local time; empty for None."""
    if seconds is None:
        return ""
    return dt.datetime.fromtimestamp(seconds).strftime("%Y-%m-%d %H:%M:%S")


def span(start: float | None, end: float | None) -> str:
    """How long something took or has taken: ``1:02:03``."""
    if start is None:
        return ""
    if end is None:
        end = dt.datetime.now().timestamp()
    return str(dt.timedelta(seconds=max(0, int(end - start))))


def print_json(encoded: bytes) -> None:
    """One JSON document on stdout, indented for a person, the same for a program.

    In UTF-8 whatever the locale: JSON has no other encoding.
    """
    import msgspec

    sys.stdout.flush()
    sys.stdout.buffer.write(msgspec.json.format(encoded, indent=2) + b"\n")
