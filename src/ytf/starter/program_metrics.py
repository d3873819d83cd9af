"""Reads what a program reports of itself: the metrics in the file ``YTF_METRICS_FILE``.

A program writes a JSON object with numbers there, ``{"step": 100, "loss": 0.3}``, as often
as it likes. They go to the master with the heartbeats, and with the report of its exit.
"""

from __future__ import annotations

import json
import os
import re
import stat

from ytf.log import LimitedLog

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Dict, Optional, Tuple

MAX_METRICS = 32
MAX_BYTES = 16 * 1024
_MAX_VALUE = 1e300
_NAME = re.compile(r"[A-Za-z_][\w./-]{0,63}", re.ASCII)


class MetricsFile:
    """The file of one container. Any thread may read it."""

    def __init__(self, path: str) -> None:
        self.path = path
        self._trouble = LimitedLog()
        self._known: Tuple[Optional[Tuple[int, ...]], Dict[str, float]] = (None, {})

    def read(self) -> Dict[str, float]:
        """Return the numbers that are there now; empty if there is no such file.

        What is no number is left out, and so is what exceeds :data:`MAX_METRICS`. A file that
        is not as described leaves what was read before.
        """
        version, found = self._known
        try:
            # It is the program's: it may be a pipe that nobody writes to.
            file = os.open(self.path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC)
        except FileNotFoundError:
            return {}
        except OSError as exc:
            self._trouble.write("the program's metrics cannot be read: %s" % exc)
            return found
        status = os.fstat(file)
        now = (status.st_ino, status.st_mtime_ns, status.st_size)
        try:
            if now == version:
                return found
            if not stat.S_ISREG(status.st_mode) or status.st_size > MAX_BYTES:
                raise ValueError("it is no file of at most %d bytes" % MAX_BYTES)
            found = _numbers(os.read(file, MAX_BYTES))
        except (OSError, ValueError, RecursionError) as exc:
            self._trouble.write("the program's metrics in %s are not used: %s" % (self.path, exc))
        finally:
            os.close(file)
        self._known = now, found
        return found

    def remove(self) -> None:
        """Remove the file, if it can be removed: a new attempt begins without metrics."""
        self._known = None, {}
        try:
            os.unlink(self.path)
        except OSError:
            return  # there is none, or it goes with the working directory


def _numbers(data: bytes) -> Dict[str, float]:
    content = json.loads(data.decode("utf-8"))
    if not isinstance(content, dict):
        raise ValueError("it is no JSON object")
    numbers: Dict[str, float] = {}
    for name, value in content.items():
        is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
        if not is_number or not _NAME.fullmatch(name) or len(numbers) == MAX_METRICS:
            continue
        try:
            number = float(value)
        except OverflowError:
            continue
        if abs(number) <= _MAX_VALUE:  # neither infinite nor NaN
            numbers[name] = number
    return numbers
