"""Looks up a job's YARN application for clients, and translates its reports into job statuses.

Why a job has no master yet, or none any more, is made one sentence of the
report's diagnostics. The CapacityScheduler writes many of them
(``CSAMContainerLaunchDiagnosticsConstants``), other schedulers few. Diagnostics
that every job has for its first second are left out.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

import msgspec

from ytf.backends.yarn.container_requests import resource_of
from ytf.backends.yarn.failure_explanations import explain_application_failure
from ytf.backends.yarn.hdfs_layout import JobHome, YarnHome
from ytf.backends.yarn.rm_client import RmClient
from ytf.errors import OutcomeUnknownError, RefusedError, UnreachableError
from ytf.hadoop.rpc.errors import ApplicationNotFoundError
from ytf.hadoop.yarn.ids import ApplicationId
from ytf.hadoop.yarn.records import (
    ApplicationReport,
    ApplicationState,
    NodeReport,
    NodeState,
    Resource,
)
from ytf.hadoop.yarn.records import FinalApplicationStatus as YarnFinalStatus
from ytf.specs.ids import JobId, group_of, index_of
from ytf.specs.job import JobSpec
from ytf.specs.status import FinalStatus, JobState, JobStatus, JobSummary, TaskState, TaskStatus
from ytf.storage.hdfs import HdfsFiles

APPLICATION_TYPE = "YTF"
"""The type of our applications in YARN."""

ListNodes = Callable[[], Sequence[NodeReport]]

_ALL_RUN = 0.5
"""The progress of a job whose programs all run: see ``TaskTable.progress``."""
_TOO_EARLY = "the job ended before it could start"
_FINAL = {
    YarnFinalStatus.SUCCEEDED: JobState.SUCCEEDED,
    YarnFinalStatus.KILLED: JobState.KILLED,
}

_AMOUNT = re.compile(r"([A-Z][^=;]*?) = <memory:(\d{1,18}), vCores:(\d{1,18})")
_DATE = re.compile(r"^\[[^\]]*\]\s*")
_QUEUE_LIMIT = "Queue's AM resource limit exceeded"
_USER_LIMIT = "User's AM resource limit exceeded"
_NO_CLUSTER = "cluster resource is empty"
_WAITS_FOR_ROOM = "waiting for resources to be assigned for AM"
_ON_ITS_WAY = ("Scheduler has assigned a container for AM", "AM container is launched")
_NOT_ACTIVATED = "Application is added to the scheduler and is not yet activated."
_NO_NODES = "Waiting for its master: the cluster has no running nodes."


class ApplicationLookup:
    """A job's application as one user sees it.

    The first report tells the owner. Until then the job counts as ours.
    """

    def __init__(self, rm: RmClient, files: HdfsFiles, job: JobId) -> None:
        self.job = job
        self.rm = rm
        self.files = files
        self.id = ApplicationId.parse(job)
        self.owner = rm.user
        self.last_report: ApplicationReport | None = None
        """The ResourceManager's last answer."""
        self._is_known_from_record = False
        self._is_private: bool | None = None

    def report(self) -> ApplicationReport | None:
        """The ResourceManager's report; None if it does not know the job (any more).

        Also None if it does not answer and the job has a record: then the
        ResourceManager could add nothing, and is not asked again.
        """
        if self._is_known_from_record:
            return None
        try:
            self.last_report = self.rm.call(lambda rm: rm.report(self.id))
        except ApplicationNotFoundError:
            self.last_report = None
        except (UnreachableError, OutcomeUnknownError):
            # An earlier report may not be true any more.
            self.last_report = None
            self._is_known_from_record = self._is_recorded()
            if not self._is_known_from_record:
                raise
        else:
            self.owner = self.last_report.user
        return self.last_report

    def _is_recorded(self) -> bool:
        try:
            return self.home.record() is not None
        except OSError:
            return False  # HDFS is unavailable, too: the caller reports the ResourceManager first

    @property
    def is_ours(self) -> bool:
        """Whether we own it: only the owner writes its record and removes its staging directory."""
        return self.owner == self.rm.user

    @property
    def home(self) -> JobHome:
        """Its directories in HDFS."""
        return YarnHome.of(self.files, self.rm.conf, self.owner).job(self.job)

    def is_private(self) -> bool:
        """Whether it belongs to another user, and we may not read its files."""
        if self.is_ours:
            return False
        if self._is_private is None:
            owners = YarnHome.of(self.files, self.rm.conf, self.owner)
            self._is_private = not owners.is_readable()
        return self._is_private

    def refuse_if_private(self, what: str) -> None:
        """Raise ``RefusedError`` if we may not read its files."""
        if self.is_private():
            raise RefusedError(
                f"only {self.owner} may see {what} of {self.job}",
                hint=f"`ytf status {self.job}` shows what YARN tells everyone",
            )

    def why_waiting(self, report: ApplicationReport, spec: JobSpec | None) -> str:
        """Why it has no master yet; empty if nothing is wrong. ``spec`` is the job's, if known."""
        master = None if spec is None else resource_of(spec.master.resources)
        return why_waiting(report, master, self._running_nodes)

    def _running_nodes(self) -> list[NodeReport]:
        return self.rm.call(lambda rm: rm.nodes(NodeState.RUNNING))


def master_url(report: ApplicationReport) -> str | None:
    """The address of the master that registered last; None before the first has registered."""
    if report.state is not ApplicationState.RUNNING or report.rpc_port <= 0:
        return None
    return f"http://{report.host}:{report.rpc_port}"


def is_between_masters(report: ApplicationReport) -> bool:
    """Whether a master died and the next one, which will resume the job, has not registered yet."""
    if report.state.ended or report.state is ApplicationState.RUNNING:
        return False
    return report.attempt is not None and report.attempt.number > 1


def state_from_report(report: ApplicationReport) -> JobState:
    """The state of a job as far as YARN knows it.

    YARN knows the progress that a master reports, and forgets it with the master.
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


def status_from_report(
    report: ApplicationReport, spec: JobSpec | None, waiting: str = ""
) -> JobStatus:
    """The status of a job of which no master has told anything.

    Its tasks are those of ``spec``, if that is known. ``waiting`` tells why it has
    no master yet.
    """
    state = state_from_report(report)
    return JobStatus(
        id=JobId(str(report.id)),
        name=report.name,
        user=report.user,
        queue=report.queue,
        backend="yarn",
        state=state,
        final_status=FinalStatus(state.value) if state.is_final else None,
        diagnostics=explain_application_failure(report.diagnostics) if state.is_final else waiting,
        started=_seconds(report.started_ms),
        finished=_seconds(report.finished_ms),
        tracking_url=tracking_url(report),
        tasks=tasks_in_state(spec, TaskState.KILLED, _TOO_EARLY)
        if state.is_final
        else tasks_in_state(spec, TaskState.PENDING),
    )


def with_yarn_facts(status: JobStatus, report: ApplicationReport) -> JobStatus:
    """A master's status, with the fields that YARN knows better: the same that ``ytf list`` shows.

    Jobs can be moved between queues, they wait before they have a master, they
    end a little after it, and their page is reached through YARN's proxy.
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


def tasks_in_state(spec: JobSpec | None, state: TaskState, why: str = "") -> tuple[TaskStatus, ...]:
    """The tasks of a spec, all in one state."""
    return tuple(
        TaskStatus(group=group_of(task), index=index_of(task), state=state, attempt=1, reason=why)
        for task in ([] if spec is None else spec.tasks())
    )


def summary_from_report(report: ApplicationReport) -> JobSummary:
    """A line of ``ytf list``."""
    return JobSummary(
        id=JobId(str(report.id)),
        name=report.name,
        user=report.user,
        queue=report.queue,
        backend="yarn",
        state=state_from_report(report),
        started=_seconds(report.started_ms),
        finished=_seconds(report.finished_ms),
    )


def tracking_url(report: ApplicationReport) -> str | None:
    """The URL of the job's page at the ResourceManager's proxy."""
    return None if report.tracking_url in ("", "N/A") else report.tracking_url


def _seconds(time_ms: int) -> float | None:
    return time_ms / 1000 if time_ms else None


def why_waiting(report: ApplicationReport, master: Resource | None, nodes: ListNodes) -> str:
    """Why an accepted job has no master yet; empty if nothing is wrong.

    ``master`` is the resource that its master requests, if that is known.
    ``nodes`` is called only if the answer depends on the nodes.
    """
    if report.state is not ApplicationState.ACCEPTED:
        return ""
    diagnostics = _DATE.sub("", report.diagnostics.strip())
    amounts = {
        name: Resource(int(mb), int(cores)) for name, mb, cores in _AMOUNT.findall(diagnostics)
    }
    if _QUEUE_LIMIT in diagnostics or _USER_LIMIT in diagnostics:
        return _masters_limit(report, amounts, is_user=_USER_LIMIT in diagnostics)
    if _NO_CLUSTER in diagnostics:
        return _NO_NODES
    if any(word in diagnostics for word in _ON_ITS_WAY):
        return ""
    if not diagnostics or _WAITS_FOR_ROOM in diagnostics:
        return _no_room(report, amounts, master, nodes())
    words = diagnostics.removeprefix(_NOT_ACTIVATED).partition("Details :")[0].strip()
    return f"Waiting for its master, says YARN: {words or diagnostics}"


def why_silent(report: ApplicationReport, error: str, waiting: str) -> str:
    """Says that a running job's master does not answer, and what YARN does about it.

    ``error`` is why the call to the master failed, ``waiting`` why there is no
    other master yet.
    """
    number = 1 if report.attempt is None else report.attempt.number
    text = f"Master attempt {number} does not answer right now"
    if report.state is ApplicationState.RUNNING:
        return (
            f"{text}: {error or 'it did not say why'}. YARN starts another once it finds this one"
            " dead, which takes minutes if its node is lost."
        )
    if number > 1:
        what = waiting or "It is on its way."
        return f"{text}: it has not begun yet, and attempt {number - 1} has ended. {what}"
    return (
        f"{text}: the ResourceManager was restarted, and the master has not registered with it"
        " again yet."
    )


def _masters_limit(
    report: ApplicationReport, amounts: dict[str, Resource], *, is_user: bool
) -> str:
    limit = amounts.get(
        "User AM Resource Limit of the queue" if is_user else "Queue Resource Limit for AM"
    )
    whose = f"{report.user}'s masters" if is_user else "the masters"
    text = f"Waiting for its master: {whose} in the queue {report.queue} may have "
    text += f"{limit} in all" if limit else "no more"
    used, asked = amounts.get("Queue AM Resource Usage"), amounts.get("AM Resource Request")
    if used and asked:
        text += f", those that run have {used}, and this one asks for {asked}"
    return f"{text}. It starts when others end; a smaller one (--master_memory) may start earlier."


def _no_room(
    report: ApplicationReport,
    amounts: dict[str, Resource],
    master: Resource | None,
    nodes: Sequence[NodeReport],
) -> str:
    usable = [node for node in nodes if node.state.usable]
    if not usable:
        return _NO_NODES
    if master is None:
        return ""
    used = amounts.get("Queue's used capacity (absolute resource)")
    most = amounts.get("Queue's max capacity (absolute resource)")
    if used and most and (used + master).excess_over(most):
        return (
            f"Waiting for its master ({master}): the queue {report.queue} has {used} in use,"
            f" and may have at most {most}."
        )
    if any(master.fits_in(node.free) for node in usable):
        return ""
    free = max((node.free for node in usable), key=lambda free: free.memory_mb)
    return f"Waiting for its master ({master}): the most that is free on a node is {free}."
