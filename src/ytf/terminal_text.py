"""Makes text of others safe to print on a terminal.

Names, diagnostics and error messages come from other people's applications and from
remote peers. A terminal obeys control characters: they move the cursor, change the title,
write to the clipboard or hide what follows. Characters that change the direction of
writing make a text read as another one. All of them are printed as Python would write them:
``\\x1b``.
"""

from __future__ import annotations

import re

# C0 and C1 but for tab, line feed and carriage return; marks of lines and of the direction
# of writing.
_UNSAFE = r"\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff"
_IN_TEXT = re.compile(rf"[\r{_UNSAFE}]")
_IN_LINE = re.compile(rf"[\r\n{_UNSAFE}]")
_IN_OUTPUT = re.compile(rf"(\x1b\[[0-9;:]*m)|[{_UNSAFE}]")


def printable(text: str) -> str:
    """A text without control characters but tabs and ends of lines."""
    return _IN_TEXT.sub(_escaped, text)


def printable_line(text: str) -> str:
    """A text without control characters, in one line."""
    return _IN_LINE.sub(_escaped, text)


def printable_output(text: str) -> str:
    """A program's output in which only colours, tabs and returns to the line's start are left."""
    return _IN_OUTPUT.sub(lambda found: found[1] or _escaped(found), text)


def printable_json(text: str) -> str:
    """A JSON document without control characters, equal to the given one.

    JSON has them in strings only; those below 0x20 are escaped there already.
    """
    return _IN_TEXT.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def _escaped(found: re.Match[str]) -> str:
    return found[0].encode("unicode_escape").decode("ascii")
