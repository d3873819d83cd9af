"""The port between the master and its starters: reports in, orders and specs out.

``rest`` serves it from the master itself; ZooKeeper can implement it with
nodes and watches. Orders are *levels*, not messages: the registry keeps the
newest per container and a starter that was away learns it when it comes back,
so that nothing is lost with a connection or a master.
"""

from __future__ import annotations

from collections.abc import Awaitable
from typing import TYPE_CHECKING, Protocol

import msgspec

if TYPE_CHECKING:
    from ytf.master.events import StarterRegistered, TaskExited, TaskStarted
    from ytf.specs.cluster import ClusterSpec
    from ytf.specs.names import ContainerId


class Order(msgspec.Struct, frozen=True, kw_only=True):
    """What one starter is to do, from now on.

    Be ``attempt`` of its task in ``generation`` of the job (a higher attempt
    than its own: stop the program and register again), or ``stop``: end the
    program within ``grace_s`` and go away.
    """

    attempt: int
    generation: int
    stop: bool = False
    grace_s: float = 10.0


class ReportSink(Protocol):
    """What a registry gives reports to: the master."""

    def report(
        self, event: StarterRegistered | TaskStarted | TaskExited
    ) -> Awaitable[Order | None]:
        """Take a report in; done once it is durable.

        Answers the starter's order, or None when this starter is not (or no
        longer) one of the job's: it must stop.
        """
        ...


class Registry(Protocol):
    """Where starters report and learn. One per master, inside its event loop."""

    async def start(self, sink: ReportSink) -> None:
        """Begin to take reports."""
        ...

    def publish(self, spec: ClusterSpec) -> None:
        """Make a cluster spec known to all; a lower revision never replaces a higher one."""
        ...

    def order(self, container: ContainerId, order: Order) -> None:
        """Set what the starter of a container is to do."""
        ...

    def forget(self, container: ContainerId) -> None:
        """The container is over; its starter, should it still call, is told to stop."""
        ...

    def last_heard(self, container: ContainerId) -> float | None:
        """When (monotonic clock) the container's starter last called, None if never."""
        ...

    async def close(self) -> None:
        """Stop taking reports, after answering those that wait."""
        ...
