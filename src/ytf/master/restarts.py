"""Another try: of one task in the container it has or in a new one, or of the whole job.

Whether there is one is the policies' matter (``policies.judge``); here it is
brought about. Functions change the memory and return what is to be said.
"""

from __future__ import annotations

from ytf.master import orders
from ytf.master.commands import AnyCommand, RequestContainer
from ytf.master.containers import CLIENT_TASK
from ytf.master.deadlines import BACKOFF, RESTART, START, start_s
from ytf.master.roster import Roster
from ytf.master.state import JobMemory, Task
from ytf.specs.names import RequestId
from ytf.specs.status import TaskState


def request_container(memory: JobMemory, roster: Roster, task: Task) -> RequestContainer:
    """Wish for a container for a task that has none."""
    task.requests += 1
    request = RequestId(f"{task.id}#{task.requests}")
    roster.set_request(task, request)
    return orders.container_request(roster.spec, memory, task, request)


def begin_attempt(memory: JobMemory, roster: Roster, task: Task) -> AnyCommand:
    """Begin a pending task's next attempt, in the container it has or in a new one."""
    task.attempt += 1
    task.generation = memory.generation
    container_id = task.container
    if container_id is not None:
        container = memory.containers[container_id]
        if not container.stopping:
            roster.set_state(task, TaskState.ALLOCATED)
            return orders.starter_order(roster.spec, memory, container_id)
        container.wanted = False
        task.container = None
    return request_container(memory, roster, task)


def replace_task(memory: JobMemory, roster: Roster, task: Task) -> AnyCommand:
    """Try a task again at once."""
    _reset(roster, task)
    return begin_attempt(memory, roster, task)


def restart_task(memory: JobMemory, roster: Roster, task: Task, *, not_before: float) -> None:
    """Try a task again, after a pause: ``begin_attempt`` is due when its deadline has passed."""
    _reset(roster, task)
    memory.deadlines[BACKOFF + task.id] = not_before


def restart_job(memory: JobMemory, roster: Roster, *, not_before: float) -> list[AnyCommand]:
    """Begin a new generation: every program stops, every member registers again."""
    memory.generation += 1
    memory.published = None
    memory.deadlines[RESTART] = not_before
    memory.deadlines[START] = not_before + start_s(roster.spec.timeouts)
    out: list[AnyCommand] = []
    for task in roster.members():
        memory.deadlines.pop(BACKOFF + task.id, None)
        if task.request is not None:
            task.generation = memory.generation
        elif task.id != CLIENT_TASK or task.container is not None:
            out.append(replace_task(memory, roster, task))
    return out


def _reset(roster: Roster, task: Task) -> None:
    """The task's attempt is over, but there will be another."""
    task.host = task.port = task.exit_code = task.signal = None
    task.reason = ""
    roster.set_state(task, TaskState.PENDING)
