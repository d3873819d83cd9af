"""Limits how often something happens that others can cause."""

from __future__ import annotations

import time


class Allowance:
    """Lets something happen eight times at once, and then once a second."""

    MOST = 8.0

    def __init__(self) -> None:
        self._left = self.MOST
        self._at = time.monotonic()

    def wait_s(self) -> float:
        """Count one; returns how long to wait before it."""
        now = time.monotonic()
        self._left = min(self.MOST, self._left + now - self._at) - 1
        self._at = now
        return max(0.0, -self._left)
