from __future__ import annotations

import msgspec
import pytest

from tests.client.fakes import JOB, FakeHandle, status, task
from ytf.client.follow import Setbacks, changes, counts, describe_task, follow
from ytf.errors import OutcomeUnknownError, UnreachableError, YtfError
from ytf.specs.names import TaskId
from ytf.specs.status import JobEvent, JobState, JobStatus, TaskState, TaskStatus


def test_each_new_status_comes_once_and_the_last_is_final() -> None:
    story = [
        status(JobState.SUBMITTED),
        status(JobState.SUBMITTED),
        status(JobState.RUNNING),
        status(JobState.SUCCEEDED),
    ]
    seen = [s.state for s in follow(FakeHandle(*story))]
    assert seen == [JobState.SUBMITTED, JobState.RUNNING, JobState.SUCCEEDED]


def test_a_job_that_has_ended_is_followed_at_once() -> None:
    assert [s.state for s in follow(FakeHandle(status(JobState.FAILED)))] == [JobState.FAILED]


class Moody(FakeHandle):
    """Raises ``moods`` first, one for each look."""

    def __init__(self, *story: JobStatus, moods: list[YtfError]) -> None:
        super().__init__(*story)
        self.moods = moods

    def wait(self, known: JobStatus | None = None, timeout_s: float = 30.0) -> JobStatus:
        if self.moods:
            raise self.moods.pop(0)
        return super().wait(known, timeout_s)

    def events(self) -> list[JobEvent]:
        raise UnreachableError("gone")


def test_a_cluster_that_is_away_for_a_while_is_told_of_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pauses: list[float] = []
    monkeypatch.setattr("ytf.client.follow.time.sleep", pauses.append)
    moods: list[YtfError] = [UnreachableError("gone"), OutcomeUnknownError("mute")]
    handle = Moody(status(JobState.RUNNING), status(JobState.SUCCEEDED), moods=moods)
    said: list[str] = []
    seen = [s.state for s in follow(handle, tell=said.append)]
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
        list(follow(Moody(status(JobState.RUNNING), status(JobState.FAILED), moods=gone)))
    assert now == 600.0
    assert f"`ytf status {JOB}`" in (caught.value.hint or "")


def test_a_wait_may_be_bounded() -> None:
    handle = FakeHandle(status(JobState.RUNNING), status(JobState.RUNNING))
    with pytest.raises(TimeoutError, match=f"job {JOB} is still RUNNING"):
        list(follow(handle, timeout_s=0.01))


def test_what_is_said_of_a_running_job_is_told_and_its_taking_back_is_not() -> None:
    running = status(JobState.RUNNING, task("worker", 0, TaskState.RUNNING), diagnostics="old")
    silent = msgspec.structs.replace(running, diagnostics="its master is away\nold")
    assert changes(running, silent) == ["its master is away"]
    assert changes(silent, silent) == []
    assert changes(silent, running) == []


def test_what_changed_is_said_once() -> None:
    pending = status(JobState.STARTING, task("worker", 0, TaskState.PENDING, attempt=0))
    running = status(
        JobState.RUNNING, task("worker", 0, TaskState.RUNNING, host="10.0.0.1", port=4000)
    )
    board: JobStatus = msgspec.structs.replace(running, tensorboard_url="http://h:6006")
    failed = status(
        JobState.FAILED,
        task("worker", 0, TaskState.FAILED, exit_code=3, reason="no data\nmore"),
    )
    assert changes(None, pending) == [f"job {JOB}: STARTING"]
    assert changes(pending, running) == ["worker:0 RUNNING on 10.0.0.1:4000", f"job {JOB}: RUNNING"]
    assert changes(running, running) == []
    assert changes(running, board) == ["TensorBoard: http://h:6006"]
    assert changes(board, board) == []
    assert changes(running, failed) == [
        "worker:0 FAILED exit code 3, no data",
        f"job {JOB}: FAILED",
    ]


def test_a_job_begins_before_its_tasks() -> None:
    starting = status(JobState.STARTING, task("worker", 0, TaskState.ALLOCATED))
    assert changes(None, starting) == [f"job {JOB}: STARTING", "worker:0 ALLOCATED"]


class TestSetbacks:
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
    STORY = (
        JobEvent(at=1.0, event="TaskExited", task="worker:0", text="attempt 1 exited\nand more"),
        JobEvent(at=1.1, event="TaskRestarting", task="worker:1", text="as attempt 2"),
        JobEvent(at=2.0, event="ContainerCompleted", task="worker:0", text="c1 ended"),
        JobEvent(at=2.0, event="TaskExited", task="ps:0", text="not of interest"),
    )

    def test_reasons_that_cannot_be_had_are_done_without(self) -> None:
        setbacks = Setbacks(Moody(self.RUNNING, moods=[]))
        assert setbacks.between(self.RUNNING, self.AGAIN) == {}

    def test_only_who_failed_is_given_a_reason_and_once(self) -> None:
        handle = FakeHandle(self.RUNNING)
        handle.happened = list(self.STORY)
        setbacks = Setbacks(handle)
        why = setbacks.between(self.RUNNING, self.AGAIN)
        assert why == {"worker:0": "attempt 1 exited\nand more"}
        assert changes(self.RUNNING, self.AGAIN, why) == [
            "worker:0 ALLOCATED (attempt 2) after attempt 1 exited",
            "worker:1 ALLOCATED (attempt 2)",
        ]
        assert setbacks.between(self.RUNNING, self.AGAIN) == {}

    def test_what_only_one_of_two_looks_was_told_hides_nothing(self) -> None:
        handle = FakeHandle(self.RUNNING)
        silence = JobEvent(at=0.5, event="MasterSilent", text="away")
        handle.happened = [silence]
        setbacks = Setbacks(handle)
        assert setbacks.between(self.RUNNING, self.AGAIN) == {}
        handle.happened = list(self.STORY)
        assert setbacks.between(self.RUNNING, self.AGAIN).keys() == {"worker:0"}

    def test_nobody_is_asked_while_all_goes_well(self) -> None:
        handle = FakeHandle(self.RUNNING)
        handle.happened = list(self.STORY)
        setbacks = Setbacks(handle)
        assert setbacks.between(None, self.RUNNING) == {}
        assert setbacks.between(self.AGAIN, self.AGAIN) == {}

    def test_one_of_a_crowd_is_named(self) -> None:
        before = [task("worker", i, TaskState.RUNNING) for i in range(40)]
        after = [*before[:-1], task("worker", 39, TaskState.PENDING)]
        lines = changes(
            status(JobState.RUNNING, *before),
            status(JobState.RUNNING, *after),
            {TaskId("worker:39"): "attempt 1 exited"},
        )
        assert lines == [
            "worker:39 PENDING after attempt 1 exited",
            "worker: 1 PENDING, 39 RUNNING",
        ]


def test_a_crowd_is_told_in_counts_but_failures_by_name() -> None:
    many = [task("worker", i, TaskState.RUNNING) for i in range(40)]
    before = status(JobState.RUNNING, *many)
    many[7] = task("worker", 7, TaskState.LOST, reason="node gone")
    many[8] = task("worker", 8, TaskState.SUCCEEDED)
    assert changes(before, status(JobState.RUNNING, *many)) == [
        "worker:7 LOST node gone",
        "worker: 38 RUNNING, 1 SUCCEEDED, 1 LOST",
    ]


@pytest.mark.parametrize(
    ("found", "said"),
    [
        (task("ps", 0, TaskState.SUCCEEDED, exit_code=0), "ps:0 SUCCEEDED"),
        (task("ps", 0, TaskState.FAILED, signal=9), "ps:0 FAILED signal SIGKILL"),
        (task("ps", 0, TaskState.FAILED, signal=99), "ps:0 FAILED signal 99"),
        (task("ps", 1, TaskState.RUNNING, attempt=2, host="h"), "ps:1 RUNNING (attempt 2) on h"),
        (task("ps", 1, TaskState.PENDING), "ps:1 PENDING"),
    ],
)
def test_a_task_in_a_line(found: TaskStatus, said: str) -> None:
    assert describe_task(found) == said


def test_counts_come_in_the_order_of_the_states() -> None:
    tasks = [task("w", 0, TaskState.FAILED), task("w", 1, TaskState.PENDING)]
    assert counts(tasks) == "1 PENDING, 1 FAILED"
