"""Whether a cluster can ever give a job what it asks for, asked before anything is submitted."""

from __future__ import annotations

from ytf.backends.yarn.asking import ResourceManager
from ytf.backends.yarn.containers import resource_of
from ytf.errors import RefusedError
from ytf.hadoop.yarn.client import ClientProtocol
from ytf.hadoop.yarn.ids import ApplicationId
from ytf.hadoop.yarn.records import NewApplication, QueueInfo, QueueState
from ytf.hadoop.yarn.resources import Resource, unknown_types
from ytf.specs.job import JobSpec


def check_capacity(rm: ResourceManager, spec: JobSpec) -> ApplicationId:
    """An id for the job; raises ``RefusedError`` for what would wait or be dropped for ever."""
    new, queue, open_queues = rm.ask(lambda asked: _look(asked, spec.queue))
    if queue is None:
        known = ", ".join(open_queues) or "none that you may use"
        raise RefusedError(
            f"there is no queue {spec.queue!r}", hint=f"the cluster has: {known} (see --queue)"
        )
    if queue.state is QueueState.STOPPED:
        raise RefusedError(
            f"the queue {spec.queue!r} is stopped: it takes no jobs",
            hint="use another (see --queue)",
        )
    wanted = {"the master": resource_of(spec.master.resources)}
    wanted |= {task: resource_of(spec.resources(task)) for task in spec.tasks()}
    for who, resource in wanted.items():
        _check(who, resource, new.maximum)
    return new.id


async def _look(
    rm: ClientProtocol, queue: str
) -> tuple[NewApplication, QueueInfo | None, list[str]]:
    new = await rm.new_application()
    found = await rm.queue(queue)
    return new, found, [] if found is not None else await rm.queues_to_submit_to()


def _check(who: str, wanted: Resource, maximum: Resource) -> None:
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
