"""Hearing from the master: orders and cluster specs. Each poll is a heartbeat too."""

from __future__ import annotations

from ytf.starter.situation import ClusterSpec, DismissedError, Order

TYPE_CHECKING = False
if TYPE_CHECKING:
    from queue import SimpleQueue
    from typing import Callable

    from ytf.starter.link import Link
    from ytf.starter.situation import Message

HOLD_S = 5.0
"""How long the master may keep a poll that has no news."""


class Poller:
    """A thread that puts what the master says into the inbox, until it is dismissed."""

    def __init__(
        self,
        link: Link,
        inbox: SimpleQueue[Message],
        *,
        task: str,
        container: str,
        attempt: Callable[[], int],
        heartbeat_s: float,
    ) -> None:
        self._link = link
        self._inbox = inbox
        self._task = task
        self._container = container
        self._attempt = attempt
        # A master that went away without a word must be noticed, and another
        # found, before the silence is taken for this starter's death.
        self._timeout_s = HOLD_S + max(1.0, min(heartbeat_s / 6, 10.0))

    def run(self, order: int) -> None:
        """Poll for ever; ``order`` is the number of the last order already known."""
        revision = 0
        try:
            while True:
                body = {
                    "task": self._task,
                    "attempt": self._attempt(),
                    "container": self._container,
                    "order": order,
                    "revision": revision,
                }
                answer = self._link.ask("POST", "/starter/v1/poll", body, self._timeout_s).json()
                news = Order.of(answer["order"])
                if news.number != order:
                    order = news.number
                    self._inbox.put(news)
                if int(answer["revision"]) > revision:
                    revision = self._fetch_spec(revision)
        except DismissedError as exc:
            self._link.close()
            self._inbox.put(exc.ended)

    def _fetch_spec(self, revision: int) -> int:
        answer = self._link.ask("GET", "/starter/v1/cluster")
        if answer.status == 200:
            spec = ClusterSpec.of(answer.json())
            if spec.revision > revision:
                self._inbox.put(spec)
                return spec.revision
        # The master promised a newer one; do not ask in a tight loop.
        self._link.pause()
        return revision
