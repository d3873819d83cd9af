"""Failure policies: what the machine does about the failure of a task.

``judge`` only decides. ``Machine`` carries the decision out, with ``restarts``.
"""

from __future__ import annotations

from enum import Enum

import msgspec

from ytf.machine.state import Failure, MachineState, Task
from ytf.specs.ids import TaskId, group_of, index_of
from ytf.specs.job import TENSORBOARD, JobSpec, OnFailure

MAX_LAUNCH_FAILURES = 3
"""Starters of a task that may end before they register: after that it fails by its policy."""
MAX_PORT_LOSSES = 3
"""Restarts of a task because another process took its port: these do not count."""


class Action(Enum):
    """What the machine does about a failure."""

    REPLACE = "replace"
    """No other task knows this attempt yet: start another one in a new container."""
    RESTART_TASK = "restart-task"
    RESTART_JOB = "restart-job"
    FAIL_JOB = "fail-job"
    GIVE_UP_TASK = "give-up-task"
    """The job goes on without the task."""


class Verdict(msgspec.Struct, frozen=True, kw_only=True):
    """The decision. ``counts``: the restart counts against ``max_restarts``.

    ``note`` is added to the diagnostics.
    """

    action: Action
    counts: bool = False
    note: str = ""


def judge(spec: JobSpec, state: MachineState, task: Task, failure: Failure, ran: bool) -> Verdict:
    """Decide about a failure of a task. ``ran``: other tasks may know this attempt."""
    group = group_of(task.id)
    policy = spec.policy(group)
    if not ran and (failure.infrastructure or task.launch_failures < MAX_LAUNCH_FAILURES):
        return Verdict(action=Action.REPLACE)
    if failure.port_lost and task.port_losses < MAX_PORT_LOSSES:
        # The other tasks have the old address, and all need the new one.
        alone = group == TENSORBOARD
        return Verdict(action=Action.RESTART_TASK if alone else Action.RESTART_JOB)
    if failure.not_kept:
        # Nobody's failure. The programs have just started: they all begin anew, unless this
        # task may always be restarted alone.
        alone = group == TENSORBOARD or policy is OnFailure.RESTART_TASK
        return Verdict(action=Action.RESTART_TASK if alone else Action.RESTART_JOB)
    if policy is OnFailure.IGNORE and not ran and group != TENSORBOARD:
        # The cluster spec lists hosts by index: a task without an address would leave a gap.
        note = f"Failures of {group} are ignored, but a task that never starts cannot be left out."
        return Verdict(action=Action.FAIL_JOB, note=note)
    if policy is OnFailure.IGNORE:
        return Verdict(action=Action.GIVE_UP_TASK)
    if policy is OnFailure.FAIL_JOB:
        note = ""
        if failure.infrastructure:
            note = f"To survive this: --on_failure {group}:restart-job, or {group}:restart-task."
        return Verdict(action=Action.FAIL_JOB, note=note)
    counted = task.restarts if policy is OnFailure.RESTART_TASK else state.restarts
    if not failure.infrastructure and counted >= spec.groups[group].max_restarts:
        what = "The task" if policy is OnFailure.RESTART_TASK else "The job"
        often = "once" if counted == 1 else f"{counted} times"
        return Verdict(
            action=Action.FAIL_JOB, note=f"{what} had been restarted {often}, as allowed."
        )
    action = Action.RESTART_TASK if policy is OnFailure.RESTART_TASK else Action.RESTART_JOB
    return Verdict(action=action, counts=not failure.infrastructure)


def shortage(spec: JobSpec, missing: list[TaskId], *, started: bool) -> list[str]:
    """The groups that have fewer tasks than their ``min``, in words; empty: the job can start.

    ``started``: the job has already started with all tasks, and needs all of them.
    """
    short: list[str] = []
    for group in dict.fromkeys(group_of(t) for t in missing):
        absent = [index_of(t) for t in missing if group_of(t) == group]
        needed = spec.groups[group]
        if started or needed.min is None or min(absent) < needed.min:
            least = f" (at least {needed.min} needed)" if needed.min is not None else ""
            short.append(f"{needed.count - len(absent)} of {needed.count} {group}{least}")
    return short
