"""Threads whose failure cannot go unnoticed."""

from __future__ import annotations

import threading

from ytf.starter.situation import BUG, Ended

TYPE_CHECKING = False
if TYPE_CHECKING:
    from queue import SimpleQueue
    from typing import Callable

    from ytf.starter.situation import Message

_STACK = 256 * 1024


def start(name: str, target: Callable[[], None], inbox: SimpleQueue[Message]) -> None:
    """Run ``target`` in a daemon thread; should it raise, the starter ends with exit code 70."""

    def guarded() -> None:
        try:
            target()
        except Exception as exc:
            at = exc.__traceback__
            places = []
            while at is not None:
                places.append("%s:%d" % (at.tb_frame.f_code.co_filename, at.tb_lineno))
                at = at.tb_next
            text = "a bug in ytf, please report it: %r in thread %s, at %s"
            inbox.put(Ended(BUG, text % (exc, name, ", ".join(places)), None))

    threading.stack_size(_STACK)
    threading.Thread(target=guarded, name=name, daemon=True).start()
