"""One local job as its owner sees it, whoever answers for it: its master or its record."""

from __future__ import annotations

import contextlib
import getpass
import time
from collections.abc import Iterator, Sequence

import msgspec

from ytf import processes
from ytf.backends import answers
from ytf.backends.answers import Told
from ytf.backends.api import Access, LogLine, MasterAddress, Tell, over, silent
from ytf.backends.local.burial import (
    MASTER,
    bury,
    master_is_alive,
    node_identity,
    node_is_alive,
)
from ytf.backends.local.calls import NoMasterError, call, find_master
from ytf.backends.local.ending import end_without_master
from ytf.backends.local.home import Home
from ytf.backends.local.logs import read_logs
from ytf.backends.local.record import note_kill
from ytf.errors import (
    NotFoundError,
    OutcomeUnknownError,
    RefusedError,
    UnreachableError,
)
from ytf.specs import codec
from ytf.specs.cluster import ClusterSpec
from ytf.specs.names import JobId, TaskId, task_id
from ytf.specs.status import JobEvent, JobRecord, JobStatus
from ytf.starter.http import Answer, ChannelError, SignatureRefusedError

_PATIENCE_S = 15.0
"""How long a job may be without a master before a client gives up."""
_RETRY_S = 0.05
_CALL_S = 10.0
"""How long a master may take to answer."""
_LEAST_S = 2.0
"""How long it may take at least, when patience is running out."""
_GRACE_S = 5.0
"""How long a master that did not answer may take to record a job that is ended without it."""
_TIDY_LOOK_S = 0.005
_DRAIN_S = 5.0
"""How long the tasks of a recorded job may still write the last of their logs."""
_TIDY_S = 2.0
"""How long a job that is over may take to remove what it had."""

LOST = "the job's node and master died: killed, or the machine was shut down"
"""Why a job that nobody runs any more is recorded as FAILED."""


class LocalJob:
    """Implements ``JobHandle``.

    While the job runs its master answers; a master that is being started
    again is waited for. Once the job is over its record answers. A job whose
    node and master are both dead is buried first. Not for several threads.
    """

    def __init__(
        self,
        home: Home,
        job: JobId,
        *,
        master: Sequence[str] = MASTER,
        patience_s: float = _PATIENCE_S,
    ) -> None:
        self.job = job
        self._home = home
        self._staging = home.staging(job)
        self._master = master
        self._patience_s = patience_s
        self._told: tuple[int, Told] | None = None
        self._gave_up = False

    def status(self) -> JobStatus:
        """How the job and its tasks are now."""
        return self._status(self._patience_s)

    def wait(self, known: JobStatus | None = None, timeout_s: float = 30.0) -> JobStatus:
        """The next status that differs from ``known``, or the same one after ``timeout_s``.

        A final status is told when the job's processes and its staging directory
        are gone, unless they take too long.
        """
        deadline = time.monotonic() + timeout_s
        while True:
            now = self._next_status(known, deadline)
            if now.state.is_final:
                self._wait_until_tidy()
                return now
            if now != known or time.monotonic() >= deadline:
                return now

    def cluster_spec(self) -> ClusterSpec | None:
        """Who is where, once everyone is known."""
        answer = self._ask("GET", "/client/v1/cluster")
        return answers.cluster_spec(answer, self._record() if answer is None else None)

    def events(self) -> list[JobEvent]:
        """The job's story so far."""
        answer = self._ask("GET", "/client/v1/events")
        return answers.events(answer, self._record() if answer is None else None)

    def kill(self, reason: str) -> None:
        """Ask for the end; nothing happens if the job is over.

        If the master does not answer, the job is ended without it, with no grace
        for its programs. Raises ``OutcomeUnknownError`` where that cannot be, either.
        """
        by = getpass.getuser()
        body = msgspec.json.encode({"by": by, "reason": reason})
        # A master that has just not answered is not waited for twice.
        patience_s = 0.0 if self._gave_up else self._patience_s
        try:
            self._ask("POST", "/client/v1/kill", body, patience_s)
        except UnreachableError as exc:
            self._end_without_master(by, reason, exc)

    def logs(self, tasks: list[TaskId], *, follow: bool, tell: Tell = silent) -> Iterator[LogLine]:
        """Lines of the tasks' logs; with ``follow`` until the job and its logs have ended.

        They are files of this machine: there is nothing to ``tell``. Raises
        ``NotFoundError`` for a task the job does not have.
        """
        if tasks:
            has = [task_id(task.group, task.index) for task in self.status().tasks]
            answers.check_tasks(self.job, tasks, has)
        is_over = self._logs_are_complete if follow else lambda: True
        return read_logs(self._home.logs(self.job), tasks, is_over=is_over)

    def access(self) -> Access:
        """The way into the running job: through its files, which only its owner can read."""
        try:
            return Access(
                job=self.job,
                spec=codec.from_json((self._staging / "spec.json").read_bytes()),
                secret=(self._staging / "secret").read_bytes(),
                find_master=self._find_master,
                folder=self._staging,
            )
        except FileNotFoundError as exc:
            raise over(self.job) from exc

    def _find_master(self) -> MasterAddress | None:
        if self._is_recorded() or not self._staging.exists():
            raise over(self.job)
        try:
            return find_master(self._staging)
        except NoMasterError:
            return None

    # -- finding someone who answers ------------------------------------------------

    def _ask(
        self, method: str, path: str, body: bytes = b"", patience_s: float | None = None
    ) -> Answer | None:
        """The master's answer (200 or 404), or None once the record answers in its place.

        Every call of this surface may be repeated, so one whose outcome is
        unknown is.
        """
        least_s = min(_LEAST_S, self._patience_s)
        deadline = time.monotonic() + (self._patience_s if patience_s is None else patience_s)
        while not self._is_recorded():
            left_s = max(deadline - time.monotonic(), least_s)
            try:
                master = find_master(self._staging)
                answer = call(
                    self._staging, master, method, path, body, timeout_s=min(left_s, _CALL_S)
                )
            except SignatureRefusedError as exc:
                if master_is_alive(self._staging):
                    # No stranger on a dead master's port, so trying again will not help.
                    raise RefusedError(
                        f"the master of {self.job} does not accept our signature",
                        hint=f"is {self._staging / 'secret'} still the secret of this job?",
                    ) from exc
                why = str(exc)
            except ChannelError as exc:
                why = str(exc)
            else:
                self._gave_up = False
                not_yet = answers.why_not_yet(answer, method, path)
                if not_yet is None:
                    return answer
                why = not_yet
            self._bury_if_dead()
            if time.monotonic() > deadline:
                self._gave_up = True
                raise UnreachableError(
                    f"the master of {self.job} does not answer: {why}",
                    hint="one that hangs is replaced after a minute, or end the job with ytf kill;"
                    f" see {self._home.logs(self.job) / 'master.log'}",
                )
            time.sleep(_RETRY_S)
        return None

    def _end_without_master(self, by: str, reason: str, exc: UnreachableError) -> None:
        # On a full disk the record will not say who did it, but the job ends.
        with contextlib.suppress(OSError):
            note_kill(str(self._staging), by, f"{reason}; its master did not answer")
        if not end_without_master(self._staging, grace_s=min(_GRACE_S, self._patience_s)):
            raise OutcomeUnknownError(
                f"job {self.job} may or may not end: {exc}, and its node cannot be stopped",
                hint=f"`ytf status {self.job}` tells; if it goes on, kill it once more",
            ) from exc
        self._bury_if_dead()

    def _status(self, patience_s: float) -> JobStatus:
        answer = self._ask("GET", "/client/v1/status", patience_s=patience_s)
        if answer is None:
            return self._record().status
        return msgspec.json.decode(answer.body, type=JobStatus)

    def _next_status(self, known: JobStatus | None, deadline: float) -> JobStatus:
        """What the master tells when there is news or its hold time is over."""
        if self._is_recorded():
            return self._record().status
        try:
            master = find_master(self._staging)
            version = 0
            # Versions count within one master only.
            if self._told and self._told[0] == master.attempt and self._told[1].status == known:
                version = self._told[1].version
            left_s = max(deadline - time.monotonic(), 0.01)
            if not version:  # it is answered at once
                left_s = min(max(left_s, _LEAST_S), self._patience_s)
            path = f"/client/v1/wait?version={version}"
            answer = call(self._staging, master, "GET", path, timeout_s=left_s)
        except ChannelError:
            if known is not None and time.monotonic() >= deadline:
                return known
            if known is None:
                left_s = max(deadline - time.monotonic(), 0.0)
                return self._status(min(left_s, self._patience_s))
            return self.status()
        if answer.status != 200:
            return self.status()
        told = msgspec.json.decode(answer.body, type=Told)
        self._told = (master.attempt, told)
        return told.status

    def _wait_until_tidy(self) -> None:
        deadline = time.monotonic() + _TIDY_S
        node = node_identity(self._staging)
        while self._staging.exists() or (node is not None and processes.alive(*node)):
            if time.monotonic() > deadline:
                return  # it has a record all the same, and the next sweep removes the rest
            time.sleep(_TIDY_LOOK_S)

    def _bury_if_dead(self) -> None:
        if self._is_recorded():
            return
        if not self._staging.exists():
            # Asked again: it may have ended between the two looks.
            if self._is_recorded():
                return
            raise NotFoundError(
                f"there is no job {self.job} (any more)", hint="ytf list shows those there are"
            )
        if node_is_alive(self._staging) is False and not master_is_alive(self._staging):
            bury(self._staging, LOST, master=self._master)

    def _is_recorded(self) -> bool:
        return self._home.record(self.job).exists()

    def _record(self) -> JobRecord:
        return msgspec.json.decode(self._home.record(self.job).read_bytes(), type=JobRecord)

    def _logs_are_complete(self) -> bool:
        try:
            recorded = self._home.record(self.job).stat().st_mtime
        except FileNotFoundError:
            self._bury_if_dead()
            return False
        if node_is_alive(self._staging) is not True:
            return True
        return time.time() - recorded > _DRAIN_S
