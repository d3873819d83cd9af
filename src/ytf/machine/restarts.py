"""Restarts: of one task, in its container or in a new one, or of the whole job.

``policies.judge`` decides whether there is a restart. The functions here change
the machine's state and return the commands that follow.
"""

from __future__ import annotations

from ytf.machine import containers
from ytf.machine.commands import AnyCommand
from ytf.machine.containers import CLIENT_TASK
from ytf.machine.deadlines import BACKOFF, RESTART, START, start_s
from ytf.machine.state import MachineState, Task
from ytf.machine.task_table import TaskTable
from ytf.specs.status import TaskState


def begin_attempt(state: MachineState, table: TaskTable, task: Task) -> AnyCommand:
    """Begin the next attempt of a pending task, in its container or in a new one."""
    task.attempt += 1
    task.generation = state.generation
    container_id = task.container
    if container_id is not None:
        container = state.containers[container_id]
        if not container.stopping:
            table.set_state(task, TaskState.ALLOCATED)
            return containers.starter_order(table.spec, state, container_id)
        container.needed = False
        task.container = None
    return containers.request(state, table, task)


def replace_task(state: MachineState, table: TaskTable, task: Task) -> AnyCommand:
    """Restart a task at once."""
    _reset(table, task)
    return begin_attempt(state, table, task)


def restart_task(state: MachineState, table: TaskTable, task: Task, *, not_before: float) -> None:
    """Restart a task after a pause: ``begin_attempt`` is due when its deadline has passed."""
    _reset(table, task)
    state.deadlines[BACKOFF + task.id] = not_before


def restart_job(state: MachineState, table: TaskTable, *, not_before: float) -> list[AnyCommand]:
    """Begin a new generation: every program stops, every member registers again."""
    state.generation += 1
    state.published = None
    state.deadlines[RESTART] = not_before
    state.deadlines[START] = not_before + start_s(table.spec.timeouts)
    out: list[AnyCommand] = []
    for task in table.members():
        state.deadlines.pop(BACKOFF + task.id, None)
        if task.request is not None:
            task.generation = state.generation
        elif task.id != CLIENT_TASK or task.container is not None:
            out.append(replace_task(state, table, task))
    return out


def _reset(table: TaskTable, task: Task) -> None:
    """Clear what belongs to the attempt that has ended: another one follows."""
    task.host = task.port = task.exit_code = task.signal = None
    task.reason = ""
    table.set_state(task, TaskState.PENDING)
