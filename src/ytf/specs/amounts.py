"""Amounts in text: reads and writes memory, reads ranges of ports, writes numbers of bytes.

YARN's MB are MiB. As everywhere in Hadoop the units of memory are powers of 1024,
however they are spelt: ``2g``, ``2GB`` and ``2 GiB`` are all 2048 MB. Sizes of files
are written in powers of 1000.
"""

from __future__ import annotations

import re

from ytf.errors import SpecError, did_you_mean, shown

MAX_INT = 2**31 - 1
"""The most that YARN can count of any resource."""

_KIB = {"k": 1, "m": 1024, "g": 1024**2, "t": 1024**3}
_MEMORY_UNITS = {prefix + rest: kib for prefix, kib in _KIB.items() for rest in ("", "b", "ib")}
_MEMORY = re.compile(r"([0-9]+)(?:\.([0-9]+))?[ ]?([A-Za-z]*)")
_MOST_DIGITS = 24
_PORTS = re.compile(r"([0-9]{1,5})-([0-9]{1,5})")
_PORTS_FORM = "write the first and the last port: 30000-30999"
_LOWEST_PORT = 1024
"""Lower ones are for root."""
_HIGHEST_PORT = 65535
_MEMORY_FORMS = "write MB as a whole number, or a number with a unit: 2048, 2GB, 1.5g, 512 MiB"
_SHORT_UNITS = "BKMGTPE"
_BYTE_UNITS = ("B", "kB", "MB", "GB", "TB")


def parse_memory(value: int | str, *, where: str | None = None) -> int:
    """An amount of memory in MB; a number without a unit is MB, a fraction is rounded up.

    Raises :class:`SpecError` for what is not an amount, is not positive, or is
    more than YARN can count.
    """
    mb = value if isinstance(value, int) else _parse_memory_text(value, where)
    if mb < 1:
        raise SpecError(
            f"memory must be more than 0, not {shown(value)}", where=where, hint=_MEMORY_FORMS
        )
    if mb > MAX_INT:
        raise _too_much_memory(value, where)
    return mb


def format_memory(mb: int) -> str:
    """The shortest exact text for an amount; :func:`parse_memory` reads it."""
    for unit, size in (("TiB", 1024**2), ("GiB", 1024)):
        if mb % size == 0:
            return f"{mb // size} {unit}"
    return f"{mb} MiB"


def parse_ports(text: str, *, where: str | None = None) -> tuple[int, int]:
    """The first and the last port of ``FIRST-LAST``; raises :class:`SpecError`."""
    range_ = _PORTS.fullmatch(text)
    if range_ is None:
        raise SpecError(f"{shown(text)} is not a range of ports", where=where, hint=_PORTS_FORM)
    first, last = int(range_.group(1)), int(range_.group(2))
    if first < _LOWEST_PORT or last > _HIGHEST_PORT:
        raise SpecError(
            f"ports are {_LOWEST_PORT} to {_HIGHEST_PORT}, not {text}",
            where=where,
            hint=_PORTS_FORM,
        )
    if first > last:
        raise SpecError(f"the range {text} ends before it begins", where=where, hint=_PORTS_FORM)
    return first, last


def short_bytes(amount: float) -> str:
    """``0``, ``512B``, ``9.8M``, ``314M``, ``1.2T``: powers of 1024, in at most five characters."""
    if amount < 1:
        return "0"
    unit = 0
    while amount >= 999.5 and unit < len(_SHORT_UNITS) - 1:
        amount /= 1024
        unit += 1
    digits = 1 if unit and amount < 9.95 else 0
    return f"{amount:.{digits}f}{_SHORT_UNITS[unit]}"


def format_bytes(size: int) -> str:
    """A number of bytes with a unit: ``1.3 MB``. Powers of 1000, as for files."""
    value = float(size)
    for unit in _BYTE_UNITS[:-1]:
        if value < 1000:
            return f"{value:.0f} {unit}" if unit == "B" else f"{value:.1f} {unit}"
        value /= 1000
    return f"{value:.1f} {_BYTE_UNITS[-1]}"


def _parse_memory_text(text: str, where: str | None) -> int:
    amount = _MEMORY.fullmatch(text)
    if amount is None:
        if re.fullmatch(r"-[0-9.]+[ ]?[A-Za-z]*", text):
            message = f"memory must be more than 0, not {shown(text)}"
        else:
            message = f"{shown(text)} is not an amount of memory"
        raise SpecError(message, where=where, hint=_MEMORY_FORMS)
    whole, fraction, unit = amount.group(1).lstrip("0"), amount.group(2) or "", amount.group(3)
    kib = _MEMORY_UNITS.get((unit or "m").lower())
    if kib is None:
        raise SpecError(
            f"{shown(unit)} is not a unit of memory",
            where=where,
            hint=did_you_mean(unit, ("KB", "MB", "GB", "TB", "KiB", "MiB", "GiB", "TiB")),
        )
    if len(whole) > _MOST_DIGITS:
        raise _too_much_memory(text, where)
    # Digits beyond these cannot change the MB but by rounding.
    fraction = fraction[:_MOST_DIGITS]
    # Whole numbers throughout: a float would lose the last MB of large amounts.
    parts: int = 1024 * 10 ** len(fraction)
    return -(-int(f"0{whole}{fraction}") * kib // parts)


def _too_much_memory(value: int | str, where: str | None) -> SpecError:
    return SpecError(
        f"memory of {shown(value)} is more than YARN can count",
        where=where,
        hint=f"the most is {MAX_INT} MB",
    )
