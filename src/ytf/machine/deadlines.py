"""The deadlines of a job: their names, their durations, and which of them fail the job.

``MachineState.deadlines`` maps names to times, so that a new master keeps them.
A deadline is set exactly as long as what it limits goes on. :func:`update` sets
and removes those of the job's start after every event; ``restarts`` and
``job_end`` set their own. A ``DeadlinePassed`` that comes too early, or for a
deadline that is not set, is ignored.
"""

from __future__ import annotations

from ytf.machine import diagnostics
from ytf.machine.policies import shortage
from ytf.machine.state import MachineState
from ytf.machine.task_table import LIVE, TaskTable
from ytf.specs.ids import TaskId
from ytf.specs.job import JobSpec, Timeouts
from ytf.specs.status import TaskState

START = "start"
"""By then the cluster spec must be published, however many containers were lost before."""
ALLOCATION = "allocation"
"""By then every container request must be fulfilled."""
RENDEZVOUS = "rendezvous"
"""By then every task that has a container must run."""
JOB = "job"
"""By then the job must have ended."""
AFTER_CHIEF = "after-chief"
"""Until then tracked tasks are not stopped, though the chief's success has decided the job."""
EVALUATION = "evaluation"
"""Until then evaluators are not stopped, so that they can finish their last evaluation."""
TENSORBOARD_STAY = "tensorboard-stay"
"""Until then TensorBoard is not stopped, though all other tasks of the job have ended."""
RESTART = "restart"
"""Until then no cluster spec is published: the pause before a restart of the whole job."""
STOP = "stop"
"""By then starters must have exited. Containers that have not ended are released."""
RELEASE = "release"
"""By then released containers must have ended. The job finishes without them."""
MAY_FAIL_JOB = frozenset({START, ALLOCATION, RENDEZVOUS, JOB})
"""The deadlines for which :func:`failure_text` may have a text."""
BACKOFF = "backoff "
"""Prefix of a task's id. Until then its next attempt does not begin."""

STOP_MARGIN_S = 5.0
"""The time after the grace period before the container of a starter is released."""
RELEASE_MARGIN_S = 30.0
"""The time for the backend to end a released container."""


def backoff_task(name: str) -> TaskId | None:
    """The task of a ``BACKOFF`` deadline; None for all others."""
    return TaskId(name.removeprefix(BACKOFF)) if name.startswith(BACKOFF) else None


def start_s(timeouts: Timeouts) -> float:
    """The time from the container requests to the cluster spec, with all replacements."""
    return timeouts.allocation_s + timeouts.rendezvous_s


def rendezvous_s(spec: JobSpec) -> float:
    """The time from the last container to every program started."""
    timeouts = spec.timeouts
    stages_in = any(spec.stage_in_of(group) for group in spec.groups)
    restores = spec.checkpoint_sync or any(g.checkpoint_sync for g in spec.groups.values())
    return timeouts.rendezvous_s + (timeouts.stage_in_s if stages_in or restores else 0.0)


def first(state: MachineState) -> tuple[str, float] | None:
    """The next deadline: its name and its time."""
    if not state.deadlines:
        return None
    name = min(state.deadlines, key=state.deadlines.__getitem__)
    return name, state.deadlines[name]


def due(state: MachineState, at: float) -> list[str]:
    """The names of all deadlines that have passed."""
    return [name for name, due_at in state.deadlines.items() if due_at <= at]


def expire(state: MachineState, name: str, at: float) -> bool:
    """Remove a deadline if it is set and has passed; returns whether it was removed."""
    due_at = state.deadlines.get(name)
    if due_at is None or at < due_at:
        return False
    del state.deadlines[name]
    return True


def update(state: MachineState, table: TaskTable, at: float) -> None:
    """Set or remove the deadlines of the start, as the tasks' states require."""
    deadlines, counts, timeouts = state.deadlines, table.counts, table.spec.timeouts
    unready = counts[TaskState.ALLOCATED] + counts[TaskState.STARTING] > 0
    if state.published is not None:
        deadlines.pop(START, None)
    elif START not in deadlines:
        deadlines[START] = at + start_s(timeouts)
    if not table.requests:
        deadlines.pop(ALLOCATION, None)
        state.backend_note = ""
    elif ALLOCATION not in deadlines:
        deadlines[ALLOCATION] = at + timeouts.allocation_s
    # While a task pauses before its restart, the others wait for it: that time does not count.
    pausing = RESTART in deadlines or counts[TaskState.PENDING] > table.requests
    if table.requests or pausing or not unready:
        deadlines.pop(RENDEZVOUS, None)
    elif RENDEZVOUS not in deadlines:
        deadlines[RENDEZVOUS] = at + rendezvous_s(table.spec)


def failure_text(state: MachineState, table: TaskTable, name: str, note: str) -> str | None:
    """Why the job fails because a deadline has passed; None if it does not fail.

    ``note`` is what the master knows about it (``DeadlinePassed.note``).
    """
    timeouts, running = table.spec.timeouts, table.running()
    if name == START:
        late = [t for t in table.members() if t.state is not TaskState.STARTING]
        text = diagnostics.start_text(late, start_s(timeouts), note)
        return diagnostics.with_running(text, running)
    if name == ALLOCATION:
        missing = [t.id for t in table.members() if t.request is not None]
        short = shortage(table.spec, missing, started=state.published is not None)
        if not short:
            return None
        text = diagnostics.allocation_text(short, timeouts.allocation_s, note)
        return diagnostics.with_running(text, running)
    if name == RENDEZVOUS:
        late = [t for t in table.members() if t.state in LIVE - {TaskState.RUNNING}]
        text = diagnostics.rendezvous_text(late, rendezvous_s(table.spec), note)
        return diagnostics.with_running(text, running)
    if name == JOB:
        waiting = [t for t in table.members() if not t.state.is_final and t not in running]
        return diagnostics.time_limit_text(running, waiting, timeouts.job_s or 0.0)
    return None
