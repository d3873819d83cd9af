"""Commands that follow from the state alone, so that a new master can say them again."""

from __future__ import annotations

from ytf.errors import InternalError
from ytf.master.commands import FinishJob, RequestContainer, RestartTask, StopTask
from ytf.master.state import JobMemory, Task
from ytf.specs.job import JobSpec
from ytf.specs.names import ContainerId, RequestId, group_of


def starter_order(
    spec: JobSpec, memory: JobMemory, container_id: ContainerId
) -> RestartTask | StopTask:
    """What the starter of a container is to do."""
    container = memory.containers[container_id]
    task = memory.tasks[container.task]
    grace_s = spec.timeouts.stop_grace_s
    if container.stopping or not container.wanted:
        return StopTask(task=task.id, container=container_id, grace_s=grace_s)
    return RestartTask(
        task=task.id,
        container=container_id,
        attempt=task.attempt,
        generation=task.generation,
        grace_s=grace_s,
    )


def container_request(
    spec: JobSpec, memory: JobMemory, task: Task, request: RequestId
) -> RequestContainer:
    """The wish of a task for a container, away from nodes where too much has failed."""
    limit = spec.max_node_failures
    bad = sorted(node for node, failures in memory.node_failures.items() if failures >= limit)
    return RequestContainer(
        request=request,
        group=group_of(task.id),
        resources=spec.resources(task.id),
        avoid=tuple(bad),
    )


def finish_job(memory: JobMemory) -> FinishJob:
    """The last command of a job."""
    if memory.final is None:
        raise InternalError("a job cannot finish without a final status")
    return FinishJob(status=memory.final, diagnostics=memory.diagnostics)
