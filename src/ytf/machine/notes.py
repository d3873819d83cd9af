"""Notes: what users should know of a job that runs or has ended, however it ends.

They are made from the machine's state, each as one sentence or two.
:func:`ytf.specs.status.with_notes` makes them a part of the job's diagnostics.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timezone

from ytf.machine.deadlines import AFTER_CHIEF, TENSORBOARD_STAY
from ytf.machine.diagnostics import join_names
from ytf.machine.state import MachineState, Task
from ytf.machine.usage import over_asking_notes
from ytf.specs.ids import group_of
from ytf.specs.job import CHIEF, TENSORBOARD, JobSpec
from ytf.specs.status import FinalStatus, TaskState


def notes(spec: JobSpec, state: MachineState) -> Iterator[str]:
    """All notes about a job, as its state is now."""
    if state.final is FinalStatus.SUCCEEDED:
        yield from _after_chief(spec, state)
        yield from _tensorboard_stays(state)
    if state.idle_since is not None:
        yield _idle(spec, state, state.idle_since)
    if state.output_lost:
        yield _output_lost(state)
    # Of a job that failed or was killed, the reason is what counts.
    if state.final in (None, FinalStatus.SUCCEEDED):
        yield from state.warnings
    yield from over_asking_notes(spec, state)


def _after_chief(spec: JobSpec, state: MachineState) -> Iterator[str]:
    """What becomes of the other tracked tasks after the chief's success."""
    deciding = spec.deciding_groups()
    if not deciding:
        return
    chiefs = join_names([t.id for t in _members(state) if group_of(t.id) in deciding])
    others = [t for t in _tracked(spec, state) if group_of(t.id) not in deciding]
    until = state.deadlines.get(AFTER_CHIEF)
    if until is not None:
        names = join_names([t.id for t in others if not t.state.is_final])
        yield (
            f"{chiefs} succeeded, so the job has. Until {_clock(until)} it waits for {names} "
            "to end (timeouts.after_chief_s)"
        )
        return
    stopped = [t for t in others if t.state is TaskState.KILLED or not t.state.is_final]
    if stopped:
        yield (
            f"stopped before their end, as {chiefs} had succeeded: "
            f"{join_names([t.id for t in stopped])}. For programs that serve others and never "
            f"end, --untracked {_groups(stopped)} saves the wait"
        )
    failed = [t for t in others if t.state in (TaskState.FAILED, TaskState.LOST)]
    if failed:
        reasons = [f"{t.id} ({t.reason or f'exit code {t.exit_code}'})" for t in failed]
        yield f"failed, though {chiefs} succeeded, which decides: {join_names(reasons)}"


def _tensorboard_stays(state: MachineState) -> Iterator[str]:
    until = state.deadlines.get(TENSORBOARD_STAY)
    if until is not None:
        yield (
            f"the job has succeeded. TensorBoard stays until {_clock(until)} "
            "(timeouts.tensorboard_s); `ytf kill` ends it now"
        )


def _idle(spec: JobSpec, state: MachineState, since: float) -> str:
    """Who waits since when, who has ended, and which option helps."""
    tracked = _tracked(spec, state)
    waiting = [t for t in tracked if t.state is TaskState.RUNNING]
    ended = [t for t in tracked if t.state is TaskState.SUCCEEDED]
    text = (
        "all programs are idle: none has used the processor since "
        f"{_clock(since)}. Running: {join_names([t.id for t in waiting])}."
    )
    if not ended:
        return f"{text} `ytf logs` shows their last output; --timeout limits a job's time"
    text += f" Ended successfully: {join_names([t.id for t in ended])}."
    if {group_of(t.id) for t in waiting} & {group_of(t.id) for t in ended}:
        return (
            f"{text} If the others wait for these for ever: `ytf kill`, and next time run the "
            f"task whose success is the job's in a group of its own, -r {CHIEF}:1,…"
        )
    return (
        f"{text} If the others serve these and never end: `ytf kill`, and next time "
        f"--untracked {_groups(waiting)}"
    )


def _output_lost(state: MachineState) -> str:
    names = join_names(list(state.output_lost))
    return (
        f"the disk of the logs was full at {_clock(min(state.output_lost.values()))}: what "
        f"these tasks wrote since then may be missing from their logs: {names}. "
        "`ytf gc --older-than 1d` and `ytf rm` make room on this machine"
    )


def _members(state: MachineState) -> list[Task]:
    return [t for t in state.tasks.values() if not t.dropped and group_of(t.id) != TENSORBOARD]


def _tracked(spec: JobSpec, state: MachineState) -> list[Task]:
    tracked = spec.tracked_groups()
    return [t for t in _members(state) if group_of(t.id) in tracked]


def _groups(tasks: list[Task]) -> str:
    return ",".join(dict.fromkeys(group_of(t.id) for t in tasks))


def _clock(at: float) -> str:
    return datetime.fromtimestamp(at, timezone.utc).strftime("%Y-%m-%d %H:%M:%S UTC")
