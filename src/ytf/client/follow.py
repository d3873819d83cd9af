"""Follows a job to its end, for ``--wait`` and the Python API."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from ytf.backends.api import JobHandle, Notify, ignore_notice
from ytf.client.cancellation import check_cancelled, is_cancellable
from ytf.errors import OutcomeUnknownError, UnreachableError
from ytf.specs.event_kinds import EventKind
from ytf.specs.ids import TaskId, task_id
from ytf.specs.status import JobEvent, JobStatus, TaskState, TaskStatus

ATTEMPT_END_EVENTS = frozenset(
    kind.value
    for kind in (
        EventKind.TASK_EXITED,
        EventKind.CONTAINER_COMPLETED,
        EventKind.LAUNCH_FAILED,
        EventKind.STARTER_LOST,
        EventKind.REQUEST_REFUSED,
    )
)
"""The events that say how an attempt ended."""
_UNREACHABLE_TIMEOUT_S = 600.0
"""How long a job is followed without an answer, because a cluster may be restarted."""
_RETRY_S = 1.0
_EVENTS_S = 2.0
"""How often a job is asked for events that change nothing in its status."""
_POLL_TIMEOUT_S = 30.0
"""How long one call of ``JobHandle.wait`` may take."""
_CANCELLABLE_POLL_S = 2.0
"""The same where the caller may be cancelled, which one call cannot notice."""


def follow(
    handle: JobHandle,
    known: JobStatus | None = None,
    notify: Notify = ignore_notice,
    timeout_s: float = math.inf,
    tick_s: float | None = None,
) -> Iterator[JobStatus]:
    """Yield each new status of a job; the last one is final.

    Only the first status must come at once. After it, a cluster that does not
    answer is reported with ``notify``, and ``UnreachableError`` is raised when
    it has not answered for ten minutes. Raises ``TimeoutError`` if the job has
    not ended after ``timeout_s``. With ``tick_s`` a status without changes is yielded so
    often, too, with what the tasks use at present.
    """
    poll_s = _POLL_TIMEOUT_S if tick_s is None else tick_s
    if is_cancellable():
        poll_s = min(poll_s, _CANCELLABLE_POLL_S)
    deadline = time.monotonic() + timeout_s
    if known is None:
        known = handle.status()
        yield known
    unreachable_since: float | None = None
    while not known.state.is_final:
        check_cancelled()
        left_s = deadline - time.monotonic()
        if left_s <= 0:
            raise TimeoutError(f"job {handle.job} is still {known.state.value}")
        try:
            status = handle.wait(known, min(poll_s, left_s))
            # A change of what tasks use is none that ends a wait.
            unchanged = handle.status() if tick_s is not None and status == known else None
        except (UnreachableError, OutcomeUnknownError) as error:
            if unreachable_since is None:
                unreachable_since = time.monotonic()
                notify(f"{error}; job {handle.job} goes on, and so does the wait for it")
            elif time.monotonic() - unreachable_since >= _UNREACHABLE_TIMEOUT_S:
                raise _unreachable_error(handle, error) from error
            time.sleep(max(0.0, min(_RETRY_S, deadline - time.monotonic())))
            continue
        unreachable_since = None
        if status != known:
            known = status
            yield status
        elif unchanged is not None and not unchanged.state.is_final:
            yield unchanged


def settle(handle: JobHandle, final: JobStatus) -> JobStatus:
    """Wait until nothing but the record and the logs of an ended job is left."""
    try:
        return handle.wait(final)
    except (UnreachableError, OutcomeUnknownError):
        return final  # how it ended is known; gc removes later what it left


@dataclass(frozen=True)
class Change:
    """Two statuses of a job, one after the other, and why tasks were restarted in between."""

    before: JobStatus | None
    now: JobStatus
    restart_reasons: Mapping[TaskId, str]


def follow_changes(
    handle: JobHandle,
    notify: Notify = ignore_notice,
    timeout_s: float = math.inf,
    tick_s: float | None = None,
) -> Iterator[Change]:
    """Yield what :func:`follow` yields as changes, each with the status before it."""
    reasons = RestartReasons(handle)
    before: JobStatus | None = None
    for now in follow(handle, notify=notify, timeout_s=timeout_s, tick_s=tick_s):
        yield Change(before, now, reasons.between(before, now))
        before = now


def _unreachable_error(handle: JobHandle, error: Exception) -> UnreachableError:
    minutes = _UNREACHABLE_TIMEOUT_S / 60
    return UnreachableError(
        f"the status of job {handle.job} could not be read for {minutes:g} minutes: {error}",
        hint="the job may well go on; when the cluster answers again, "
        f"`ytf status {handle.job}` shows it",
    )


def follow_events(handle: JobHandle, notify: Notify = ignore_notice) -> Iterator[JobEvent]:
    """Yield the events of a job, those to come as well, until it has ended."""
    seen: set[JobEvent] = set()
    for status in follow(handle, notify=notify, tick_s=_EVENTS_S):
        if status.state.is_final:
            settle(handle, status)  # then its events are all there
        try:
            events = handle.events()
        except (UnreachableError, OutcomeUnknownError):
            if status.state.is_final:
                raise
            continue  # they come later
        for event in events:
            # By value: an event that says that the master does not answer comes and goes.
            if event not in seen:
                seen.add(event)
                yield event


class RestartReasons:
    """Finds why tasks were restarted, in the job's events.

    A status cannot say it, because it describes the newest attempt only.
    """

    def __init__(self, handle: JobHandle) -> None:
        self._handle = handle
        self._seen: set[JobEvent] = set()

    def between(self, before: JobStatus | None, after: JobStatus) -> dict[TaskId, str]:
        """Return how attempts ended that were replaced between two statuses, by task.

        Reads the events only if there are such attempts. A task that is
        restarted because another one failed is not in the result.
        """
        old = {(t.group, t.index): t for t in before.tasks} if before else {}
        restarted = {
            task_id(t.group, t.index)
            for t in after.tasks
            if _is_restarted(old.get((t.group, t.index)), t)
        }
        if not restarted:
            return {}
        try:
            events = self._handle.events()
        except (UnreachableError, OutcomeUnknownError):
            return {}  # the restart is shown without its reason
        # Compared by value and not counted: an event that says that the master does
        # not answer is missing in the events of the next master.
        new = [event for event in events if event not in self._seen]
        self._seen.update(new)
        # The first end is the cause; the end of the container may follow it.
        found = {
            TaskId(e.task): e.text
            for e in reversed(new)
            if e.task and e.event in ATTEMPT_END_EVENTS
        }
        return {task: text for task, text in found.items() if task in restarted}


def _is_restarted(before: TaskStatus | None, after: TaskStatus) -> bool:
    if before is None:
        return after.attempt > 1
    pending_again = after.state is TaskState.PENDING and before.state is not TaskState.PENDING
    return pending_again or after.attempt > before.attempt
