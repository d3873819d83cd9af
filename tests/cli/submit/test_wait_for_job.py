"""What ``--wait`` shows of a job's notes, as lines and on a terminal."""

from __future__ import annotations

from io import StringIO

import pytest
from rich.console import Console

from tests.client.fakes import FakeHandle, status, task
from ytf.cli.submit import wait_for_job
from ytf.client.progress.terminal import job_table
from ytf.specs.status import JobState, TaskState, with_notes

NOTE = with_notes("", ["the disk is full"])
RUNNING = task("worker", 0, TaskState.RUNNING)
SUCCEEDED = task("worker", 0, TaskState.SUCCEEDED)


def test_a_note_is_said_when_it_comes_and_again_at_the_end(
    capfd: pytest.CaptureFixture[str],
) -> None:
    handle = FakeHandle(
        status(JobState.RUNNING, RUNNING),
        status(JobState.RUNNING, RUNNING, diagnostics=NOTE),
        status(JobState.SUCCEEDED, SUCCEEDED, diagnostics=with_notes("All.", ["the disk is full"])),
    )
    assert wait_for_job.wait_for_end("ytf", handle) == 0
    lines = capfd.readouterr().err.splitlines()
    assert [n for n, line in enumerate(lines) if line == NOTE] == [2, len(lines) - 1]
    assert "All." not in lines


def test_a_terminal_shows_notes_while_they_hold() -> None:
    console = Console(file=StringIO(), width=100)
    console.print(job_table(status(JobState.RUNNING, RUNNING, diagnostics=NOTE)))
    console.print(job_table(status(JobState.RUNNING, RUNNING, diagnostics="secret")))
    assert isinstance(console.file, StringIO)
    shown = console.file.getvalue()
    assert shown.count("the disk is full") == 1
    assert "secret" not in shown
