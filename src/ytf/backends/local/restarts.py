"""How often, and how fast, a master that died is started again."""

from __future__ import annotations

_STEADY_S = 60.0
"""A master that lived so long was well; the next restart is at once again."""
_FIRST_DELAY_S = 0.5
_MAX_DELAY_S = 30.0


class Restarts:
    """At most ``max_attempts`` starts within ``window_s``; older ones are forgiven.

    The first restart comes at once, those that follow quickly wait longer and
    longer. Times are seconds of any clock that only grows.
    """

    def __init__(self, max_attempts: int, window_s: float) -> None:
        self._max_attempts = max_attempts
        self._window_s = window_s
        self._starts: list[float] = []
        self._quick = 0

    def started(self, now: float) -> None:
        """A master was started."""
        self._starts.append(now)

    def died(self, now: float) -> float | None:
        """Seconds to wait before the next start, or None: there shall be none."""
        if self._starts and now - self._starts[-1] >= _STEADY_S:
            self._quick = 0
        self._starts = [at for at in self._starts if now - at < self._window_s]
        if len(self._starts) >= self._max_attempts:
            return None
        self._quick += 1
        if self._quick == 1:
            return 0.0
        # Beyond 2**16 the power only costs time; the maximum has long won.
        return min(_FIRST_DELAY_S * 2.0 ** min(self._quick - 2, 16), _MAX_DELAY_S)
