"""Who submits, and interrupts while a job is being submitted with ``--wait``."""

from __future__ import annotations

import os
import signal
import sys

import pytest

from tests.client.fakes import JOB, FakeBackend, FakeHandle, status
from ytf.backends.api import (
    CheckInterrupt,
    JobHandle,
    Notify,
    OnCommit,
    PassingNotice,
    Plan,
    ignore_notice,
    never_interrupted,
    no_commit_hook,
)
from ytf.cli.submit import command
from ytf.client.progress.terminal import TerminalDisplay
from ytf.specs.status import JobState

WORDS = ["-r", "worker:1", "--wait", "true"]


class Interrupting(FakeBackend):
    """Ctrl-C comes before a job is handed over, or while it is accepted."""

    def __init__(self, *, early: bool) -> None:
        super().__init__(FakeHandle(status(JobState.SUBMITTED)))
        self._early = early

    def submit(
        self,
        plan: Plan,
        notify: Notify = ignore_notice,
        on_commit: OnCommit = no_commit_hook,
        check: CheckInterrupt = never_interrupted,
    ) -> JobHandle:
        if self._early:
            os.kill(os.getpid(), signal.SIGINT)
        handle = super().submit(plan, notify, on_commit, check)
        os.kill(os.getpid(), signal.SIGINT)
        return handle


def _install(monkeypatch: pytest.MonkeyPatch, backend: FakeBackend) -> None:
    monkeypatch.setattr("ytf.backends.get_backend", lambda name: backend)


def test_the_backend_says_who_submits(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    backend = FakeBackend(FakeHandle(status(JobState.SUBMITTED)))
    _install(monkeypatch, backend)
    assert command.main(["-r", "worker:1", "--dryrun", "true"]) == 0
    assert capfd.readouterr().out.startswith(f"job 'TensorFlow' for {backend.user()} on ")


@pytest.mark.parametrize("on_terminal", [True, False])
def test_how_far_an_upload_is_is_shown_on_a_terminal_only(
    on_terminal: bool, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    drawn: list[str] = []
    closed: list[bool] = []
    monkeypatch.setattr(TerminalDisplay, "notice", lambda display, text: drawn.append(text))
    monkeypatch.setattr(TerminalDisplay, "close", lambda display: closed.append(True))
    backend = FakeBackend(FakeHandle(status(JobState.SUBMITTED)))
    backend.tells = ["packing numpy", PassingNotice("10 %"), PassingNotice("20 %")]
    _install(monkeypatch, backend)
    monkeypatch.setattr(sys.stderr, "isatty", lambda: on_terminal)
    assert command.main(["-r", "worker:1", "true"]) == 0
    assert (drawn, closed) == ((["10 %", "20 %"], [True]) if on_terminal else ([], []))
    out, err = capfd.readouterr()
    assert out == f"{JOB}\n"
    assert "ytf-submit: packing numpy\n" in err
    assert "%" not in err


def test_an_interrupt_while_it_is_staged_stops_that(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    backend = Interrupting(early=True)
    _install(monkeypatch, backend)
    assert command.main(WORDS) == 130
    out, err = capfd.readouterr()
    assert out == ""
    assert err.endswith("ytf-submit: SIGINT: the submission was given up\n")
    assert backend.submitted == []


def test_one_while_it_is_accepted_is_answered_and_kills_the_job(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    backend = Interrupting(early=False)
    _install(monkeypatch, backend)
    assert command.main(WORDS) == 130
    err = capfd.readouterr().err
    first, second = (
        "it is killed afterwards (interrupt once more to leave now)",
        f"SIGINT: killing job {JOB}",
    )
    assert 0 < err.index(first) < err.index(second)
    assert backend.handle.killed == ["ytf-submit got SIGINT while it waited"]
