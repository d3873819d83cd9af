"""Writes amounts of memory and data in at most five characters, for tables and plots."""

from __future__ import annotations

_UNITS = "BKMGTPE"


def short_bytes(amount: float) -> str:
    """``0``, ``512B``, ``9.8M``, ``314M``, ``1.2T``: powers of 1024."""
    if amount < 1:
        return "0"
    unit = 0
    while amount >= 999.5 and unit < len(_UNITS) - 1:
        amount /= 1024
        unit += 1
    digits = 1 if unit and amount < 9.95 else 0
    return f"{amount:.{digits}f}{_UNITS[unit]}"
