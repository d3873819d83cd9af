"""What the ResourceManager says of an application, in the words of a job."""

from __future__ import annotations

import msgspec

from ytf.backends.yarn.wording import in_words
from ytf.hadoop.yarn.records import ApplicationReport, ApplicationState
from ytf.hadoop.yarn.records import FinalStatus as YarnFinalStatus
from ytf.specs.job import JobSpec
from ytf.specs.names import JobId, group_of, index_of
from ytf.specs.status import (
    FinalStatus,
    JobState,
    JobStatus,
    JobSummary,
    TaskState,
    TaskStatus,
)

TYPE = "YTF"
"""What our applications are to YARN."""

_ALL_RUN = 0.5
"""The progress of a job whose programs all run: see ``Roster.progress``."""
_TOO_EARLY = "the job ended before it could start"
_FINAL = {
    YarnFinalStatus.SUCCEEDED: JobState.SUCCEEDED,
    YarnFinalStatus.KILLED: JobState.KILLED,
}


def master_url(report: ApplicationReport) -> str | None:
    """Where the master that registered last listens; None before the first did."""
    if report.state is not ApplicationState.RUNNING or report.rpc_port <= 0:
        return None
    return f"http://{report.host}:{report.rpc_port}"


def is_between_masters(report: ApplicationReport) -> bool:
    """Whether a master died and the next one is not there yet: it will know of the job again."""
    if report.state.ended or report.state is ApplicationState.RUNNING:
        return False
    return report.attempt is not None and report.attempt.number > 1


def state_of(report: ApplicationReport) -> JobState:
    """How far a job is, as far as YARN can tell.

    It knows how far a master says to be, and forgets that with the master.
    """
    if report.state is ApplicationState.FINISHED:
        return _FINAL.get(report.final_status, JobState.FAILED)
    if report.state is ApplicationState.FAILED:
        return JobState.FAILED
    if report.state is ApplicationState.KILLED:
        return JobState.KILLED
    if is_between_masters(report):
        return JobState.RUNNING
    if report.state is not ApplicationState.RUNNING:
        return JobState.SUBMITTED
    is_first = report.attempt is None or report.attempt.number == 1
    return JobState.STARTING if is_first and report.progress < _ALL_RUN else JobState.RUNNING


def status_of(report: ApplicationReport, spec: JobSpec | None, waiting: str = "") -> JobStatus:
    """The status of a job that never had a master; its tasks as they were asked for, if known.

    ``waiting`` is why it has none yet.
    """
    state = state_of(report)
    return JobStatus(
        id=JobId(str(report.id)),
        name=report.name,
        user=report.user,
        queue=report.queue,
        backend="yarn",
        state=state,
        final_status=FinalStatus(state.value) if state.is_final else None,
        diagnostics=in_words(report.diagnostics) if state.is_final else waiting,
        started=_seconds(report.started_ms),
        finished=_seconds(report.finished_ms),
        tracking_url=tracking_url(report),
        tasks=tasks_of(spec, TaskState.KILLED, _TOO_EARLY)
        if state.is_final
        else tasks_of(spec, TaskState.PENDING),
    )


def as_yarn_has_it(status: JobStatus, report: ApplicationReport) -> JobStatus:
    """A status with what YARN knows better than a master: the same that a list of jobs says.

    Jobs are moved between queues, wait before they have a master and end a
    little after it; and people get to its page through a proxy.
    """
    finished = status.finished
    if status.state.is_final and report.state.ended:
        finished = _seconds(report.finished_ms) or finished
    return msgspec.structs.replace(
        status,
        queue=report.queue,
        started=_seconds(report.started_ms) or status.started,
        finished=finished,
        tracking_url=tracking_url(report),
    )


def tasks_of(spec: JobSpec | None, state: TaskState, why: str = "") -> tuple[TaskStatus, ...]:
    """The tasks as they were asked for, of which nothing else is known."""
    return tuple(
        TaskStatus(group=group_of(task), index=index_of(task), state=state, attempt=1, reason=why)
        for task in ([] if spec is None else spec.tasks())
    )


def summary_of(report: ApplicationReport) -> JobSummary:
    """A line of ``ytf list``."""
    return JobSummary(
        id=JobId(str(report.id)),
        name=report.name,
        user=report.user,
        queue=report.queue,
        backend="yarn",
        state=state_of(report),
        started=_seconds(report.started_ms),
        finished=_seconds(report.finished_ms),
    )


def tracking_url(report: ApplicationReport) -> str | None:
    """The way to the job's page through the ResourceManager's proxy."""
    return None if report.tracking_url in ("", "N/A") else report.tracking_url


def _seconds(time_ms: int) -> float | None:
    return time_ms / 1000 if time_ms else None
