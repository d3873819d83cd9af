"""Following a job to its end, and saying in words what changed on the way."""

from __future__ import annotations

import signal
from collections import Counter
from collections.abc import Iterator

from ytf.backends.api import JobHandle
from ytf.specs.status import JobStatus, TaskState, TaskStatus

CROWD = 16
"""A group with more tasks than this is told as counts, and task by task only where one fails."""


def follow(handle: JobHandle, known: JobStatus | None = None) -> Iterator[JobStatus]:
    """Each new status of a job, the last one final."""
    if known is None:
        known = handle.status()
        yield known
    while not known.state.is_final:
        status = handle.wait(known)
        if status != known:
            known = status
            yield status


def changes(before: JobStatus | None, after: JobStatus) -> list[str]:
    """What happened between two statuses, a line each, tasks before the job."""
    lines: list[str] = []
    old = {(t.group, t.index): t for t in before.tasks} if before else {}
    by_group: dict[str, list[TaskStatus]] = {}
    for task in after.tasks:
        by_group.setdefault(task.group, []).append(task)
    for group, tasks in by_group.items():
        crowd = len(tasks) > CROWD
        moved = [t for t in tasks if _differs(old.get((t.group, t.index)), t)]
        lines += [
            describe_task(t)
            for t in moved
            if not crowd or t.state in (TaskState.FAILED, TaskState.LOST)
        ]
        if crowd and moved:
            lines.append(f"{group}: {counts(tasks)}")
    if after.tensorboard_url and after.tensorboard_url != (before and before.tensorboard_url):
        lines.append(f"TensorBoard: {after.tensorboard_url}")
    if before is None or after.state != before.state:
        lines.append(f"job {after.id}: {after.state.value}")
    return lines


def describe_task(task: TaskStatus) -> str:
    """One task in one line."""
    words = [f"{task.group}:{task.index}", task.state.value]
    if task.attempt > 1:
        words.append(f"(attempt {task.attempt})")
    if task.state is TaskState.RUNNING and task.host:
        words.append(f"on {task.host}:{task.port}" if task.port else f"on {task.host}")
    elif task.state.is_final:
        ended = how_it_ended(task)
        if ended:
            words.append(ended)
    return " ".join(words)


def how_it_ended(task: TaskStatus) -> str:
    """Exit code or signal and the reason, in words; empty for a plain success."""
    parts: list[str] = []
    if task.signal is not None:
        parts.append(f"signal {_signal_name(task.signal)}")
    elif task.exit_code:
        parts.append(f"exit code {task.exit_code}")
    if task.reason:
        # A reason may be a whole story; the first line is its headline.
        parts.append(task.reason.splitlines()[0])
    return ", ".join(parts)


def counts(tasks: list[TaskStatus]) -> str:
    """``12 RUNNING, 3 PENDING`` in the order of the states."""
    found = Counter(t.state for t in tasks)
    return ", ".join(f"{found[state]} {state.value}" for state in TaskState if found[state])


def _differs(before: TaskStatus | None, after: TaskStatus) -> bool:
    if before is None:
        return after.state is not TaskState.PENDING
    return (before.state, before.attempt) != (after.state, after.attempt)


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return str(number)
