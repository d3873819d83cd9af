"""Cancels calls that block in a thread: they are interrupted as by Ctrl-C (ADR 38).

Python interrupts only its main thread. A call that somebody awaits runs in another one, and
looks now and then whether it was cancelled. So that the functions on the way need not know,
who asks for it is in the thread's context.
"""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar

IsCancelled = Callable[[], bool]

_is_cancelled: ContextVar[IsCancelled | None] = ContextVar("ytf_is_cancelled", default=None)


class CallCancelled(KeyboardInterrupt):
    """The caller was cancelled. What holds for Ctrl-C holds for this call."""


def make_cancellable(is_cancelled: IsCancelled) -> None:
    """Let ``is_cancelled`` tell, from now on, whether the calls of this context are cancelled.

    It returns True once for each time that they are.
    """
    _is_cancelled.set(is_cancelled)


def is_cancellable() -> bool:
    """Whether this call may be cancelled in a way that it has to look for."""
    return _is_cancelled.get() is not None


def check_cancelled() -> None:
    """Raise :class:`CallCancelled` if this call was cancelled."""
    is_cancelled = _is_cancelled.get()
    if is_cancelled is not None and is_cancelled():
        raise CallCancelled
