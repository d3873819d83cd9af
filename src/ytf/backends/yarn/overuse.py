"""How much memory a container used that YARN killed for it, from what its node says.

The node's words are ``ContainersMonitorImpl``'s. Amounts are written with the
decimal mark of the node's own language.
"""

from __future__ import annotations

import re

import msgspec

_AMOUNT = r"(?P<{0}>[0-9]+(?:[.,][0-9]+)?)\s*(?P<{0}_unit>[KMGTPE]?)i?B"
_USAGE = {
    kind: re.compile(
        rf"{_AMOUNT.format('used')}\s+of\s+{_AMOUNT.format('limit')}\s+{kind} memory used"
    )
    for kind in ("physical", "virtual")
}
_KIB = {"": 1 / 1024, **{unit: 1024**power for power, unit in enumerate("KMGTPE")}}


class _Usage(msgspec.Struct, frozen=True):
    """What was used of one kind of memory, and might be, as the node wrote it and in KiB."""

    used: str
    limit: str
    used_kib: float
    limit_kib: float


class Overuse(msgspec.Struct, frozen=True):
    """What to tell of it, and how much memory would have been enough until then."""

    text: str
    needed_mb: int


def overuse(diagnostics: str, *, is_virtual: bool) -> Overuse | None:
    """What a node says of a container that used too much; None if it gives no figures."""
    physical = _usage("physical", diagnostics)
    if not is_virtual:
        if physical is None:
            return None
        text = f"it used {_of(physical)} of memory that it may use, and was killed"
        return Overuse(text, _mb(physical.used_kib))
    virtual = _usage("virtual", diagnostics)
    if virtual is None or physical is None or not virtual.limit_kib:
        return None
    text = (
        f"it used {_of(virtual)} of virtual memory that its node allows for {physical.limit}, "
        "and was killed"
    )
    # A node allows so many times the memory that was asked for.
    return Overuse(text, _mb(physical.limit_kib * virtual.used_kib / virtual.limit_kib))


def _usage(kind: str, diagnostics: str) -> _Usage | None:
    found = _USAGE[kind].search(diagnostics)
    if found is None:
        return None
    texts = {
        name: f"{found[name].removesuffix('.0')} {found[f'{name}_unit']}B"
        for name in ("used", "limit")
    }
    sizes = {
        name: float(found[name].replace(",", ".")) * _KIB[found[f"{name}_unit"]]
        for name in ("used", "limit")
    }
    return _Usage(texts["used"], texts["limit"], sizes["used"], sizes["limit"])


def _of(usage: _Usage) -> str:
    # The figures are rounded, and a little too much may look like just enough.
    if usage.used_kib > usage.limit_kib:
        return f"{usage.used} of the {usage.limit}"
    return f"more than the {usage.limit}"


def _mb(kib: float) -> int:
    return -int(-kib // 1024)
