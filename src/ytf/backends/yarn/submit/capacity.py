"""Whether a cluster can ever give a job what it asks for, asked before anything is submitted."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import msgspec

from ytf.backends.yarn.asking import ResourceManager
from ytf.backends.yarn.kinds import kinds_of, resource_of
from ytf.backends.yarn.ledger import Kind
from ytf.backends.yarn.nodes import NameOf, name_of, with_label
from ytf.backends.yarn.submit.fitting import shortage
from ytf.errors import RefusedError
from ytf.hadoop.yarn.client import ClientProtocol
from ytf.hadoop.yarn.ids import ApplicationId
from ytf.hadoop.yarn.records import NewApplication, NodeReport, NodeState, QueueInfo, QueueState
from ytf.hadoop.yarn.resources import Resource, unknown_types
from ytf.specs.job import JobSpec, Placement
from ytf.specs.names import task_id

ANY_LABEL = "*"


class Seen(msgspec.Struct, frozen=True, kw_only=True):
    """What the ResourceManager says of itself and of a queue.

    ``open_queues`` are those that the user may submit to; None: everybody may
    to all of them.
    """

    new: NewApplication
    queue: QueueInfo | None
    open_queues: tuple[str, ...] | None
    nodes: tuple[NodeReport, ...]
    labels: tuple[str, ...]


class Admission(msgspec.Struct, frozen=True, kw_only=True):
    """A job that may be submitted: its id, and its spec with the label that the queue gives it.

    ``note`` is what its owner should know of its prospects; empty if all is well.
    """

    id: ApplicationId
    spec: JobSpec
    note: str = ""


def admit(rm: ResourceManager, spec: JobSpec) -> Admission:
    """Let a job in, or raise ``RefusedError`` for what would wait, or be dropped, for ever."""
    closed = rm.conf.get_bool("yarn.acl.enable", False)
    seen = rm.ask(lambda asked: _look(asked, spec, closed=closed))
    return admitted(spec, seen, name_of(rm.conf))


def admitted(spec: JobSpec, seen: Seen, name: NameOf) -> Admission:
    """Let a job in by what is seen; ``name`` tells what the scheduler calls a node."""
    queue = _check_queue(spec.queue, seen)
    if spec.node_label is None and queue.default_label:
        spec = msgspec.structs.replace(spec, node_label=queue.default_label)
    master = Kind("the master", resource_of(spec.master.resources), spec.node_label)
    kinds = kinds_of(spec)
    for kind in (master, *kinds):
        _check_label(kind, queue, seen)
        who = kind.group if kind is master else _first(spec, kind)
        _check_size(who, kind.resource, seen.new.maximum)
        _check_nodes(who, kind, seen.nodes)
    for group, wanted in spec.groups.items():
        if spec.placement_of(group) is Placement.APART:
            own = [kind for kind in kinds if kind.group == group]
            _check_apart(group, wanted.count, own, seen.nodes, name)
    return Admission(id=seen.new.id, spec=spec, note=shortage(spec, queue, seen.nodes))


def refusal(told: str, open_queues: Sequence[str]) -> RefusedError:
    """What to tell a user whom a queue does not let submit."""
    may = ", ".join(_leaves(open_queues)) or "none"
    return RefusedError(told, hint=f"queues you may submit to: {may} (see --queue)")


def _leaves(queues: Sequence[str]) -> list[str]:
    """Those that take jobs: of a queue with others below it, only these do."""
    return [
        name
        for name in queues
        if name != "root" and not any(other.startswith(f"{name}.") for other in queues)
    ]


async def _look(rm: ClientProtocol, spec: JobSpec, *, closed: bool) -> Seen:
    new, queue, nodes = await asyncio.gather(
        rm.new_application(), rm.queue(spec.queue), rm.nodes(NodeState.RUNNING)
    )
    asked = {spec.node_label, *(group.node_label for group in spec.groups.values())}
    labels = await rm.node_labels() if any(asked) else []
    return Seen(
        new=new,
        queue=queue,
        open_queues=tuple(await rm.queues_to_submit_to()) if closed or queue is None else None,
        nodes=tuple(nodes),
        labels=tuple(label.name for label in labels),
    )


def _check_queue(name: str, seen: Seen) -> QueueInfo:
    queue = seen.queue
    if queue is None:
        known = ", ".join(_leaves(seen.open_queues or ())) or "none that you may use"
        raise RefusedError(
            f"there is no queue {name!r}", hint=f"the cluster has: {known} (see --queue)"
        )
    if queue.state in (QueueState.STOPPED, QueueState.DRAINING):
        raise RefusedError(
            f"the queue {name!r} is {queue.state.name.lower()}: it takes no jobs",
            hint="use another (see --queue)",
        )
    if seen.open_queues is not None and not {queue.path, queue.name} & set(seen.open_queues):
        raise refusal(f"you may not submit to the queue {queue.path}", seen.open_queues)
    return queue


def _first(spec: JobSpec, kind: Kind) -> str:
    """The first task that wants a container of a kind."""
    group = spec.groups[kind.group]
    tasks = (task_id(kind.group, index) for index in range(group.count))
    return next(task for task in tasks if resource_of(spec.resources(task)) == kind.resource)


def _check_label(kind: Kind, queue: QueueInfo, seen: Seen) -> None:
    label = kind.label
    if not label:
        return
    if label != queue.default_label and label not in seen.labels:
        known = ", ".join(sorted(name for name in seen.labels if name)) or "none"
        raise RefusedError(
            f"{kind.group}: no nodes of this cluster can have the label {label!r}",
            hint=f"its labels: {known} (see --node_label)",
        )
    if label not in queue.labels and ANY_LABEL not in queue.labels:
        may = ", ".join(queue.labels) or "none"
        raise RefusedError(
            f"{kind.group}: the queue {queue.path} has no access to nodes labelled {label!r}",
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
        told = ", ".join(f"{asked} {name}" for name, (asked, _) in excess.items())
        raise RefusedError(
            f"{who} asks for {told}, more than any container of this cluster can have",
            hint=f"the biggest there can be: {maximum}",
        )


def _check_nodes(who: str, kind: Kind, nodes: Sequence[NodeReport]) -> None:
    """The maximum is one of each type alone; a container needs all on one node.

    A cluster without any nodes is one that is being started: nothing follows.
    """
    there = with_label(nodes, kind.label)
    if not nodes or any(kind.resource.fits_in(node.capability) for node in there):
        return
    where = f"with the label {kind.label!r}" if kind.label else "without a label"
    if not there:
        raise RefusedError(
            f"{who} cannot run: there is no node {where}",
            hint="see --node_label" if kind.label else "choose a label with --node_label",
        )
    biggest = max(there, key=lambda node: node.capability.memory_mb)
    raise RefusedError(
        f"{who} asks for {kind.resource}, and no node {where} has all of that",
        hint=f"the biggest, {biggest.node}, has {biggest.capability}",
    )


def _check_apart(
    group: str, count: int, kinds: Sequence[Kind], nodes: Sequence[NodeReport], name: NameOf
) -> None:
    fitting = {
        name(node.node)
        for kind in kinds
        for node in with_label(nodes, kind.label)
        if kind.resource.fits_in(node.capability)
    }
    if nodes and len(fitting) < count:
        raise RefusedError(
            f"{group} has {count} tasks that are never to share a node, and the cluster has "
            f"{len(fitting)} that they fit on",
            hint="use fewer tasks, or --placement spread, which puts up with sharing",
        )
