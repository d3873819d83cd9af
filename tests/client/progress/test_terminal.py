from __future__ import annotations

import sys
from io import StringIO

import msgspec
import pytest
from rich.console import Console

from tests.client.fakes import JOB, FakeHandle, status, task
from tests.specs.usages import task_usage
from ytf.backends.api import PassingNotice
from ytf.client.progress import terminal
from ytf.client.progress.reporter import ProgressReporter
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


def test_metrics_that_tasks_report_are_shown() -> None:
    usage = task_usage(metrics={"step": 100.0, "loss": 0.25})
    reports = task("chief", 0, TaskState.RUNNING, host="n1", port=4000, usage=usage)
    *_, columns, _, first, second = _shown(
        status(JobState.RUNNING, reports, task("chief", 1, TaskState.STARTING))
    )
    assert columns.endswith("metrics")
    assert first.endswith("step 100, loss 0.25")
    assert second.split() == ["chief:1", "STARTING", "1"]


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


def _screen(monkeypatch: pytest.MonkeyPatch) -> StringIO:
    screen = StringIO()
    monkeypatch.setattr(
        terminal,
        "Console",
        lambda **options: Console(file=screen, force_terminal=True, color_system=None, width=80),
    )
    return screen


def test_what_passes_is_drawn_in_place_and_gone_at_the_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    screen = _screen(monkeypatch)
    display = terminal.TerminalDisplay()
    display.notice(PassingNotice("uploading 10 %"))
    display.notice("packing numpy")
    display.notice(PassingNotice("uploading 20 %"))
    display.close()
    *drawn, left = screen.getvalue().split("\x1b[2K")
    assert [name for name in ("10 %", "numpy", "20 %") if name in "".join(drawn)] == [
        "10 %",
        "numpy",
        "20 %",
    ]
    assert "%" not in left


class Broken(StringIO):
    """A terminal that is gone."""

    is_gone = False

    def write(self, text: str) -> int:
        if self.is_gone:
            raise OSError(5, "Input/output error")
        return super().write(text)


def test_a_terminal_that_is_gone_is_given_up_and_left_as_it_was(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    screen = Broken()
    monkeypatch.setattr(
        terminal, "Console", lambda **options: Console(file=screen, force_terminal=True)
    )
    display = terminal.TerminalDisplay.claim()
    assert display is not None
    reporter = ProgressReporter(display)
    streams = sys.stdout, sys.stderr
    reporter.notify(PassingNotice("uploading 10 %"))
    screen.is_gone = True
    reporter.notify(PassingNotice("uploading 20 %"))
    assert reporter.follow(FakeHandle(status(JobState.SUCCEEDED))).state is JobState.SUCCEEDED
    assert (sys.stdout, sys.stderr) == streams
    again = terminal.TerminalDisplay.claim()
    assert again is not None
    again.close()


def test_a_terminal_has_one_table_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    _screen(monkeypatch)
    first = terminal.TerminalDisplay.claim()
    assert first is not None
    assert terminal.TerminalDisplay.claim() is None
    first.conclude(status(JobState.SUCCEEDED))
    assert terminal.TerminalDisplay.claim() is None
    first.close()
    first.close()
    second = terminal.TerminalDisplay.claim()
    assert second is not None
    second.close()
