"""Calls a running job's master for clients that can read the job's secret."""

from __future__ import annotations

import time
from dataclasses import dataclass

from ytf.backends import master_api
from ytf.backends.api import MasterAddress, job_ended_error
from ytf.backends.master_api import WaitResponse
from ytf.backends.yarn.job.application import (
    ApplicationLookup,
    is_between_masters,
    master_url,
    with_yarn_facts,
)
from ytf.backends.yarn.job.secret_cache import SecretCache
from ytf.hadoop.rpc.errors import ApplicationNotFoundError
from ytf.hadoop.yarn.records import ApplicationReport, ApplicationState
from ytf.specs.status import JobStatus
from ytf.wire.http_client import Answer, ChannelError

_RETRY_S = 0.1
_CALL_S = 10.0
"""Time limit for one call."""
_LEAST_CALL_S = 1.0
"""The time that one call has in any case, however little of the caller's time is left."""


@dataclass(frozen=True)
class NoAnswer:
    """No master answered. ``report`` is YARN's last report, None if it knows no such job.

    ``error`` is why the call failed. It is empty if no answer was expected: there
    is no master yet, none any more, or none that would answer us.
    """

    report: ApplicationReport | None
    error: str = ""


@dataclass(frozen=True)
class _Endpoint:
    """The address of a master, and the secret that signs calls to it."""

    report: ApplicationReport
    url: str
    secret: bytes


class MasterClient:
    """Calls whichever master a job has now. YARN is asked for its address before each call."""

    def __init__(self, application: ApplicationLookup) -> None:
        self._application = application
        self._secrets = SecretCache.of(application.rm.user)
        self._secret: bytes | None = None
        self._last_wait: tuple[str, WaitResponse] | None = None

    def find(self) -> MasterAddress | None:
        """The address of the job's master now. May be called from any thread: it keeps no state."""
        application = self._application
        try:
            report = application.rm.call(lambda rm: rm.report(application.id))
        except ApplicationNotFoundError as exc:
            raise job_ended_error(application.job) from exc
        if report.state.ended:
            raise job_ended_error(application.job)
        url = master_url(report)
        if url is None or report.attempt is None:
            return None
        return MasterAddress(url, report.attempt.number)

    def call(
        self,
        method: str,
        path: str,
        body: bytes = b"",
        *,
        timeout_s: float,
        least_call_s: float = _LEAST_CALL_S,
    ) -> Answer | NoAnswer:
        """The master's answer (200 or 404). A master that is being restarted is waited for.

        A call whose outcome is unknown is repeated: all calls of clients to a
        master are idempotent. ``least_call_s`` is the time that each call has, also
        if it exceeds ``timeout_s``.
        """
        deadline = time.monotonic() + timeout_s
        while True:
            endpoint = self._endpoint()
            if isinstance(endpoint, _Endpoint):
                left_s = deadline - time.monotonic()
                call_s = max(least_call_s, min(_CALL_S, left_s))
                answer = self._try(endpoint, method, path, body, call_s)
                if isinstance(answer, Answer):
                    return answer
                endpoint = answer
            if not endpoint.error or time.monotonic() + _RETRY_S >= deadline:
                return endpoint
            time.sleep(_RETRY_S)

    def status(self, timeout_s: float) -> JobStatus | NoAnswer:
        """The job's status as its master has it."""
        answer = self.call("GET", "/client/v1/status", timeout_s=timeout_s)
        if isinstance(answer, NoAnswer):
            return answer
        return self._completed(master_api.decode(answer, JobStatus))

    def wait_for_change(self, known: JobStatus, timeout_s: float) -> JobStatus | NoAnswer:
        """The master's status once it differs from ``known`` or its hold time is over.

        Calls the master once, without retries.
        """
        endpoint = self._endpoint()
        if isinstance(endpoint, NoAnswer):
            return endpoint
        version = 0
        # Versions are those of one master: another counts anew.
        last = self._last_wait
        if last and last[0] == endpoint.url and last[1].status == known:
            version = last[1].version
        # Without a version the master answers at once.
        call_s = max(timeout_s, 0.01) if version else max(_LEAST_CALL_S, min(_CALL_S, timeout_s))
        answer = self._try(endpoint, "GET", f"/client/v1/wait?version={version}", b"", call_s)
        if isinstance(answer, NoAnswer):
            return answer
        told = master_api.decode(answer, WaitResponse)
        self._last_wait = (endpoint.url, WaitResponse(told.version, self._completed(told.status)))
        return self._last_wait[1].status

    def _completed(self, status: JobStatus) -> JobStatus:
        """A master's status with the facts of the report that was read just before."""
        report = self._application.last_report
        return status if report is None else with_yarn_facts(status, report)

    def secret(self) -> bytes | None:
        """The job's secret; None if it is gone with the job, or not for us.

        The cached one is used first: then the master can be asked while HDFS is unavailable.
        """
        application = self._application
        if self._secret is None:
            self._secret = self._secrets.find(application.job)
        if self._secret is None and not application.is_private():
            try:
                self._secret = application.home.secret()
            except FileNotFoundError:
                return None
            if application.is_ours:
                self._secrets.keep(application.job, self._secret)
        return self._secret

    def _endpoint(self) -> _Endpoint | NoAnswer:
        report = self._application.report()
        if report is None or report.state.ended:
            self._secrets.remove(self._application.job)
        url = None if report is None else master_url(report)
        if report is not None and url is not None:
            secret = self.secret()
            return NoAnswer(report) if secret is None else _Endpoint(report, url, secret)
        is_expected = self._is_master_expected(report)
        return NoAnswer(report, "a new one has not registered yet" if is_expected else "")

    def _is_master_expected(self, report: ApplicationReport | None) -> bool:
        """Whether the job had a master, and one will register again.

        Either the master died, or it lives and has not registered yet with a
        ResourceManager that took over. YARN's report of the latter looks like that
        of a job that has just been submitted.
        """
        if report is None or report.state.ended or report.state is ApplicationState.RUNNING:
            return False
        # Without the secret no master would answer us.
        if self._application.is_private():
            return False
        return is_between_masters(report) or self._application.home.has_journal()

    @staticmethod
    def _try(
        endpoint: _Endpoint, method: str, path: str, body: bytes, timeout_s: float
    ) -> Answer | NoAnswer:
        try:
            answer = master_api.signed_call(
                endpoint.url, endpoint.secret, method, path, body, timeout_s
            )
        except ChannelError as exc:
            return NoAnswer(endpoint.report, str(exc) or "it closed the connection")
        not_yet = master_api.retry_reason(answer, method, path)
        return answer if not_yet is None else NoAnswer(endpoint.report, not_yet)
