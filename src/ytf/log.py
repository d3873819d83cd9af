"""Writes the log of our own processes in a job: one dated line per event, on stderr.

The master, the starters and the local node use it; the backend directs their
stderr to a file. The job's secret is never logged. Whatever happens, the log of
a process stays below :data:`MOST_BYTES`, and says how many lines were dropped.
"""

from __future__ import annotations

import os
import time

MOST_BYTES = 8 * 1024 * 1024
"""What one process writes at most, but for the line that says why it ends."""
LONGEST_LINE = 4096
_AT_ONCE = 1000
_PER_S = 1.0
"""A process may write this many lines at once, and then this many per second."""


class _Budget:
    """How much of the log is left, and how many lines were dropped since the last one.

    Without a lock: two threads may count one line in place of two.
    """

    def __init__(self) -> None:
        self.bytes_left = MOST_BYTES
        self.lines_left = float(_AT_ONCE)
        self.counted_at = time.monotonic()
        self.dropped = 0

    def allows(self, length: int) -> bool:
        now = time.monotonic()
        refilled = self.lines_left + (now - self.counted_at) * _PER_S
        self.lines_left = min(refilled, float(_AT_ONCE))
        self.counted_at = now
        if self.lines_left < 1 or self.bytes_left < length:
            self.dropped += 1
            return False
        self.lines_left -= 1
        self.bytes_left -= length
        return True


_budget = _Budget()


def log(text: str, *, last: bool = False) -> None:
    """Write one line. Takes no lock, so it is safe in signal handlers and after ``fork``.

    ``last``: why this process ends. It is written even if the log is full.
    """
    if not text.isprintable():
        text = text.replace("\n", " | ")
        text = "".join(c if c.isprintable() else ascii(c)[1:-1] for c in _cut(text))
    line = _dated(_cut(text))
    if not last and not _budget.allows(len(line)):
        return
    if _budget.dropped:
        dropped, _budget.dropped = _budget.dropped, 0
        _write(_dated("%d lines were dropped here: there were too many" % dropped))
    _write(line)


class LimitedLog:
    """Writes lines of one kind, which others can cause as often as they like.

    The first ten are written. Further ones are counted, and one of them is
    written after 10 s, the next after 20 s, and so on, at the latest after an hour.
    It begins anew when there was none for an hour.
    """

    AT_ONCE = 10
    FIRST_WAIT_S = 10.0
    LONGEST_WAIT_S = 3600.0

    def __init__(self) -> None:
        self._left = self.AT_ONCE
        self._wait_s = self.FIRST_WAIT_S
        self._last_at = self._next_at = time.monotonic()
        self._dropped = 0

    def write(self, text: str) -> None:
        """Write one line, or count it."""
        now = time.monotonic()
        if now - self._last_at > self.LONGEST_WAIT_S:
            self._left = self.AT_ONCE
            self._wait_s = self.FIRST_WAIT_S
        self._last_at = now
        if self._left > 0:
            self._left -= 1
        elif now < self._next_at:
            self._dropped += 1
            return
        else:
            self._wait_s = min(self._wait_s * 2, self.LONGEST_WAIT_S)
        self._next_at = now + self._wait_s
        dropped, self._dropped = self._dropped, 0
        log("%s (and %d lines like it before)" % (text, dropped) if dropped else text)


def _cut(text: str) -> str:
    """Return a text of at most :data:`LONGEST_LINE`: of a traceback, the end says the most."""
    if len(text) <= LONGEST_LINE:
        return text
    beginning = LONGEST_LINE // 4
    return text[:beginning] + " ... " + text[beginning + 5 - LONGEST_LINE :]


def _dated(text: str) -> bytes:
    now = time.time()
    stamp = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(now))
    line = "%s.%03dZ %s\n" % (stamp, now % 1 * 1000, text)
    return line.encode("utf-8", "backslashreplace")


def _write(line: bytes) -> None:
    try:
        os.write(2, line)
    except OSError:
        # A full disk or a closed stderr must not end a running program, and
        # there is no other place to write to.
        return
