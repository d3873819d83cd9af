"""Checks a job spec for the local backend, which has one node and no queue.

What the local backend cannot provide is refused. Advice for a scheduler is ignored
with a note, so that the same job can be tried here and submitted to a cluster.
"""

from __future__ import annotations

import os
from collections.abc import Iterator

from ytf.errors import RefusedError
from ytf.specs.amounts import parse_ports
from ytf.specs.job import DockerRuntime, JobSpec, Placement
from ytf.starter.gpus import GpuError, list_gpus


def refuse_cluster_features(spec: JobSpec) -> None:
    """Raise ``RefusedError`` for what the local backend cannot provide."""
    for name, group in spec.groups.items():
        for resources in (group.resources, *group.overrides.values()):
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
                hint="use --placement spread, which is a preference, or --backend yarn",
            )
    if spec.asks_for_gpus():
        _refuse_missing_gpus(sum(spec.resources(task).gpus for task in spec.tasks()))
    if spec.docker.runtime is DockerRuntime.YARN:
        raise RefusedError(
            "the local backend has no docker runtime of YARN",
            hint="leave --docker_runtime out: ytf runs the image with docker or podman",
        )
    tasks = len(spec.tasks())
    _refuse_narrow_range("task_ports", spec.task_ports, tasks, f"{tasks} tasks need one each")
    why = f"{tasks} starters and the master need one each"
    _refuse_narrow_range("control_ports", spec.control_ports, tasks + 1, why)
    if spec.timeouts.lifetime_s is not None:
        raise RefusedError(
            "the local backend cannot limit the job's lifetime: a cluster does that",
            hint="use --timeout, which the job's master enforces",
        )


def _refuse_missing_gpus(asked: int) -> None:
    try:
        there = len(list_gpus(os.environ.get("PATH", ""), os.environ.get("CUDA_VISIBLE_DEVICES")))
    except GpuError as exc:
        raise RefusedError(
            f"the job asks for GPUs, and {exc}", hint="see whether nvidia-smi works here"
        ) from exc
    if asked > there:
        raise RefusedError(
            f"the job asks for {asked} GPU(s), and this machine has {there or 'none'}",
            hint="without --task_gpus the workers see whatever GPUs this machine has",
        )


def _refuse_narrow_range(field: str, ports: str | None, needed: int, why: str) -> None:
    if ports is None:
        return
    first, last = parse_ports(ports, where=field)
    if last - first + 1 < needed:
        raise RefusedError(
            f"{field} {ports} has {last - first + 1} ports, and on one machine {why}",
            hint=f"give {needed} or more: --{field} {first}-{first + needed - 1}",
        )


def ignored_fields(spec: JobSpec) -> Iterator[str]:
    """A note about fields that the local backend ignores."""
    groups = spec.groups.values()
    asked = {
        "priority": spec.priority is not None,
        "tags": bool(spec.tags),
        "acl_view": spec.acl_view is not None,
        "acl_modify": spec.acl_modify is not None,
        "gpus_per_node": spec.gpus_per_node is not None,
        "node_label": spec.node_label is not None or any(g.node_label for g in groups),
        "placement": spec.placement is not Placement.ANY or any(g.placement for g in groups),
    }
    words = [word for word, is_asked in asked.items() if is_asked]
    if words:
        yield f"the local backend has no queue and one node: it ignores {', '.join(words)}"
