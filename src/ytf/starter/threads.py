"""Starts the starter's threads; an exception in one of them ends the starter."""

from __future__ import annotations

import threading

from ytf.starter.desired_state import BUG, Shutdown

TYPE_CHECKING = False
if TYPE_CHECKING:
    from queue import SimpleQueue
    from typing import Callable

    from ytf.starter.desired_state import InboxMessage

_STACK = 256 * 1024


def start(name: str, target: Callable[[], None], inbox: SimpleQueue[InboxMessage]) -> None:
    """Run ``target`` in a daemon thread; if it raises, the starter ends with exit code 70."""

    def guarded() -> None:
        try:
            target()
        except Exception as exc:
            inbox.put(Shutdown(BUG, bug_text(exc, name), None))

    threading.stack_size(_STACK)
    threading.Thread(target=guarded, name=name, daemon=True).start()


def bug_text(exc: BaseException, thread: str) -> str:
    """Describe an unexpected exception in one line: what, in which thread, on which lines."""
    at = exc.__traceback__
    places = []
    while at is not None:
        places.append("%s:%d" % (at.tb_frame.f_code.co_filename, at.tb_lineno))
        at = at.tb_next
    return "a bug in ytf, please report it: %r in thread %s, at %s" % (
        exc,
        thread,
        ", ".join(places),
    )
