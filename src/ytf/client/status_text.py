"""Describes statuses of jobs and tasks, and the changes between them, in lines for people."""

from __future__ import annotations

import datetime as dt
from collections import Counter
from collections.abc import Callable, Mapping

from ytf.machine.diagnostics import signal_name
from ytf.specs.amounts import short_bytes
from ytf.specs.ids import TaskId, task_id
from ytf.specs.status import JobState, JobStatus, TaskState, TaskStatus
from ytf.specs.usage import metrics_text

MAX_LISTED_TASKS = 16
"""A group with more tasks than this is shown as counts; only tasks that fail are listed."""

_Column = tuple[str, Callable[[list[TaskStatus]], str]]

TASK_HEADERS = ("task", "state", "attempt", "where", "ended")
_FAILED = (TaskState.FAILED, TaskState.LOST)
_LONGEST_S = 253_000_000_000
"""8000 years: what Python can write, whatever the record of another user says."""
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
    for group, tasks in tasks_by_group(after).items():
        is_large = len(tasks) > MAX_LISTED_TASKS
        changed = [t for t in tasks if _differs(old.get((t.group, t.index)), t)]
        for task in changed:
            reason = restart_reasons.get(task_id(task.group, task.index), "")
            if not is_large or reason or task.state in _FAILED:
                lines.append(describe_task(task, reason))
        if is_large and changed:
            lines.append(f"{group}: {count_states(tasks)}")
    known = before.diagnostics.splitlines() if before else []
    if is_waiting(after) or _only_diagnostics_changed(before, after):
        lines += [line for line in after.diagnostics.splitlines() if line not in known]
    elif not after.state.is_final:
        lines += [note for note in after.notes if note not in known]
    if _page_of_cluster(after) and _page_of_cluster(after) != (before and _page_of_cluster(before)):
        lines.append(f"page: {after.tracking_url}")
    if after.tensorboard_url and after.tensorboard_url != (before and before.tensorboard_url):
        lines.append(f"TensorBoard: {after.tensorboard_url}")
    if before is None or after.state != before.state:
        lines.insert(
            0 if after.state in _INITIAL_STATES else len(lines),
            f"job {after.id}: {after.state.value}",
        )
    return lines


def _page_of_cluster(status: JobStatus) -> str | None:
    """The address of the job's page, for lines that others may read in a log.

    That of a job of this machine is left out: who knows it may read the page.
    """
    return None if status.backend == "local" else status.tracking_url


def describe_job(status: JobStatus) -> list[str]:
    """Describe a job as it is now, without its tasks: state, time, why it waits, links."""
    took = span(status.started, status.finished)
    head = f"job {status.id} ({status.name}): {status.state.value}"
    lines = [f"{head}, {took}" if took else head]
    if status.state.is_final:
        return lines
    lines += status.diagnostics.splitlines() if is_waiting(status) else status.notes
    if status.tracking_url:
        lines.append(f"page: {status.tracking_url}")
    if status.tensorboard_url:
        lines.append(f"TensorBoard: {status.tensorboard_url}")
    return lines


def describe_end(status: JobStatus) -> list[str]:
    """Describe why a job ended so: the first cause of a failure, and where to look."""
    if status.state is JobState.SUCCEEDED:
        return status.notes
    cause = status.diagnostics.strip().splitlines()[:1]
    return [*cause, f"`ytf logs {status.id}` shows what the tasks wrote"]


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


def task_headers(status: JobStatus) -> tuple[str, ...]:
    """The columns of :func:`task_rows`: with what tasks use and report, if any does."""
    return TASK_HEADERS + tuple(name for name, _ in _more_columns(status))


def _more_columns(status: JobStatus) -> tuple[_Column, ...]:
    columns: tuple[_Column, ...] = ()
    if any(task.live_usage for task in status.tasks):
        columns += _USAGE_COLUMNS
    if any(task.usage and task.usage.metrics for task in status.tasks):
        columns += _METRICS_COLUMNS
    return columns


def task_rows(status: JobStatus, *, counts: bool = True) -> list[tuple[str, ...]]:
    """The tasks as lines of a table, a large group as one with its counts.

    Without ``counts`` a large group has lines for tasks that failed, the first ones.
    """
    more = [cell for _, cell in _more_columns(status)]
    rows: list[tuple[str, ...]] = []
    for group, tasks in tasks_by_group(status).items():
        if len(tasks) > MAX_LISTED_TASKS and not counts:
            tasks = [task for task in tasks if task.state in _FAILED][:MAX_LISTED_TASKS]
        if len(tasks) > MAX_LISTED_TASKS:
            row: tuple[str, ...] = (f"{group} × {len(tasks)}", count_states(tasks), "", "", "")
            rows.append((*row, *(cell(tasks) for cell in more)))
        else:
            rows.extend((*task_row(task), *(cell([task]) for cell in more)) for task in tasks)
    return rows


def task_row(task: TaskStatus) -> tuple[str, ...]:
    """A task as a line of a table with ``TASK_HEADERS``."""
    where = task.host or task.node or ""
    if task.port:
        where = f"{where}:{task.port}"
    return (
        f"{task.group}:{task.index}",
        task.state.value,
        str(task.attempt) if task.attempt else "",
        where,
        "exit code 0" if task.state is TaskState.SUCCEEDED else describe_exit(task),
    )


def tasks_by_group(status: JobStatus) -> dict[str, list[TaskStatus]]:
    """The tasks of each group, in the order of the job."""
    found: dict[str, list[TaskStatus]] = {}
    for task in status.tasks:
        found.setdefault(task.group, []).append(task)
    return found


def _cpu(tasks: list[TaskStatus]) -> str:
    known = [task.live_usage.cpu_cores for task in tasks if task.live_usage is not None]
    return f"{100 * sum(known):.0f}%" if known else ""


def _memory(tasks: list[TaskStatus]) -> str:
    known = [task.live_usage.memory_bytes for task in tasks if task.live_usage is not None]
    return short_bytes(sum(known)) if known else ""


def _metrics(tasks: list[TaskStatus]) -> str:
    """What a task reports of itself; that of many is no line."""
    usage = tasks[0].usage
    return metrics_text(usage.metrics) if len(tasks) == 1 and usage is not None else ""


_USAGE_COLUMNS: tuple[_Column, ...] = (("cpu", _cpu), ("memory", _memory))
_METRICS_COLUMNS: tuple[_Column, ...] = (("metrics", _metrics),)


def span(start: float | None, end: float | None) -> str:
    """The time from start to end, or until now: ``1:02:03``; empty if there is no start."""
    if start is None:
        return ""
    if end is None:
        end = dt.datetime.now().timestamp()
    return str(dt.timedelta(seconds=min(max(0, int(end - start)), _LONGEST_S)))


def _only_diagnostics_changed(before: JobStatus | None, after: JobStatus) -> bool:
    """Return whether a running job differs at most in its diagnostics."""
    if before is None or after.state.is_final:
        return False
    return (before.state, before.tasks) == (after.state, after.tasks)


def _differs(before: TaskStatus | None, after: TaskStatus) -> bool:
    if before is None:
        return after.state is not TaskState.PENDING
    return (before.state, before.attempt) != (after.state, after.attempt)
