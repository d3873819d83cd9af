"""The starter's own log: one dated line per thing that happened, on stderr.

The backend directs stderr to ``starter.log``. The secret never comes here.
"""

from __future__ import annotations

import os
import time


def say(text: str) -> None:
    """Write one line. Takes no lock, so it is safe in signal handlers and after ``fork``."""
    now = time.time()
    stamp = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(now))
    line = "%s.%03dZ %s\n" % (stamp, now % 1 * 1000, text.replace("\n", " | "))
    try:
        os.write(2, line.encode("utf-8", "backslashreplace"))
    except OSError:
        # A full disk or a closed stderr must not end a running program, and
        # there is no other place to tell it.
        return
