"""The way to a job's master, for whoever can read the job's secret."""

from __future__ import annotations

import time
from dataclasses import dataclass

import msgspec

from ytf.backends import answers
from ytf.backends.answers import Told
from ytf.backends.api import MasterAddress, over
from ytf.backends.yarn.job.reports import as_yarn_has_it, is_between_masters, master_url
from ytf.backends.yarn.job.sight import Sight
from ytf.hadoop.rpc.errors import ApplicationNotFoundError
from ytf.hadoop.yarn.records import ApplicationReport, ApplicationState
from ytf.specs.status import JobStatus
from ytf.starter.http import Answer, ChannelError

_RETRY_S = 0.1
_CALL_S = 10.0
"""How long a master may take to answer."""
_LEAST_CALL_S = 1.0
"""How long it may in any case, however little time is left."""


@dataclass(frozen=True)
class Unheard:
    """No master answered; ``report`` is what YARN said last, None if it knows no such job.

    ``why``: one was expected to, and what came of it. Empty where there is
    none yet, none any more, or none that would speak to us.
    """

    report: ApplicationReport | None
    why: str = ""


@dataclass(frozen=True)
class _Way:
    """Where a master is, and what opens it."""

    report: ApplicationReport
    url: str
    secret: bytes


class MasterLine:
    """Asks whichever master a job has, found anew for each question."""

    def __init__(self, sight: Sight) -> None:
        self._sight = sight
        self._secret: bytes | None = None
        self._told: tuple[str, Told] | None = None

    def find(self) -> MasterAddress | None:
        """The master that answers now. For any thread, so it keeps nothing."""
        sight = self._sight
        try:
            report = sight.rm.ask(lambda rm: rm.report(sight.id))
        except ApplicationNotFoundError as exc:
            raise over(sight.job) from exc
        if report.state.ended:
            raise over(sight.job)
        url = master_url(report)
        if url is None or report.attempt is None:
            return None
        return MasterAddress(url, report.attempt.number)

    def ask(
        self, method: str, path: str, body: bytes = b"", *, patience_s: float
    ) -> Answer | Unheard:
        """The master's answer (200 or 404); one that is being started again is waited for.

        Every call of this surface may be repeated, so one whose outcome is
        unknown is.
        """
        deadline = time.monotonic() + patience_s
        while True:
            way = self._way()
            if isinstance(way, _Way):
                left_s = deadline - time.monotonic()
                call_s = max(_LEAST_CALL_S, min(_CALL_S, left_s))
                found = self._try(way, method, path, body, call_s)
                if isinstance(found, Answer):
                    return found
                way = found
            if not way.why or time.monotonic() + _RETRY_S >= deadline:
                return way
            time.sleep(_RETRY_S)

    def status(self, patience_s: float) -> JobStatus | Unheard:
        """How the master says the job is."""
        answer = self.ask("GET", "/client/v1/status", patience_s=patience_s)
        if isinstance(answer, Unheard):
            return answer
        return self._complete(msgspec.json.decode(answer.body, type=JobStatus))

    def news(self, known: JobStatus, left_s: float) -> JobStatus | Unheard:
        """What the master tells when there is news, or its hold time is over. Asks once."""
        way = self._way()
        if isinstance(way, Unheard):
            return way
        version = 0
        # Versions count within one master only.
        if self._told and self._told[0] == way.url and self._told[1].status == known:
            version = self._told[1].version
        # Without a version it is answered at once.
        call_s = max(left_s, 0.01) if version else max(_LEAST_CALL_S, min(_CALL_S, left_s))
        answer = self._try(way, "GET", f"/client/v1/wait?version={version}", b"", call_s)
        if isinstance(answer, Unheard):
            return answer
        told = msgspec.json.decode(answer.body, type=Told)
        self._told = (way.url, Told(told.version, self._complete(told.status)))
        return self._told[1].status

    def _complete(self, status: JobStatus) -> JobStatus:
        """With what YARN said just before the master was asked."""
        said = self._sight.said
        return status if said is None else as_yarn_has_it(status, said)

    def _way(self) -> _Way | Unheard:
        report = self._sight.report()
        url = None if report is None else master_url(report)
        if report is not None and url is not None:
            secret = self._known_secret()
            return Unheard(report) if secret is None else _Way(report, url, secret)
        return Unheard(report, "a new one has not registered yet" if self._awaits(report) else "")

    def _known_secret(self) -> bytes | None:
        if self._secret is None and not self._sight.is_closed():
            try:
                self._secret = self._sight.home.secret()
            except FileNotFoundError:
                return None
        return self._secret

    def _awaits(self, report: ApplicationReport | None) -> bool:
        """Whether there was a master, and one will be heard of again.

        It died; or it lives and has not registered yet with a ResourceManager
        that took over, which YARN's report does not tell from a job's beginning.
        """
        if report is None or report.state.ended or report.state is ApplicationState.RUNNING:
            return False
        # To whoever may not know its secret no master speaks.
        if self._sight.is_closed():
            return False
        return is_between_masters(report) or self._sight.home.has_begun()

    @staticmethod
    def _try(way: _Way, method: str, path: str, body: bytes, timeout_s: float) -> Answer | Unheard:
        try:
            answer = answers.signed_call(way.url, way.secret, method, path, body, timeout_s)
        except ChannelError as exc:
            return Unheard(way.report, str(exc) or "it closed the connection")
        not_yet = answers.why_not_yet(answer, method, path)
        return answer if not_yet is None else Unheard(way.report, not_yet)
