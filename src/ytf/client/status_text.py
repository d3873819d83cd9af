"""Describes statuses of jobs and tasks, and the changes between them, in lines for people."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from ytf.machine.diagnostics import signal_name
from ytf.specs.ids import TaskId, task_id
from ytf.specs.status import JobState, JobStatus, TaskState, TaskStatus

MAX_LISTED_TASKS = 16
"""A group with more tasks than this is shown as counts; only tasks that fail are listed."""

_INITIAL_STATES = (JobState.SUBMITTED, JobState.STARTING)


def describe_changes(
    before: JobStatus | None,
    after: JobStatus,
    restart_reasons: Mapping[TaskId, str] | None = None,
) -> list[str]:
    """Describe what happened between two statuses, one line for each change.

    The line for a start of the job precedes the lines of its tasks; those for
    its other states follow them. ``restart_reasons`` says why tasks were restarted.
    The diagnostics of a job that has ended are left to the caller, its notes too.
    """
    restart_reasons = restart_reasons or {}
    lines: list[str] = []
    old = {(t.group, t.index): t for t in before.tasks} if before else {}
    by_group: dict[str, list[TaskStatus]] = {}
    for task in after.tasks:
        by_group.setdefault(task.group, []).append(task)
    for group, tasks in by_group.items():
        is_large = len(tasks) > MAX_LISTED_TASKS
        changed = [t for t in tasks if _differs(old.get((t.group, t.index)), t)]
        for task in changed:
            reason = restart_reasons.get(task_id(task.group, task.index), "")
            if not is_large or reason or task.state in (TaskState.FAILED, TaskState.LOST):
                lines.append(describe_task(task, reason))
        if is_large and changed:
            lines.append(f"{group}: {count_states(tasks)}")
    known = before.diagnostics.splitlines() if before else []
    if is_waiting(after) or _only_diagnostics_changed(before, after):
        lines += [line for line in after.diagnostics.splitlines() if line not in known]
    elif not after.state.is_final:
        lines += [note for note in after.notes if note not in known]
    if after.tensorboard_url and after.tensorboard_url != (before and before.tensorboard_url):
        lines.append(f"TensorBoard: {after.tensorboard_url}")
    if before is None or after.state != before.state:
        lines.insert(
            0 if after.state in _INITIAL_STATES else len(lines),
            f"job {after.id}: {after.state.value}",
        )
    return lines


def is_waiting(status: JobStatus) -> bool:
    """Return whether a job waits to start or for containers. Its diagnostics then say why."""
    pending = any(task.state is TaskState.PENDING for task in status.tasks)
    return status.state is JobState.SUBMITTED or (pending and not status.state.is_final)


def describe_task(task: TaskStatus, restart_reason: str = "") -> str:
    """Describe a task in one line; ``restart_reason`` is how its previous attempt ended."""
    words = [f"{task.group}:{task.index}", task.state.value]
    if task.attempt > 1:
        words.append(f"(attempt {task.attempt})")
    if task.state is TaskState.RUNNING and task.host:
        words.append(f"on {task.host}:{task.port}" if task.port else f"on {task.host}")
    elif task.state.is_final:
        ended = describe_exit(task)
        if ended:
            words.append(ended)
    line = " ".join(words)
    return f"{line}: {restart_reason.splitlines()[0]}" if restart_reason else line


def describe_exit(task: TaskStatus) -> str:
    """Describe exit code or signal and the reason; empty for a success without a reason."""
    parts: list[str] = []
    if task.signal is not None:
        parts.append(signal_name(task.signal))
    elif task.exit_code:
        parts.append(f"exit code {task.exit_code}")
    if task.reason:
        # A reason may have many lines; the first one is its summary.
        parts.append(task.reason.splitlines()[0])
    return ", ".join(parts)


def count_states(tasks: list[TaskStatus]) -> str:
    """Count tasks by state, ``3 PENDING, 12 RUNNING``, in the order of the states."""
    found = Counter(t.state for t in tasks)
    return ", ".join(f"{found[state]} {state.value}" for state in TaskState if found[state])


def _only_diagnostics_changed(before: JobStatus | None, after: JobStatus) -> bool:
    """Return whether a running job differs at most in its diagnostics."""
    if before is None or after.state.is_final:
        return False
    return (before.state, before.tasks) == (after.state, after.tasks)


def _differs(before: TaskStatus | None, after: TaskStatus) -> bool:
    if before is None:
        return after.state is not TaskState.PENDING
    return (before.state, before.attempt) != (after.state, after.attempt)
