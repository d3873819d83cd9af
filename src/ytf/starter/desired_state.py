"""Keeps what the master, signals and the end of its parent demand of a starter. Pure, no I/O.

Threads put messages into the starter's inbox; its main thread feeds them to
:class:`DesiredState`, which answers: go on, become another attempt, or shut
down. Orders only ever grow: a higher attempt replaces a lower one, and a stop
is final. So it does not matter over which connection, how late or how often
an order arrives.
"""

from __future__ import annotations

from ytf.wire.untrusted import as_int, as_seconds, as_text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Dict, List, Optional, Set, Union

# The exit codes of a starter (docs/protocols.md §3).
STOPPED = 0
REVOKED = 3
MASTER_LOST = 4
PARENT_DIED = 5
CANNOT_BEGIN = 6
BUG = 70

GROUP_LENGTH = 256
ADDRESS_LENGTH = 300
"""The longest name of a group, and the longest ``host:port``."""


NOT_UNDERSTOOD = (ValueError, KeyError, TypeError, AttributeError)
"""What decoding raises for JSON that is not what was expected."""


class ReceivedOrder:
    """The master's order to a starter: run this attempt, or stop."""

    __slots__ = ("attempt", "generation", "grace_s", "number", "stop")

    def __init__(
        self, *, number: int, attempt: int, generation: int, stop: bool, grace_s: float
    ) -> None:
        self.number = number
        self.attempt = attempt
        self.generation = generation
        self.stop = stop
        self.grace_s = grace_s

    @classmethod
    def from_json(cls, value: Any) -> ReceivedOrder:
        """Decode an order; raises one of :data:`NOT_UNDERSTOOD`."""
        return cls(
            number=as_int(value["number"]),
            attempt=as_int(value["attempt"]),
            generation=as_int(value["generation"]),
            stop=bool(value["stop"]),
            grace_s=as_seconds(value["grace_s"]),
        )


class ReceivedClusterSpec:
    """The cluster spec that the registry published: group → ``host:port`` by index."""

    __slots__ = ("generation", "members", "revision")

    def __init__(self, generation: int, revision: int, members: Dict[str, List[str]]) -> None:
        self.generation = generation
        self.revision = revision
        self.members = members

    @classmethod
    def from_json(cls, value: Any) -> ReceivedClusterSpec:
        """Decode a cluster spec; raises one of :data:`NOT_UNDERSTOOD`."""
        members = {
            as_text(group, GROUP_LENGTH): [as_text(host, ADDRESS_LENGTH) for host in hosts]
            for group, hosts in value["members"].items()
        }
        return cls(as_int(value["generation"]), as_int(value["revision"]), members)

    def to_json(self) -> Dict[str, object]:
        """Encode it as it is in ``YTF_CLUSTER_SPEC_FILE``."""
        return {
            "generation": self.generation,
            "revision": self.revision,
            "members": self.members,
        }

    def fits(self, generation: int, group: str, index: int, address: Optional[str]) -> bool:
        """Tell whether a task may run with it.

        The generation must be the task's, and the task's address, if it has
        one, must be in its place. A task whose group is not in the spec (a
        client) serves no peers, so its address need not be known.
        """
        if self.generation != generation:
            return False
        hosts = self.members.get(group)
        if address is None or hosts is None:
            return True
        return index < len(hosts) and hosts[index] == address


class Registered:
    """The registration of an attempt is durable."""

    __slots__ = ("attempt",)

    def __init__(self, attempt: int) -> None:
        self.attempt = attempt


class Shutdown:
    """The starter has to end: with which exit code, why, and with how much grace.

    ``grace_s`` None: as configured.
    """

    __slots__ = ("code", "grace_s", "reason")

    def __init__(self, code: int, reason: str, grace_s: Optional[float] = 0.0) -> None:
        self.code = code
        self.reason = reason
        self.grace_s = grace_s


class ShutdownError(Exception):
    """The starter must end its program and exit; ``shutdown`` says why."""

    def __init__(self, shutdown: Shutdown) -> None:
        super().__init__(shutdown.reason)
        self.shutdown = shutdown


class ProgramChanged:
    """The program started or ended; its own object says which."""

    __slots__ = ()


class HelperChanged:
    """A helper process told something, or ended; its own object says which."""

    __slots__ = ()


if TYPE_CHECKING:
    InboxMessage = Union[
        ReceivedOrder, ReceivedClusterSpec, Registered, Shutdown, ProgramChanged, HelperChanged
    ]


class DesiredState:
    """The sum of all messages so far."""

    def __init__(self) -> None:
        self.order: Optional[ReceivedOrder] = None
        self.spec: Optional[ReceivedClusterSpec] = None
        self._shutdown: Optional[Shutdown] = None
        self._registered: Set[int] = set()

    def update(self, message: InboxMessage) -> None:
        """Add one message; one that is older than what is known changes nothing."""
        if isinstance(message, ReceivedOrder):
            known = self.order
            if known is None or (known.stop, known.attempt) < (message.stop, message.attempt):
                self.order = message
        elif isinstance(message, ReceivedClusterSpec):
            if self.spec is None or self.spec.revision < message.revision:
                self.spec = message
        elif isinstance(message, Registered):
            self._registered.add(message.attempt)
        elif isinstance(message, Shutdown):
            self._add_shutdown(message)

    def _add_shutdown(self, new: Shutdown) -> None:
        first = self._shutdown
        if first is None:
            self._shutdown = new
        elif new.grace_s is not None and (first.grace_s is None or new.grace_s < first.grace_s):
            # The first reason is the one to tell, but the newer one has less time.
            self._shutdown = Shutdown(first.code, first.reason, new.grace_s)

    def is_registered(self, attempt: int) -> bool:
        """Tell whether the registration of an attempt is durable."""
        return attempt in self._registered

    def shutdown(self) -> Optional[Shutdown]:
        """Return why this starter must exit now; None if it need not."""
        if self._shutdown is not None:
            return self._shutdown
        if self.order is not None and self.order.stop:
            return Shutdown(STOPPED, "the master ordered it to stop", self.order.grace_s)
        return None

    def next_attempt(self, attempt: int) -> Optional[ReceivedOrder]:
        """Return the order that replaces ``attempt`` by a later one; None if there is none."""
        if self.order is not None and self.order.attempt > attempt:
            return self.order
        return None
