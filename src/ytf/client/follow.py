"""Following a job to its end, and saying in words what changed on the way."""

from __future__ import annotations

import math
import signal
import time
from collections import Counter
from collections.abc import Iterator, Mapping

from ytf.backends.api import JobHandle, Tell, silent
from ytf.errors import OutcomeUnknownError, UnreachableError
from ytf.specs.names import TaskId, task_id
from ytf.specs.status import JobEvent, JobState, JobStatus, TaskState, TaskStatus

CROWD = 16
"""A group with more tasks than this is told as counts, and task by task only where one fails."""

_ENDINGS = frozenset(
    {"TaskExited", "ContainerCompleted", "LaunchFailed", "StarterLost", "RequestRefused"}
)
"""The events that tell how an attempt ended."""
_SILENCE_S = 600.0
"""How long a job that was seen running is followed without news: a cluster may be restarted."""
_PAUSE_S = 1.0
_HOLD_S = 30.0
"""How long a wait for news may take before it is begun anew."""
_BEGINNING = (JobState.SUBMITTED, JobState.STARTING)


def follow(
    handle: JobHandle,
    known: JobStatus | None = None,
    tell: Tell = silent,
    timeout_s: float = math.inf,
) -> Iterator[JobStatus]:
    """Each new status of a job, the last one final.

    Once a status is known, a cluster that does not answer is no news of the
    job: ``tell`` hears of it, and minutes pass before ``UnreachableError`` is raised.
    ``TimeoutError`` if the job has not ended after ``timeout_s``.
    """
    deadline = time.monotonic() + timeout_s
    if known is None:
        known = handle.status()
        yield known
    silent_since: float | None = None
    while not known.state.is_final:
        left_s = deadline - time.monotonic()
        if left_s <= 0:
            raise TimeoutError(f"job {handle.job} is still {known.state.value}")
        try:
            status = handle.wait(known, min(_HOLD_S, left_s))
        except (UnreachableError, OutcomeUnknownError) as error:
            if silent_since is None:
                silent_since = time.monotonic()
                tell(f"{error}; job {handle.job} goes on, and so does the wait for it")
            elif time.monotonic() - silent_since >= _SILENCE_S:
                raise _unheard(handle, error) from error
            time.sleep(max(0.0, min(_PAUSE_S, deadline - time.monotonic())))
            continue
        silent_since = None
        if status != known:
            known = status
            yield status


def _unheard(handle: JobHandle, error: Exception) -> UnreachableError:
    return UnreachableError(
        f"nothing was heard of job {handle.job} for {_SILENCE_S / 60:g} minutes: {error}",
        hint=f"it may well go on: `ytf status {handle.job}` tells once it can be asked",
    )


class Setbacks:
    """Why attempts ended that others follow: a status tells of the newest attempt only."""

    def __init__(self, handle: JobHandle) -> None:
        self._handle = handle
        self._told: set[JobEvent] = set()

    def between(self, before: JobStatus | None, after: JobStatus) -> dict[TaskId, str]:
        """How the attempts ended that were given up between two statuses; asks only if some were.

        A task that is restarted because another failed is not among them.
        """
        old = {(t.group, t.index): t for t in before.tasks} if before else {}
        again = {
            task_id(t.group, t.index)
            for t in after.tasks
            if _begins_again(old.get((t.group, t.index)), t)
        }
        if not again:
            return {}
        try:
            events = self._handle.events()
        except (UnreachableError, OutcomeUnknownError):
            return {}  # that they begin again is told all the same
        # Not by their number: what is told of a master that is away is not told by the next.
        new = [event for event in events if event not in self._told]
        self._told.update(new)
        # The first end is the cause; its container may have ended after it.
        found = {TaskId(e.task): e.text for e in reversed(new) if e.task and e.event in _ENDINGS}
        return {task: text for task, text in found.items() if task in again}


def changes(
    before: JobStatus | None, after: JobStatus, setbacks: Mapping[TaskId, str] | None = None
) -> list[str]:
    """What happened between two statuses, a line each.

    A job begins before its tasks do, and runs and ends after them. ``setbacks``
    says why tasks begin again.
    """
    setbacks = setbacks or {}
    lines: list[str] = []
    old = {(t.group, t.index): t for t in before.tasks} if before else {}
    by_group: dict[str, list[TaskStatus]] = {}
    for task in after.tasks:
        by_group.setdefault(task.group, []).append(task)
    for group, tasks in by_group.items():
        crowd = len(tasks) > CROWD
        moved = [t for t in tasks if _differs(old.get((t.group, t.index)), t)]
        for task in moved:
            why = setbacks.get(task_id(task.group, task.index), "")
            if not crowd or why or task.state in (TaskState.FAILED, TaskState.LOST):
                lines.append(describe_task(task, why))
        if crowd and moved:
            lines.append(f"{group}: {counts(tasks)}")
    if waits(after) or _is_remark(before, after):
        told = before.diagnostics.splitlines() if before else []
        lines += [line for line in after.diagnostics.splitlines() if line not in told]
    if after.tensorboard_url and after.tensorboard_url != (before and before.tensorboard_url):
        lines.append(f"TensorBoard: {after.tensorboard_url}")
    if before is None or after.state != before.state:
        lines.insert(
            0 if after.state in _BEGINNING else len(lines), f"job {after.id}: {after.state.value}"
        )
    return lines


def waits(status: JobStatus) -> bool:
    """Whether a job waits to begin or for containers: then its diagnostics say why."""
    pending = any(task.state is TaskState.PENDING for task in status.tasks)
    return status.state is JobState.SUBMITTED or (pending and not status.state.is_final)


def describe_task(task: TaskStatus, setback: str = "") -> str:
    """One task in one line; ``setback`` is how its attempt before ended."""
    words = [f"{task.group}:{task.index}", task.state.value]
    if task.attempt > 1:
        words.append(f"(attempt {task.attempt})")
    if task.state is TaskState.RUNNING and task.host:
        words.append(f"on {task.host}:{task.port}" if task.port else f"on {task.host}")
    elif task.state.is_final:
        ended = how_it_ended(task)
        if ended:
            words.append(ended)
    if setback:
        words.append(f"after {setback.splitlines()[0]}")
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


def _is_remark(before: JobStatus | None, after: JobStatus) -> bool:
    """Whether something is said of a running job in which nothing else changed."""
    if before is None or after.state.is_final:
        return False
    return (before.state, before.tasks) == (after.state, after.tasks)


def _differs(before: TaskStatus | None, after: TaskStatus) -> bool:
    if before is None:
        return after.state is not TaskState.PENDING
    return (before.state, before.attempt) != (after.state, after.attempt)


def _begins_again(before: TaskStatus | None, after: TaskStatus) -> bool:
    if before is None:
        return after.attempt > 1
    fell_back = after.state is TaskState.PENDING and before.state is not TaskState.PENDING
    return fell_back or after.attempt > before.attempt


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return str(number)
