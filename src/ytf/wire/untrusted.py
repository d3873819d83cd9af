"""Reads numbers and JSON that came over the network; whatever they hold, only ``ValueError`` comes.

Python's own readers assume input that somebody meant well: ``int()`` of
thousands of digits raises or takes seconds, nested JSON exhausts the stack, and
JSON's ``1e999`` becomes an infinity that no integer can be made of.
"""

from __future__ import annotations

import json
import re

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, NoReturn

MOST = 2**63 - 1
"""The largest number that any of our messages may hold."""
_DIGITS = 19
_DEPTH = 32
"""How deep JSON may be nested. Our own messages need five levels."""

_NUMBER = re.compile(r"-?[0-9]{1,%d}" % _DIGITS).fullmatch
# A string without its end counts, too, and lasts to the end of the data: were it no token,
# the search would go on at each quote within it, and that takes the square of the time.
_TOKENS = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"?|[\[\]{}]', re.DOTALL).finditer


def read_int(text: str, least: int = 0, most: int = MOST) -> int:
    """Return a decimal number; ``ValueError`` unless it is one, from ``least`` to ``most``."""
    number = int(text) if _NUMBER(text) else None
    if number is None or not least <= number <= most:
        raise ValueError("%s is not a number from %d to %d" % (shown(text), least, most))
    return number


def as_int(value: Any, least: int = 0, most: int = MOST) -> int:
    """Return a value of JSON that must be a number from ``least`` to ``most``."""
    if type(value) is not int or not least <= value <= most:
        raise ValueError("%s is not a number from %d to %d" % (shown(value), least, most))
    return value


def as_seconds(value: Any) -> float:
    """Return a value of JSON that must be a time in seconds, not negative."""
    if type(value) not in (int, float) or value < 0:
        raise ValueError("%s is not a number of seconds" % shown(value))
    return float(value)


def as_text(value: Any, most: int) -> str:
    """Return a value of JSON that must be one word of printable ASCII, of ``most`` characters."""
    if not isinstance(value, str) or not 0 < len(value) <= most:
        raise ValueError("%s is not a text of 1 to %d characters" % (shown(value), most))
    if not value.isascii() or not value.isprintable() or " " in value:
        raise ValueError("%s has other characters than printable ASCII" % shown(value))
    return value


def read_json(data: bytes) -> Any:
    """Decode JSON; ``ValueError`` if it is none, nested deeply, or has numbers beyond 64 bits."""
    # Counting takes microseconds. Only many brackets, for example those of IPv6 addresses
    # within strings, need a closer look.
    if data.count(b"[") + data.count(b"{") > _DEPTH:
        _check_depth(data)
    return _DECODER.decode(data.decode("utf-8"))


def shown(value: object) -> str:
    """Return how a value begins, for a message: it may be long, and may hold anything."""
    text = ascii(value)
    return text if len(text) <= 60 else text[:57] + "..."


def _check_depth(data: bytes) -> None:
    depth = 0
    for token in _TOKENS(data):
        first = token.group()[:1]
        if first in b"[{":
            depth += 1
            if depth > _DEPTH:
                raise ValueError("JSON nested in more than %d levels" % _DEPTH)
        elif first in b"]}":
            depth -= 1


def _read_float(text: str) -> float:
    number = float(text)
    if number in (float("inf"), float("-inf")):
        raise ValueError("%s is too large for a number" % shown(text))
    return number


def _read_int(text: str) -> int:
    return read_int(text, -MOST - 1)


def _refuse_constant(text: str) -> NoReturn:
    raise ValueError("%s is not JSON" % text)


_DECODER = json.JSONDecoder(
    parse_int=_read_int, parse_float=_read_float, parse_constant=_refuse_constant
)
