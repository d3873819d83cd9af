"""A job's containers: how one comes to its task, is stopped, taken away, and ends.

Each function notes one change in the memory and returns what follows: commands,
or the failure of the task that was in the container. What is done about a
failure is not decided here.
"""

from __future__ import annotations

from ytf.master import diagnostics, orders
from ytf.master.commands import AnyCommand, CancelRequest, LaunchStarter, ReleaseContainer
from ytf.master.events import ContainerAllocated, ContainerCompleted
from ytf.master.roster import LIVE, Roster
from ytf.master.state import Container, Failure, JobMemory, Task
from ytf.specs.job import CLIENT
from ytf.specs.names import ContainerId, group_of, index_of, task_id
from ytf.specs.status import TaskState

CLIENT_TASK = task_id(CLIENT, 0)
CLIENT_CONTAINER = ContainerId("client_0")
"""The client runs at the submitter's: no backend gave it its container, and none ends it."""


def accept_client(memory: JobMemory, roster: Roster) -> None:
    """Note that the client's task has its container: nobody is asked for it."""
    task = memory.tasks[CLIENT_TASK]
    task.container = CLIENT_CONTAINER
    memory.containers[CLIENT_CONTAINER] = Container(task=task.id, node=None)
    roster.set_state(task, TaskState.ALLOCATED)


def accept(memory: JobMemory, roster: Roster, event: ContainerAllocated) -> list[AnyCommand]:
    """Give a new container to the task that wished for it, or back if none does any more."""
    if event.container in memory.containers or event.container in memory.ended:
        return []
    task = roster.requester(event.request)
    if task is None or memory.final is not None:
        return [ReleaseContainer(container=event.container)]
    roster.set_request(task, None)
    task.container = task.last_container = event.container
    task.node = event.node
    memory.containers[event.container] = Container(
        task=task.id, node=event.node, master_attempt=memory.master_attempt
    )
    roster.set_state(task, TaskState.ALLOCATED)
    launch = LaunchStarter(
        container=event.container,
        task=task.id,
        attempt=task.attempt,
        generation=task.generation,
        node=event.node,
    )
    return [launch]


def end(memory: JobMemory, roster: Roster, event: ContainerCompleted, at: float) -> Failure | None:
    """Note that a container is gone; the failure of its task, if nobody had wished it to stop."""
    container = memory.containers.pop(event.container, None)
    if container is None:
        return None
    memory.ended.add(event.container)
    task = _live_task_without(memory, container, event.container)
    if task is None:
        return None
    if container.stopping:
        task.reason = task.reason or "stopped with the job"
        roster.set_state(task, TaskState.KILLED)
        return None
    return Failure(
        task=task.id,
        attempt=task.attempt,
        ended_at=at,
        node=container.node,
        host=task.host,
        exit_code=event.exit_code,
        signal=event.signal,
        reason=event.diagnostics or diagnostics.CAUSES[event.cause],
        tail=event.tail,
        hint=diagnostics.advice(event, task.id, roster.spec.resources(task.id).memory_mb),
        infrastructure=event.cause.is_infrastructure,
    )


def abandon(memory: JobMemory, container_id: ContainerId, reason: str, at: float) -> Failure | None:
    """Take a task's container away from it, whatever still happens inside.

    Returns the failure of the task. Giving the container back is the caller's.
    """
    container = memory.containers[container_id]
    container.wanted = False
    if container_id == CLIENT_CONTAINER:
        del memory.containers[container_id]
    task = _live_task_without(memory, container, container_id)
    if task is None:
        return None
    return Failure(
        task=task.id,
        attempt=task.attempt,
        ended_at=at,
        node=container.node,
        host=task.host,
        reason=reason,
        infrastructure=container_id != CLIENT_CONTAINER,
    )


def stop(memory: JobMemory, roster: Roster, container_id: ContainerId) -> AnyCommand:
    """Stop a container's program and let its starter go."""
    container = memory.containers[container_id]
    container.stopping = True
    if not container.registered and container_id != CLIENT_CONTAINER:
        return ReleaseContainer(container=container_id)
    order = orders.starter_order(roster.spec, memory, container_id)
    if container_id == CLIENT_CONTAINER:
        task = memory.tasks[CLIENT_TASK]
        task.container = None
        del memory.containers[container_id]
        if task.state in LIVE:
            roster.set_state(task, TaskState.KILLED)
    return order


def lose_all(memory: JobMemory, roster: Roster, reason: str) -> None:
    """Note that every container is gone, and that nobody will say more about any."""
    memory.containers.clear()
    for task in memory.tasks.values():
        task.container = None
        if task.state in LIVE:
            task.reason = reason
            roster.set_state(task, TaskState.LOST)


def go_without(memory: JobMemory, roster: Roster) -> list[AnyCommand]:
    """Let the job start without the tasks whose wishes were not granted in time.

    Hosts are a list by index, so only what stands before a group's first gap can start.
    """
    missing = [t.id for t in roster.members() if t.request is not None]
    out: list[AnyCommand] = []
    for group in dict.fromkeys(group_of(t) for t in missing):
        gap = min(index_of(t) for t in missing if group_of(t) == group)
        for index in range(gap, roster.spec.groups[group].count):
            out += _drop(memory, roster, memory.tasks[task_id(group, index)])
    return out


def _drop(memory: JobMemory, roster: Roster, task: Task) -> list[AnyCommand]:
    out: list[AnyCommand] = []
    if task.request is not None:
        out.append(CancelRequest(request=task.request))
    if task.container is not None:
        container = memory.containers[task.container]
        container.wanted, container.stopping = False, True
        out.append(ReleaseContainer(container=task.container))
        task.container = None
    task.reason = "not allocated in time; the job started without it"
    memory.moved = True
    roster.drop(task)
    return out


def _live_task_without(
    memory: JobMemory, container: Container, container_id: ContainerId
) -> Task | None:
    """Take a container from the task that is in it; the task, if something of it ran there."""
    task = memory.tasks[container.task]
    if task.container != container_id:
        return None
    task.container = None
    return task if task.state in LIVE else None
