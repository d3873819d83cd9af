from __future__ import annotations

import io
import logging
import sys
import threading
from pathlib import Path
from types import SimpleNamespace

import pytest

from tests.client.fakes import JOB, FakeBackend, FakeHandle, status, task
from ytf.backends.api import PassingNotice
from ytf.client.follow import Change
from ytf.client.job import Job, submit
from ytf.client.progress.lines import LineDisplay
from ytf.client.progress.reporter import ProgressReporter, is_logged, open_reporter
from ytf.client.run import wait_or_kill
from ytf.errors import UnreachableError
from ytf.specs.job import JobSpec, TaskGroupSpec
from ytf.specs.status import JobState, JobStatus, TaskState

RUNNING = status(JobState.RUNNING, task("worker", 0, TaskState.RUNNING, host="n1", port=4000))
FAILED = status(
    JobState.FAILED,
    task("worker", 0, TaskState.FAILED, exit_code=3),
    diagnostics="worker:0 failed on n1: exit code 3\nits last lines",
)
SPEC = JobSpec(groups={"worker": TaskGroupSpec(count=1)}, command="true")


@pytest.fixture(autouse=True)
def _home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("YTF_HOME", str(tmp_path))


@pytest.fixture(autouse=True)
def log(monkeypatch: pytest.MonkeyPatch) -> logging.Logger:
    """The logger as a program has it that configures none. Of the real one pytest keeps records."""
    log = logging.Logger("ytf", logging.WARNING)
    monkeypatch.setattr("ytf.client.progress.reporter._log", log)
    return log


def test_without_a_terminal_each_change_is_a_line_on_stderr(
    capfd: pytest.CaptureFixture[str],
) -> None:
    backend = FakeBackend(FakeHandle(status(JobState.SUBMITTED), RUNNING, FAILED))
    backend.tells = ["packing \x1b[2Jnumpy"]
    threads = threading.enumerate()
    assert not submit(SPEC, backend=backend).wait().succeeded
    shown = capfd.readouterr()
    assert shown.out == ""
    assert shown.err.splitlines() == [
        "ytf: packing \\x1b[2Jnumpy",
        f"ytf: job {JOB} is accepted",
        f"ytf: job {JOB}: SUBMITTED",
        "ytf: worker:0 RUNNING on n1:4000",
        f"ytf: job {JOB}: RUNNING",
        "ytf: worker:0 FAILED exit code 3",
        f"ytf: job {JOB}: FAILED",
        "ytf: worker:0 failed on n1: exit code 3",
        f"ytf: `ytf logs {JOB}` shows what the tasks wrote",
    ]
    assert threading.enumerate() == threads


def test_nothing_is_shown_of_a_job_that_has_ended_or_if_the_caller_says_so(
    capfd: pytest.CaptureFixture[str],
) -> None:
    Job(FakeHandle(FAILED)).wait()
    handle = FakeHandle(RUNNING, FAILED)
    submit(SPEC, backend=FakeBackend(handle), progress=False).wait(progress=False)
    assert capfd.readouterr().err == ""


def test_who_reads_the_logger_has_it_there_and_only_there(
    log: logging.Logger, capfd: pytest.CaptureFixture[str]
) -> None:
    logged = io.StringIO()
    handler = logging.StreamHandler(logged)
    log.addHandler(handler)
    log.setLevel(logging.INFO)
    Job(FakeHandle(RUNNING, FAILED)).wait()
    assert logged.getvalue().splitlines()[:2] == [
        "worker:0 RUNNING on n1:4000",
        f"job {JOB}: RUNNING",
    ]
    assert capfd.readouterr().err == ""
    Job(FakeHandle(RUNNING, FAILED)).wait(progress=True)
    assert f"ytf: job {JOB}: FAILED" in capfd.readouterr().err

    handler.setLevel(logging.WARNING)
    with open_reporter(None) as reporter:
        reporter.notify("shown")
        reporter.warn("logged")
    assert capfd.readouterr().err == "ytf: shown\n"
    assert logged.getvalue().endswith("logged\n")


def test_a_logger_that_is_silenced_is_not_read(log: logging.Logger) -> None:
    log.addHandler(logging.NullHandler())
    log.setLevel(logging.INFO)
    assert not is_logged(logging.WARNING)


def test_a_stderr_that_cannot_be_written_does_not_end_a_wait(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    closed = io.StringIO()
    closed.close()
    with open_reporter(None) as reporter:
        monkeypatch.setattr(sys, "stderr", closed)
        assert reporter.follow(FakeHandle(RUNNING, FAILED)) == FAILED
    odd = SimpleNamespace(write=lambda text: None, flush=lambda: None)
    for stream in (closed, None, odd):
        monkeypatch.setattr(sys, "stderr", stream)
        assert not Job(FakeHandle(RUNNING, FAILED)).wait().succeeded


class Interrupted(FakeHandle):
    """The handle of a job whose waiter is interrupted, once."""

    is_interrupted = False

    def wait(self, known: JobStatus | None = None, timeout_s: float = 30.0) -> JobStatus:
        if not self.is_interrupted:
            self.is_interrupted = True
            raise KeyboardInterrupt
        return super().wait(known, timeout_s)


def test_an_interrupt_of_a_wait_only_stops_it_and_says_so(
    capfd: pytest.CaptureFixture[str],
) -> None:
    handle = Interrupted(RUNNING)
    with pytest.raises(KeyboardInterrupt):
        Job(handle).wait()
    assert handle.killed == []
    last = capfd.readouterr().err.splitlines()[-1]
    assert last == f"ytf: stopped waiting: job {JOB} goes on (its kill() ends it)"


def test_an_interrupt_of_a_run_kills_the_job_and_shows_its_end(
    capfd: pytest.CaptureFixture[str],
) -> None:
    handle = Interrupted(RUNNING)
    with open_reporter(None) as reporter, pytest.raises(KeyboardInterrupt):
        wait_or_kill(Job(handle), reporter)
    assert handle.killed == ["interrupted while it was waited for"]
    lines = capfd.readouterr().err.splitlines()
    told = f"ytf: interrupted: killing job {JOB} (interrupt again to leave at once)"
    assert lines[lines.index(told) + 1 :][-1] == f"ytf: job {JOB} is killed"
    assert f"ytf: job {JOB}: KILLED" in lines


def test_an_interrupt_of_a_submission_says_that_it_was_given_up(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    def interrupt(*args: object, **options: object) -> None:
        raise KeyboardInterrupt

    backend = FakeBackend(FakeHandle(RUNNING))
    monkeypatch.setattr(backend, "submit", interrupt)
    with pytest.raises(KeyboardInterrupt):
        submit(SPEC, backend=backend)
    assert capfd.readouterr().err == "ytf: interrupted: the submission was given up\n"


def test_a_job_that_cannot_be_killed_is_told_of(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    def fail(reason: str) -> None:
        raise UnreachableError("no answer")

    handle = Interrupted(RUNNING)
    monkeypatch.setattr(handle, "kill", fail)
    with open_reporter(None) as reporter, pytest.raises(KeyboardInterrupt):
        wait_or_kill(Job(handle), reporter)
    last = capfd.readouterr().err.splitlines()[-1]
    assert last == f"ytf: no answer; the job may go on: `ytf kill {JOB}` ends it"


def test_what_passes_is_no_line_and_not_logged(
    log: logging.Logger, capfd: pytest.CaptureFixture[str]
) -> None:
    logged = io.StringIO()
    log.addHandler(logging.StreamHandler(logged))
    with open_reporter(None) as reporter:
        reporter.notify(PassingNotice("uploading 10 %"))
    log.setLevel(logging.INFO)
    with open_reporter(None) as reporter:
        reporter.notify(PassingNotice("uploading 10 %"))
    assert (logged.getvalue(), capfd.readouterr().err) == ("", "")


def test_only_what_is_drawn_anew_asks_for_more_than_changes() -> None:
    assert ProgressReporter(LineDisplay()).tick_s is None
    assert ProgressReporter().tick_s is None
    lines: list[str] = []
    ProgressReporter(LineDisplay(lines.append)).update(Change(RUNNING, RUNNING, {}))
    assert lines == []
