from __future__ import annotations

from io import StringIO

import msgspec
from rich.console import Console

from tests.client.fakes import JOB, status, task
from tests.specs.usages import task_usage
from ytf.client.progress.terminal import job_table
from ytf.specs.status import JobState, JobStatus, TaskState


def _shown(job: JobStatus) -> list[str]:
    console = Console(file=StringIO(), width=100)
    console.print(job_table(job))
    assert isinstance(console.file, StringIO)
    return [line.rstrip() for line in console.file.getvalue().splitlines() if line.strip()]


def test_a_running_job_shows_its_links_and_what_its_tasks_use() -> None:
    running = status(
        JobState.RUNNING,
        task("chief", 0, TaskState.RUNNING, host="n1", port=4000, usage=task_usage()),
        task("chief", 1, TaskState.STARTING, attempt=2),
    )
    running = msgspec.structs.replace(
        running,
        finished=112.0,
        tracking_url="http://n1:1/",
        tensorboard_url="http://n2:6006/",
    )
    head, page, board, columns, _, first, second = _shown(running)
    assert head == f"job {JOB} (TensorFlow): RUNNING, 0:00:12"
    assert (page, board) == ("page: http://n1:1/", "TensorBoard: http://n2:6006/")
    assert columns.split() == ["task", "state", "attempt", "where", "ended", "cpu", "memory"]
    assert first.split() == ["chief:0", "RUNNING", "1", "n1:4000", "50%", "100M"]
    assert second.split() == ["chief:1", "STARTING", "2"]


def test_a_large_group_is_counts_with_what_it_uses_in_all() -> None:
    tasks = [task("worker", n, TaskState.RUNNING, usage=task_usage()) for n in range(20)]
    *_, row = _shown(status(JobState.RUNNING, *tasks))
    assert row.split() == ["worker", "×", "20", "20", "RUNNING", "1000%", "2.0G"]


def test_a_job_that_waits_says_for_what_and_an_ended_one_has_no_links() -> None:
    waits = status(JobState.SUBMITTED, diagnostics="the queue is full")
    assert _shown(waits)[1] == "the queue is full"
    ended = status(JobState.SUCCEEDED, task("worker", 0, TaskState.SUCCEEDED))
    head, *table = _shown(msgspec.structs.replace(ended, tensorboard_url="http://gone/"))
    assert head == f"job {JOB} (TensorFlow): SUCCEEDED, 0:00:12"
    assert table[-1].split() == ["worker:0", "SUCCEEDED", "1", "exit", "code", "0"]
