"""Completion scripts: bash's is run, all three are compared with the parsers."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from ytf.cli import main
from ytf.cli.completion.grammar import commands
from ytf.cli.completion.scripts import script

BIN = Path(sys.executable).parent
TIMEOUT_S = 60.0

COMPLETE = """
source "$SCRIPT"
COMP_LINE="$1"; COMP_POINT=${#1}
read -ra COMP_WORDS <<< "$1"; COMP_CWORD=$((${#COMP_WORDS[@]} - 1))
_ytf_complete
printf '%s\\n' "${COMPREPLY[@]}"
"""


@pytest.fixture
def bash(tmp_path: Path) -> dict[str, str]:
    """The environment of a shell with the script, one running and one ended local job."""
    (tmp_path / "script").write_text(script("bash"))
    (tmp_path / "home" / "jobs" / "local_1_running").mkdir(parents=True)
    (tmp_path / "home" / "history" / "local_0_ended").mkdir(parents=True)
    (tmp_path / "home" / "clusters" / "mine").mkdir(parents=True)
    return {
        **os.environ,
        "SCRIPT": str(tmp_path / "script"),
        "PATH": f"{BIN}:{os.environ['PATH']}",
        "YTF_BACKEND": "local",
    }


def completed(environ: dict[str, str], line: str) -> list[str]:
    """What bash offers for a command line with the cursor at its end."""
    done = subprocess.run(
        ["bash", "-c", COMPLETE, "bash", line],
        env=environ,
        capture_output=True,
        text=True,
        check=True,
        timeout=TIMEOUT_S,
    )
    assert done.stderr == ""
    return [word for word in done.stdout.split("\n") if word]


@pytest.mark.parametrize(
    ("line", "offered"),
    [
        ("ytf st", ["status"]),
        ("ytf logs --f", ["--follow"]),
        ("ytf cluster fa", ["failover"]),
        ("ytf cluster up --had", ["--hadoop"]),
        ("ytf submit --backend ", ["local", "yarn"]),
        ("ytf-submit --plac", ["--placement"]),
        ("/usr/bin/ytf-submit -r worker:1 --placement s", ["spread"]),
        ("ytf-submit -r worker:", []),
        ("ytf-submit --timeout ", []),
        ("ytf completion z", ["zsh"]),
        ("ytf help ex", ["exit-codes"]),
        ("ytf kill ", ["@last", "local_1_running"]),
        # bash itself has taken the at sign for the end of a word.
        ("ytf kill @l", ["last"]),
        ("ytf logs ", ["@last", "local_1_running", "local_0_ended"]),
        ("ytf list --state S", ["SUBMITTED", "STARTING", "SUCCEEDED"]),
        ("ytf help lo", ["logs"]),
        ("ytf rm ", ["local_0_ended"]),
        ("ytf gc --old", ["--older-than"]),
        ("ytf logs --tail ", []),
        ("ytf logs --tail 5 local_0", ["local_0_ended"]),
        ("ytf cluster down --name ", ["mine"]),
        # A job that cannot be asked has no tasks to offer, and nothing is printed about it.
        ("ytf logs local_1_running ", []),
    ],
)
def test_bash_completes(bash: dict[str, str], line: str, offered: list[str]) -> None:
    assert completed(bash, line) == offered


def test_bash_completes_all_commands_and_files(bash: dict[str, str], tmp_path: Path) -> None:
    assert completed(bash, "ytf ") == list(main.parser().commands())
    (tmp_path / "a job.yaml").touch()
    assert completed(bash, f"ytf submit {tmp_path}/a") == [f"{tmp_path}/a job.yaml"]


def test_bash_replaces_what_follows_a_colon(bash: dict[str, str], tmp_path: Path) -> None:
    offer(bash, tmp_path, "worker", "worker:0", "worker:1")
    assert completed(bash, "ytf logs local_1_a w") == ["worker", "worker:0", "worker:1"]
    assert completed(bash, "ytf logs local_1_a worker:") == ["0", "1"]


@pytest.mark.parametrize("word", ["$(touch {0})", "`touch {0}`", "a;touch {0}", "${{IFS}}"])
def test_bash_neither_runs_nor_offers_what_is_no_plain_word(
    bash: dict[str, str], tmp_path: Path, word: str
) -> None:
    proof = tmp_path / "proof"
    offer(bash, tmp_path, word.format(proof), "worker:0", "*", "~", "two words")
    offered = completed(bash, "ytf logs application_1_1 ")
    assert not proof.exists()
    assert offered == ["worker:0"]


def offer(environ: dict[str, str], tmp_path: Path, *candidates: str) -> None:
    """Let a ytf that offers these candidates be the first in PATH."""
    fake = tmp_path / "bin" / "ytf"
    fake.parent.mkdir()
    text = shlex.quote("".join(f"{each}\n" for each in candidates))
    fake.write_text(f'#!/bin/sh\necho "$*" >&2\nprintf %s {text}\n')
    fake.chmod(0o755)
    environ["PATH"] = f"{fake.parent}:{environ['PATH']}"


@pytest.mark.parametrize("shell", main.SHELLS)
def test_every_command_and_option_is_in_the_script(
    shell: str, capfd: pytest.CaptureFixture[str]
) -> None:
    assert main.main(["completion", shell]) == 0
    text = capfd.readouterr().out
    for command in commands():
        assert all(name in text for name in command.commands)
        for word in (word for option in command.options for word in option.words):
            spelt = word if shell != "fish" else f"-{'l' if word[:2] == '--' else 's'} "
            assert spelt in text
    assert "completion --candidates" in text
    program = shutil.which(shell)
    if program is not None:
        subprocess.run([program, "-n"], input=text, text=True, check=True, timeout=TIMEOUT_S)


def test_fish_offers_jobs_and_tasks() -> None:
    text = script("fish")
    assert "-a '(__ytf_candidates tasks (__ytf_given)[1])'" in text
    assert "-a '(__ytf_candidates running)'" in text
    assert "-l follow -d 'go on until the job ends'" in text


def test_zsh_describes_commands_and_options() -> None:
    text = script("zsh")
    assert text.startswith("#compdef ytf ytf-submit\n")
    assert "\nstatus:Show the state of a job" in text
    assert "--follow:go on until the job ends" in text


def test_a_shell_must_be_named(capfd: pytest.CaptureFixture[str]) -> None:
    assert main.main(["completion"]) == 2
    assert "which shell?" in capfd.readouterr().err
    assert main.main(["completion", "tcsh"]) == 2
