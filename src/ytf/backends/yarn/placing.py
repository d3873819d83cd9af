"""Which hosts to ask for, and for how many containers on each.

A host that is named in an ask with a count of its own never gets more than
that, as long as the asks around it (its rack's, ``*``) do not relax locality.
That is all it takes to spread, to pack and to keep apart, and any scheduler
does it: placement constraints (``SchedulingRequest``) would need a cluster that
has them switched on, which nobody can know before asking, and where they are
off the whole heartbeat is refused.
"""

from __future__ import annotations

import heapq
from collections.abc import Mapping, Sequence

import msgspec

from ytf.hadoop.yarn.resources import Resource
from ytf.specs.job import Placement

MAX_HOSTS = 64
"""So many hosts are named at most where any would do: the scheduler keeps every one of them."""
NO_LIMIT = 2**31 - 1


class Host(msgspec.Struct, frozen=True):
    """A host with what is free on it, and what it has in all."""

    name: str
    free: Resource
    capability: Resource


def limits(
    placement: Placement,
    count: int,
    resource: Resource,
    hosts: Sequence[Host],
    held: Mapping[str, int],
) -> dict[str, int]:
    """Host → how many more containers of a group it may get at most.

    ``count`` are wished for, and ``held`` are there already. Empty where no
    host deserves to be named.
    """
    if placement is Placement.APART:
        fitting = (host for host in hosts if resource.fits_in(host.capability))
        return {host.name: 1 for host in fitting if not held.get(host.name)}
    roomy = [host for host in hosts if resource.fits_in(host.free)]
    roomy.sort(key=lambda host: host.free.memory_mb, reverse=True)
    if placement is Placement.SPREAD:
        return _spread(count, resource, roomy, held)
    if placement is Placement.PACK:
        return _pack(count, resource, roomy, held)
    return {host.name: NO_LIMIT for host in roomy[:MAX_HOSTS]}


def _spread(
    count: int, resource: Resource, hosts: Sequence[Host], held: Mapping[str, int]
) -> dict[str, int]:
    """Always the host that has the fewest of them next, of equals the one with the most room."""
    found: dict[str, int] = {}
    queue = [(held.get(host.name, 0), number) for number, host in enumerate(hosts)]
    heapq.heapify(queue)
    while queue and count:
        load, number = queue[0]
        name = hosts[number].name
        found[name] = found.get(name, 0) + 1
        count -= 1
        if found[name] < slots(resource, hosts[number].free):
            heapq.heapreplace(queue, (load + 1, number))
        else:
            heapq.heappop(queue)
    return found


def _pack(
    count: int, resource: Resource, hosts: Sequence[Host], held: Mapping[str, int]
) -> dict[str, int]:
    """Fill hosts that have some of them already, then the ones that take the most."""
    found: dict[str, int] = {}
    room = {host.name: slots(resource, host.free) for host in hosts}
    for name in sorted(room, key=lambda name: (held.get(name, 0) > 0, room[name]), reverse=True):
        if not count:
            break
        found[name] = min(count, room[name])
        count -= found[name]
    return found


def slots(resource: Resource, room: Resource) -> int:
    """How many times a resource fits."""
    there = room.amounts()
    wanted = {name: amount for name, amount in resource.amounts().items() if amount}
    return min((there.get(name, 0) // amount for name, amount in wanted.items()), default=NO_LIMIT)
