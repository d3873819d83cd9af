"""The handle of one YARN job for clients: status, events, logs, kill, credentials."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator

from ytf.backends import master_api
from ytf.backends.api import (
    CheckInterrupt,
    JobCredentials,
    LogLine,
    MasterAddress,
    Notify,
    RemovedItem,
    ignore_notice,
    job_ended_error,
    never_interrupted,
)
from ytf.backends.yarn.job.application import ApplicationLookup
from ytf.backends.yarn.job.master_client import MasterClient, NoAnswer
from ytf.backends.yarn.job.offline_status import offline_record, status_without_hdfs
from ytf.backends.yarn.rm_client import ANSWER_S, RmClient
from ytf.errors import OutcomeUnknownError, RefusedError, UnreachableError, YtfError
from ytf.hadoop.rpc.errors import AccessDeniedError
from ytf.hadoop.yarn.records import ApplicationReport, ApplicationState
from ytf.specs.ids import JobId, TaskId, task_id
from ytf.specs.status import ClusterSpec, JobEvent, JobRecord, JobState, JobStatus
from ytf.storage.directory_owners import check_owners
from ytf.storage.files import Files
from ytf.storage.hdfs import HdfsFiles
from ytf.wire.http_client import Answer

_MASTER_S = 1.5
"""How long a master may take to answer before its journal is read instead."""
_MASTER_KILL_S = 5.0
"""How long a master that cannot be called is tried before YARN is asked to kill the job."""
_MASTER_KILL_CALL_S = 10.0
"""How long a master may take to accept a kill: longer than it waits for its journal's disk."""
_RETRY_S = 0.1
_QUEUE_POLL_S = 0.25
"""The pause between two looks at a job without a master: each takes several calls."""
_END_S = 10.0
"""How long YARN may take to report a job as ended that its master has ended."""
_KILL_S = 30.0
"""How long YARN may take to end a job."""


class YarnJobHandle:
    """Implements ``JobHandle``. Works from any machine that has the cluster's configuration.

    While the job runs its master answers, if we can read the job's secret in its
    staging directory. If the master does not answer, or is being restarted, the
    status comes from its journal after a moment, and says so. Users who may not
    read the staging directory get what YARN lets them see. A job that YARN ended
    without its master, as ``yarn application -kill`` does, is finalized by the
    first of its owner's commands that finds it so. Not thread-safe.
    """

    def __init__(self, rm: RmClient, files: HdfsFiles, job: JobId) -> None:
        self.job = job
        self._application = ApplicationLookup(rm, files, job)
        self._master = MasterClient(self._application)

    def exists(self) -> bool:
        """Whether YARN knows the job, or it has a record."""
        application = self._application
        return application.report() is not None or application.home.record() is not None

    def status(self) -> JobStatus:
        """The job's status now, or the last one its master journalled.

        If HDFS is unavailable, and the job's secret is not known here, the master cannot be
        asked: then the status is that of YARN's report.
        """
        try:
            return self._status(_MASTER_S)
        except (UnreachableError, OutcomeUnknownError) as exc:
            if self._application.last_report is None:
                raise
            return status_without_hdfs(self._application.last_report, str(exc))

    def why_waiting(self) -> str:
        """Why the job has no master yet; empty if it has one, or nothing is wrong.

        Takes fewer calls than the status: neither a master nor a journal is looked for.
        """
        application = self._application
        report = application.report()
        if report is None or report.state is not ApplicationState.ACCEPTED:
            return ""
        spec = None if application.is_private() else application.home.spec()
        return application.why_waiting(report, spec)

    def wait(self, known: JobStatus | None = None, timeout_s: float = 30.0) -> JobStatus:
        """The next status that differs from ``known``, or the same one after ``timeout_s``.

        That a master does not answer is not reported before ``timeout_s``. Without
        ``known`` the status now is returned. A final status is returned once YARN,
        too, reports the end and the staging directory is gone, unless that takes
        too long.
        """
        deadline = time.monotonic() + timeout_s
        while True:
            now = self._next_status(known, deadline)
            if now.state.is_final:
                return self._when_ended(now)
            if now != known or time.monotonic() >= deadline:
                return now
            pause_s = _QUEUE_POLL_S if now.state is JobState.SUBMITTED else _RETRY_S
            time.sleep(min(pause_s, max(0.0, deadline - time.monotonic())))

    def cluster_spec(self) -> ClusterSpec | None:
        """The addresses of all tasks, once all are known."""
        return master_api.decode_cluster_spec(*self._get("/client/v1/cluster", "the cluster spec"))

    def events(self) -> list[JobEvent]:
        """The job's events so far; empty before its master is up."""
        return master_api.decode_events(*self._get("/client/v1/events", "the events"))

    def remove(self) -> RemovedItem:
        """Remove the record of a job that has ended, and what is staged of one that YARN ended.

        The logs are YARN's: they go when the cluster's retention says so.
        """
        from ytf.backends.yarn.gc import tree_size

        application = self._application
        report, home = application.report(), application.home
        if report is not None and not report.state.ended:
            raise RefusedError(
                f"job {self.job} has not ended",
                hint=f"`ytf kill {self.job}` ends it; then remove it",
            )
        # What is staged of a job that YARN does not know may be a submission under way: gc knows.
        paths = [home.history] if report is None else [home.history, home.staging]
        size = sum(tree_size(home.files, path) for path in paths)
        for path in paths:
            home.files.delete(path)
        return RemovedItem(what="record", where=home.files.uri(home.history), size=size)

    def kill(self, reason: str) -> None:
        """Kill the job; does nothing if it has ended.

        If its master does not answer, or there is none yet, YARN kills the job,
        without a grace period for its programs. Raises ``RefusedError`` if YARN's
        ACLs do not let us; then nothing has happened to the job.
        """
        user = self._application.rm.user
        body = master_api.kill_body(user, reason)
        # If that fails for any reason: YARN can kill the job without its master.
        with contextlib.suppress(YtfError):
            answer = self._master.call(
                "POST",
                "/client/v1/kill",
                body,
                timeout_s=_MASTER_KILL_S,
                least_call_s=_MASTER_KILL_CALL_S,
            )
            if isinstance(answer, Answer):
                return
        self._kill_without_master(f"Killed by {user}: {reason}")
        # The job is killed. If it cannot be finalized now, a later command's gc does it.
        with contextlib.suppress(YtfError, OSError):
            self._finalize_if_ended()

    def logs(
        self,
        tasks: list[TaskId],
        *,
        follow: bool,
        notify: Notify = ignore_notice,
        check: CheckInterrupt = never_interrupted,
    ) -> Iterator[LogLine]:
        """Lines of the tasks' logs; with ``follow`` until the job and its logs have ended.

        ``notify`` is told what cannot be read, and why. Raises ``NotFoundError`` for
        a task that the job does not have.
        """
        status = self._status(_MASTER_S)
        if not status.state.is_final:
            # Aggregated logs have permissions of their own, which HDFS checks.
            self._application.refuse_if_private("the tasks' output")
        has = [task_id(task.group, task.index) for task in status.tasks]
        if has:
            master_api.check_tasks(self.job, tasks, has)
        # Imported here: few commands need it, and it loads slowly.
        from ytf.backends.yarn.logs.reader import read_logs

        return read_logs(self, status, tasks, follow=follow, notify=notify, check=check)

    def results(self) -> tuple[Files, str]:
        """The directory with the results, beside the job's record."""
        application = self._application
        application.report()
        if not application.is_ours:
            raise RefusedError(
                f"{self.job} is {self.owner}'s job: only {self.owner} can load its results, as "
                "they are pickles"
            )
        files, place = application.home.files, application.home.results
        check_owners(files, place, (self.owner,))
        return files, place

    def credentials(self) -> JobCredentials:
        """What a program needs to take part in the running job. Needs read access to its files."""
        report = self._application.report()
        if report is None or report.state.ended:
            raise job_ended_error(self.job)
        if self._application.is_private():
            raise RefusedError(f"only {self.owner}, whose job {self.job} is, can take part in it")
        try:
            staged = self._application.home.staged()
        except FileNotFoundError as exc:
            raise job_ended_error(self.job) from exc
        return JobCredentials(
            job=self.job,
            spec=staged.spec,
            user=self._application.rm.user,
            owner=self.owner,
            secret=staged.secret.encode(),
            find_master=self._master.find,
            folder=None,
        )

    # -- for the log reader -----------------------------------------------------------

    def report(self) -> ApplicationReport | None:
        """YARN's report; None if YARN does not know the job (any more), or need not be asked."""
        return self._application.report()

    def find_master(self) -> MasterAddress | None:
        """The address of the job's master now; raises ``NotFoundError`` once the job has ended."""
        return self._master.find()

    def secret(self) -> bytes | None:
        """The job's secret; None if it is not for us."""
        return self._master.secret()

    @property
    def files(self) -> HdfsFiles:
        """The file system with the aggregated logs."""
        return self._application.files

    @property
    def rm(self) -> RmClient:
        """The client of the job's ResourceManager."""
        return self._application.rm

    @property
    def owner(self) -> str:
        """The user who submitted the job."""
        return self._application.owner

    # -- the master's answer, or what is known without it ------------------------------

    def _status(self, timeout_s: float) -> JobStatus:
        answer = self._master.status(timeout_s)
        if isinstance(answer, NoAnswer):
            return offline_record(self._application, answer).status
        return answer

    def _get(self, path: str, what: str) -> tuple[Answer | None, JobRecord | None]:
        """The master's answer, or else the job's record. Refused if the job is private."""
        answer = self._master.call("GET", path, timeout_s=_MASTER_S)
        if isinstance(answer, Answer):
            return answer, None
        self._application.refuse_if_private(what)
        return None, offline_record(self._application, answer)

    def _next_status(self, known: JobStatus | None, deadline: float) -> JobStatus:
        """The next status, or ``known`` if the master does not answer in time."""
        if known is not None:
            answer = self._master.wait_for_change(known, deadline - time.monotonic())
            if not isinstance(answer, NoAnswer):
                return answer
            if not answer.error:
                return offline_record(self._application, answer).status
            # YARN decides whether a master is dead, and whether another follows.
            if time.monotonic() < deadline:
                return known
        return self._status(min(_MASTER_S, max(0.0, deadline - time.monotonic())))

    def _when_ended(self, final: JobStatus) -> JobStatus:
        """The final status once YARN reports the end, too. Removes what a dead master left."""
        deadline = time.monotonic() + _END_S
        while True:
            report = self._application.report()
            if report is None or report.state.ended:
                break
            if time.monotonic() > deadline:
                return final
            time.sleep(_RETRY_S)
        # The end is known. While HDFS is unavailable, a later command's gc writes the record.
        with contextlib.suppress(UnreachableError, OutcomeUnknownError):
            if report is None and self._application.home.record() is None:
                return final
            final = offline_record(self._application, NoAnswer(report)).status
            if self._application.is_ours:
                self._application.home.remove_staging()
        return final

    def _finalize_if_ended(self) -> None:
        """Write the record of a job that YARN has just ended, and remove its files."""
        report = self._application.report()
        if report is not None and report.state.ended and self._application.is_ours:
            offline_record(self._application, NoAnswer(report))

    def _kill_without_master(self, why: str) -> None:
        application, deadline = self._application, time.monotonic() + _KILL_S
        silent_since: float | None = None
        while True:
            failure: YtfError | None = None
            called_at = time.monotonic()
            try:
                report = application.report()
                if report is None or report.state.ended:
                    return
                if application.rm.call(lambda rm: rm.kill(application.id, why)):
                    return
                silent_since = None
            except AccessDeniedError as exc:
                raise self._kill_refusal() from exc
            except (UnreachableError, OutcomeUnknownError) as exc:
                failure = exc  # a kill may be repeated
                silent_since = silent_since or called_at
            now = time.monotonic()
            if now > deadline or (silent_since and now - silent_since >= ANSWER_S):
                raise OutcomeUnknownError(
                    f"YARN has not ended {self.job}" + ("" if failure is None else f": {failure}"),
                    hint=f"`ytf status {self.job}` tells; if it goes on, kill it once more",
                ) from failure
            time.sleep(_RETRY_S)

    def _kill_refusal(self) -> RefusedError:
        report = self._application.last_report
        queue = "its queue" if report is None else f"the queue {report.queue}"
        return RefusedError(
            f"{self._application.rm.user} may not kill {self.job}: it is {self.owner}'s job",
            hint=f"{self.owner} may, and whom {self.owner} names with --acl_modify when submitting;"
            f" so may the administrators of {queue} and of the cluster",
        )
