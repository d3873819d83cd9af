"""``ytf logs --tail``: what counts as the last lines of a job that goes on writing."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.cli.conftest import Install
from tests.client.fakes import JOB, status, task
from ytf.backends.api import LogLine, Notify, ignore_notice
from ytf.cli import main
from ytf.specs.ids import TaskId
from ytf.specs.status import JobState, TaskState


def test_what_is_written_after_the_look_is_not_among_the_last_lines(
    install: Install, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    backend = install(status(JobState.RUNNING, task("worker", 0, TaskState.RUNNING)))
    written = ["t1", "t2", "t3"]

    def lines(
        tasks: list[TaskId], *, follow: bool, notify: Notify = ignore_notice
    ) -> Iterator[LogLine]:
        notify("the master does not answer")
        for text in written:
            yield LogLine(TaskId("worker:0"), 1, "stdout", text)
        written.append("t4")

    monkeypatch.setattr(backend.handle, "logs", lines)
    assert main.main(["logs", JOB, "--tail", "2"]) == 0
    told = capfd.readouterr()
    assert told.out == "worker:0 | t2\nworker:0 | t3\n"
    assert told.err == "ytf: the master does not answer\n"
    assert written == ["t1", "t2", "t3", "t4"], "looked once"
