"""The job of ``ytf doctor``: followed to its end, and nothing of it is left."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from tests.client.fakes import JOB, FakeBackend, FakeHandle, status, task
from ytf.backends.api import RemovedItem
from ytf.backends.checks import CheckFinding, ok
from ytf.client.probe_job import no_hold, run_probe_job
from ytf.errors import RefusedError, UnreachableError
from ytf.specs.checks import CheckName, CheckState
from ytf.specs.job import Framework, JobSpec, TaskGroupSpec
from ytf.specs.status import JobEvent, JobState, JobStatus, TaskState

RUNNING = status(JobState.RUNNING, task("worker", 0, TaskState.RUNNING))
DONE = status(JobState.SUCCEEDED, task("worker", 0, TaskState.SUCCEEDED))


class Removable(FakeHandle):
    removals = 0

    def remove(self) -> RemovedItem:
        self.removals += 1
        return super().remove()


class Probe:
    needs: tuple[CheckName, ...] = ()
    limit_s = 60.0
    closed = 0

    def spec(self) -> JobSpec:
        return JobSpec(
            groups={"worker": TaskGroupSpec(count=1)}, command="true", framework=Framework.NONE
        )

    def conclude(
        self, status: JobStatus, events: Sequence[JobEvent], start_s: float
    ) -> CheckFinding:
        assert start_s >= 0
        return ok(f"{status.id} ran")

    def close(self) -> None:
        self.closed += 1


@pytest.fixture
def said() -> list[str]:
    return []


def run(
    handle: FakeHandle, monkeypatch: pytest.MonkeyPatch, said: list[str], probe: Probe | None = None
) -> CheckFinding:
    monkeypatch.setattr("ytf.backends.get_backend", lambda name: FakeBackend(handle))
    probe = probe or Probe()
    try:
        return run_probe_job("local", probe, said.append, no_hold)
    finally:
        assert probe.closed == 1


def test_what_succeeded_is_removed(monkeypatch: pytest.MonkeyPatch, said: list[str]) -> None:
    handle = Removable(status(JobState.SUBMITTED), RUNNING, DONE)
    assert run(handle, monkeypatch, said) == ok(f"{JOB} ran")
    assert (handle.removals, handle.killed) == (1, [])
    assert said == [
        f"submitted the job {JOB}",
        f"{JOB} is SUBMITTED",
        f"{JOB} is RUNNING",
        f"{JOB} is SUCCEEDED",
    ]


def test_the_record_of_a_failure_stays_and_its_cause_is_told(
    monkeypatch: pytest.MonkeyPatch, said: list[str]
) -> None:
    handle = Removable(RUNNING, status(JobState.FAILED, diagnostics="worker:0 failed on nm1\n"))
    found = run(handle, monkeypatch, said)
    assert found.state is CheckState.FAILED
    assert found.text == f"{JOB} ended FAILED: worker:0 failed on nm1"
    assert f"ytf logs {JOB}" in (found.hint or "")
    assert (handle.removals, handle.killed) == (0, [])


class Stuck(Removable):
    """A job that does not end by itself; waiting for it takes no time, or is interrupted."""

    def __init__(self, error: BaseException) -> None:
        super().__init__(status(JobState.SUBMITTED, diagnostics="the queue is full"))
        self.error = error

    def wait(self, known: JobStatus | None = None, timeout_s: float = 30.0) -> JobStatus:
        if self.killed:
            return super().wait(known, timeout_s)
        raise self.error


def test_an_interrupt_kills_and_removes_it(
    monkeypatch: pytest.MonkeyPatch, said: list[str]
) -> None:
    handle = Stuck(KeyboardInterrupt())
    with pytest.raises(KeyboardInterrupt):
        run(handle, monkeypatch, said)
    assert handle.killed == ["ytf doctor ended"]
    assert handle.removals == 1
    assert said[-1] == f"killing {JOB}"


def test_one_that_takes_too_long_is_killed_and_says_what_it_waited_for(
    monkeypatch: pytest.MonkeyPatch, said: list[str]
) -> None:
    handle = Stuck(TimeoutError("still"))
    found = run(handle, monkeypatch, said)
    assert found.state is CheckState.FAILED
    assert found.text == f"{JOB} has not ended within 60 s and was killed: the queue is full"
    assert handle.killed
    assert handle.removals == 1


class Sticky(Stuck):
    def remove(self) -> RemovedItem:
        raise RefusedError("not yet")


def test_what_cannot_be_removed_does_not_hide_the_interrupt(
    monkeypatch: pytest.MonkeyPatch, said: list[str]
) -> None:
    with pytest.raises(KeyboardInterrupt):
        run(Sticky(KeyboardInterrupt()), monkeypatch, said)
    assert said[-1] == f"something of {JOB} is left: `ytf kill` and `ytf rm` it: not yet"


def test_a_refused_submission_leaves_nothing_to_kill(
    monkeypatch: pytest.MonkeyPatch, said: list[str]
) -> None:
    class Refusing(Probe):
        def spec(self) -> JobSpec:
            raise UnreachableError("HDFS is away")

    handle = Removable(DONE)
    with pytest.raises(UnreachableError):
        run(handle, monkeypatch, said, Refusing())
    assert (handle.killed, handle.removals) == ([], 0)
