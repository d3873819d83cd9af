"""Threads whose failure cannot go unnoticed."""

from __future__ import annotations

import threading

from ytf.starter.bugs import bug_text
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
            inbox.put(Ended(BUG, bug_text(exc, name), None))

    threading.stack_size(_STACK)
    threading.Thread(target=guarded, name=name, daemon=True).start()
