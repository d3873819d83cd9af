"""The table of a job's container requests: what is outstanding, and what YARN was sent.

The job machine requests single containers; YARN takes *absolute counts* per size
and place. The table turns one into the other. It knows which counts differ from
those that the ResourceManager has been sent, and which request an allocated
container answers.

Hosts are named in the counts, not only ``*``, because that makes allocation fast:
the CapacityScheduler gives an application one container per node and heartbeat
for ``*``, but as many as fit for a host.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Collection, Iterable, Sequence

import msgspec

from ytf.backends.yarn.container_requests import (
    GPU,
    NO_LIMIT,
    HostCapacity,
    NodeNamer,
    YarnProfile,
    host_limits,
    nodes_with_label,
    slots,
    with_counted_gpus,
    without_gpus,
)
from ytf.hadoop.yarn.allocate_request import ANYWHERE, ResourceRequest
from ytf.hadoop.yarn.records import NodeReport, Resource
from ytf.specs.ids import RequestId
from ytf.specs.job import Placement

FIRST_MESSAGE_S = 2.5
"""Nodes give containers with their heartbeats: no message is due before two of them."""
NEXT_MESSAGE_S = 10.0
"""The least time between two messages while the counts keep changing."""


class _PlaceCount(msgspec.Struct, frozen=True):
    """The count for one place: a host, a rack or ``*``."""

    count: int
    relax: bool = True


class _ProfileRequests:
    """The outstanding requests of one profile, oldest first."""

    def __init__(self, *, strict: bool) -> None:
        self.outstanding: OrderedDict[RequestId, None] = OrderedDict()
        self.sent: dict[str, _PlaceCount] = {}
        """The counts that the ResourceManager has been sent, by place."""
        self.limits: dict[str, int] = {}
        """The hosts to name, with the most containers that each may get."""
        self.strict = strict
        """Whether containers may come from the named hosts only."""
        self.fruitless = 0
        """Heartbeats without any container while requests are outstanding."""
        self.is_doubtful = False
        """A choice of hosts has failed: what is known of the hosts is too old to insist on one."""


class RequestTable:
    """The outstanding container requests of a job.

    A container's priority tells its profile, also to a master that inherits the
    container: ``profiles`` are those that earlier masters requested. Others may
    come with any request.

    ``gpus_per_node``: the ResourceManager does not count GPUs, and every node has so
    many. Then the table counts those of this job's containers, and a host never
    gets more containers than it has GPUs for.
    """

    def __init__(
        self, profiles: Iterable[YarnProfile] = (), *, gpus_per_node: int | None = None
    ) -> None:
        self._gpus_per_node = gpus_per_node
        self._by_profile: dict[YarnProfile, _ProfileRequests] = {}
        self._profiles: dict[RequestId, YarnProfile] = {}
        self._racks: dict[str, str] = {}
        self._held: dict[str, Counter[str]] = {}
        self._allocated: dict[str, Resource] = {}
        for profile in profiles:
            self._requests(profile)

    @property
    def outstanding(self) -> int:
        """The number of outstanding requests."""
        return len(self._profiles)

    @property
    def outstanding_by_profile(self) -> dict[YarnProfile, int]:
        """The number of outstanding requests of each profile that has any."""
        return {
            profile: len(requests.outstanding)
            for profile, requests in self._by_profile.items()
            if requests.outstanding
        }

    def held(self, group: str) -> dict[str, int]:
        """The number of containers that a group has on each host."""
        return {host: many for host, many in self._held.get(group, {}).items() if many > 0}

    def add(self, request: RequestId, profile: YarnProfile) -> None:
        """Request one container. Idempotent."""
        if request in self._profiles:
            return
        self._requests(profile).outstanding[request] = None
        self._profiles[request] = profile

    def cancel(self, request: RequestId) -> None:
        """Take a request back. Idempotent."""
        profile = self._profiles.pop(request, None)
        if profile is not None:
            del self._by_profile[profile].outstanding[request]

    def allocated(self, priority: int, host: str) -> RequestId | None:
        """Note an allocated container; returns the oldest request of its priority.

        None if no request is outstanding: there is one container too many.
        """
        found = self._find(priority)
        if found is None or not found[1].outstanding:
            return None
        profile, requests = found
        request, _ = requests.outstanding.popitem(last=False)
        del self._profiles[request]
        requests.fruitless = 0
        # The scheduler has already subtracted it: for the host, for its rack, and for ``*``.
        for place in (host, self._racks.get(host), ANYWHERE):
            sent = None if place is None else requests.sent.get(place)
            if place is not None and sent is not None and sent.count:
                requests.sent[place] = _PlaceCount(sent.count - 1, sent.relax)
        if requests.limits.get(host):
            requests.limits[host] -= 1
        self._held.setdefault(profile.group, Counter())[host] += 1
        self._allocated[host] = self._allocated.get(host, Resource()) + profile.resource
        return request

    def recovered(self, priority: int, host: str) -> None:
        """Note a container that an earlier master was given and that still runs."""
        found = self._find(priority)
        if found is None:
            return
        profile, _ = found
        self._held.setdefault(profile.group, Counter())[host] += 1
        # Its other resources are not in the nodes' free ones: it was there before this table.
        if self._counts_gpus(profile):
            gpus = Resource(others={GPU: profile.resource.others[GPU]})
            self._allocated[host] = self._allocated.get(host, Resource()) + gpus

    def completed(self, priority: int, host: str) -> None:
        """Note that a container has ended, and its host has room for another."""
        found = self._find(priority)
        if found is None:
            return
        profile, _ = found
        self._held.setdefault(profile.group, Counter())[host] -= 1
        self._allocated[host] = self._allocated.get(host, Resource()) - profile.resource

    def choose_hosts(
        self, nodes: Sequence[NodeReport], name_of: NodeNamer, avoid: Collection[str] = ()
    ) -> None:
        """Choose the hosts to name from now on, by the placement of each profile.

        ``nodes`` are as they were before this table got any container. Hosts to
        ``avoid`` are not named. If no host has room, only ``*`` is requested.
        """
        self._racks = {name_of(node.node): node.rack for node in nodes}
        if self._gpus_per_node is not None:
            nodes = [with_counted_gpus(node, self._gpus_per_node) for node in nodes]
        taken = dict(self._allocated)
        for profile, requests in self._by_profile.items():
            hosts = [
                HostCapacity(name, node.free - taken.get(name, Resource()), node.capability)
                for node in nodes_with_label(nodes, profile.label)
                if (name := name_of(node.node)) not in avoid
            ]
            requests.limits = host_limits(
                profile.placement,
                len(requests.outstanding),
                profile.resource,
                hosts,
                self.held(profile.group),
            )
            is_counted = self._counts_gpus(profile)
            if is_counted:
                requests.limits = self._limit_by_gpus(profile, requests, hosts)
            # Strict for ever, or only while the chosen hosts have room.
            requests.strict = self._is_always_strict(profile) or (
                profile.placement is not Placement.ANY
                and bool(requests.limits)
                and not requests.is_doubtful
            )
            if profile.placement in (Placement.SPREAD, Placement.PACK) or is_counted:
                # What is reserved for one profile is not free for the next.
                for name, limit in requests.limits.items():
                    reserved = profile.resource * min(limit, len(requests.outstanding))
                    taken[name] = taken.get(name, Resource()) + reserved

    def heartbeat_passed(self, relax_after: int) -> None:
        """Count a heartbeat. Profiles that got nothing in ``relax_after`` of them are relaxed.

        The named hosts may be full by now, so containers of these profiles may come
        from anywhere. Hosts can be named again, but are never insisted on again.
        """
        for profile, requests in self._by_profile.items():
            requests.fruitless = requests.fruitless + 1 if requests.outstanding else 0
            if requests.fruitless < relax_after or profile.placement is Placement.APART:
                continue
            requests.is_doubtful = True
            if not self._counts_gpus(profile):
                requests.limits, requests.strict = {}, False

    def changes(self) -> list[ResourceRequest]:
        """The counts that differ from those that the ResourceManager has been sent.

        They count as sent from now on.
        """
        changed: list[ResourceRequest] = []
        for profile, requests in self._by_profile.items():
            wanted = self._wanted(requests)
            for place in [*wanted, *(p for p in requests.sent if p not in wanted)]:
                count = wanted.get(place, _PlaceCount(0))
                if requests.sent.get(place, _PlaceCount(0)) != count:
                    changed.append(self._ask(profile, place, count))
            requests.sent = wanted
        return changed

    def everything(self) -> list[ResourceRequest]:
        """All counts, for a ResourceManager that knows none of them."""
        for requests in self._by_profile.values():
            requests.sent = {}
        return self.changes()

    def _requests(self, profile: YarnProfile) -> _ProfileRequests:
        found = self._by_profile.get(profile)
        if found is None:
            # Also before hosts are chosen: two containers could share one.
            found = _ProfileRequests(strict=self._is_always_strict(profile))
            self._by_profile[profile] = found
        return found

    def _counts_gpus(self, profile: YarnProfile) -> bool:
        """Whether this table counts the GPUs of a profile's containers."""
        return self._gpus_per_node is not None and GPU in profile.resource.others

    def _is_always_strict(self, profile: YarnProfile) -> bool:
        """Whether containers may never come from hosts that are not named."""
        return profile.placement is Placement.APART or self._counts_gpus(profile)

    @staticmethod
    def _limit_by_gpus(
        profile: YarnProfile, requests: _ProfileRequests, hosts: Sequence[HostCapacity]
    ) -> dict[str, int]:
        """The limits of the placement as far as the hosts have GPUs.

        Where the placement names no hosts, or has failed, all that may have room are named.
        """
        gpus = Resource(others={GPU: profile.resource.others[GPU]})
        room = {host.name: slots(gpus, host.free) for host in hosts}
        limits = requests.limits
        if not limits or (requests.is_doubtful and profile.placement is not Placement.APART):
            limits = dict.fromkeys(room, NO_LIMIT)
        wanted = {name: min(limit, room[name]) for name, limit in limits.items()}
        return {name: limit for name, limit in wanted.items() if limit > 0}

    def _find(self, priority: int) -> tuple[YarnProfile, _ProfileRequests] | None:
        return next((e for e in self._by_profile.items() if e[0].priority == priority), None)

    def _wanted(self, requests: _ProfileRequests) -> dict[str, _PlaceCount]:
        count = len(requests.outstanding)
        if not count:
            return {}
        hosts = {host: min(limit, count) for host, limit in requests.limits.items() if limit}
        racks: Counter[str] = Counter()
        for host, many in hosts.items():
            racks[self._racks[host]] += many
        relax = not requests.strict
        return {
            **{host: _PlaceCount(many) for host, many in hosts.items()},
            **{rack: _PlaceCount(min(many, count), relax) for rack, many in racks.items()},
            ANYWHERE: _PlaceCount(count, relax),
        }

    def _ask(self, profile: YarnProfile, place: str, count: _PlaceCount) -> ResourceRequest:
        resource = profile.resource
        return ResourceRequest(
            priority=profile.priority,
            resource=without_gpus(resource) if self._counts_gpus(profile) else resource,
            count=count.count,
            place=place,
            relax_locality=count.relax,
            node_label=profile.label if place == ANYWHERE else None,
        )


class AllocationMessages:
    """Messages to users about outstanding requests. Times are those of any monotonic clock."""

    def __init__(self) -> None:
        self._outstanding = 0
        self._since: float | None = None
        self._sent_at: float | None = None
        self._sent = ""
        self._spread_groups: set[str] = set()

    def requested(self, profile: YarnProfile) -> None:
        """Note that a container of a profile is requested."""
        if profile.placement is Placement.SPREAD:
            self._spread_groups.add(profile.group)

    def waiting(self, table: RequestTable, held: int, headroom: str, now: float) -> str:
        """What the job waits for; empty if that is no news."""
        count = table.outstanding
        if count != self._outstanding:
            self._outstanding, self._since = count, now
        if not count:
            self._sent, self._sent_at = "", None
            return ""
        is_early = self._since is None or now - self._since < FIRST_MESSAGE_S
        is_again = self._sent_at is not None and now - self._sent_at < NEXT_MESSAGE_S
        text = f"Waiting for {count} of {count + held} containers: {_profiles(table)}. {headroom}"
        text = text.strip()
        if is_early or is_again or text == self._sent:
            return ""
        self._sent, self._sent_at = text, now
        return text

    def shared_nodes(self, table: RequestTable) -> list[str]:
        """A message for each group that was to be spread, has all its containers, and shares nodes.

        Each group is reported once.
        """
        texts: list[str] = []
        waiting = {profile.group for profile in table.outstanding_by_profile}
        for group in sorted(self._spread_groups - waiting):
            self._spread_groups.remove(group)
            nodes = table.held(group)
            tasks = sum(nodes.values())
            if tasks > len(nodes):
                where = "1 node" if len(nodes) == 1 else f"{len(nodes)} nodes"
                texts.append(f"{group}: {tasks} tasks share {where}, though they are to be spread")
        return texts


def _profiles(table: RequestTable) -> str:
    return ", ".join(
        f"{many} × {profile.group} ({profile.resource}{_constraints(profile)})"
        for profile, many in table.outstanding_by_profile.items()
    )


def _constraints(profile: YarnProfile) -> str:
    words = f", label {profile.label}" if profile.label else ""
    return f"{words}, apart" if profile.placement is Placement.APART else words
