from __future__ import annotations

import pytest

from tests.client.fakes import JOB, FakeHandle, status, task
from ytf.client.follow import RestartReasons, follow
from ytf.client.status_text import describe_changes
from ytf.errors import OutcomeUnknownError, UnreachableError, YtfError
from ytf.specs.status import JobEvent, JobState, JobStatus, TaskState


def test_each_new_status_comes_once_and_the_last_is_final() -> None:
    statuses = [
        status(JobState.SUBMITTED),
        status(JobState.SUBMITTED),
        status(JobState.RUNNING),
        status(JobState.SUCCEEDED),
    ]
    seen = [s.state for s in follow(FakeHandle(*statuses))]
    assert seen == [JobState.SUBMITTED, JobState.RUNNING, JobState.SUCCEEDED]


def test_a_job_that_has_ended_is_followed_at_once() -> None:
    assert [s.state for s in follow(FakeHandle(status(JobState.FAILED)))] == [JobState.FAILED]


class FailingHandle(FakeHandle):
    """Raises ``errors`` first, one at each wait."""

    def __init__(self, *statuses: JobStatus, errors: list[YtfError]) -> None:
        super().__init__(*statuses)
        self.errors = errors

    def wait(self, known: JobStatus | None = None, timeout_s: float = 30.0) -> JobStatus:
        if self.errors:
            raise self.errors.pop(0)
        return super().wait(known, timeout_s)

    def events(self) -> list[JobEvent]:
        raise UnreachableError("gone")


def test_a_cluster_that_is_away_for_a_while_is_told_of_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pauses: list[float] = []
    monkeypatch.setattr("ytf.client.follow.time.sleep", pauses.append)
    errors: list[YtfError] = [UnreachableError("gone"), OutcomeUnknownError("mute")]
    handle = FailingHandle(status(JobState.RUNNING), status(JobState.SUCCEEDED), errors=errors)
    said: list[str] = []
    seen = [s.state for s in follow(handle, notify=said.append)]
    assert seen == [JobState.RUNNING, JobState.SUCCEEDED]
    assert said == [f"gone; job {JOB} goes on, and so does the wait for it"]
    assert pauses == [1.0, 1.0]


def test_one_that_stays_away_is_not_waited_for_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 0.0

    def sleep(seconds: float) -> None:
        nonlocal now
        now += seconds

    monkeypatch.setattr("ytf.client.follow.time.sleep", sleep)
    monkeypatch.setattr("ytf.client.follow.time.monotonic", lambda: now)
    gone: list[YtfError] = [UnreachableError("gone")] * 10_000
    with pytest.raises(UnreachableError, match="for 10 minutes: gone") as caught:
        list(follow(FailingHandle(status(JobState.RUNNING), status(JobState.FAILED), errors=gone)))
    assert now == 600.0
    assert f"`ytf status {JOB}`" in (caught.value.hint or "")


def test_a_wait_may_be_bounded() -> None:
    handle = FakeHandle(status(JobState.RUNNING), status(JobState.RUNNING))
    with pytest.raises(TimeoutError, match=f"job {JOB} is still RUNNING"):
        list(follow(handle, timeout_s=0.01))


class TestRestartReasons:
    RUNNING = status(
        JobState.RUNNING,
        task("worker", 0, TaskState.RUNNING),
        task("worker", 1, TaskState.RUNNING),
    )
    AGAIN = status(
        JobState.RUNNING,
        task("worker", 0, TaskState.ALLOCATED, attempt=2),
        task("worker", 1, TaskState.ALLOCATED, attempt=2),
    )
    EVENTS = (
        JobEvent(at=1.0, event="task-exited", task="worker:0", text="worker:0 exited\nand more"),
        JobEvent(at=1.1, event="task-restart-ordered", task="worker:1", text="as attempt 2"),
        JobEvent(at=2.0, event="container-completed", task="worker:0", text="c1 ended"),
        JobEvent(at=2.0, event="task-exited", task="ps:0", text="not of interest"),
    )

    def test_reasons_that_cannot_be_had_are_done_without(self) -> None:
        reasons = RestartReasons(FailingHandle(self.RUNNING, errors=[]))
        assert reasons.between(self.RUNNING, self.AGAIN) == {}

    def test_only_who_failed_is_given_a_reason_and_once(self) -> None:
        handle = FakeHandle(self.RUNNING)
        handle.happened = list(self.EVENTS)
        reasons = RestartReasons(handle)
        why = reasons.between(self.RUNNING, self.AGAIN)
        assert why == {"worker:0": "worker:0 exited\nand more"}
        assert describe_changes(self.RUNNING, self.AGAIN, why) == [
            "worker:0 ALLOCATED (attempt 2): worker:0 exited",
            "worker:1 ALLOCATED (attempt 2)",
        ]
        assert reasons.between(self.RUNNING, self.AGAIN) == {}

    def test_what_only_one_of_two_looks_was_told_hides_nothing(self) -> None:
        handle = FakeHandle(self.RUNNING)
        silence = JobEvent(at=0.5, event="master-unreachable", text="away")
        handle.happened = [silence]
        reasons = RestartReasons(handle)
        assert reasons.between(self.RUNNING, self.AGAIN) == {}
        handle.happened = list(self.EVENTS)
        assert reasons.between(self.RUNNING, self.AGAIN).keys() == {"worker:0"}

    def test_nobody_is_asked_while_all_goes_well(self) -> None:
        handle = FakeHandle(self.RUNNING)
        handle.happened = list(self.EVENTS)
        reasons = RestartReasons(handle)
        assert reasons.between(None, self.RUNNING) == {}
        assert reasons.between(self.AGAIN, self.AGAIN) == {}


def test_a_display_that_is_drawn_anew_also_gets_what_has_not_changed() -> None:
    running, ended = status(JobState.RUNNING), status(JobState.SUCCEEDED)
    assert list(follow(FakeHandle(running, running, running, ended))) == [running, ended]
    handle = FakeHandle(running, running, running, ended)
    assert list(follow(handle, tick_s=0.01)) == [running, running, running, ended]
