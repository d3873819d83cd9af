"""Notices how long a program has been idle: it used no processor time.

Output does not count: programs that wait for a peer say so every few seconds
(TensorFlow: "CreateSession still waiting for response from worker").
"""

from __future__ import annotations

import time

CHECK_EVERY_S = 10.0
IDLE_SHARE = 0.02
"""A program that uses less than this share of one core between two checks is idle.

Measured: an idle TensorFlow server 0.05 %, a session that waits for a worker 0.25 %.
"""


class ProgramActivity:
    """Compares the processor time of one program from check to check.

    Times are of the monotonic clock. One thread checks, any may ask.
    """

    def __init__(self, now: float) -> None:
        self._used_s = 0.0
        self._checked_at = self._active_at = now

    def check(self, now: float, used_s: float) -> None:
        """Take in the processor time that the program has used so far, if a check is due."""
        passed_s = now - self._checked_at
        if passed_s < CHECK_EVERY_S:
            return
        # It may also be less: the time of a child that nobody waited for is gone with it.
        if abs(used_s - self._used_s) >= IDLE_SHARE * passed_s:
            self._active_at = now
        self._used_s = used_s
        self._checked_at = now

    def idle_s(self) -> float:
        """Return for how many seconds the program has used no processor time."""
        if self._active_at == self._checked_at:
            return 0.0
        return time.monotonic() - self._active_at
