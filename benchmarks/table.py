"""How benchmarks print what they measured: measure, value, must, ok."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Row:
    """One measure. ``limit`` is what it must not exceed, None where nothing is demanded."""

    measure: str
    value: float
    unit: str
    limit: float | None = None

    @property
    def ok(self) -> bool:
        """Whether the limit, if there is one, is kept."""
        return self.limit is None or self.value <= self.limit

    def cells(self) -> tuple[str, str, str, str]:
        """The row as it is printed."""
        must = "" if self.limit is None else f"≤ {self.limit:g} {self.unit}"
        verdict = "" if self.limit is None else ("yes" if self.ok else "NO")
        return self.measure, f"{self.value:.3g} {self.unit}", must, verdict


def print_table(rows: Sequence[Row]) -> bool:
    """Print aligned columns; returns whether every limit is kept."""
    lines = [("measure", "value", "must", "ok"), *(row.cells() for row in rows)]
    widths = [max(len(line[i]) for line in lines) for i in range(4)]
    for line in lines:
        print(
            "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
        )
    return all(row.ok for row in rows)
