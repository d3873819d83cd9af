"""Tasks as a starter describes them to a framework."""

from __future__ import annotations

from collections.abc import Sequence

from ytf.frameworks.api import FrameworkProfile, TaskContext

MEMBERS = {"chief": ["a:1"], "worker": ["b:2", "b:3"], "evaluator": ["e:9"]}
RANKED = [("chief", 1), ("worker", 2)]


def make_task(
    group: str = "worker",
    index: int = 1,
    *,
    host: str = "b",
    port: int | None = 3,
    generation: int = 4,
    processes: int = 1,
    ranked: Sequence[tuple[str, int]] = RANKED,
    gpus: int = 0,
) -> TaskContext:
    """A task of :data:`MEMBERS`."""
    return TaskContext(
        job="job_1",
        container="c",
        group=group,
        index=index,
        attempt=1,
        generation=generation,
        host=host,
        port=port,
        port_is_held=False,
        processes=processes,
        ranked=ranked,
        gpus=gpus,
        hostfile="/data/hosts",
    )


def all_variables(
    profile: FrameworkProfile, task: TaskContext, local_rank: int = 0
) -> dict[str, str]:
    """What one process of a task gets from its framework."""
    return {
        **profile.variables(task, MEMBERS),
        **profile.process_variables(task, MEMBERS, local_rank),
    }
