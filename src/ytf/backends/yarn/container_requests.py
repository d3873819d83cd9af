"""Translates requests for containers into YARN's terms: profiles, resources, and hosts to name.

A host that is named in a request with a count of its own never gets more than
that, as long as the requests for its rack and for ``*`` do not relax locality.
This is enough to spread, to pack and to keep apart, and every scheduler supports
it. Placement constraints (``SchedulingRequest``) would need a cluster that has
them enabled. Clients cannot ask for that beforehand, and where they are disabled
the whole heartbeat is refused.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Mapping, Sequence

import msgspec

from ytf.hadoop.conf import Configuration
from ytf.hadoop.yarn.ids import NodeId
from ytf.hadoop.yarn.records import NodeReport, Resource
from ytf.machine.commands import ContainerProfile
from ytf.specs.job import JobSpec, Placement, Resources

GPU = "yarn.io/gpu"
MAX_HOSTS = 64
"""The most hosts that are named where any would do: the scheduler keeps state for each of them."""
NO_LIMIT = 2**31 - 1

NodeNamer = Callable[[NodeId], str]
"""Maps a node to the name that the scheduler uses for it."""


class YarnProfile(msgspec.Struct, frozen=True):
    """A container profile as YARN knows it: requests are counted per profile."""

    priority: int
    """Unique to the profile, because older schedulers keep one size per priority."""
    group: str
    resource: Resource
    label: str | None = None
    placement: Placement = Placement.ANY


def yarn_profile(profile: ContainerProfile, priority: int) -> YarnProfile:
    """A profile of the job machine in YARN's terms."""
    return YarnProfile(
        priority,
        profile.group,
        resource_of(profile.resources),
        profile.node_label,
        profile.placement,
    )


def profiles_of(spec: JobSpec) -> list[YarnProfile]:
    """The profiles that a job's first requests have, in the order of its spec."""
    found: list[ContainerProfile] = []
    for task in spec.tasks():
        profile = ContainerProfile.for_task(spec, task)
        if profile not in found:
            found.append(profile)
    return [yarn_profile(profile, number) for number, profile in enumerate(found, 1)]


def resource_of(resources: Resources) -> Resource:
    """A task's resources as YARN counts them."""
    others = {GPU: resources.gpus, **resources.others}
    return Resource(
        resources.memory_mb,
        resources.vcores,
        {name: amount for name, amount in others.items() if amount},
    )


def with_counted_gpus(node: NodeReport, gpus_per_node: int) -> NodeReport:
    """A node as it would be reported if the ResourceManager counted its GPUs."""
    counted = node.capability + Resource(others={GPU: gpus_per_node})
    return msgspec.structs.replace(node, capability=counted)


def without_gpus(resource: Resource) -> Resource:
    """What is requested of a ResourceManager that does not count GPUs."""
    others = {name: amount for name, amount in resource.others.items() if name != GPU}
    return Resource(resource.memory_mb, resource.vcores, others)


class HostCapacity(msgspec.Struct, frozen=True):
    """A host: the resources that are free on it, and all that it has."""

    name: str
    free: Resource
    capability: Resource


def node_namer(conf: Configuration) -> NodeNamer:
    """The names that the scheduler uses for nodes (``SchedulerNode.getNodeName``)."""
    if conf.get_bool("yarn.scheduler.include-port-in-node-name", False):
        return str
    return lambda node: node.host


def nodes_with_label(nodes: Iterable[NodeReport], label: str | None) -> list[NodeReport]:
    """The usable nodes of a partition. Nodes without a label are a partition of their own."""
    wanted = {label} if label else set()
    return [node for node in nodes if node.state.usable and set(node.labels) == wanted]


def host_limits(
    placement: Placement,
    count: int,
    resource: Resource,
    hosts: Sequence[HostCapacity],
    held: Mapping[str, int],
) -> dict[str, int]:
    """Maps each host to name to the most containers that it may still get of a group.

    ``count`` containers are requested; ``held`` are those that the group has, by
    host. Empty if no host should be named.
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


def slots(resource: Resource, room: Resource) -> int:
    """How many containers of a resource fit into ``room``."""
    there = room.amounts()
    wanted = {name: amount for name, amount in resource.amounts().items() if amount}
    return min((there.get(name, 0) // amount for name, amount in wanted.items()), default=NO_LIMIT)


def _spread(
    count: int, resource: Resource, hosts: Sequence[HostCapacity], held: Mapping[str, int]
) -> dict[str, int]:
    """Always takes the host with the fewest containers next; of equals the one with most room."""
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
    count: int, resource: Resource, hosts: Sequence[HostCapacity], held: Mapping[str, int]
) -> dict[str, int]:
    """Fills the hosts that have containers of the group first, then those with most slots."""
    found: dict[str, int] = {}
    room = {host.name: slots(resource, host.free) for host in hosts}
    for name in sorted(room, key=lambda name: (held.get(name, 0) > 0, room[name]), reverse=True):
        if not count:
            break
        found[name] = min(count, room[name])
        count -= found[name]
    return found
