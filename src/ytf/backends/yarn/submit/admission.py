"""Checks before a submission: can the cluster run the job, may the user submit it to the queue.

What could never run is refused: no such queue, no access to it, no such label, a
container that fits on no node, tasks to keep apart on too few nodes, a command
too long for a node to pass on. A job whose tasks cannot all run *now* is admitted
with a note: nodes come back, clusters grow, and queues get more while it waits.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from functools import reduce
from operator import add

import msgspec

from ytf.backends.launch import make_starter_launch
from ytf.backends.yarn.container_requests import (
    GPU,
    NodeNamer,
    YarnProfile,
    node_namer,
    nodes_with_label,
    profiles_of,
    resource_of,
    slots,
    with_counted_gpus,
)
from ytf.backends.yarn.launch_contexts import LaunchContexts, StarterResources
from ytf.backends.yarn.rm_client import RmClient
from ytf.errors import RefusedError, SpecError
from ytf.hadoop.conf import Configuration
from ytf.hadoop.web import read_rm_setting
from ytf.hadoop.yarn.application_client import ApplicationClient
from ytf.hadoop.yarn.ids import ApplicationId
from ytf.hadoop.yarn.records import (
    NewApplication,
    NodeReport,
    NodeState,
    QueueInfo,
    QueueState,
    Resource,
    unknown_types,
)
from ytf.machine.commands import LaunchStarter
from ytf.specs.amounts import MAX_INT
from ytf.specs.check import MAX_STRING
from ytf.specs.ids import ContainerId, JobId, NodeId, task_id
from ytf.specs.job import TENSORBOARD, JobSpec, Placement

ANY_LABEL = "*"
ATTEMPT_LIMITS = (
    "yarn.resourcemanager.am.global.max-attempts",
    "yarn.resourcemanager.am.max-attempts",
)
"""The settings that limit the attempts of a master; the first that is set counts."""
_SETTINGS_S = 2.0
"""Time limit for a setting: without it, the job is submitted all the same."""


class ClusterSnapshot(msgspec.Struct, frozen=True, kw_only=True):
    """What the ResourceManager tells of the cluster and of the job's queue.

    ``open_queues`` are those that the user may submit to; None if every user may
    submit to all of them.
    """

    new: NewApplication
    queue: QueueInfo | None
    open_queues: tuple[str, ...] | None
    nodes: tuple[NodeReport, ...]
    labels: tuple[str, ...]
    attempt_limit: AttemptLimit | None = None


class AttemptLimit(msgspec.Struct, frozen=True, kw_only=True):
    """How often the cluster starts a job's master, and the setting that says so.

    Mirrors ``RMAppImpl``: the job gets what it asks for, but not more than this.
    """

    attempts: int
    setting: str


class Admission(msgspec.Struct, frozen=True, kw_only=True):
    """A job that may be submitted: its id, and its spec with the queue's default label.

    ``notes`` tell the user why the job cannot start now, and what it does not get.
    """

    id: ApplicationId
    spec: JobSpec
    notes: tuple[str, ...] = ()


def admit(rm: RmClient, spec: JobSpec) -> Admission:
    """Get an id for a job, or raise ``RefusedError`` if it could never run."""
    checks_acls = rm.conf.get_bool("yarn.acl.enable", False)
    cluster = rm.call(lambda protocol: _snapshot(protocol, rm.conf, spec, checks_acls=checks_acls))
    return check_admission(spec, cluster, node_namer(rm.conf))


def check_admission(spec: JobSpec, cluster: ClusterSnapshot, name_of: NodeNamer) -> Admission:
    """Admit a job to a cluster; ``name_of`` maps a node to its name in the scheduler."""
    queue = check_queue(spec.queue, cluster.queue, cluster.open_queues)
    if GPU in cluster.new.maximum.others:
        spec = msgspec.structs.replace(spec, gpus_per_node=None)
    elif spec.asks_for_gpus():
        cluster = _with_counted_gpus(spec, cluster)
    if spec.node_label is None and queue.default_label:
        spec = msgspec.structs.replace(spec, node_label=queue.default_label)
    master = YarnProfile(0, "the master", resource_of(spec.master.resources), spec.node_label)
    profiles = profiles_of(spec)
    for profile in (master, *profiles):
        _check_label(profile, queue, cluster)
        who = profile.group if profile is master else _first_task(spec, profile)
        _check_size(who, profile.resource, cluster.new.maximum)
        _check_nodes(who, profile, cluster.nodes)
    for group, wanted in spec.groups.items():
        if spec.placement_of(group) is Placement.APART:
            own = [profile for profile in profiles if profile.group == group]
            _check_apart(group, wanted.count, own, cluster.nodes, name_of)
    notes = (
        capacity_shortage(spec, queue, cluster.nodes),
        attempt_shortage(spec, cluster.attempt_limit),
    )
    return Admission(id=cluster.new.id, spec=spec, notes=tuple(note for note in notes if note))


def _with_counted_gpus(spec: JobSpec, cluster: ClusterSnapshot) -> ClusterSnapshot:
    """The cluster as it would be if its ResourceManager counted the GPUs of each node."""
    if spec.gpus_per_node is None:
        raise RefusedError(
            "the job asks for GPUs, which this cluster's ResourceManager does not count",
            hint="say how many each node has with --gpus_per_node, and which nodes have some with "
            "--node_label; ytf then counts them itself",
        )
    gpus = Resource(others={GPU: spec.gpus_per_node})
    return msgspec.structs.replace(
        cluster,
        new=msgspec.structs.replace(cluster.new, maximum=cluster.new.maximum + gpus),
        nodes=tuple(with_counted_gpus(node, spec.gpus_per_node) for node in cluster.nodes),
    )


def queue_refusal(reason: str, open_queues: Sequence[str]) -> RefusedError:
    """The error for a user who may not submit to a queue."""
    may = ", ".join(_leaf_queues(open_queues)) or "none"
    return RefusedError(reason, hint=f"queues you may submit to: {may} (see --queue)")


def _leaf_queues(queues: Sequence[str]) -> list[str]:
    """The queues without queues below them: only these take jobs."""
    return [
        name
        for name in queues
        if name != "root" and not any(other.startswith(f"{name}.") for other in queues)
    ]


async def _snapshot(
    rm: ApplicationClient, conf: Configuration, spec: JobSpec, *, checks_acls: bool
) -> ClusterSnapshot:
    new, queue, nodes, limit = await asyncio.gather(
        rm.new_application(),
        rm.queue(spec.queue),
        rm.nodes(NodeState.RUNNING),
        read_attempt_limit(conf),
    )
    wanted = {spec.node_label, *(group.node_label for group in spec.groups.values())}
    labels = await rm.node_labels() if any(wanted) else []
    return ClusterSnapshot(
        new=new,
        queue=queue,
        open_queues=tuple(await rm.queues_to_submit_to()) if checks_acls or queue is None else None,
        nodes=tuple(nodes),
        labels=tuple(label.name for label in labels),
        attempt_limit=limit,
    )


async def read_attempt_limit(conf: Configuration) -> AttemptLimit | None:
    """The cluster's limit, from the ResourceManager, else from our own configuration.

    None if neither tells.
    """
    told = await asyncio.gather(
        *(read_rm_setting(conf, name, _SETTINGS_S) for name in ATTEMPT_LIMITS)
    )
    # Hadoop's default says nothing about this cluster.
    ours = conf.names()
    own = [conf.get_trimmed(name) if name in ours else None for name in ATTEMPT_LIMITS]
    for values in (told, own):
        for setting, value in zip(ATTEMPT_LIMITS, values, strict=True):
            if value is not None and value.isascii() and value.isdigit():
                return AttemptLimit(attempts=int(value), setting=setting)
    return None


def attempt_shortage(spec: JobSpec, limit: AttemptLimit | None) -> str:
    """What the job does not get of the master attempts that it asks for; empty if it gets all."""
    asked = spec.master.max_attempts
    if limit is None or asked <= limit.attempts:
        return ""
    times = "once" if limit.attempts == 1 else f"{limit.attempts} times"
    return (
        f"the cluster starts a job's master at most {times}, not {asked} times as asked: "
        f"see {limit.setting} of the ResourceManager"
    )


def check_queue(name: str, queue: QueueInfo | None, open_queues: Sequence[str] | None) -> QueueInfo:
    """Return the queue of a name if the user may submit to it now, or raise ``RefusedError``.

    ``open_queues``: see :class:`ClusterSnapshot`.
    """
    if queue is None:
        known = ", ".join(_leaf_queues(open_queues or ())) or "none that you may use"
        raise RefusedError(
            f"there is no queue {name!r}", hint=f"the cluster has: {known} (see --queue)"
        )
    if queue.state in (QueueState.STOPPED, QueueState.DRAINING):
        raise RefusedError(
            f"the queue {name!r} is {queue.state.name.lower()}: it takes no jobs",
            hint="use another (see --queue)",
        )
    if open_queues is not None and not {queue.path, queue.name} & set(open_queues):
        raise queue_refusal(f"you may not submit to the queue {queue.path}", open_queues)
    return queue


def _first_task(spec: JobSpec, profile: YarnProfile) -> str:
    """The first task with a profile."""
    group = spec.groups[profile.group]
    tasks = (task_id(profile.group, index) for index in range(group.count))
    return next(task for task in tasks if resource_of(spec.resources(task)) == profile.resource)


def _check_label(profile: YarnProfile, queue: QueueInfo, cluster: ClusterSnapshot) -> None:
    label = profile.label
    if not label:
        return
    if label != queue.default_label and label not in cluster.labels:
        known = ", ".join(sorted(name for name in cluster.labels if name)) or "none"
        raise RefusedError(
            f"{profile.group}: no nodes of this cluster can have the label {label!r}",
            hint=f"its labels: {known} (see --node_label)",
        )
    if label not in queue.labels and ANY_LABEL not in queue.labels:
        may = ", ".join(queue.labels) or "none"
        raise RefusedError(
            f"{profile.group}: the queue {queue.path} has no access to nodes labelled {label!r}",
            hint=f"labels it may use: {may}; another queue may have more (see --queue)",
        )


def _check_size(who: str, wanted: Resource, maximum: Resource) -> None:
    unknown = unknown_types(wanted, maximum.amounts())
    if unknown:
        raise RefusedError(
            f"{who} asks for {', '.join(unknown)}, which this cluster does not count",
            hint=f"it has: {', '.join(maximum.amounts())}",
        )
    excess = wanted.excess_over(maximum)
    if excess:
        amounts = ", ".join(f"{asked} {name}" for name, (asked, _) in excess.items())
        raise RefusedError(
            f"{who} asks for {amounts}, more than any container of this cluster can have",
            hint=f"the biggest there can be: {maximum}",
        )


def _check_nodes(who: str, profile: YarnProfile, nodes: Sequence[NodeReport]) -> None:
    """Refuse a container that fits on no node.

    The maximum is that of each resource type alone; a container needs all of them
    on one node. A cluster without any nodes is being started: nothing is refused.
    """
    there = nodes_with_label(nodes, profile.label)
    if not nodes or any(profile.resource.fits_in(node.capability) for node in there):
        return
    where = f"with the label {profile.label!r}" if profile.label else "without a label"
    if not there:
        raise RefusedError(
            f"{who} cannot run: there is no node {where}",
            hint="see --node_label" if profile.label else "choose a label with --node_label",
        )
    biggest = max(there, key=lambda node: node.capability.memory_mb)
    raise RefusedError(
        f"{who} asks for {profile.resource}, and no node {where} has all of that",
        hint=f"the biggest, {biggest.node}, has {biggest.capability}",
    )


def _check_apart(
    group: str,
    count: int,
    profiles: Sequence[YarnProfile],
    nodes: Sequence[NodeReport],
    name_of: NodeNamer,
) -> None:
    fitting = {
        name_of(node.node)
        for profile in profiles
        for node in nodes_with_label(nodes, profile.label)
        if profile.resource.fits_in(node.capability)
    }
    if nodes and len(fitting) < count:
        raise RefusedError(
            f"{group} has {count} tasks that are never to share a node, and the cluster has "
            f"{len(fitting)} that they fit on",
            hint="use fewer tasks, or --placement spread, which puts up with sharing",
        )


def capacity_shortage(spec: JobSpec, queue: QueueInfo, nodes: Sequence[NodeReport]) -> str:
    """Why not all tasks of a job can run at once on the nodes there are; empty if they can.

    Always right about memory; not all schedulers count cores. A cluster without any
    nodes is being started: there is no shortage.
    """
    if not nodes:
        return ""
    why = next(_shortages(spec, queue, nodes), "")
    if not why:
        return ""
    return (
        f"not all tasks can run at once: {why}. The job waits for more, and fails if it does not "
        f"come within {spec.timeouts.allocation_s:g} s; ask for less with -r or -m"
    )


def _shortages(spec: JobSpec, queue: QueueInfo, nodes: Sequence[NodeReport]) -> Iterator[str]:
    master = resource_of(spec.master.resources)
    by_label: dict[str, list[Resource]] = {spec.node_label or "": [master]}
    for group in spec.groups:
        by_label.setdefault(spec.node_label_of(group) or "", []).extend(_needed(spec, group))
    for label, needed in by_label.items():
        there = [node.capability for node in nodes_with_label(nodes, label)]
        asked = reduce(add, needed)
        where = f"the cluster's nodes with the label {label!r}" if label else "the cluster's nodes"
        short = _short(asked, reduce(add, there, Resource()))
        if short:
            yield f"with its master the job asks for {short[0]}, and {where} have {short[1]}"
        # YARN does not tell a queue's share of labelled nodes.
        if not label and queue.maximum is not None:
            short = _short(asked, queue.maximum)
            if short:
                yield (
                    f"with its master the job asks for {short[0]}, and the queue {queue.path} may "
                    f"have at most {short[1]}"
                )
    for group in spec.groups:
        yield from _too_few_slots(spec, group, nodes)


def _needed(spec: JobSpec, group: str) -> list[Resource]:
    """The resources of the tasks without which the job does not start."""
    wanted = spec.groups[group]
    count = 0 if group == TENSORBOARD else wanted.count if wanted.min is None else wanted.min
    return [resource_of(spec.resources(task_id(group, index))) for index in range(count)]


def _too_few_slots(spec: JobSpec, group: str, nodes: Sequence[NodeReport]) -> Iterator[str]:
    """Sums can suffice while each node has too little left for a whole task."""
    there = [node.capability for node in nodes_with_label(nodes, spec.node_label_of(group))]
    needed = _needed(spec, group)
    for resource in dict.fromkeys(needed):
        room, count = sum(slots(resource, each) for each in there), needed.count(resource)
        if room < count:
            yield (
                f"{group} has {count} tasks with {resource} each, and the cluster's nodes have "
                f"room for {room}"
            )


def _short(asked: Resource, there: Resource) -> tuple[str, str] | None:
    """The amounts that exceed what there is, and what there is of these; None if none does."""
    excess = asked.excess_over(there)
    if not excess:
        return None
    return (
        " and ".join(f"{wanted} {_unit(name)}" for name, (wanted, _) in excess.items()),
        " and ".join(f"{amount} {_unit(name)}" for name, (_, amount) in excess.items()),
    )


def _unit(name: str) -> str:
    return "MB" if name == "memory-mb" else name


# The longest values of what only the master will know.
_ID = "application_1700000000000_1000000000"
_CONTAINER = "container_e1000_1700000000000_1000000000_100_1000000000"
_MASTER = f"http://{'m' * 253}:65535"


def check_launch_size(contexts: LaunchContexts, spec: JobSpec, resources: StarterResources) -> None:
    """Raise ``SpecError`` for a group whose command and variables are too long for a node.

    One variable carries all of them, encoded, so their sum is limited, while the
    check of the spec looks at each alone. A node that cannot pass the variable on
    starts the container in vain, and reports nothing.
    """
    for name, group in spec.groups.items():
        command = LaunchStarter(
            container=ContainerId(_CONTAINER),
            task=task_id(name, group.count - 1),
            attempt=MAX_INT,
            generation=MAX_INT,
            node=NodeId(""),
        )
        launch = make_starter_launch(
            spec, JobId(_ID), _MASTER, command, MAX_INT, user=contexts.user
        )
        environment = contexts.starter(launch, resources).environment
        longest = max(len(f"{variable}={value}") for variable, value in environment.items())
        if longest >= MAX_STRING:
            raise SpecError(
                f"the command and the variables of its tasks take {longest / 1024:.0f} KiB, as "
                f"they travel, and {MAX_STRING // 1024} KiB can be passed to a program",
                where=f"groups.{name}",
                hint="put it in a file and ship that",
            )
