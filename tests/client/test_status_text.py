from __future__ import annotations

import msgspec
import pytest

from tests.client.fakes import JOB, status, task
from ytf.client.status_text import count_states, describe_changes, describe_task
from ytf.specs.ids import TaskId
from ytf.specs.status import JobState, JobStatus, TaskState, TaskStatus, with_notes


def test_what_is_said_of_a_running_job_is_told_and_its_taking_back_is_not() -> None:
    running = status(JobState.RUNNING, task("worker", 0, TaskState.RUNNING), diagnostics="old")
    silent = msgspec.structs.replace(running, diagnostics="its master is away\nold")
    assert describe_changes(running, silent) == ["its master is away"]
    assert describe_changes(silent, silent) == []
    assert describe_changes(silent, running) == []


def test_a_note_is_told_with_whatever_else_has_changed() -> None:
    running = status(JobState.RUNNING, task("worker", 0, TaskState.RUNNING))
    text = with_notes("worker:0 fell.", ["worker:1 waits"])
    ending = status(JobState.RUNNING, task("worker", 0, TaskState.FAILED), diagnostics=text)
    assert describe_changes(running, ending) == ["worker:0 FAILED", "note: worker:1 waits"]
    assert describe_changes(ending, ending) == []
    ended = status(JobState.FAILED, task("worker", 0, TaskState.FAILED), diagnostics=text)
    assert describe_changes(running, ended) == ["worker:0 FAILED", f"job {JOB}: FAILED"]


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
    assert describe_changes(None, pending) == [f"job {JOB}: STARTING"]
    assert describe_changes(pending, running) == [
        "worker:0 RUNNING on 10.0.0.1:4000",
        f"job {JOB}: RUNNING",
    ]
    assert describe_changes(running, running) == []
    assert describe_changes(running, board) == ["TensorBoard: http://h:6006"]
    assert describe_changes(board, board) == []
    assert describe_changes(running, failed) == [
        "worker:0 FAILED exit code 3, no data",
        f"job {JOB}: FAILED",
    ]


def test_the_page_of_a_cluster_is_told_once_and_one_that_needs_no_login_never() -> None:
    running = status(JobState.RUNNING, task("worker", 0, TaskState.RUNNING))
    paged: JobStatus = msgspec.structs.replace(running, tracking_url="http://h/secret/")
    assert describe_changes(running, paged) == []
    on_yarn: JobStatus = msgspec.structs.replace(paged, backend="yarn")
    assert describe_changes(running, on_yarn) == ["page: http://h/secret/"]
    assert describe_changes(on_yarn, on_yarn) == []


def test_a_note_is_told_whatever_else_changed() -> None:
    pending = status(JobState.STARTING, task("worker", 0, TaskState.STARTING))
    text = "note: ports are open"
    running = status(JobState.RUNNING, task("worker", 0, TaskState.RUNNING), diagnostics=text)
    ended = status(JobState.SUCCEEDED, task("worker", 0, TaskState.SUCCEEDED), diagnostics=text)
    assert text in describe_changes(pending, running)
    assert text not in describe_changes(running, ended)


def test_a_job_begins_before_its_tasks() -> None:
    starting = status(JobState.STARTING, task("worker", 0, TaskState.ALLOCATED))
    assert describe_changes(None, starting) == [f"job {JOB}: STARTING", "worker:0 ALLOCATED"]


def test_a_crowd_is_told_in_counts_but_failures_by_name() -> None:
    many = [task("worker", i, TaskState.RUNNING) for i in range(40)]
    before = status(JobState.RUNNING, *many)
    many[7] = task("worker", 7, TaskState.LOST, reason="node gone")
    many[8] = task("worker", 8, TaskState.SUCCEEDED)
    assert describe_changes(before, status(JobState.RUNNING, *many)) == [
        "worker:7 LOST node gone",
        "worker: 38 RUNNING, 1 SUCCEEDED, 1 LOST",
    ]


@pytest.mark.parametrize(
    ("found", "said"),
    [
        (task("ps", 0, TaskState.SUCCEEDED, exit_code=0), "ps:0 SUCCEEDED"),
        (task("ps", 0, TaskState.FAILED, signal=9), "ps:0 FAILED SIGKILL"),
        (task("ps", 0, TaskState.FAILED, signal=99), "ps:0 FAILED signal 99"),
        (task("ps", 1, TaskState.RUNNING, attempt=2, host="h"), "ps:1 RUNNING (attempt 2) on h"),
        (task("ps", 1, TaskState.PENDING), "ps:1 PENDING"),
    ],
)
def test_a_task_in_a_line(found: TaskStatus, said: str) -> None:
    assert describe_task(found) == said


def test_counts_come_in_the_order_of_the_states() -> None:
    tasks = [task("w", 0, TaskState.FAILED), task("w", 1, TaskState.PENDING)]
    assert count_states(tasks) == "1 PENDING, 1 FAILED"


def test_one_of_a_crowd_is_named() -> None:
    before = [task("worker", i, TaskState.RUNNING) for i in range(40)]
    after = [*before[:-1], task("worker", 39, TaskState.PENDING)]
    lines = describe_changes(
        status(JobState.RUNNING, *before),
        status(JobState.RUNNING, *after),
        {TaskId("worker:39"): "worker:39 exited"},
    )
    assert lines == [
        "worker:39 PENDING: worker:39 exited",
        "worker: 1 PENDING, 39 RUNNING",
    ]
