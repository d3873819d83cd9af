"""One YARN job as its owner sees it, whoever answers for it: its master, or what it left."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator

import msgspec

from ytf.backends import answers
from ytf.backends.api import Access, LogLine, Tell, over, silent
from ytf.backends.yarn.asking import ResourceManager
from ytf.backends.yarn.job.absence import without_hdfs, without_master
from ytf.backends.yarn.job.line import MasterLine, Unheard
from ytf.backends.yarn.job.sight import Sight
from ytf.errors import OutcomeUnknownError, RefusedError, UnreachableError, YtfError
from ytf.hadoop.yarn.records import ApplicationReport
from ytf.specs.cluster import ClusterSpec
from ytf.specs.names import JobId, TaskId, task_id
from ytf.specs.status import JobEvent, JobRecord, JobState, JobStatus
from ytf.starter.http import Answer
from ytf.storage.hdfs import HdfsFiles

_PATIENCE_S = 1.5
"""How long a master may be silent before its journal answers in its place."""
_KILL_PATIENCE_S = 5.0
_RETRY_S = 0.1
_QUEUE_LOOK_S = 0.25
"""Between two looks at a job that has no master: each is several questions to the cluster."""
_TIDY_S = 10.0
"""How long YARN may take to see that a job is over."""
_KILL_S = 30.0


class YarnJob:
    """Implements ``JobHandle``. Works from any machine that has the cluster's configuration.

    While the job runs its master answers, to whoever can read the job's secret
    in its staging directory. One that is silent, or is being started again, is
    given a moment; then the last that it recorded is told, and that it is
    silent. Everybody else is told what YARN knows, as far as YARN lets them. A
    job that YARN ended without its master, as ``yarn application -kill`` does,
    is recorded by the first of its owner's commands that sees it so. Not for
    several threads.
    """

    def __init__(self, rm: ResourceManager, files: HdfsFiles, job: JobId) -> None:
        self.job = job
        self._sight = Sight(rm, files, job)
        self._line = MasterLine(self._sight)

    def exists(self) -> bool:
        """Whether YARN, or a record, knows of it."""
        sight = self._sight
        return sight.report() is not None or sight.home.record() is not None

    def status(self) -> JobStatus:
        """How the job and its tasks are now, or were when its master was last heard of.

        While HDFS is away, in which the way to the master is: what YARN tells.
        """
        try:
            return self._status(_PATIENCE_S)
        except (UnreachableError, OutcomeUnknownError) as exc:
            if self._sight.said is None:
                raise
            return without_hdfs(self._sight.said, str(exc))

    def wait(self, known: JobStatus | None = None, timeout_s: float = 30.0) -> JobStatus:
        """The next status that differs from ``known``, or the same one after ``timeout_s``.

        A master's silence is no news until then. With nothing known, the status
        now. A final status is told when YARN, too, has seen the end and the
        staging directory is gone, unless that takes too long.
        """
        deadline = time.monotonic() + timeout_s
        while True:
            now = self._next_status(known, deadline)
            if now.state.is_final:
                return self._tidied(now)
            if now != known or time.monotonic() >= deadline:
                return now
            pause_s = _QUEUE_LOOK_S if now.state is JobState.SUBMITTED else _RETRY_S
            time.sleep(min(pause_s, max(0.0, deadline - time.monotonic())))

    def cluster_spec(self) -> ClusterSpec | None:
        """Who is where, once everyone is known."""
        return answers.cluster_spec(*self._told("/client/v1/cluster", "the cluster spec"))

    def events(self) -> list[JobEvent]:
        """The job's story so far; empty before its master is up."""
        return answers.events(*self._told("/client/v1/events", "the story"))

    def kill(self, reason: str) -> None:
        """Ask for the end; nothing happens if the job is over.

        If its master does not answer, or there is none yet, YARN ends the job,
        with no grace for its programs.
        """
        user = self._sight.rm.user
        body = msgspec.json.encode({"by": user, "reason": reason})
        # Whatever keeps its master from taking this in: YARN needs no master for it.
        with contextlib.suppress(YtfError):
            heard = self._line.ask("POST", "/client/v1/kill", body, patience_s=_KILL_PATIENCE_S)
            if isinstance(heard, Answer):
                return
        self._kill_without_master(f"Killed by {user}: {reason}")
        # If that cannot be now, a later command's sweep sees to it: what was asked for is done.
        with contextlib.suppress(YtfError, OSError):
            self._put_away()

    def logs(self, tasks: list[TaskId], *, follow: bool, tell: Tell = silent) -> Iterator[LogLine]:
        """Lines of the tasks' logs; with ``follow`` until the job and its logs have ended.

        ``tell`` hears what cannot be read, and why. Raises ``NotFoundError`` for a
        task the job does not have.
        """
        status = self._status(_PATIENCE_S)
        if not status.state.is_final:
            # Gathered logs have permissions of their own, which HDFS looks after.
            self._sight.refuse_if_closed("the tasks' output")
        has = [task_id(task.group, task.index) for task in status.tasks]
        if has:
            answers.check_tasks(self.job, tasks, has)
        # Few commands need it, and what reads gathered logs takes its time to load.
        from ytf.backends.yarn.logs.reading import read_logs

        return read_logs(self, status, tasks, follow=follow, tell=tell)

    def access(self) -> Access:
        """The way into the running job, for whoever can read what is staged of it."""
        report = self._sight.report()
        if report is None or report.state.ended:
            raise over(self.job)
        if self._sight.is_closed():
            raise RefusedError(f"only {self.owner}, whose job {self.job} is, can take part in it")
        try:
            staged = self._sight.home.staged()
        except FileNotFoundError as exc:
            raise over(self.job) from exc
        return Access(
            job=self.job,
            spec=staged.spec,
            secret=staged.secret.encode(),
            find_master=self._line.find,
            folder=None,
        )

    # -- for the log reader -----------------------------------------------------------

    def report(self) -> ApplicationReport | None:
        """What YARN says of it; None where it knows nothing (any more), or need not be asked."""
        return self._sight.report()

    @property
    def files(self) -> HdfsFiles:
        """The file system that logs are gathered in."""
        return self._sight.files

    @property
    def rm(self) -> ResourceManager:
        """Whose job it is."""
        return self._sight.rm

    @property
    def owner(self) -> str:
        """The user whose job it is."""
        return self._sight.owner

    # -- whoever answers --------------------------------------------------------------

    def _status(self, patience_s: float) -> JobStatus:
        heard = self._line.status(patience_s)
        return without_master(self._sight, heard).status if isinstance(heard, Unheard) else heard

    def _told(self, path: str, what: str) -> tuple[Answer | None, JobRecord | None]:
        """The master's answer, or else what else is known; refused if it is not for us to see."""
        heard = self._line.ask("GET", path, patience_s=_PATIENCE_S)
        if isinstance(heard, Answer):
            return heard, None
        self._sight.refuse_if_closed(what)
        return None, without_master(self._sight, heard)

    def _next_status(self, known: JobStatus | None, deadline: float) -> JobStatus:
        """What there is to be told next, or ``known`` if nobody tells anything in time."""
        if known is not None:
            heard = self._line.news(known, deadline - time.monotonic())
            if not isinstance(heard, Unheard):
                return heard
            if not heard.why:
                return without_master(self._sight, heard).status
            # YARN decides whether a master is dead, and whether another follows.
            if time.monotonic() < deadline:
                return known
        return self._status(min(_PATIENCE_S, max(0.0, deadline - time.monotonic())))

    def _tidied(self, final: JobStatus) -> JobStatus:
        """How the job ended, once YARN has seen it, too; what a dead master left of ours goes."""
        deadline = time.monotonic() + _TIDY_S
        while True:
            report = self._sight.report()
            if report is None or report.state.ended:
                break
            if time.monotonic() > deadline:
                return final
            time.sleep(_RETRY_S)
        if report is None and self._sight.home.record() is None:
            return final
        ended = without_master(self._sight, Unheard(report)).status
        if self._sight.is_ours:
            self._sight.home.remove_staging()
        return ended

    def _put_away(self) -> None:
        """Record a job that YARN has just ended, and remove what it left."""
        report = self._sight.report()
        if report is not None and report.state.ended and self._sight.is_ours:
            without_master(self._sight, Unheard(report))

    def _kill_without_master(self, why: str) -> None:
        sight, deadline = self._sight, time.monotonic() + _KILL_S
        while True:
            silence: YtfError | None = None
            try:
                report = sight.report()
                if report is None or report.state.ended:
                    return
                if sight.rm.ask(lambda rm: rm.kill(sight.id, why)):
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
