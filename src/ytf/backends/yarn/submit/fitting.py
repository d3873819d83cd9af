"""Whether all tasks of a job can run at one time, on the nodes there are.

A job that cannot is let in all the same, and told so: nodes come back, clusters
grow, and queues are given more while a job waits. Only what no node could ever
hold is refused (``capacity``).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import reduce
from operator import add

from ytf.backends.yarn.kinds import resource_of
from ytf.backends.yarn.nodes import with_label
from ytf.backends.yarn.placing import slots
from ytf.hadoop.yarn.records import NodeReport, QueueInfo
from ytf.hadoop.yarn.resources import Resource
from ytf.specs.job import TENSORBOARD, JobSpec
from ytf.specs.names import task_id


def shortage(spec: JobSpec, queue: QueueInfo, nodes: Sequence[NodeReport]) -> str:
    """Why a job cannot have all it needs to start, in words; empty if it can, for all we know.

    Never wrong about memory; cores are counted by most schedulers only. A
    cluster without any nodes is one that is being started: nothing follows.
    """
    if not nodes:
        return ""
    why = next(_reasons(spec, queue, nodes), "")
    if not why:
        return ""
    return (
        f"not all tasks can run at once: {why}. The job waits for more, and fails if it does not "
        f"come within {spec.timeouts.allocation_s:g} s; ask for less with -r or -m"
    )


def _reasons(spec: JobSpec, queue: QueueInfo, nodes: Sequence[NodeReport]) -> Iterator[str]:
    master = resource_of(spec.master.resources)
    by_label: dict[str, list[Resource]] = {spec.node_label or "": [master]}
    for group in spec.groups:
        by_label.setdefault(spec.node_label_of(group) or "", []).extend(_needed(spec, group))
    for label, needed in by_label.items():
        there = [node.capability for node in with_label(nodes, label)]
        asked = reduce(add, needed)
        where = f"the cluster's nodes with the label {label!r}" if label else "the cluster's nodes"
        short = _short(asked, reduce(add, there, Resource()))
        if short:
            yield f"with its master the job asks for {short[0]}, and {where} have {short[1]}"
        # Of a queue's share in labelled nodes nothing is told.
        if not label and queue.maximum is not None:
            short = _short(asked, queue.maximum)
            if short:
                yield (
                    f"with its master the job asks for {short[0]}, and the queue {queue.path} may "
                    f"have at most {short[1]}"
                )
    for group in spec.groups:
        yield from _crowded(spec, group, nodes)


def _needed(spec: JobSpec, group: str) -> list[Resource]:
    """What the tasks ask for that the job does not start without."""
    wanted = spec.groups[group]
    count = 0 if group == TENSORBOARD else wanted.count if wanted.min is None else wanted.min
    return [resource_of(spec.resources(task_id(group, index))) for index in range(count)]


def _crowded(spec: JobSpec, group: str, nodes: Sequence[NodeReport]) -> Iterator[str]:
    """Nodes have pieces left over that are too small for any task."""
    there = [node.capability for node in with_label(nodes, spec.node_label_of(group))]
    needed = _needed(spec, group)
    for resource in dict.fromkeys(needed):
        room, count = sum(slots(resource, each) for each in there), needed.count(resource)
        if room < count:
            yield (
                f"{group} has {count} tasks with {resource} each, and the cluster's nodes have "
                f"room for {room}"
            )


def _short(asked: Resource, there: Resource) -> tuple[str, str] | None:
    """What is asked for beyond what there is, and what there is of that."""
    excess = asked.excess_over(there)
    if not excess:
        return None
    return (
        " and ".join(f"{wanted} {_unit(name)}" for name, (wanted, _) in excess.items()),
        " and ".join(f"{amount} {_unit(name)}" for name, (_, amount) in excess.items()),
    )


def _unit(name: str) -> str:
    return "MB" if name == "memory-mb" else name
