"""The reference as data: topics with paragraphs and tables. ``render`` prints it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

REQUIRED = "required"
"""In place of a default."""


@dataclass(frozen=True, kw_only=True)
class Table:
    """Rows of text. The first column names a thing, the last one has its meaning."""

    headers: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


@dataclass(frozen=True, kw_only=True)
class Section:
    """A title and what is below it: paragraphs and tables."""

    title: str = ""
    blocks: tuple[str | Table, ...]


@dataclass(frozen=True, kw_only=True)
class Topic:
    """One topic of ``ytf help``. Code in texts stands between backquotes."""

    name: str
    title: str
    sections: tuple[Section, ...]


def two_columns(headers: tuple[str, str], pairs: Iterable[tuple[object, str]]) -> Table:
    """A table of things and their meanings."""
    return Table(headers=headers, rows=tuple((str(name), text) for name, text in pairs))
