"""All a starter knows about what is wanted of it. Pure: messages in, a verdict out.

Orders are levels, and only ever grow: a higher attempt replaces a lower one,
and a stop is final. So it does not matter over which connection, how late or
how often one arrives.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Dict, List, Optional, Set, Tuple, Union

STOPPED = 0
REVOKED = 3
ORPHANED = 4
PARENT_DIED = 5
CANNOT_BEGIN = 6
BUG = 70


class Order:
    """What the master wants: be this attempt, or stop."""

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
    def of(cls, value: Any) -> Order:
        """From an answer's JSON; ``KeyError``, ``TypeError`` or ``ValueError`` if it is none."""
        return cls(
            number=int(value["number"]),
            attempt=int(value["attempt"]),
            generation=int(value["generation"]),
            stop=bool(value["stop"]),
            grace_s=float(value["grace_s"]),
        )


class ClusterSpec:
    """Group → ``host:port`` of each member, by index."""

    __slots__ = ("generation", "members", "revision")

    def __init__(self, generation: int, revision: int, members: Dict[str, List[str]]) -> None:
        self.generation = generation
        self.revision = revision
        self.members = members

    @classmethod
    def of(cls, value: Any) -> ClusterSpec:
        """From an answer's JSON; ``KeyError``, ``TypeError`` or ``ValueError`` if it is none."""
        members = {str(g): [str(h) for h in hosts] for g, hosts in value["members"].items()}
        return cls(int(value["generation"]), int(value["revision"]), members)

    def fits(self, generation: int, group: str, index: int, address: Optional[str]) -> bool:
        """Whether a task may run with it: of its generation, naming its address if it has one.

        A task whose group is not in the spec (a client) serves nobody, so
        nobody need know its address.
        """
        if self.generation != generation:
            return False
        hosts = self.members.get(group)
        if address is None or hosts is None:
            return True
        return index < len(hosts) and hosts[index] == address


class Acknowledged:
    """A report of an attempt is durable."""

    __slots__ = ("attempt", "report")

    def __init__(self, report: str, attempt: int) -> None:
        self.report = report
        self.attempt = attempt


class Ended:
    """Something ended this starter's work: why, with which exit code, with how much grace.

    ``grace_s`` None: as configured.
    """

    __slots__ = ("code", "grace_s", "reason")

    def __init__(self, code: int, reason: str, grace_s: Optional[float] = 0.0) -> None:
        self.code = code
        self.reason = reason
        self.grace_s = grace_s


class DismissedError(Exception):
    """The starter must end its program and go; ``ended`` says why."""

    def __init__(self, ended: Ended) -> None:
        super().__init__(ended.reason)
        self.ended = ended


class ProgramChanged:
    """The program started or ended; its own object says which."""

    __slots__ = ()


if TYPE_CHECKING:
    Message = Union[Order, ClusterSpec, Acknowledged, Ended, ProgramChanged]


class Situation:
    """The sum of all messages."""

    def __init__(self) -> None:
        self.order: Optional[Order] = None
        self.spec: Optional[ClusterSpec] = None
        self._ended: Optional[Ended] = None
        self._acknowledged: Set[Tuple[str, int]] = set()

    def take(self, message: Message) -> None:
        """Add one message; old news changes nothing."""
        if isinstance(message, Order):
            known = self.order
            if known is None or (known.stop, known.attempt) < (message.stop, message.attempt):
                self.order = message
        elif isinstance(message, ClusterSpec):
            if self.spec is None or self.spec.revision < message.revision:
                self.spec = message
        elif isinstance(message, Acknowledged):
            self._acknowledged.add((message.report, message.attempt))
        elif isinstance(message, Ended):
            self._take_end(message)

    def _take_end(self, new: Ended) -> None:
        first = self._ended
        if first is None:
            self._ended = new
        elif new.grace_s is not None and (first.grace_s is None or new.grace_s < first.grace_s):
            # The first reason is the one to tell, but the newer one has less time.
            self._ended = Ended(first.code, first.reason, new.grace_s)

    def is_acknowledged(self, report: str, attempt: int) -> bool:
        """Whether the master has it for good."""
        return (report, attempt) in self._acknowledged

    def end(self) -> Optional[Ended]:
        """Why this starter must go now, or None if it need not."""
        if self._ended is not None:
            return self._ended
        if self.order is not None and self.order.stop:
            return Ended(STOPPED, "the master ordered it to stop", self.order.grace_s)
        return None

    def successor(self, attempt: int) -> Optional[Order]:
        """The order that makes ``attempt`` a thing of the past, or None."""
        if self.order is not None and self.order.attempt > attempt:
            return self.order
        return None
