"""What a job's spec says, in YARN's terms."""

from __future__ import annotations

from ytf.backends.yarn.ledger import Kind
from ytf.hadoop.yarn.launch import Access
from ytf.hadoop.yarn.resources import Resource
from ytf.specs.job import JobSpec, Resources
from ytf.specs.names import group_of

GPU = "yarn.io/gpu"


def resource_of(resources: Resources) -> Resource:
    """A task's resources as YARN counts them."""
    others = {GPU: resources.gpus, **resources.others}
    return Resource(
        resources.memory_mb,
        resources.vcores,
        {name: amount for name, amount in others.items() if amount},
    )


def access_of(spec: JobSpec) -> Access:
    """Who else may look at a job, and change it."""
    return Access(view=spec.acl_view or "", modify=spec.acl_modify or "")


def kinds_of(spec: JobSpec) -> tuple[Kind, ...]:
    """Every kind that tasks of a job are of, in the order of its spec."""
    found = dict.fromkeys(
        Kind(
            group_of(task),
            resource_of(spec.resources(task)),
            spec.node_label_of(group_of(task)),
            spec.placement_of(group_of(task)),
        )
        for task in spec.tasks()
    )
    return tuple(found)
