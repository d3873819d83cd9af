"""Runs the job of ``ytf doctor`` to its end, and removes what it leaves."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext, suppress
from typing import TYPE_CHECKING

from ytf import backends
from ytf.backends.api import JobHandle, Notify, OnCommit, no_commit_hook
from ytf.backends.checks import CheckFinding, ProbeJob, failed
from ytf.client.follow import follow
from ytf.client.plan import make_plan
from ytf.errors import InternalError, YtfError
from ytf.specs.status import JobState, JobStatus, TaskState

if TYPE_CHECKING:
    from ytf.packaging.tensorboard import TensorBoardCommand

HoldInterrupts = Callable[[], AbstractContextManager[OnCommit]]
"""Holds interrupts back while a submission that can no longer be undone returns its handle."""

_STARTED = (TaskState.RUNNING, TaskState.SUCCEEDED, TaskState.FAILED)
_KILL_S = 30.0


def no_hold() -> AbstractContextManager[OnCommit]:
    """Hold nothing back: for callers that are not interrupted."""
    return nullcontext(no_commit_hook)


def run_probe_job(
    backend: str, job: ProbeJob, notify: Notify, hold: HoldInterrupts
) -> CheckFinding:
    """Submit the job, follow it, and return what it tells.

    Nothing of a job that succeeded is left but layers, which the next one uses. The record
    of one that failed stays. If this is interrupted, or the job takes too long, it is killed.
    """
    try:
        return _Run(backend, job, notify).result(hold)
    finally:
        job.close()


class _Run:
    """One run of the job."""

    def __init__(self, backend: str, job: ProbeJob, notify: Notify) -> None:
        self._backend = backends.get_backend(backend)
        self._job = job
        self._notify = notify
        self._began = time.monotonic()

    def result(self, hold: HoldInterrupts) -> CheckFinding:
        plan = make_plan(
            self._job.spec(),
            backend=self._backend.name,
            user=self._backend.user(),
            tensorboard=_no_tensorboard,
        )
        handle = None
        final = None
        try:
            with hold() as on_commit:
                handle = self._backend.submit(plan, self._notify, on_commit)
            self._notify(f"submitted the job {handle.job}")
            final, start_s = self._follow(handle)
            if final is None:
                return self._too_slow(handle)
            if final.state is not JobState.SUCCEEDED:
                return _failure(final)
            return self._job.conclude(final, handle.events(), start_s)
        finally:
            if handle is not None:
                self._end(handle, final)

    def _follow(self, handle: JobHandle) -> tuple[JobStatus | None, float]:
        """The final status, and after how many seconds the task's program ran.

        None if the job has not ended in time.
        """
        start_s: float | None = None
        state: JobState | None = None
        try:
            for status in follow(handle, notify=self._notify, timeout_s=self._job.limit_s):
                if start_s is None and any(task.state in _STARTED for task in status.tasks):
                    start_s = time.monotonic() - self._began
                if status.state is not state:
                    state = status.state
                    self._notify(f"{handle.job} is {state.value}")
        except TimeoutError:
            return None, 0.0
        # A final status comes again when all but the record is removed.
        return handle.wait(status), start_s or time.monotonic() - self._began

    def _too_slow(self, handle: JobHandle) -> CheckFinding:
        why = ""
        with suppress(YtfError):
            status = handle.status()
            why = status.diagnostics or handle.why_waiting()
            why = f": {why}" if why else f": it is {status.state.value}"
        return failed(
            f"{handle.job} has not ended within {self._job.limit_s:g} s and was killed{why}",
            "if the queue is full, try again later, or another one with --queue",
        )

    def _end(self, handle: JobHandle, final: JobStatus | None) -> None:
        """Kill the job if it may run, and remove its record unless it tells of a failure.

        Neither may hide why the job is ended: an interrupt, for example.
        """
        try:
            if final is None:
                self._kill(handle)
            if final is None or final.state is JobState.SUCCEEDED:
                handle.remove()
        except (YtfError, OSError) as error:
            self._notify(f"something of {handle.job} is left: `ytf kill` and `ytf rm` it: {error}")

    def _kill(self, handle: JobHandle) -> None:
        """Return when the job has ended, and all but its record is removed."""
        self._notify(f"killing {handle.job}")
        handle.kill("ytf doctor ended")
        for status in follow(handle, timeout_s=_KILL_S):
            if status.state.is_final:
                handle.wait(status)


def _failure(final: JobStatus) -> CheckFinding:
    return failed(
        f"{final.id} ended {final.state.value}: {final.diagnostics.strip() or 'nobody says why'}",
        f"`ytf logs {final.id}` shows what it wrote; its record is kept, `ytf rm` removes it",
    )


def _no_tensorboard() -> TensorBoardCommand:
    raise InternalError("the job of ytf doctor has no TensorBoard")
