"""What has been asked of the ResourceManager, and what it still owes.

The job machine wishes for single containers; YARN takes *absolute counts* per
size and place. The ledger turns one into the other: it knows which numbers
differ from what was last said, and which wish a container answers.

Asking for hosts by name, not only for ``*``, is what makes allocation fast: the
CapacityScheduler gives an application one container per node and heartbeat
for ``*``, but as many as fit for a host.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Collection, Iterable, Sequence

import msgspec

from ytf.backends.yarn.nodes import NameOf, with_label
from ytf.backends.yarn.placing import Host, limits
from ytf.hadoop.yarn.asks import ANYWHERE, Ask
from ytf.hadoop.yarn.records import NodeReport
from ytf.hadoop.yarn.resources import Resource
from ytf.specs.job import Placement
from ytf.specs.names import RequestId


class Kind(msgspec.Struct, frozen=True):
    """Containers that can stand in for one another."""

    group: str
    resource: Resource
    label: str | None = None
    placement: Placement = Placement.ANY


class _Said(msgspec.Struct, frozen=True):
    """What an ask for one place said last."""

    count: int
    relax: bool = True


class _Line:
    """The wishes of one kind, oldest first, under a priority of its own."""

    def __init__(self, priority: int) -> None:
        self.priority = priority
        self.waiting: OrderedDict[RequestId, None] = OrderedDict()
        self.said: dict[str, _Said] = {}
        self.limits: dict[str, int] = {}
        self.strict = False
        self.fruitless = 0
        """Beats since it last got anything, while it waits."""
        self.is_doubtful = False
        """A plan has failed: what is known of the hosts is too old to insist on another."""


class Ledger:
    """Wishes in, asks out. One priority per kind: old schedulers keep one size per priority.

    The priorities follow the order of ``kinds``. So a container tells by its
    priority what kind it is of, also to the master that inherits it.
    """

    def __init__(self, kinds: Iterable[Kind] = ()) -> None:
        self._lines: dict[Kind, _Line] = {}
        self._kinds: dict[RequestId, Kind] = {}
        self._racks: dict[str, str] = {}
        self._held: dict[str, Counter[str]] = {}
        self._given: dict[str, Resource] = {}
        for kind in kinds:
            self._line(kind)

    @property
    def outstanding(self) -> int:
        """How many containers are still owed."""
        return len(self._kinds)

    @property
    def owed(self) -> dict[Kind, int]:
        """How many of each kind are still owed, where any are."""
        return {kind: len(line.waiting) for kind, line in self._lines.items() if line.waiting}

    def held(self, group: str) -> dict[str, int]:
        """Where the containers of a group are: host → how many."""
        return {host: many for host, many in self._held.get(group, {}).items() if many > 0}

    def want(self, request: RequestId, kind: Kind) -> None:
        """Wish for one container; a wish already known is not made twice."""
        if request in self._kinds:
            return
        self._line(kind).waiting[request] = None
        self._kinds[request] = kind

    def forget(self, request: RequestId) -> None:
        """The container is no longer wanted."""
        kind = self._kinds.pop(request, None)
        if kind is not None:
            del self._lines[kind].waiting[request]

    def answered(self, priority: int, host: str) -> RequestId | None:
        """The oldest wish that a container of this priority grants; None: it is one too many."""
        found = self._of(priority)
        if found is None or not found[1].waiting:
            return None
        kind, line = found
        request, _ = line.waiting.popitem(last=False)
        del self._kinds[request]
        line.fruitless = 0
        # The scheduler has counted it off itself: on the host, on its rack, and anywhere.
        for place in (host, self._racks.get(host), ANYWHERE):
            said = None if place is None else line.said.get(place)
            if place is not None and said is not None and said.count:
                line.said[place] = _Said(said.count - 1, said.relax)
        if line.limits.get(host):
            line.limits[host] -= 1
        self._held.setdefault(kind.group, Counter())[host] += 1
        self._given[host] = self._given.get(host, Resource()) + kind.resource
        return request

    def inherited(self, priority: int, host: str) -> None:
        """A container that an earlier master was given is still there."""
        found = self._of(priority)
        if found is not None:
            # It was on its node before this ledger began.
            self._held.setdefault(found[0].group, Counter())[host] += 1

    def returned(self, priority: int, host: str) -> None:
        """A container is no more, and its host has room for another."""
        found = self._of(priority)
        if found is None:
            return
        kind, _ = found
        self._held.setdefault(kind.group, Counter())[host] -= 1
        self._given[host] = self._given.get(host, Resource()) - kind.resource

    def prefer(
        self, nodes: Sequence[NodeReport], name_of: NameOf, avoid: Collection[str] = ()
    ) -> None:
        """Choose the hosts to name in the asks to come, as each kind wants to be placed.

        ``nodes`` are as they were before this ledger was given anything. Hosts
        to ``avoid`` are not named. Where none has room, only ``*`` is asked for.
        """
        self._racks = {name_of(node.node): node.rack for node in nodes}
        taken = dict(self._given)
        for kind, line in self._lines.items():
            hosts = [
                Host(name, node.free - taken.get(name, Resource()), node.capability)
                for node in with_label(nodes, kind.label)
                if (name := name_of(node.node)) not in avoid
            ]
            line.limits = limits(
                kind.placement, len(line.waiting), kind.resource, hosts, self.held(kind.group)
            )
            # Kept apart at any price; the others only while there is a plan to keep to.
            line.strict = kind.placement is Placement.APART or (
                kind.placement is not Placement.ANY and bool(line.limits) and not line.is_doubtful
            )
            if kind.placement in (Placement.SPREAD, Placement.PACK):
                # What is meant for one kind is not there for the next.
                for name, count in line.limits.items():
                    taken[name] = taken.get(name, Resource()) + kind.resource * count

    def waited(self, patience: int) -> None:
        """A beat has passed; kinds that got nothing in ``patience`` of them may come from anywhere.

        The hosts that were named for them may be full by now. They can be named
        again, when there is a new plan, but never again be insisted on.
        """
        for kind, line in self._lines.items():
            line.fruitless = line.fruitless + 1 if line.waiting else 0
            if line.fruitless >= patience and kind.placement is not Placement.APART:
                line.limits, line.strict, line.is_doubtful = {}, False, True

    def changes(self) -> list[Ask]:
        """The asks that differ from what the ResourceManager was last told; told from now on."""
        asks: list[Ask] = []
        for kind, line in self._lines.items():
            wanted = self._wanted(line)
            for place in [*wanted, *(p for p in line.said if p not in wanted)]:
                says = wanted.get(place, _Said(0))
                if line.said.get(place, _Said(0)) != says:
                    asks.append(self._ask(kind, line, place, says))
            line.said = wanted
        return asks

    def everything(self) -> list[Ask]:
        """All asks anew, for a ResourceManager that knows none of them."""
        for line in self._lines.values():
            line.said = {}
        return self.changes()

    def _line(self, kind: Kind) -> _Line:
        return self._lines.setdefault(kind, _Line(len(self._lines) + 1))

    def _of(self, priority: int) -> tuple[Kind, _Line] | None:
        return next((each for each in self._lines.items() if each[1].priority == priority), None)

    def _wanted(self, line: _Line) -> dict[str, _Said]:
        count = len(line.waiting)
        if not count:
            return {}
        hosts = {host: min(limit, count) for host, limit in line.limits.items() if limit}
        racks: Counter[str] = Counter()
        for host, many in hosts.items():
            racks[self._racks[host]] += many
        relax = not line.strict
        return {
            **{host: _Said(many) for host, many in hosts.items()},
            **{rack: _Said(min(many, count), relax) for rack, many in racks.items()},
            ANYWHERE: _Said(count, relax),
        }

    @staticmethod
    def _ask(kind: Kind, line: _Line, place: str, says: _Said) -> Ask:
        return Ask(
            priority=line.priority,
            resource=kind.resource,
            count=says.count,
            place=place,
            relax_locality=says.relax,
            node_label=kind.label if place == ANYWHERE else None,
        )
