from __future__ import annotations

from queue import SimpleQueue
from typing import TYPE_CHECKING

from tests.starter.conftest import PATIENCE_S
from ytf.starter import threads
from ytf.starter.desired_state import BUG, Shutdown

if TYPE_CHECKING:
    from ytf.starter.desired_state import InboxMessage


def test_a_bug_in_a_thread_ends_the_starter_and_says_where() -> None:
    def fail() -> None:
        raise RuntimeError("broken")

    inbox: SimpleQueue[InboxMessage] = SimpleQueue()
    threads.start("poll", fail, inbox)
    message = inbox.get(timeout=PATIENCE_S)
    assert isinstance(message, Shutdown)
    assert message.code == BUG
    assert "RuntimeError('broken') in thread poll" in message.reason
    assert "test_threads.py:" in message.reason
