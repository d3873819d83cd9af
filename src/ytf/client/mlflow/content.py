"""What MLflow is told of a job: parameters, tags, metrics, and texts for artifacts. No I/O."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec
import yaml

from ytf.specs import codec
from ytf.specs.job import JobSpec
from ytf.specs.status import JobState, JobStatus, TaskState, TaskStatus

_HIDDEN = "…"
_JOB_ENDS = {JobState.SUCCEEDED: "FINISHED", JobState.FAILED: "FAILED"}
_TASK_ENDS = {
    TaskState.SUCCEEDED: "FINISHED",
    TaskState.FAILED: "FAILED",
    TaskState.LOST: "FAILED",
}


def job_end(status: JobStatus) -> str:
    """The status of the run of an ended job."""
    return _JOB_ENDS.get(status.state, "KILLED")


def task_end(task: TaskStatus) -> str:
    """The status of the run of a task in an ended job."""
    return _TASK_ENDS.get(task.state, "KILLED")


def job_params(spec: JobSpec) -> dict[str, str]:
    """The parameters of a job: what it asks for."""
    params = {"name": spec.name, "queue": spec.queue, "framework": spec.framework.value}
    for name, group in spec.groups.items():
        resources = group.resources
        params[f"{name}.count"] = str(group.count)
        params[f"{name}.memory_mb"] = str(resources.memory_mb)
        params[f"{name}.vcores"] = str(resources.vcores)
        if resources.gpus:
            params[f"{name}.gpus"] = str(resources.gpus)
        if group.processes > 1:
            params[f"{name}.processes"] = str(group.processes)
    return params


def job_yaml(spec: JobSpec) -> str:
    """The job spec without the values of variables: they may be secrets."""

    def hidden(variables: Mapping[str, str]) -> dict[str, str]:
        return dict.fromkeys(variables, _HIDDEN)

    shown = msgspec.structs.replace(
        spec,
        task_env=hidden(spec.task_env),
        docker=msgspec.structs.replace(spec.docker, engine_env=hidden(spec.docker.engine_env)),
        groups={
            name: msgspec.structs.replace(
                group,
                task_env=hidden(group.task_env),
                task_env_overrides={i: hidden(o) for i, o in group.task_env_overrides.items()},
            )
            for name, group in spec.groups.items()
        },
    )
    return yaml.safe_dump(codec.to_dict(shown), sort_keys=False, allow_unicode=True)


def job_metrics(status: JobStatus) -> dict[str, float]:
    """The metrics of an ended job: how long it took, and of each group restarts and use."""
    metrics: dict[str, float] = {}
    if status.started is not None and status.finished is not None:
        metrics["duration_s"] = status.finished - status.started
    for name in dict.fromkeys(task.group for task in status.tasks):
        tasks = [task for task in status.tasks if task.group == name]
        metrics[f"{name}.restarts"] = sum(max(task.attempt - 1, 0) for task in tasks)
        metrics[f"{name}.failed"] = sum(task.state is TaskState.FAILED for task in tasks)
        metrics |= {f"{name}.{key}": value for key, value in _sums(tasks).items()}
    return metrics


def _sums(tasks: Iterable[TaskStatus]) -> dict[str, float]:
    used = [task.usage for task in tasks if task.usage is not None]
    if not used:
        return {}
    return {
        "cpu_s": sum(usage.cpu_s for usage in used),
        "peak_memory_mb": max(usage.peak_memory_bytes for usage in used) / 2**20,
    }


def task_metrics(task: TaskStatus) -> dict[str, float]:
    """The metrics of a task of an ended job, with those that its program has reported."""
    reported = {} if task.usage is None else task.usage.metrics
    metrics: dict[str, float] = {**reported, "attempts": task.attempt}
    if task.exit_code is not None:
        metrics["exit_code"] = task.exit_code
    if task.usage is not None:
        metrics["duration_s"] = task.usage.elapsed_s
    return metrics | _sums([task])


def task_tags(task: TaskStatus) -> dict[str, str]:
    """The tags of a task of an ended job."""
    tags = {"ytf.state": task.state.value}
    place = task.node or task.host
    if place:
        tags["ytf.node"] = place
    if task.reason:
        tags["ytf.reason"] = task.reason
    return tags
