"""Amounts of memory, as people write them and as YARN counts them.

YARN's MB are MiB. As everywhere in Hadoop the units are powers of 1024,
however they are spelt: ``2g``, ``2GB`` and ``2 GiB`` are all 2048 MB.
"""

from __future__ import annotations

import re

from ytf.errors import SpecError
from ytf.specs.wording import did_you_mean, shown

MAX_INT = 2**31 - 1
"""The most that YARN can count of any resource."""

_KIB = {"k": 1, "m": 1024, "g": 1024**2, "t": 1024**3}
_UNITS = {prefix + rest: kib for prefix, kib in _KIB.items() for rest in ("", "b", "ib")}
_AMOUNT = re.compile(r"([0-9]+)(?:\.([0-9]+))?[ ]?([A-Za-z]*)")
_MOST_DIGITS = 24
_FORMS = "write MB as a whole number, or a number with a unit: 2048, 2GB, 1.5g, 512 MiB"


def parse_memory(value: int | str, *, where: str | None = None) -> int:
    """An amount of memory in MB; a bare number is MB, a broken one is rounded up.

    Raises :class:`SpecError` for what is not an amount, is not positive, or is
    more than YARN can count.
    """
    mb = value if isinstance(value, int) else _parse_text(value, where)
    if mb < 1:
        raise SpecError(f"memory must be more than 0, not {shown(value)}", where=where, hint=_FORMS)
    if mb > MAX_INT:
        raise _too_much(value, where)
    return mb


def format_memory(mb: int) -> str:
    """The shortest exact way to write an amount; :func:`parse_memory` gives it back."""
    for unit, size in (("TiB", 1024**2), ("GiB", 1024)):
        if mb % size == 0:
            return f"{mb // size} {unit}"
    return f"{mb} MiB"


def _parse_text(text: str, where: str | None) -> int:
    amount = _AMOUNT.fullmatch(text)
    if amount is None:
        if re.fullmatch(r"-[0-9.]+[ ]?[A-Za-z]*", text):
            message = f"memory must be more than 0, not {shown(text)}"
        else:
            message = f"{shown(text)} is not an amount of memory"
        raise SpecError(message, where=where, hint=_FORMS)
    whole, fraction, unit = amount.group(1).lstrip("0"), amount.group(2) or "", amount.group(3)
    kib = _UNITS.get((unit or "m").lower())
    if kib is None:
        raise SpecError(
            f"{shown(unit)} is not a unit of memory",
            where=where,
            hint=did_you_mean(unit, ("KB", "MB", "GB", "TB", "KiB", "MiB", "GiB", "TiB")),
        )
    if len(whole) > _MOST_DIGITS:
        raise _too_much(text, where)
    # Digits beyond these cannot change the MB but by rounding.
    fraction = fraction[:_MOST_DIGITS]
    # Whole numbers throughout: a float would lose the last MB of large amounts.
    parts: int = 1024 * 10 ** len(fraction)
    return -(-int(f"0{whole}{fraction}") * kib // parts)


def _too_much(value: int | str, where: str | None) -> SpecError:
    return SpecError(
        f"memory of {shown(value)} is more than YARN can count",
        where=where,
        hint=f"the most is {MAX_INT} MB",
    )
