"""Implements ``JobHandle`` for jobs of this machine.

While the job runs, its master answers. Once the job is over, its record does.
"""

from __future__ import annotations

import contextlib
import getpass
import os
import time
from collections.abc import Iterator, Sequence

from ytf import processes
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
from ytf.backends.local.directories import JobDirectories
from ytf.backends.local.finalize import DEAD_JOB_REASON, finalize_dead_job
from ytf.backends.local.job_processes import (
    MASTER_COMMAND,
    NoMasterError,
    find_master,
    master_is_alive,
    node_identity,
    node_is_alive,
    stop_without_master,
)
from ytf.backends.local.log_reader import read_logs
from ytf.backends.local.records import write_kill_note
from ytf.backends.master_api import WaitResponse
from ytf.decoding import decode_json
from ytf.errors import (
    NotFoundError,
    OutcomeUnknownError,
    RefusedError,
    UnreachableError,
)
from ytf.ownership import check_directory
from ytf.specs import codec
from ytf.specs.ids import JobId, TaskId, task_id
from ytf.specs.status import ClusterSpec, JobEvent, JobRecord, JobState, JobStatus
from ytf.storage.files import Files
from ytf.storage.local_files import LocalFiles
from ytf.wire.http_client import Answer, ChannelError, SignatureRefusedError

_MASTER_TIMEOUT_S = 15.0
"""How long a job may be without a master that answers before a client gives up."""
_RETRY_S = 0.05
_CALL_TIMEOUT_S = 10.0
"""How long a master may take for one answer."""
_MIN_CALL_TIMEOUT_S = 2.0
"""How long it may take for one answer when the time for the master is nearly over."""
_KILL_GRACE_S = 5.0
"""How long a master that did not answer may take to record a job that is killed without it."""
_LOG_DRAIN_S = 5.0
"""How long the tasks of a recorded job may still write the last of their logs."""
_CLEANUP_TIMEOUT_S = 2.0
"""How long a wait for the end of a job also waits for the removal of its staging directory."""
_CLEANUP_POLL_S = 0.005


class LocalJobHandle:
    """Implements ``JobHandle``. Not safe for use by several threads.

    A call waits for a master that is being restarted, at most
    ``master_timeout_s``. A job whose node and master are both dead is
    finalized first, with ``master`` as the command that starts a master.
    """

    def __init__(
        self,
        home: JobDirectories,
        job: JobId,
        *,
        master: Sequence[str] = MASTER_COMMAND,
        master_timeout_s: float = _MASTER_TIMEOUT_S,
    ) -> None:
        self.job = job
        self._home = home
        self._staging = home.staging(job)
        self._master = master
        self._master_timeout_s = master_timeout_s
        self._last_wait: tuple[int, WaitResponse] | None = None
        """The newest answer to a wait, and the attempt of the master that gave it."""
        self._master_timed_out = False

    def status(self) -> JobStatus:
        """Return the current status of the job and its tasks."""
        return self._status(self._master_timeout_s)

    def why_waiting(self) -> str:
        """Return why the job has not started yet; empty if it has, or nothing is wrong."""
        now = self.status()
        return now.diagnostics if now.state is JobState.SUBMITTED else ""

    def wait(self, known: JobStatus | None = None, timeout_s: float = 30.0) -> JobStatus:
        """Return the next status that differs from ``known``, or ``known`` after ``timeout_s``.

        A final status is returned when the job's processes and its staging
        directory are gone, unless their removal takes too long.
        """
        deadline = time.monotonic() + timeout_s
        while True:
            now = self._next_status(known, deadline)
            if now.state.is_final:
                self._wait_for_cleanup()
                return now
            if now != known or time.monotonic() >= deadline:
                return now

    def cluster_spec(self) -> ClusterSpec | None:
        """Return the cluster spec, once the addresses of all tasks are known."""
        answer = self._call("GET", "/client/v1/cluster")
        return master_api.decode_cluster_spec(answer, self._record() if answer is None else None)

    def events(self) -> list[JobEvent]:
        """Return the events of the job so far."""
        answer = self._call("GET", "/client/v1/events")
        return master_api.decode_events(answer, self._record() if answer is None else None)

    def results(self) -> tuple[Files, str]:
        """Return the directory with the results, below ``YTF_HOME``."""
        place = self._home.results(self.job).absolute()
        os.stat(place)
        check_directory(place)
        return LocalFiles(), str(place)

    def kill(self, reason: str) -> None:
        """Kill the job; nothing happens if it is over.

        If the master does not answer, its node is stopped instead, and programs
        get no grace period. Raises ``OutcomeUnknownError`` if that fails too.
        """
        by = getpass.getuser()
        body = master_api.kill_body(by, reason)
        # If the master did not answer the call before, do not wait for it a second time.
        timeout_s = 0.0 if self._master_timed_out else self._master_timeout_s
        try:
            self._call("POST", "/client/v1/kill", body, timeout_s)
        except UnreachableError as exc:
            self._kill_without_master(by, reason, exc)

    def remove(self) -> RemovedItem:
        """Remove the record and the logs, and what is left of a job that died."""
        from ytf.backends.local.gc import remove_job

        if self._is_recorded():
            self._wait_for_cleanup()
        return remove_job(self._home, self.job)

    def logs(
        self,
        tasks: list[TaskId],
        *,
        follow: bool,
        notify: Notify = ignore_notice,
        check: CheckInterrupt = never_interrupted,
    ) -> Iterator[LogLine]:
        """Yield lines of the tasks' logs; with ``follow`` until the job and its logs have ended.

        The logs are files of this machine, so ``notify`` is never called. Raises
        ``NotFoundError`` for a task the job does not have.
        """
        if tasks:
            has = [task_id(task.group, task.index) for task in self.status().tasks]
            master_api.check_tasks(self.job, tasks, has)
        is_over = self._logs_are_complete if follow else lambda: True
        return read_logs(self._home.logs(self.job), tasks, is_over=is_over, check=check)

    def credentials(self) -> JobCredentials:
        """Read the job's credentials from its files, which only its owner can read."""
        try:
            spec = codec.from_json((self._staging / "spec.json").read_bytes())
            return JobCredentials(
                job=self.job,
                spec=spec,
                user=getpass.getuser(),
                owner=getpass.getuser(),
                secret=(self._staging / "secret").read_bytes(),
                find_master=self._find_master,
                folder=self._staging,
                loopback_only=not spec.expose_ports,
            )
        except FileNotFoundError as exc:
            raise job_ended_error(self.job) from exc

    def _find_master(self) -> MasterAddress | None:
        if self._is_recorded() or not self._staging.exists():
            raise job_ended_error(self.job)
        try:
            return find_master(self._staging)
        except NoMasterError:
            return None

    # -- calls to the master ---------------------------------------------------------

    def _call(
        self, method: str, path: str, body: bytes = b"", timeout_s: float | None = None
    ) -> Answer | None:
        """Return the master's answer (200 or 404), or None if the job has a record by now.

        All calls are idempotent, so a call whose outcome is unknown is repeated.
        """
        min_timeout_s = min(_MIN_CALL_TIMEOUT_S, self._master_timeout_s)
        deadline = time.monotonic() + (self._master_timeout_s if timeout_s is None else timeout_s)
        while not self._is_recorded():
            left_s = max(deadline - time.monotonic(), min_timeout_s)
            try:
                master = find_master(self._staging)
                answer = self._call_once(master, method, path, body, min(left_s, _CALL_TIMEOUT_S))
            except SignatureRefusedError as exc:
                if master_is_alive(self._staging):
                    # It is the master itself and no other program on a dead master's port:
                    # a repeated call would fail as well.
                    raise RefusedError(
                        f"the master of {self.job} does not accept our signature",
                        hint=f"is {self._staging / 'secret'} still the secret of this job?",
                    ) from exc
                why = str(exc)
            except ChannelError as exc:
                why = str(exc)
            else:
                self._master_timed_out = False
                retry_reason = master_api.retry_reason(answer, method, path)
                if retry_reason is None:
                    return answer
                why = retry_reason
            self._finalize_if_dead()
            if time.monotonic() > deadline:
                self._master_timed_out = True
                raise UnreachableError(
                    f"the master of {self.job} does not answer: {why}",
                    hint="one that hangs is replaced after a minute, or end the job with ytf kill;"
                    f" see {self._home.logs(self.job) / 'master.log'}",
                )
            time.sleep(_RETRY_S)
        return None

    def _call_once(
        self, master: MasterAddress, method: str, path: str, body: bytes, timeout_s: float
    ) -> Answer:
        try:
            secret = (self._staging / "secret").read_bytes()
        except FileNotFoundError as exc:
            raise NoMasterError(f"there is no {exc.filename}") from exc
        return master_api.signed_call(master.url, secret, method, path, body, timeout_s)

    def _status(self, timeout_s: float) -> JobStatus:
        answer = self._call("GET", "/client/v1/status", timeout_s=timeout_s)
        if answer is None:
            return self._record().status
        return master_api.decode(answer, JobStatus)

    def _next_status(self, known: JobStatus | None, deadline: float) -> JobStatus:
        """Long-poll the master: it answers when the status changes or its hold time is over."""
        if self._is_recorded():
            return self._record().status
        try:
            master = find_master(self._staging)
            version = 0
            if self._last_wait is not None:
                attempt, last = self._last_wait
                # Each master attempt counts its own versions.
                if attempt == master.attempt and last.status == known:
                    version = last.version
            left_s = max(deadline - time.monotonic(), 0.01)
            if not version:  # the master answers this at once
                left_s = min(max(left_s, _MIN_CALL_TIMEOUT_S), self._master_timeout_s)
            path = f"/client/v1/wait?version={version}"
            answer = self._call_once(master, "GET", path, b"", left_s)
        except ChannelError:
            if known is not None and time.monotonic() >= deadline:
                return known
            if known is None:
                left_s = max(deadline - time.monotonic(), 0.0)
                return self._status(min(left_s, self._master_timeout_s))
            return self.status()
        if answer.status != 200:
            return self.status()
        response = master_api.decode(answer, WaitResponse)
        self._last_wait = (master.attempt, response)
        return response.status

    # -- a job that is over or dead ----------------------------------------------------

    def _kill_without_master(self, by: str, reason: str, exc: UnreachableError) -> None:
        # On a full disk the record will not say who killed the job, but the job ends.
        with contextlib.suppress(OSError):
            write_kill_note(str(self._staging), by, f"{reason}; its master did not answer")
        grace_s = min(_KILL_GRACE_S, self._master_timeout_s)
        if not stop_without_master(self._staging, grace_s=grace_s):
            raise OutcomeUnknownError(
                f"job {self.job} may or may not end: {exc}, and the process that runs the job on "
                "this machine cannot be stopped",
                hint=f"`ytf status {self.job}` shows it; if the job goes on, kill it once more",
            ) from exc
        self._finalize_if_dead()

    def _finalize_if_dead(self) -> None:
        if self._is_recorded():
            return
        if not self._staging.exists():
            # Checked again: the job may have ended between the two checks.
            if self._is_recorded():
                return
            raise NotFoundError(
                f"there is no job {self.job} (any more)", hint="`ytf list` shows your jobs"
            )
        if node_is_alive(self._staging) is False and not master_is_alive(self._staging):
            finalize_dead_job(self._staging, DEAD_JOB_REASON, master=self._master)

    def _wait_for_cleanup(self) -> None:
        deadline = time.monotonic() + _CLEANUP_TIMEOUT_S
        node = node_identity(self._staging)
        while self._staging.exists() or (node is not None and processes.alive(*node)):
            if time.monotonic() > deadline:
                return  # the job is recorded, and the next gc removes the rest
            time.sleep(_CLEANUP_POLL_S)

    def _is_recorded(self) -> bool:
        return self._home.record(self.job).exists()

    def _record(self) -> JobRecord:
        return decode_json(self._home.record(self.job).read_bytes(), JobRecord)

    def _logs_are_complete(self) -> bool:
        try:
            recorded = self._home.record(self.job).stat().st_mtime
        except FileNotFoundError:
            self._finalize_if_dead()
            return False
        if node_is_alive(self._staging) is not True:
            return True
        return time.time() - recorded > _LOG_DRAIN_S
