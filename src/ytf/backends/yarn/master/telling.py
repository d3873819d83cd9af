"""What people are told while a job waits for its containers, and when it got them."""

from __future__ import annotations

from ytf.backends.yarn.ledger import Kind, Ledger
from ytf.specs.job import Placement

FIRST_S = 2.5
"""Nodes give containers with their heartbeats: before two of them nobody need worry."""
AGAIN_S = 10.0
"""How often a picture that keeps changing is told anew."""


class Teller:
    """Finds the moments to say something, and the words. Times are of any steady clock."""

    def __init__(self) -> None:
        self._owed = 0
        self._since: float | None = None
        self._told_at: float | None = None
        self._told = ""
        self._placing: set[str] = set()

    def waiting(self, ledger: Ledger, held: int, supply: str, now: float) -> str:
        """Why containers are still awaited, if that is news; empty otherwise."""
        owed = ledger.outstanding
        if owed != self._owed:
            self._owed, self._since = owed, now
        if not owed:
            self._told, self._told_at = "", None
            return ""
        is_early = self._since is None or now - self._since < FIRST_S
        is_again = self._told_at is not None and now - self._told_at < AGAIN_S
        text = f"Waiting for {owed} of {owed + held} containers: {_kinds(ledger)}. {supply}".strip()
        if is_early or is_again or text == self._told:
            return ""
        self._told, self._told_at = text, now
        return text

    def wished(self, kind: Kind) -> None:
        """A container of a kind is being asked for."""
        if kind.placement is Placement.SPREAD:
            self._placing.add(kind.group)

    def crowded(self, ledger: Ledger) -> list[str]:
        """Which groups were to be spread, have got all they asked for, and share nodes."""
        told: list[str] = []
        for group in sorted(self._placing - {kind.group for kind in ledger.owed}):
            self._placing.remove(group)
            nodes = ledger.held(group)
            tasks = sum(nodes.values())
            if tasks > len(nodes):
                where = "1 node" if len(nodes) == 1 else f"{len(nodes)} nodes"
                told.append(f"{group}: {tasks} tasks share {where}, though they are to be spread")
        return told


def _kinds(ledger: Ledger) -> str:
    return ", ".join(
        f"{many} × {kind.group} ({kind.resource}{_place(kind)})"
        for kind, many in ledger.owed.items()
    )


def _place(kind: Kind) -> str:
    words = f", label {kind.label}" if kind.label else ""
    return f"{words}, apart" if kind.placement is Placement.APART else words
