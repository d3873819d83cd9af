"""Telling the master what happened, in order, each report until it is durable.

But for word of a start that the program's end has overtaken: a master that
cannot make anything durable, its disk being full, must still hear of the end.
"""

from __future__ import annotations

import threading
from queue import SimpleQueue

from ytf.starter.link import MootError
from ytf.starter.log import say
from ytf.starter.situation import Acknowledged, DismissedError, Order

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Dict, Tuple

    from ytf.starter.link import Link
    from ytf.starter.situation import Message


REGISTER = "register"
STARTED = "started"
EXITED = "exited"


class Reporter:
    """A thread that delivers reports; acknowledgements and orders go to the inbox."""

    def __init__(
        self, link: Link, inbox: SimpleQueue[Message], *, task: str, container: str
    ) -> None:
        self._link = link
        self._inbox = inbox
        self._task = task
        self._container = container
        self._queue: SimpleQueue[Tuple[str, int, Dict[str, object]]] = SimpleQueue()
        self._undelivered = 0
        self._delivered = threading.Condition()

    def send(self, report: str, attempt: int, **more: object) -> None:
        """Queue a report; it comes back as ``Acknowledged``."""
        body: Dict[str, object] = {
            "task": self._task,
            "attempt": attempt,
            "container": self._container,
        }
        body.update(more)
        with self._delivered:
            self._undelivered += 1
        self._queue.put((report, attempt, body))

    def flush(self, timeout_s: float) -> bool:
        """Wait until everything is delivered; False if ``timeout_s`` passed first."""
        with self._delivered:
            return self._delivered.wait_for(lambda: self._undelivered == 0, timeout_s)

    def run(self) -> None:
        """Deliver for ever, or until dismissed."""
        try:
            while True:
                report, attempt, body = self._queue.get()
                try:
                    self._deliver(report, attempt, body)
                except MootError:
                    say("%s: not told, as more has happened since" % report)
                with self._delivered:
                    self._undelivered -= 1
                    self._delivered.notify_all()
        except DismissedError as exc:
            self._link.close()
            self._inbox.put(exc.ended)

    def _deliver(self, report: str, attempt: int, body: Dict[str, object]) -> None:
        def is_moot() -> bool:
            return report == STARTED and not self._queue.empty()

        answer = self._link.ask("POST", "/starter/v1/" + report, body, is_moot=is_moot)
        self._inbox.put(Order.of(answer.json()["order"]))
        self._inbox.put(Acknowledged(report, attempt))
