"""Parses durations as users write them: ``90``, ``90s``, ``1.5h``, ``1h30m``, ``2 days``.

A number without a unit is in seconds. Every option and key that takes a time
takes these forms.
"""

from __future__ import annotations

import re

from ytf.errors import SpecError, did_you_mean, shown

DURATION = r"[0-9]+(\.[0-9]+)?([ ]?[A-Za-z]+([ ]?[0-9]+(\.[0-9]+)?[ ]?[A-Za-z]+)*)?"
"""What a duration looks like; whether its units exist is not in it."""

_UNITS_S = {
    **dict.fromkeys(("ms",), 0.001),
    **dict.fromkeys(("s", "sec", "secs", "second", "seconds"), 1.0),
    **dict.fromkeys(("m", "min", "mins", "minute", "minutes"), 60.0),
    **dict.fromkeys(("h", "hr", "hrs", "hour", "hours"), 3600.0),
    **dict.fromkeys(("d", "day", "days"), 86400.0),
    **dict.fromkeys(("w", "week", "weeks"), 7 * 86400.0),
}
_PART = re.compile(r"([0-9]+(?:\.[0-9]+)?)[ ]?([A-Za-z]*)[ ]?")
_FORMS = "write seconds, or numbers with units: 90, 90s, 5m, 1h, 1h30m, 2d"
_MOST_CHARACTERS = 60


def parse_duration(text: str, *, where: str | None = None) -> float:
    """The seconds of a duration; raises :class:`SpecError` for a text that is none."""
    text = text.strip()
    if len(text) > _MOST_CHARACTERS or re.fullmatch(DURATION, text) is None:
        raise SpecError(f"{shown(text)} is not a time", where=where, hint=_FORMS)
    total_s = 0.0
    for number, unit in _PART.findall(text):
        # YARN and Java write upper case, too. There is no unit of which case is a part.
        unit_s = _UNITS_S.get(unit.lower() or "s")
        if unit_s is None:
            raise SpecError(
                f"{shown(unit)} is not a unit of time",
                where=where,
                hint=did_you_mean(unit, _UNITS_S, otherwise=_FORMS),
            )
        total_s += float(number) * unit_s
    # Sums of thousandths shall not show the rounding of floats.
    return round(total_s, 6)


def format_duration(seconds: float) -> str:
    """A duration in the largest units that express it exactly: ``1h30m``, ``45s``, ``0.5s``."""
    whole = int(seconds)
    if whole != seconds or whole <= 0:
        return f"{seconds:g}s"
    text = ""
    for unit, size in (("d", 86400), ("h", 3600), ("m", 60), ("s", 1)):
        count, whole = divmod(whole, size)
        text += f"{count}{unit}" if count else ""
    return text
