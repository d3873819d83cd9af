"""The containers of a job: request, assignment to a task, stop, and end.

Each function changes the machine's state and returns what follows: commands, or
the failure of the task that ran in the container. What is done about a failure
is decided in ``policies``.
"""

from __future__ import annotations

from ytf.machine import diagnostics
from ytf.machine.commands import (
    AnyCommand,
    CancelRequest,
    ContainerProfile,
    LaunchStarter,
    ReleaseContainer,
    RequestContainer,
    RunAttempt,
    StopTask,
)
from ytf.machine.events import Cause, ContainerAllocated, ContainerCompleted, StarterLost
from ytf.machine.state import Container, Failure, MachineState, Task, request_id
from ytf.machine.task_table import LIVE, TaskTable
from ytf.specs.ids import ContainerId, RequestId, group_of, index_of, task_id
from ytf.specs.job import CLIENT, JobSpec
from ytf.specs.status import TaskState

CLIENT_TASK = task_id(CLIENT, 0)
CLIENT_CONTAINER = ContainerId("client_0")
"""The client runs where the job was submitted: no backend allocates or ends this container."""


def request(state: MachineState, table: TaskTable, task: Task) -> RequestContainer:
    """Request a container for a task that has none."""
    task.requests += 1
    new = request_id(task.id, task.requests)
    table.set_request(task, new)
    return request_command(table.spec, state, task, new)


def request_command(
    spec: JobSpec, state: MachineState, task: Task, open_request: RequestId
) -> RequestContainer:
    """The command for a task's open request; a new master repeats it.

    It avoids nodes on which too many attempts have failed.
    """
    limit = spec.max_node_failures
    bad = sorted(node for node, failures in state.node_failures.items() if failures >= limit)
    profile = ContainerProfile.for_task(spec, task.id)
    if profile not in state.profiles:
        state.profiles.append(profile)
    return RequestContainer(
        request=open_request,
        profile=profile,
        priority=state.profiles.index(profile) + 1,
        avoid=tuple(bad),
    )


def starter_order(
    spec: JobSpec, state: MachineState, container_id: ContainerId
) -> RunAttempt | StopTask:
    """The order for the starter of a container; a new master repeats it."""
    container = state.containers[container_id]
    task = state.tasks[container.task]
    grace_s = spec.timeouts.stop_grace_s
    if container.stopping or not container.needed:
        return StopTask(task=task.id, container=container_id, grace_s=grace_s)
    return RunAttempt(
        task=task.id,
        container=container_id,
        attempt=task.attempt,
        generation=task.generation,
        grace_s=grace_s,
    )


def assign_client(state: MachineState, table: TaskTable) -> None:
    """Assign the client's container to its task, without a request to the backend."""
    task = state.tasks[CLIENT_TASK]
    task.container = CLIENT_CONTAINER
    state.containers[CLIENT_CONTAINER] = Container(task=task.id, node=None)
    table.set_state(task, TaskState.ALLOCATED)


def assign(state: MachineState, table: TaskTable, event: ContainerAllocated) -> list[AnyCommand]:
    """Assign a new container to the task that requested it; release it if none waits for it."""
    if event.container in state.containers or event.container in state.ended:
        return []
    task = table.task_of_request(event.request)
    if task is None or state.final is not None:
        return [ReleaseContainer(container=event.container)]
    table.set_request(task, None)
    task.container = task.last_container = event.container
    task.node = event.node
    state.containers[event.container] = Container(
        task=task.id, node=event.node, master_attempt=state.master_attempt
    )
    table.set_state(task, TaskState.ALLOCATED)
    launch = LaunchStarter(
        container=event.container,
        task=task.id,
        attempt=task.attempt,
        generation=task.generation,
        node=event.node,
    )
    return [launch]


def complete(
    state: MachineState, table: TaskTable, event: ContainerCompleted, at: float
) -> Failure | None:
    """Remove a container that has ended.

    Returns the failure of its task; None if nothing ran in it or it was told to stop.
    """
    container = state.containers.pop(event.container, None)
    if container is None:
        return None
    state.ended.add(event.container)
    task = _detach(state, container, event.container)
    if task is None:
        return None
    if container.stopping:
        task.reason = task.reason or "stopped with the job"
        table.set_state(task, TaskState.KILLED)
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
        tail_stream=event.tail_stream,
        hint=diagnostics.container_hint(event, task.id, table.spec.resources(task.id).memory_mb),
        infrastructure=event.cause.is_infrastructure,
        not_kept=event.cause is Cause.NOT_KEPT,
    )


def abandon(
    state: MachineState,
    container_id: ContainerId,
    reason: str,
    at: float,
    *,
    not_kept: bool = False,
) -> Failure | None:
    """Take a container away from its task, whatever still runs in it.

    ``not_kept``: it was lost when a master died. Returns the failure of the task.
    The caller releases the container.
    """
    container = state.containers[container_id]
    container.needed = False
    if container_id == CLIENT_CONTAINER:
        del state.containers[container_id]
    task = _detach(state, container, container_id)
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
        not_kept=not_kept,
    )


def was_not_kept(state: MachineState, event: StarterLost) -> bool:
    """Whether a silent starter's container was lost when the master before this one died.

    It was launched by an earlier master, the backend has not reported to this one
    that it lives, and its starter has never called this one.
    """
    container, master = state.containers[event.container], state.master_attempt
    is_inherited = container.master_attempt < master and event.container != CLIENT_CONTAINER
    return is_inherited and container.recovered_by < master and not event.was_heard


def stop(state: MachineState, table: TaskTable, container_id: ContainerId) -> AnyCommand:
    """Stop the program in a container and its starter."""
    container = state.containers[container_id]
    container.stopping = True
    if not container.registered and container_id != CLIENT_CONTAINER:
        return ReleaseContainer(container=container_id)
    order = starter_order(table.spec, state, container_id)
    if container_id == CLIENT_CONTAINER:
        task = state.tasks[CLIENT_TASK]
        task.container = None
        del state.containers[container_id]
        if task.state in LIVE:
            table.set_state(task, TaskState.KILLED)
    return order


def lose_all(state: MachineState, table: TaskTable, reason: str) -> None:
    """Remove all containers: they are gone, and no event will report their ends."""
    state.containers.clear()
    for task in state.tasks.values():
        task.container = None
        if task.state in LIVE:
            task.reason = reason
            table.set_state(task, TaskState.LOST)


def drop_unallocated(state: MachineState, table: TaskTable) -> list[AnyCommand]:
    """Let the job start without the tasks that got no container in time.

    A cluster spec lists the hosts of a group by index. So all tasks of a group
    after its first missing one are dropped too.
    """
    missing = [t.id for t in table.members() if t.request is not None]
    out: list[AnyCommand] = []
    for group in dict.fromkeys(group_of(t) for t in missing):
        gap = min(index_of(t) for t in missing if group_of(t) == group)
        for index in range(gap, table.spec.groups[group].count):
            out += _drop(state, table, state.tasks[task_id(group, index)])
    return out


def _drop(state: MachineState, table: TaskTable, task: Task) -> list[AnyCommand]:
    out: list[AnyCommand] = []
    if task.request is not None:
        out.append(CancelRequest(request=task.request))
    if task.container is not None:
        container = state.containers[task.container]
        container.needed, container.stopping = False, True
        out.append(ReleaseContainer(container=task.container))
        task.container = None
    task.reason = "not allocated in time; the job started without it"
    state.addresses_changed = True
    table.drop(task)
    return out


def _detach(state: MachineState, container: Container, container_id: ContainerId) -> Task | None:
    """Detach a container from its task; returns the task if its attempt had not ended."""
    task = state.tasks[container.task]
    if task.container != container_id:
        return None
    task.container = None
    return task if task.state in LIVE else None
