"""Limits how often something happens that others can cause."""

from __future__ import annotations

import time


class RateLimiter:
    """A token bucket: ``burst`` times at once, and then ``per_s`` times a second."""

    def __init__(self, *, burst: float, per_s: float) -> None:
        self._burst = burst
        self._per_s = per_s
        self._left = burst
        self._at = time.monotonic()

    def delay_s(self) -> float:
        """Count one; returns how long to wait before it."""
        now = time.monotonic()
        self._left = min(self._burst, self._left + (now - self._at) * self._per_s) - 1
        self._at = now
        return max(0.0, -self._left / self._per_s)
