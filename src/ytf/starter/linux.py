"""The two calls of Linux that Python does not offer, both of ``prctl(2)``."""

from __future__ import annotations

import ctypes
import os

_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36

_libc = ctypes.CDLL(None, use_errno=True)


def _prctl(option: int, value: int) -> None:
    if _libc.prctl(option, ctypes.c_ulong(value), 0, 0, 0) != 0:
        number = ctypes.get_errno()
        raise OSError(number, "prctl(%d, %d): %s" % (option, value, os.strerror(number)))


def signal_on_parents_death(signum: int) -> None:
    """Ask for a signal when the *thread* that started this process ends.

    Kept by ``execve``, not by ``fork``. The parent may have died before the
    call: check ``os.getppid()`` after it.
    """
    _prctl(_PR_SET_PDEATHSIG, signum)


def adopt_orphans() -> None:
    """Become the parent of every descendant whose own parent dies (a "subreaper").

    From then on no descendant can get away by daemonising, and a process
    without children has no descendants either.
    """
    _prctl(_PR_SET_CHILD_SUBREAPER, 1)
