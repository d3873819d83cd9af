from __future__ import annotations

from queue import SimpleQueue
from typing import TYPE_CHECKING

from tests.starter.conftest import PATIENCE_S
from ytf.starter import threads
from ytf.starter.situation import BUG, Ended

if TYPE_CHECKING:
    from ytf.starter.situation import Message


def test_a_bug_in_a_thread_ends_the_starter_and_says_where() -> None:
    def fail() -> None:
        raise RuntimeError("broken")

    inbox: SimpleQueue[Message] = SimpleQueue()
    threads.start("poll", fail, inbox)
    message = inbox.get(timeout=PATIENCE_S)
    assert isinstance(message, Ended)
    assert message.code == BUG
    assert "RuntimeError('broken') in thread poll" in message.reason
    assert "test_threads.py:" in message.reason
