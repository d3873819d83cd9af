"""What a job cannot have on one machine, and what it asks for that means nothing there.

A promise nobody could keep is refused; advice to a scheduler is passed over
with a note, so that the same job can be tried here and submitted there.
"""

from __future__ import annotations

from collections.abc import Iterator

from ytf.errors import RefusedError
from ytf.specs.job import JobSpec, Placement


def refuse_what_takes_a_cluster(spec: JobSpec) -> None:
    """Raise ``RefusedError`` for what the local backend cannot give."""
    for name, group in spec.groups.items():
        for resources in (group.resources, *group.overrides.values()):
            if resources.gpus:
                raise RefusedError(
                    f"{name} asks for GPUs ({resources.gpus}), and the local backend gives none",
                    hint="leave --task_gpus out: a task sees whatever GPUs this machine has",
                )
            for other, amount in resources.others.items():
                if amount:
                    raise RefusedError(
                        f"{name} asks for {other} ({amount}), and the local backend gives none",
                        hint="leave --task_resources out: a task sees what this machine has",
                    )
        if group.count > 1 and spec.placement_of(name) is Placement.APART:
            raise RefusedError(
                f"{name} has {group.count} tasks that are never to share a node, and the local "
                "backend has one",
                hint="use --placement spread, which is a wish, or --backend yarn",
            )
    if spec.timeouts.lifetime_s is not None:
        raise RefusedError(
            "there is no cluster here that would keep the job's lifetime",
            hint="use --timeout, which the job's master keeps",
        )


def ignored(spec: JobSpec) -> Iterator[str]:
    """A note on what the local backend passes over."""
    groups = spec.groups.values()
    asked = {
        "priority": spec.priority is not None,
        "tags": bool(spec.tags),
        "acl_view": spec.acl_view is not None,
        "acl_modify": spec.acl_modify is not None,
        "node_label": spec.node_label is not None or any(g.node_label for g in groups),
        "placement": spec.placement is not Placement.ANY or any(g.placement for g in groups),
    }
    words = [word for word, is_asked in asked.items() if is_asked]
    if words:
        yield f"the local backend has no queue and one node: it passes over {', '.join(words)}"
