"""How benchmarks print what they measured: measure, value, must, ok."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Row:
    """One measure. ``limit`` is what it must not exceed, None where nothing is demanded.

    ``peer`` is what another product needs for the same, where one was measured.
    With ``at_least`` the limit is what it must reach.
    """

    measure: str
    value: float
    unit: str
    limit: float | None = None
    peer: float | None = None
    at_least: bool = False

    @property
    def ok(self) -> bool:
        """Whether the limit, if there is one, is kept."""
        if self.limit is None:
            return True
        return self.value >= self.limit if self.at_least else self.value <= self.limit

    def cells(self) -> tuple[str, str, str, str, str]:
        """The row as it is printed."""
        peer = "" if self.peer is None else f"{self.peer:.3g} {self.unit}"
        bound = "≥" if self.at_least else "≤"
        must = "" if self.limit is None else f"{bound} {self.limit:.3g} {self.unit}"
        verdict = "" if self.limit is None else ("yes" if self.ok else "NO")
        return self.measure, f"{self.value:.3g} {self.unit}", peer, must, verdict


def print_table(rows: Sequence[Row], *, value: str = "value", peer: str = "") -> bool:
    """Print aligned columns; returns whether every limit is kept.

    ``value`` and ``peer`` head their columns; without ``peer`` there is none.
    """
    lines = [("measure", value, peer, "must", "ok"), *(row.cells() for row in rows)]
    shown = [i for i in range(5) if peer or i != 2]
    widths = {i: max(len(line[i]) for line in lines) for i in shown}
    for line in lines:
        print("  ".join(line[i].ljust(widths[i]) for i in shown).rstrip())
    return all(row.ok for row in rows)
