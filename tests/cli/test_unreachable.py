"""Commands whose cluster does not answer, or whose master is sick."""

from __future__ import annotations

import pytest

from tests.cli.conftest import Install
from tests.client.fakes import JOB, FakeHandle, status
from ytf.cli import attach, main
from ytf.cli.submit.wait_for_job import wait_for_end
from ytf.errors import InternalError, OutcomeUnknownError, UnreachableError, YtfError
from ytf.specs.status import JobState, JobStatus

ERRORS = [UnreachableError("gone"), OutcomeUnknownError("mute"), InternalError("500")]


class Mute(FakeHandle):
    """One whose state nobody tells."""

    def __init__(self, error: YtfError) -> None:
        super().__init__(status(JobState.RUNNING))
        self.error = error
        self.waits: list[float] = []

    def status(self) -> JobStatus:
        raise self.error

    def wait(self, known: JobStatus | None = None, timeout_s: float = 30.0) -> JobStatus:
        self.waits.append(timeout_s)
        raise self.error

    def kill(self, reason: str) -> None:
        self.killed.append(reason)


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
def test_a_kill_needs_no_status_and_does_not_wait_long_for_one(
    error: YtfError, install: Install, capfd: pytest.CaptureFixture[str]
) -> None:
    backend = install()
    handle = backend.handle = Mute(error)
    assert main.main(["kill", JOB]) == 0
    assert handle.killed == ["asked for with ytf kill"]
    assert handle.waits == [5.0]
    assert "is being killed" in capfd.readouterr().err


class Away(FakeHandle):
    """One that answers from the third look on."""

    def __init__(self) -> None:
        super().__init__(status(JobState.SUCCEEDED))
        self.errors: list[YtfError] = [UnreachableError("gone"), OutcomeUnknownError("mute")]

    def status(self) -> JobStatus:
        if self.errors:
            raise self.errors.pop(0)
        return super().status()


def test_the_end_of_a_job_is_waited_for_with_pauses(
    install: Install, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    backend = install()
    backend.handle = Away()
    pauses: list[float] = []
    monkeypatch.setattr("ytf.cli.attach.time.sleep", pauses.append)
    attach._wait_for_end(JOB)
    assert pauses == [1.0, 1.0]
    assert f"job {JOB} has ended SUCCEEDED" in capfd.readouterr().err


class Gone(FakeHandle):
    """One whose cluster goes away right after the job's end."""

    def wait(self, known: JobStatus | None = None, timeout_s: float = 30.0) -> JobStatus:
        if known is not None and known.state.is_final:
            raise UnreachableError("gone")
        return super().wait(known, timeout_s)


def test_how_a_job_ended_stays_known() -> None:
    final = status(JobState.SUCCEEDED)
    assert wait_for_end("x", Gone(status(JobState.RUNNING), final)) == 0
