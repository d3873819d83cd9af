"""What ytf knows of a framework, as data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum


class PortPolicy(Enum):
    """Who has a task's port between its choice and the program's start."""

    HOLD = "hold"
    """The starter keeps it bound for the whole attempt; the program binds with SO_REUSEPORT."""
    RELEASE = "release"
    """The starter lets it go just before the program starts."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Profile:
    """How programs of one framework are run.

    ``port`` and ``variables`` are values of ``YTF_STARTER`` (docs/protocols.md
    §3). ``threads`` maps variables that limit a program's threads to the
    fewest it works with.
    """

    name: str
    port: PortPolicy
    variables: str
    threads: Mapping[str, int]
    fixed: Mapping[str, str] = field(default_factory=dict)

    def defaults(self, vcores: int) -> dict[str, str]:
        """Variables for a task that has so many cores; whatever the user sets goes before them."""
        threads = {name: str(max(vcores, least)) for name, least in self.threads.items()}
        return {**self.fixed, **threads}
