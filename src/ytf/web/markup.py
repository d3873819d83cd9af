"""Builds HTML in which all text is escaped that is not HTML already."""

from __future__ import annotations

from html import escape

_EMPTY = frozenset({"meta", "link"})


class Markup(str):
    """Text that is HTML. All other text is escaped when it becomes part of a page."""

    __slots__ = ()


def tag(name: str, /, *children: str, **attributes: str | bool | None) -> Markup:
    """One element: ``tag("a", "its log", href="log")``.

    ``class_`` stands for ``class`` and ``data_log`` for ``data-log``. An attribute
    that is True gets no value; one that is False or None is left out.
    """
    words = [name]
    for key, value in attributes.items():
        if value is None or value is False:
            continue
        shown = key.rstrip("_").replace("_", "-")
        words.append(shown if value is True else f'{shown}="{escape(str(value))}"')
    opening = f"<{' '.join(words)}>"
    return Markup(opening if name in _EMPTY else f"{opening}{join(*children)}</{name}>")


def join(*children: str) -> Markup:
    """Several pieces as one; those that are not HTML are escaped."""
    return Markup("".join(c if isinstance(c, Markup) else escape(c) for c in children))
