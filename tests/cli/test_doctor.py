"""``ytf doctor``: what it prints, its JSON and its exit codes."""

from __future__ import annotations

import io
import json
import subprocess
import sys
import sysconfig
from functools import partial
from pathlib import Path

import pytest

from tests.cli.test_terminal import on_terminal
from ytf.backends.checks import Check, CheckFinding, failed, note, ok
from ytf.cli import doctor, main
from ytf.client.doctor import DoctorRequest
from ytf.specs.checks import CheckName, CheckState

LONG = "a sentence that is much too long for one line of a terminal, and so it is wrapped " * 2


def install(monkeypatch: pytest.MonkeyPatch, *findings: CheckFinding) -> None:
    """Let these be what the first checks find."""
    checks = [
        Check(name=name, run=partial(CheckFinding, *finding))
        for name, finding in zip(CheckName, findings, strict=False)
    ]
    monkeypatch.setattr("ytf.cli.doctor.make_checks", lambda request: checks)


def test_lines_are_aligned_and_fit_80_columns(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    skip = CheckFinding(CheckState.SKIPPED, "not checked, because settings failed")
    install(monkeypatch, ok("well"), note(LONG), failed("broken", LONG), skip)
    assert main.main(["doctor"]) == 1
    lines = capfd.readouterr().out.splitlines()
    assert all(len(line) <= 80 for line in lines)
    assert lines[0] == "ok    ytf       well"
    assert lines[1].startswith("note  YTF_HOME  a sentence")
    assert lines[2].startswith(" " * 16 + "so it is wrapped")
    [at] = [number for number, line in enumerate(lines) if line.startswith("FAIL")]
    assert lines[at] == "FAIL  settings  broken"
    assert lines[at + 1].startswith(" " * 16 + "hint: a sentence")
    assert lines[-3:] == [
        "skip  backend   not checked, because settings failed",
        "",
        "1 ok, 1 note, 1 failed, 1 skipped",
    ]


def test_text_of_others_gives_the_terminal_no_orders(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    install(monkeypatch, note("a\x1b[2Jb\nc", "d\x07"))
    assert main.main(["doctor"]) == 0
    out = capfd.readouterr().out
    assert "a\\x1b[2Jb\n           c\n           hint: d\\x07\n" in out


def test_json_is_a_list_with_all_fields(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    install(monkeypatch, ok("well"), failed("broken", "mend it"))
    assert main.main(["doctor", "--json"]) == 1
    assert json.loads(capfd.readouterr().out) == [
        {"name": "ytf", "state": "ok", "text": "well", "hint": None},
        {"name": "YTF_HOME", "state": "failed", "text": "broken", "hint": "mend it"},
    ]


def test_notes_are_no_failures(monkeypatch: pytest.MonkeyPatch) -> None:
    install(monkeypatch, ok("well"), note("odd"))
    assert main.main(["doctor"]) == 0


def test_options_become_the_request(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[DoctorRequest] = []

    def make(request: DoctorRequest) -> list[Check]:
        asked.append(request)
        return [Check(name=CheckName.YTF, run=lambda: ok("well"))]

    monkeypatch.setattr(doctor, "make_checks", make)
    assert main.main(["doctor", "--no_remote", "-q", "ml", "--backend", "local"]) == 0
    assert main.main(["doctor"]) == 0
    assert [(each.backend, each.queue, each.runs_job) for each in asked] == [
        ("local", "ml", False),
        (None, None, True),
    ]


def test_tf_yarns_name_for_it_is_about_hadoop_even_where_there_is_none() -> None:
    command = Path(sysconfig.get_path("scripts"), "check_hadoop_env")
    done = subprocess.run([command, "--no_remote"], capture_output=True, text=True, check=False)
    assert done.returncode == 1, done.stderr
    assert "ok    backend          yarn (from --backend)\n" in done.stdout
    assert "FAIL  configuration    no Hadoop configuration was found\n" in done.stdout
    assert "skip  ResourceManager  not checked, because configuration failed\n" in done.stdout


def test_on_a_terminal_states_have_colours(monkeypatch: pytest.MonkeyPatch) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    install(monkeypatch, ok("well"), failed("broken"))
    monkeypatch.delenv("NO_COLOR", raising=False)
    for variable, is_coloured in (("X", True), ("NO_COLOR", False)):
        monkeypatch.setenv(variable, "1")
        terminal = Terminal()
        monkeypatch.setattr(sys, "stdout", terminal)
        assert doctor.doctor(backend=None, queue=None, remote=False, json=False) == 1
        shown = terminal.getvalue()
        assert ("\x1b[32mok    \x1b[0mytf" in shown) == is_coloured
        assert ("\x1b[1;31mFAIL  \x1b[0mYTF_HOME" in shown) == is_coloured


def test_on_a_real_terminal_that_is_narrow() -> None:
    lines = on_terminal("doctor", "--no_remote", "--backend", "local", columns=60)
    assert lines[0].startswith("ok    ytf ")
    # Only what cannot be broken, such as a path, is longer.
    assert all(len(line) <= 60 for line in lines if "/" not in line)
    assert lines[-1].partition(" ok")[0] in ("4", "5", "6")
