"""The small plots on a job's page."""

from __future__ import annotations

from typing import Any

from tests.specs.usages import task_usage
from tests.web.html_reader import Reader
from ytf.specs.ids import JobId, TaskId
from ytf.specs.status import JobState, JobStatus, TaskState, TaskStatus
from ytf.specs.usage import GpuUsage, UsageHistory
from ytf.web.usage_plots import MOST_PLOTS, usage_section

GPU = GpuUsage(busy=0.5, memory_bytes=1024**3, total_memory_bytes=2 * 1024**3)


def task(index: int = 0, state: TaskState = TaskState.RUNNING, **usage: Any) -> TaskStatus:
    return TaskStatus(
        group="worker", index=index, state=state, attempt=1, memory_mb=8192,
        usage=task_usage(**usage),
    )  # fmt: skip


def section(*tasks: TaskStatus, series: dict[str, list[float | None]] | None = None) -> Reader:
    job = JobStatus(
        id=JobId("j"), name="n", user="u", queue="q", backend="local",
        state=JobState.RUNNING, tasks=tasks,
    )  # fmt: skip
    known = UsageHistory(start=0.0, interval_s=5.0, series=series or {})
    histories = {} if series is None else {TaskId("worker:0"): known}
    return Reader(usage_section(job, histories.get))


def plots(found: Reader) -> list[str]:
    return [str(a["points"]) for name, a in found.elements if name == "polyline"]


def test_figures_of_a_running_task() -> None:
    found = section(task())
    assert "worker:0 0.50 cores peak 1.50 100M of 8.0G peak 200M" in found.text
    assert "read 1000B" not in found.text
    assert "read 1.0K, written 2.0K received 2.9K, sent 3.9K" in found.text
    assert "GPU" not in found.text
    assert plots(found) == []


def test_figures_of_a_task_that_has_ended() -> None:
    found = section(task(state=TaskState.SUCCEEDED))
    assert "12 s peak 1.50 peak 200M of 8.0G" in found.text


def test_what_a_node_does_not_tell() -> None:
    assert "not known" in section(task(network_received_bytes=None)).text


def test_gpus_have_a_column_if_there_are_some() -> None:
    found = section(task(gpus=(GPU, GPU), peak_gpu_memory_bytes=3 * 1024**3), task(1))
    assert "GPU" in found.text
    assert "50 %, 2.0G peak memory 3.0G" in found.text


def test_lines_are_within_the_plot_and_have_gaps() -> None:
    found = section(
        task(),
        series={
            "cpu_cores": [0.0, 1.0, None, 2.0],
            "memory_bytes": [0.0, 0.0],
            "disk_read_bytes_per_s": [1.0],
            "disk_written_bytes_per_s": [None, 3.0],
        },
    )
    assert plots(found) == ["0,23 15,23 45,12", "90,1 105,1", "0,16 30,16", "60,1 90,1"]
    svgs = [a for name, a in found.elements if name == "svg"]
    assert [svg["aria-label"] for svg in svgs] == [
        "cpu cores over time",
        "disk read bytes per s over time",
    ], "nothing is drawn of what is always zero"
    assert not any("style" in a for _, a in found.elements)


def test_many_tasks_are_counted() -> None:
    found = section(*(task(index) for index in range(MOST_PLOTS + 3)))
    assert len([name for name, _ in found.elements if name == "tr"]) == MOST_PLOTS + 1
    assert "3 more tasks are in api/usage ." in found.text


def test_before_anything_is_known_the_section_is_there_and_empty() -> None:
    found = section()
    assert found.elements == [("section", {"id": "usage"})]
    assert found.text == ""
