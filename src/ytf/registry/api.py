"""The registry as the master uses it: takes reports of starters, gives them orders and specs.

``rest`` implements it on the master's HTTP server; ``zookeeper`` takes registrations
from ZooKeeper, publishes the cluster spec there, and leaves all else to ``rest``. An
order is a *level*, not a message: the registry keeps the newest one of each
container, and a starter that was disconnected reads it when it comes back. So no
order is lost with a connection or a master.
"""

from __future__ import annotations

from collections.abc import Awaitable
from typing import TYPE_CHECKING, Protocol

import msgspec

from ytf.specs.usage import TaskUsage

if TYPE_CHECKING:
    from ytf.machine.events import StarterRegistered, TaskExited, TaskStarted
    from ytf.specs.ids import ContainerId
    from ytf.specs.status import ClusterSpec


class Order(msgspec.Struct, frozen=True, kw_only=True):
    """What one starter has to do from now on.

    It runs ``attempt`` of its task in ``generation`` of the job; if the attempt
    is higher than its current one, it stops the program and registers again.
    With ``stop`` it ends the program within ``grace_s`` and exits.
    """

    attempt: int
    generation: int
    stop: bool = False
    grace_s: float = 10.0


class ProgramCondition(msgspec.Struct, frozen=True, kw_only=True):
    """How the program of a container was at its starter's last heartbeat.

    ``idle_since``: since when it has used no processor time, by the monotonic
    clock of this process; None if it uses some. ``output_lost_at``: when the
    disk of its logs was first found full, by the starter's clock. ``usage``: what
    it uses; None before the first sample.
    """

    attempt: int
    idle_since: float | None = None
    usage: TaskUsage | None = None
    output_lost_at: float | None = None


class ReportSink(Protocol):
    """The receiver of reports: the master."""

    def report(
        self, event: StarterRegistered | TaskStarted | TaskExited
    ) -> Awaitable[Order | None]:
        """Take a report; returns the starter's order once the report is in the journal.

        Returns None if this starter is not, or no longer, part of the job: it
        must stop.
        """
        ...

    def note(self, text: str, *, is_warning: bool = False) -> None:
        """Take a message for the users of the job; with ``is_warning`` its status shows it."""
        ...


class Registry(Protocol):
    """Connects the starters with their master. One per master, in its event loop."""

    async def start(self, sink: ReportSink) -> None:
        """Start to take reports and to answer starters."""
        ...

    def publish(self, spec: ClusterSpec) -> None:
        """Publish a cluster spec to all starters. A lower revision never replaces a higher one."""
        ...

    def order(self, container: ContainerId, order: Order, *, is_registered: bool = False) -> None:
        """Set the order for the starter of a container.

        ``is_registered``: an earlier master has the registration of this attempt in
        its journal.
        """
        ...

    def forget(self, container: ContainerId) -> None:
        """Forget a container that has ended. If its starter still calls, it is told to stop."""
        ...

    def last_heard(self, container: ContainerId) -> float | None:
        """When the starter of a container called last, by the monotonic clock; None: never."""
        ...

    def condition(self, container: ContainerId) -> ProgramCondition | None:
        """How the program of a container is; None if none runs or its starter never called."""
        ...

    def activity(self, container: ContainerId) -> str:
        """What a starter does while no program runs, in its words; empty if that is not known."""
        ...

    async def remove(self) -> bool:
        """Remove what was published outside of this process; the job has ended.

        Returns whether nothing is left.
        """
        ...

    async def close(self) -> None:
        """Answer all waiting starters, and take no more reports."""
        ...
