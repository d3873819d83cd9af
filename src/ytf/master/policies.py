"""What a failure does to the job: one pure decision, apart from carrying it out."""

from __future__ import annotations

from enum import Enum

import msgspec

from ytf.master.state import Failure, JobMemory, Task
from ytf.specs.job import TENSORBOARD, JobSpec, OnFailure
from ytf.specs.names import TaskId, group_of, index_of

MAX_LAUNCH_FAILURES = 3
"""Starters that died before they registered, per task: then it is not the nodes' fault."""
MAX_PORT_LOSSES = 3


class Action(Enum):
    """What is done about a failure."""

    REPLACE = "replace"
    """Nobody has seen the task yet: get it another container, silently."""
    RESTART_TASK = "restart-task"
    RESTART_JOB = "restart-job"
    FAIL_JOB = "fail-job"
    GIVE_UP_TASK = "give-up-task"
    """The job goes on without it."""


class Verdict(msgspec.Struct, frozen=True, kw_only=True):
    """The decision. ``counts``: against max_restarts; ``note``: added to the diagnostics."""

    action: Action
    counts: bool = False
    note: str = ""


def judge(spec: JobSpec, memory: JobMemory, task: Task, failure: Failure, ran: bool) -> Verdict:
    """What to do about ``failure`` of ``task``; ``ran``: peers may know this attempt."""
    group = group_of(task.id)
    policy = spec.policy(group)
    if not ran and (failure.infrastructure or task.launch_failures < MAX_LAUNCH_FAILURES):
        return Verdict(action=Action.REPLACE)
    if failure.port_lost and task.port_losses < MAX_PORT_LOSSES:
        # Peers hold the address that was lost: everyone needs the new one.
        alone = group == TENSORBOARD
        return Verdict(action=Action.RESTART_TASK if alone else Action.RESTART_JOB)
    if policy is OnFailure.IGNORE and not ran and group != TENSORBOARD:
        # Hosts are a list by index: who never had an address leaves a gap in it.
        note = f"Failures of {group} are ignored, but a task that never starts cannot be left out."
        return Verdict(action=Action.FAIL_JOB, note=note)
    if policy is OnFailure.IGNORE:
        return Verdict(action=Action.GIVE_UP_TASK)
    if policy is OnFailure.FAIL_JOB:
        note = ""
        if failure.infrastructure:
            note = f"To survive this: --on_failure {group}:restart-job, or {group}:restart-task."
        return Verdict(action=Action.FAIL_JOB, note=note)
    counted = task.restarts if policy is OnFailure.RESTART_TASK else memory.restarts
    if not failure.infrastructure and counted >= spec.groups[group].max_restarts:
        what = "The task" if policy is OnFailure.RESTART_TASK else "The job"
        often = "once" if counted == 1 else f"{counted} times"
        return Verdict(
            action=Action.FAIL_JOB, note=f"{what} had been restarted {often}, as allowed."
        )
    action = Action.RESTART_TASK if policy is OnFailure.RESTART_TASK else Action.RESTART_JOB
    return Verdict(action=action, counts=not failure.infrastructure)


def shortage(spec: JobSpec, missing: list[TaskId], *, started: bool) -> list[str]:
    """Which groups cannot even start with their ``min``, in words; empty: the job can start.

    ``started``: it has, with all of them, and must not lose any for good.
    """
    short: list[str] = []
    for group in dict.fromkeys(group_of(t) for t in missing):
        absent = [index_of(t) for t in missing if group_of(t) == group]
        wanted = spec.groups[group]
        if started or wanted.min is None or min(absent) < wanted.min:
            least = f" (at least {wanted.min} wanted)" if wanted.min is not None else ""
            short.append(f"{wanted.count - len(absent)} of {wanted.count} {group}{least}")
    return short
