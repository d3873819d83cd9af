"""Whether a master still lives: it may hang as well as die."""

from __future__ import annotations

_BEATS = 6
"""How often a master is asked before it is given up."""


class Pulse:
    """When to ask a master for a sign of life, and when it has given none for too long.

    Only time counts in which we ourselves were there to ask: after a pause of
    the whole machine a master must not be blamed for it. Times are seconds of
    any clock that only grows.
    """

    def __init__(self, limit_s: float, now: float) -> None:
        self._limit_s = limit_s
        self._every_s = limit_s / _BEATS
        self._heard_at = now
        self.due = now + self._every_s

    def heard(self, now: float) -> None:
        """The master said something."""
        self._heard_at = now

    def is_lost(self, now: float) -> bool:
        """To be asked when ``due``: whether the master is to be given up; if not, ask it."""
        overslept = now - self.due > self._every_s
        self.due = now + self._every_s
        if overslept:
            self._heard_at = now
        return now - self._heard_at >= self._limit_s
