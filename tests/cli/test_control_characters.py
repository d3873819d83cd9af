"""What other people's applications and remote peers say cannot control the user's terminal."""

from __future__ import annotations

import io

import msgspec
import pytest
from rich.console import Console

from tests.cli.conftest import Install
from tests.client.fakes import JOB, status, task
from ytf.backends.api import LogLine
from ytf.cli import main
from ytf.client.progress.terminal import job_table, rich_table
from ytf.errors import RefusedError
from ytf.specs.ids import TaskId
from ytf.specs.status import JobEvent, JobState, JobStatus, TaskState

HOSTILE = "a\x1b]0;owned\x07b\n\x9b2Jc"


def _hostile_status() -> JobStatus:
    return msgspec.structs.replace(
        status(JobState.FAILED, task("worker", 0, TaskState.FAILED, reason=HOSTILE)),
        name=HOSTILE,
        user=HOSTILE,
        queue=HOSTILE,
        diagnostics=HOSTILE,
        tracking_url=HOSTILE,
    )


@pytest.mark.parametrize(
    "words",
    [
        ["status", JOB],
        ["status", JOB, "--json"],
        ["list", "--backend", "local"],
        ["list", "--backend", "local", "--json"],
        ["top", JOB],
        ["top", JOB, "--json"],
        ["events", JOB],
        ["events", JOB, "--json"],
    ],
)
def test_what_others_named_is_shown_without_control_characters(
    words: list[str], install: Install, capfd: pytest.CaptureFixture[str]
) -> None:
    backend = install(_hostile_status())
    backend.handle.happened = [JobEvent(at=0.0, event=HOSTILE, task="worker:0", text=HOSTILE)]
    assert main.main(words) == 0
    told = capfd.readouterr()
    assert not {"\x1b", "\x07", "\x9b"} & set(told.out + told.err)
    assert "owned" in told.out


def test_what_a_peer_answers_is_shown_without_control_characters(
    install: Install, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    def refuse(job: str) -> None:
        raise RefusedError(f"the server says {HOSTILE}", hint=HOSTILE)

    monkeypatch.setattr(install(), "open", refuse)
    assert main.main(["status", JOB]) == 1
    assert capfd.readouterr().err == (
        "ytf: error: the server says a\\x1b]0;owned\\x07b\n\\x9b2Jc\n"
        "hint: a\\x1b]0;owned\\x07b\n\\x9b2Jc\n"
    )


@pytest.mark.parametrize("terminal", [True, False])
def test_lines_of_a_log(
    terminal: bool,
    install: Install,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    backend = install(status(JobState.RUNNING, task("worker", 0, TaskState.RUNNING)))
    backend.handle.lines = [
        LogLine(task=TaskId("worker:0"), attempt=1, stream="stdout", text="\x1b[1mb\x1b[2J")
    ]
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setattr("os.isatty", lambda fd: terminal)
    monkeypatch.setattr("ytf.cli.output._Stdout.isatty", lambda stream: terminal, raising=False)
    assert main.main(["logs", JOB]) == 0
    shown = "\x1b[1mb\\x1b[2J" if terminal else "\x1b[1mb\x1b[2J"
    assert capfd.readouterr().out == f"worker:0 | {shown}\n"


def test_a_table_on_a_terminal() -> None:
    screen = io.StringIO()
    console = Console(file=screen, force_terminal=True, color_system=None, width=80)
    console.print(rich_table(("name",), [(HOSTILE,)]))
    console.print(job_table(_hostile_status()))
    assert "owned" in screen.getvalue()
    assert not {"\x1b", "\x07", "\x9b"} & set(screen.getvalue())
