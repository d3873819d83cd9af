"""What has been asked of the ResourceManager, and what it still owes.

The job machine wishes for single containers; YARN takes *absolute counts* per
size and place. The ledger turns one into the other: it knows which numbers
differ from what was last said, and which wish a container answers.

Asking for hosts by name, not only for ``*``, is what makes allocation fast: the
CapacityScheduler gives an application one container per node and heartbeat
for ``*``, but as many as fit for a host.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping, Sequence

import msgspec

from ytf.hadoop.yarn.asks import ANYWHERE, Ask
from ytf.hadoop.yarn.ids import NodeId
from ytf.hadoop.yarn.records import NodeReport
from ytf.hadoop.yarn.resources import Resource
from ytf.specs.names import RequestId

MAX_HOSTS = 64
"""So many hosts are named in asks at most: the scheduler keeps every one of them."""


class Kind(msgspec.Struct, frozen=True):
    """Containers that can stand in for one another."""

    group: str
    resource: Resource
    label: str | None = None


class _Line:
    """The wishes of one kind, oldest first, under a priority of its own."""

    def __init__(self, priority: int) -> None:
        self.priority = priority
        self.waiting: OrderedDict[RequestId, None] = OrderedDict()
        self.said: dict[str, int] = {}
        self.hosts: tuple[str, ...] = ()
        self.racks: tuple[str, ...] = ()


class Ledger:
    """Wishes in, asks out. One priority per kind: old schedulers keep one size per priority."""

    def __init__(self) -> None:
        self._lines: dict[Kind, _Line] = {}
        self._kinds: dict[RequestId, Kind] = {}
        self._racks: dict[str, str] = {}

    @property
    def outstanding(self) -> int:
        """How many containers are still owed."""
        return len(self._kinds)

    def want(self, request: RequestId, kind: Kind) -> None:
        """Wish for one container; a wish already known is not made twice."""
        if request in self._kinds:
            return
        line = self._lines.setdefault(kind, _Line(len(self._lines) + 1))
        line.waiting[request] = None
        self._kinds[request] = kind

    def forget(self, request: RequestId) -> None:
        """The container is no longer wanted."""
        kind = self._kinds.pop(request, None)
        if kind is not None:
            del self._lines[kind].waiting[request]

    def answered(self, priority: int, host: str) -> RequestId | None:
        """The oldest wish that a container of this priority grants; None: it is one too many."""
        line = next((each for each in self._lines.values() if each.priority == priority), None)
        if line is None or not line.waiting:
            return None
        request, _ = line.waiting.popitem(last=False)
        del self._kinds[request]
        # The scheduler has counted it off itself: on the host, on its rack, and anywhere.
        for place in (host, self._racks.get(host), ANYWHERE):
            if place is not None and line.said.get(place):
                line.said[place] -= 1
        return request

    def prefer(self, nodes: Sequence[NodeReport], names: Mapping[NodeId, str]) -> None:
        """Name hosts with room in the asks to come; ``names`` as the scheduler calls them.

        Without any that has room, only ``*`` is asked for.
        """
        self._racks = {names[n.node]: n.rack for n in nodes}
        for kind, line in self._lines.items():
            if kind.label is not None:
                continue  # a label may only be asked for anywhere
            fitting = [n for n in nodes if n.state.usable and kind.resource.fits_in(n.free)]
            fitting.sort(key=lambda n: n.free.memory_mb, reverse=True)
            line.hosts = tuple(dict.fromkeys(names[n.node] for n in fitting[:MAX_HOSTS]))
            line.racks = tuple(dict.fromkeys(self._racks[host] for host in line.hosts))

    def relax(self) -> None:
        """Take hosts back out of the asks: those that were named may be full by now."""
        for line in self._lines.values():
            line.hosts = line.racks = ()

    def changes(self) -> list[Ask]:
        """The asks that differ from what the ResourceManager was last told; told from now on."""
        asks: list[Ask] = []
        for kind, line in self._lines.items():
            wanted = self._wanted(line)
            for place in [*wanted, *(p for p in line.said if p not in wanted)]:
                count = wanted.get(place, 0)
                if line.said.get(place, 0) != count:
                    asks.append(self._ask(kind, line, place, count))
            line.said = wanted
        return asks

    def everything(self) -> list[Ask]:
        """All asks anew, for a ResourceManager that knows none of them."""
        for line in self._lines.values():
            line.said = {}
        return self.changes()

    @staticmethod
    def _wanted(line: _Line) -> dict[str, int]:
        count = len(line.waiting)
        if not count:
            return {}
        return dict.fromkeys([*line.hosts, *line.racks, ANYWHERE], count)

    @staticmethod
    def _ask(kind: Kind, line: _Line, place: str, count: int) -> Ask:
        return Ask(
            priority=line.priority,
            resource=kind.resource,
            count=count,
            place=place,
            node_label=kind.label if place == ANYWHERE else None,
        )
