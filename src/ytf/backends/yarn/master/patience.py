"""HDFS may be away for a while, and a job must outlive that.

A NameNode that was started again is in safe mode until its DataNodes have
reported: it answers who reads, and refuses who writes.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TypeVar

from ytf.master.service import log

T = TypeVar("T")

TOTAL_S = 300.0
"""How long HDFS may be away before we go on without it."""
FIRST_PAUSE_S = 1.0
_LONGEST_PAUSE_S = 15.0


async def patiently(work: Callable[[], T]) -> T:
    """What ``work`` returns, called in a thread and again until it succeeds.

    It must be idempotent. Its ``OSError`` is raised at once where waiting does
    not help (nothing is there, or we may not), and otherwise after ``TOTAL_S``.
    """
    now = asyncio.get_running_loop().time
    deadline = now() + TOTAL_S
    pause_s = FIRST_PAUSE_S
    while True:
        try:
            return await asyncio.to_thread(work)
        except (FileNotFoundError, PermissionError):
            raise
        except OSError as error:
            if now() + pause_s > deadline:
                raise
            log(f"{error}; trying again in {pause_s:g} s")
        await asyncio.sleep(pause_s)
        pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)
