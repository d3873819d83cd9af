from __future__ import annotations

import msgspec
import pytest

from tests.client.fakes import JOB, FakeHandle, status, task
from ytf.client.follow import changes, counts, describe_task, follow
from ytf.specs.status import JobState, JobStatus, TaskState, TaskStatus


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
