"""Finds starters that are silent, for the master.

A starter's polls and reports are its heartbeats. The registry notes when each
starter called last.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from ytf.machine.events import StarterLost
from ytf.machine.state import Container
from ytf.specs.ids import ContainerId

_CHECKS_PER_TIMEOUT = 5


class HeartbeatMonitor:
    """Compares the time of each starter's last call with a timeout.

    All times are of one monotonic clock. Silence counts from this master's
    start at the earliest, so that starters have time to find a new master. It
    counts anew after the master itself did not run (stopped, or without CPU),
    because no starter could call it then.
    """

    def __init__(self, timeout_s: float, now: float) -> None:
        self.interval_s = timeout_s / _CHECKS_PER_TIMEOUT
        """How often :meth:`check` has to be called."""
        self._timeout_s = timeout_s
        self._counts_from = self._last_check = now

    def check(
        self,
        now: float,
        containers: Mapping[ContainerId, Container],
        last_heard: Callable[[ContainerId], float | None],
    ) -> list[StarterLost]:
        """An event for each registered starter that is silent for longer than the timeout."""
        if now - self._last_check > 2 * self.interval_s:
            self._counts_from = now
        self._last_check = now
        lost: list[StarterLost] = []
        for container_id, container in containers.items():
            if not container.registered or container.stopping or not container.needed:
                continue
            heard = last_heard(container_id)
            silent_s = now - max(self._counts_from, heard or self._counts_from)
            if silent_s > self._timeout_s:
                lost.append(
                    StarterLost(
                        container=container_id, silent_s=silent_s, was_heard=heard is not None
                    )
                )
        return lost
