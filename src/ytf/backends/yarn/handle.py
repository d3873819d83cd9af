"""One YARN job as its owner sees it: its master answers, then its record, at worst YARN itself."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator

import msgspec

from ytf.backends import answers
from ytf.backends.answers import Told
from ytf.backends.api import Access, LogLine, MasterAddress, over
from ytf.backends.yarn.asking import ResourceManager
from ytf.backends.yarn.burial import bury
from ytf.backends.yarn.home import JobHome, YarnHome
from ytf.backends.yarn.kinds import resource_of
from ytf.backends.yarn.reports import is_between_masters, master_url, status_of, tracking_url
from ytf.backends.yarn.waiting import why_waiting
from ytf.errors import (
    NotFoundError,
    OutcomeUnknownError,
    RefusedError,
    UnreachableError,
    YtfError,
)
from ytf.hadoop.rpc.errors import ApplicationNotFoundError
from ytf.hadoop.yarn.ids import ApplicationId
from ytf.hadoop.yarn.records import ApplicationReport, ApplicationState, LogStatus, NodeState
from ytf.specs.cluster import ClusterSpec
from ytf.specs.job import JobSpec
from ytf.specs.names import JobId, TaskId, task_id
from ytf.specs.status import JobEvent, JobRecord, JobState, JobStatus
from ytf.starter.http import Answer, ChannelError
from ytf.storage.hdfs import HdfsFiles

_PATIENCE_S = 30.0
"""How long a job may be without a master before a client gives up."""
_KILL_PATIENCE_S = 5.0
_RETRY_S = 0.1
_QUEUE_LOOK_S = 0.25
"""Between two looks at a job that has no master: each is several questions to the cluster."""
_CALL_S = 10.0
"""How long a master may take to answer."""
_LEAST_CALL_S = 1.0
"""How long it may in any case, however little time is left."""
_TIDY_S = 10.0
"""How long YARN may take to see that a job is over."""
_KILL_S = 30.0
_LOGS_S = 30.0
"""How long nodes may take to gather the logs of an ended job."""
_GATHERED = (LogStatus.SUCCEEDED, LogStatus.FAILED, LogStatus.TIMED_OUT, LogStatus.DISABLED)


class YarnJob:
    """Implements ``JobHandle``. Works from any machine that has the cluster's configuration.

    While the job runs its master answers, to whoever can read the job's secret
    in its staging directory; a master that is being started again is waited
    for. Everybody else is told what YARN knows, as far as YARN lets them. A job
    that YARN ended without its master, as ``yarn application -kill`` does, is
    recorded by the first of its owner's commands that sees it so. Not for
    several threads.
    """

    def __init__(self, rm: ResourceManager, files: HdfsFiles, job: JobId) -> None:
        self.job = job
        self._rm = rm
        self._files = files
        self._id = ApplicationId.parse(job)
        self._owner = rm.user
        self._page: str | None = None
        self._secret: bytes | None = None
        self._closed: bool | None = None
        self._told: tuple[str, Told] | None = None

    def exists(self) -> bool:
        """Whether YARN, or a record, knows of it."""
        return self._report() is not None or self._record() is not None

    def status(self) -> JobStatus:
        """How the job and its tasks are now."""
        return self._status(_PATIENCE_S)

    def wait(self, known: JobStatus | None = None, timeout_s: float = 30.0) -> JobStatus:
        """The next status that differs from ``known``, or the same one after ``timeout_s``.

        With nothing known, the status now; a master is given ``timeout_s`` to tell
        it. A final status is told when YARN, too, has seen the end and the
        staging directory is gone, unless that takes too long.
        """
        deadline = time.monotonic() + timeout_s
        while True:
            now = self._next_status(known, deadline)
            if now.state.is_final:
                self._tidy()
                return now
            if now != known or time.monotonic() >= deadline:
                return now
            pause_s = _QUEUE_LOOK_S if now.state is JobState.SUBMITTED else _RETRY_S
            time.sleep(min(pause_s, max(0.0, deadline - time.monotonic())))

    def cluster_spec(self) -> ClusterSpec | None:
        """Who is where, once everyone is known."""
        answer = self._ask("GET", "/client/v1/cluster")
        return answers.cluster_spec(answer, self._instead_of(answer, "the cluster spec"))

    def events(self) -> list[JobEvent]:
        """The job's story so far; empty before its master is up."""
        answer = self._ask("GET", "/client/v1/events")
        return answers.events(answer, self._instead_of(answer, "the story"))

    def kill(self, reason: str) -> None:
        """Ask for the end; nothing happens if the job is over.

        If its master does not answer, or there is none yet, YARN ends the job,
        with no grace for its programs.
        """
        body = msgspec.json.encode({"by": self._rm.user, "reason": reason})
        # Whatever keeps its master from taking this in: YARN needs no master for it.
        with contextlib.suppress(YtfError):
            if self._ask("POST", "/client/v1/kill", body, _KILL_PATIENCE_S) is not None:
                return
        why = f"Killed by {self._rm.user}: {reason}"
        deadline = time.monotonic() + _KILL_S
        while True:
            silence: YtfError | None = None
            try:
                report = self._report()
                if report is None or report.state.ended:
                    return
                if self._rm.ask(lambda rm: rm.kill(self._id, why)):
                    return
            except (UnreachableError, OutcomeUnknownError) as exc:
                silence = exc  # a kill may be asked for as often as it takes
            if time.monotonic() > deadline:
                raise OutcomeUnknownError(
                    f"YARN has not ended {self.job} within {_KILL_S:g} s"
                    + ("" if silence is None else f": {silence}"),
                    hint=f"`ytf status {self.job}` tells; if it goes on, kill it once more",
                ) from silence
            time.sleep(_RETRY_S)

    def logs(self, tasks: list[TaskId], *, follow: bool) -> Iterator[LogLine]:
        """Lines of the tasks' logs; with ``follow`` until the job and its logs have ended.

        Raises ``NotFoundError`` for a task the job does not have.
        """
        status = self.status()
        if not status.state.is_final:
            # Gathered logs have permissions of their own, which HDFS looks after.
            self._refuse_if_closed("the tasks' output")
        has = [task_id(task.group, task.index) for task in status.tasks]
        if has:
            answers.check_tasks(self.job, tasks, has)
        # Few commands need it, and what reads gathered logs takes its time to load.
        from ytf.backends.yarn.logs import read_logs

        return read_logs(self, tasks, follow=follow)

    def access(self) -> Access:
        """The way into the running job, for whoever can read what is staged of it."""
        report = self._report()
        if report is None or report.state.ended:
            raise over(self.job)
        if self._is_closed():
            raise RefusedError(f"only {self._owner}, whose job {self.job} is, can take part in it")
        try:
            staged = self._home().staged()
        except FileNotFoundError as exc:
            raise over(self.job) from exc
        return Access(
            job=self.job,
            spec=staged.spec,
            secret=staged.secret.encode(),
            find_master=self._find_master,
            folder=None,
        )

    # -- for the log reader -----------------------------------------------------------

    @property
    def files(self) -> HdfsFiles:
        """The file system that logs are gathered in."""
        return self._files

    @property
    def rm(self) -> ResourceManager:
        """Whose job it is."""
        return self._rm

    @property
    def owner(self) -> str:
        """The user whose job it is."""
        return self._owner

    def wait_for_logs(self) -> None:
        """Return once the nodes have gathered an ended job's logs, or have had their time."""
        deadline = time.monotonic() + _LOGS_S
        while time.monotonic() < deadline:
            report = self._report()
            if report is None or report.log_status in _GATHERED:
                return
            time.sleep(_RETRY_S)

    # -- finding someone who answers ------------------------------------------------

    def _report(self) -> ApplicationReport | None:
        """What the ResourceManager says; None if it does not know the job (any more)."""
        try:
            report = self._rm.ask(lambda rm: rm.report(self._id))
        except ApplicationNotFoundError:
            return None
        self._owner, self._page = report.user, tracking_url(report)
        return report

    def _find_master(self) -> MasterAddress | None:
        """The master that answers now. For any thread, so it keeps nothing."""
        try:
            report = self._rm.ask(lambda rm: rm.report(self._id))
        except ApplicationNotFoundError as exc:
            raise over(self.job) from exc
        if report.state.ended:
            raise over(self.job)
        url = master_url(report)
        if url is None or report.attempt is None:
            return None
        return MasterAddress(url, report.attempt.number)

    def _home(self) -> JobHome:
        return YarnHome.of(self._files, self._rm.conf, self._owner).job(self.job)

    def _is_closed(self) -> bool:
        """Whether it is somebody else's, who lets us see nothing of it."""
        if self._owner == self._rm.user:
            return False
        if self._closed is None:
            theirs = YarnHome.of(self._files, self._rm.conf, self._owner)
            self._closed = not theirs.is_open()
        return self._closed

    def _record(self) -> JobRecord | None:
        """The record, if there is one and we may read it."""
        return None if self._is_closed() else self._home().record()

    def _instead_of(self, answer: Answer | None, what: str) -> JobRecord | None:
        """The record, where no master answered; raises ``RefusedError`` if it is not for us."""
        if answer is not None:
            return None
        self._refuse_if_closed(what)
        return self._record()

    def _refuse_if_closed(self, what: str) -> None:
        if self._is_closed():
            raise RefusedError(
                f"{what} of {self.job} is for {self._owner} alone to see",
                hint=f"`ytf status {self.job}` tells what YARN tells everyone",
            )

    def _status(self, patience_s: float) -> JobStatus:
        call_s = max(_LEAST_CALL_S, min(_CALL_S, patience_s))
        answer = self._ask("GET", "/client/v1/status", patience_s=patience_s, call_s=call_s)
        if answer is None:
            return self._status_without_master(self._report())
        return self._with_page(msgspec.json.decode(answer.body, type=JobStatus))

    def _ask(
        self,
        method: str,
        path: str,
        body: bytes = b"",
        patience_s: float = _PATIENCE_S,
        call_s: float = _CALL_S,
    ) -> Answer | None:
        """The master's answer (200 or 404); None where no master can answer us.

        There is none yet, none any more, or we may not know the secret. Every
        call of this surface may be repeated, so one whose outcome is unknown is.
        """
        deadline = time.monotonic() + patience_s
        while True:
            report = self._report()
            url, secret = self._way_in(report)
            is_waiting = self._awaits_master(report)
            if not is_waiting and (url is None or secret is None):
                return None
            try:
                answer = self._call(url, secret, method, path, body, call_s)
            except ChannelError as exc:
                why = str(exc)
            else:
                not_yet = answers.why_not_yet(answer, method, path)
                if not_yet is None:
                    return answer
                why = not_yet
            if time.monotonic() > deadline:
                raise UnreachableError(
                    f"the master of {self.job} does not answer: {why}",
                    hint="YARN starts another when its node is found lost, which may take minutes",
                )
            time.sleep(_RETRY_S)

    def _known_secret(self) -> bytes | None:
        if self._secret is None and not self._is_closed():
            try:
                self._secret = self._home().secret()
            except FileNotFoundError:
                return None
        return self._secret

    def _awaits_master(self, report: ApplicationReport | None) -> bool:
        """Whether there was a master, and one will be heard of again.

        It died; or it lives and has not registered yet with a ResourceManager
        that took over, which YARN's report does not tell from a job's beginning.
        """
        if report is None or report.state.ended or report.state is ApplicationState.RUNNING:
            return False
        # To whoever may not know its secret no master speaks.
        if self._is_closed():
            return False
        return is_between_masters(report) or self._home().has_begun()

    def _way_in(self, report: ApplicationReport | None) -> tuple[str | None, bytes | None]:
        """Where the master is, if there is one, and the secret, if we may know it."""
        url = None if report is None else master_url(report)
        return url, None if url is None else self._known_secret()

    @staticmethod
    def _call(
        url: str | None,
        secret: bytes | None,
        method: str,
        path: str,
        body: bytes = b"",
        timeout_s: float = _CALL_S,
    ) -> Answer:
        if url is None or secret is None:
            raise ChannelError("a new one has not registered yet")
        return answers.signed_call(url, secret, method, path, body, timeout_s)

    def _status_without_master(self, report: ApplicationReport | None) -> JobStatus:
        record = self._record()
        if record is not None:
            return self._with_page(record.status)
        if report is None:
            raise NotFoundError(
                f"there is no job {self.job} (any more)", hint="ytf list shows those there are"
            )
        spec = None if self._is_closed() else self._home().spec()
        status = status_of(report, spec, self._why_waiting(report, spec))
        if self._is_closed():
            return _as_others_see(status)
        if report.state.ended and self._owner == self._rm.user:
            bury(self._home(), status, spec)
        return status

    def _why_waiting(self, report: ApplicationReport, spec: JobSpec | None) -> str:
        master = None if spec is None else resource_of(spec.master.resources)
        return why_waiting(
            report, master, lambda: self._rm.ask(lambda rm: rm.nodes(NodeState.RUNNING))
        )

    def _with_page(self, status: JobStatus) -> JobStatus:
        """With the way through the ResourceManager's proxy, which a master does not know."""
        return msgspec.structs.replace(status, tracking_url=self._page)

    def _next_status(self, known: JobStatus | None, deadline: float) -> JobStatus:
        """What the master tells when there is news or its hold time is over."""
        report = self._report()
        url, secret = self._way_in(report)
        is_waiting = self._awaits_master(report)
        if not is_waiting and (url is None or secret is None):
            return self._status_without_master(report)
        version = 0
        # Versions count within one master only.
        if self._told and self._told[0] == url and self._told[1].status == known:
            version = self._told[1].version
        left_s = deadline - time.monotonic()
        # Without a version it is answered at once.
        call_s = max(left_s, 0.01) if version else max(_LEAST_CALL_S, min(_CALL_S, left_s))
        try:
            path = f"/client/v1/wait?version={version}"
            answer = self._call(url, secret, "GET", path, timeout_s=call_s)
        except ChannelError:
            # YARN decides whether a master is dead, and whether another follows.
            return known or self._status(deadline - time.monotonic())
        if answer.status != 200:
            return known or self._status(deadline - time.monotonic())
        told = msgspec.json.decode(answer.body, type=Told)
        told = Told(told.version, self._with_page(told.status))
        self._told = (url or "", told)
        return told.status

    def _tidy(self) -> None:
        """Wait until YARN has seen the end, and remove what a dead master left of our job."""
        deadline = time.monotonic() + _TIDY_S
        while True:
            report = self._report()
            if report is None or report.state.ended:
                break
            if time.monotonic() > deadline:
                return
            time.sleep(_RETRY_S)
        if self._owner == self._rm.user:
            self._home().remove_staging()


def _as_others_see(status: JobStatus) -> JobStatus:
    """What YARN tells, with a word on why it is so little."""
    note = f"Only {status.user} can see its tasks; this is what YARN tells everyone."
    said = f"{status.diagnostics}\n{note}" if status.diagnostics else note
    return msgspec.structs.replace(status, diagnostics=said)
