"""The two commands as processes: start-up, pipes and signals."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.client.fakes import JOB

ROOT = Path(__file__).resolve().parents[2]
BIN = Path(sys.executable).parent
HEAVY = ("msgspec", "asyncio", "rich", "yaml", "subprocess", "ytf.specs.job", "ytf.client")
TIMEOUT_S = 30.0


@pytest.mark.parametrize("module", ["ytf.cli.main", "ytf.cli.submit.command"])
@pytest.mark.parametrize("option", ["--help", "--version"])
def test_help_imports_nothing_heavy(module: str, option: str) -> None:
    code = (
        f"import sys; from {module} import main\n"
        "try:\n    code = main(sys.argv[1:])\nexcept SystemExit as exit:\n    code = exit.code\n"
        f"print([m for m in {HEAVY!r} if m in sys.modules], file=sys.stderr)\nsys.exit(code)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, option],
        capture_output=True,
        text=True,
        check=False,
        timeout=TIMEOUT_S,
    )
    assert (done.returncode, done.stderr) == (0, "[]\n")
    assert done.stdout.startswith(("usage: ytf", "ytf ", "ytf-submit "))


def test_the_commands_are_installed() -> None:
    for name in ("ytf", "ytf-submit"):
        done = subprocess.run(
            [BIN / name, "--help"], capture_output=True, text=True, check=False, timeout=TIMEOUT_S
        )
        assert done.returncode == 0
        assert done.stdout.startswith(f"usage: {name} ")


def test_every_option_of_the_seed_is_in_the_help() -> None:
    done = subprocess.run(
        [BIN / "ytf-submit", "-h"], capture_output=True, text=True, check=True, timeout=TIMEOUT_S
    )
    for option in (
        *("-r", "--cluster_requirement", "-c", "--task_vcores", "-m", "--task_memory"),
        *("-i", "--input", "-o", "--output", "-s", "--script", "-t", "--tensorboard"),
        *("--docker_image", "-q", "--queue", "-n", "--name", "--client", "DTF_TASK_SCRIPT"),
    ):
        assert option in done.stdout


def test_wrong_usage_by_process() -> None:
    done = subprocess.run(
        [BIN / "ytf-submit", "-r", "worker:1", "python", "x.py"],
        capture_output=True,
        text=True,
        check=False,
        timeout=TIMEOUT_S,
    )
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("ytf-submit: error: expected one task command, got 2 words")


def test_a_reader_that_leaves_is_no_error() -> None:
    reading, writing = os.pipe()
    os.close(reading)
    try:
        done = subprocess.run(
            [BIN / "ytf", "schema"],
            stdout=writing,
            stderr=subprocess.PIPE,
            check=False,
            timeout=TIMEOUT_S,
        )
    finally:
        os.close(writing)
    assert (done.returncode, done.stderr) == (141, b"")


def _broken(tmp_path: Path, words: str) -> subprocess.CompletedProcess[str]:
    """A command by a shell, which can break its streams, where a job is accepted at once."""
    driver = f"exec {sys.executable} -m tests.cli.driver"
    return subprocess.run(
        ["bash", "-c", words.replace("DRIVER", driver)],
        cwd=ROOT,
        env={**os.environ, "YTF_HOME": str(tmp_path), "YTF_BACKEND": "local"},
        capture_output=True,
        text=True,
        check=False,
        timeout=TIMEOUT_S,
    )


@pytest.mark.parametrize(
    ("redirection", "reason"),
    [(">&-", "Bad file descriptor"), (">/dev/full", "No space left on device")],
)
def test_an_id_that_stdout_does_not_take_is_said(
    tmp_path: Path, redirection: str, reason: str
) -> None:
    done = _broken(tmp_path, f"DRIVER quick -r worker:1 true {redirection}")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.splitlines()[1:] == [
        f"ytf-submit: job {JOB} was accepted and goes on",
        f"ytf-submit: error: its id cannot be written to stdout: {reason}",
    ]


@pytest.mark.parametrize("redirection", ["2>&-", "2>/dev/full", "<&-", "<&- 2>&-"])
def test_a_job_is_accepted_whatever_the_other_streams_are(tmp_path: Path, redirection: str) -> None:
    done = _broken(tmp_path, f"DRIVER quick -r worker:1 true {redirection}")
    assert (done.returncode, done.stdout) == (0, f"{JOB}\n")
    assert "Traceback" not in done.stderr


def test_waiting_goes_on_when_nobody_reads(tmp_path: Path) -> None:
    words = "set -o pipefail; (DRIVER over -r worker:1 --wait true) 2>&1 | true"
    assert _broken(tmp_path, words).returncode == 0


@pytest.mark.parametrize("redirection", [">&-", ">/dev/full"])
@pytest.mark.parametrize("command", ["schema", "list"])
def test_output_that_cannot_be_written(tmp_path: Path, command: str, redirection: str) -> None:
    done = _broken(tmp_path, f"exec {BIN / 'ytf'} {command} {redirection}")
    assert done.returncode == 1
    assert "ytf: error: the output cannot be written to stdout: " in done.stderr
    assert "Traceback" not in done.stderr


def test_ascii_output_takes_any_character(tmp_path: Path) -> None:
    environ = {
        **os.environ,
        "PYTHONIOENCODING": "ascii",
        "YTF_BACKEND": "local",
        "YTF_HOME": str(tmp_path),
    }
    words = ["-r", "worker:1", "--dryrun", "-n", "J\u00f6b", "true"]
    said = []
    for more in ([], ["--json"]):
        done = subprocess.run(
            [BIN / "ytf-submit", *more, *words],
            env=environ,
            capture_output=True,
            check=True,
            timeout=TIMEOUT_S,
        )
        said.append(done.stdout)
    assert said[0].startswith(b"job 'J\\xf6b' for ")
    assert json.loads(said[1].decode())["spec"]["name"] == "J\u00f6b"


def test_a_directory_that_was_removed(tmp_path: Path) -> None:
    words = f"mkdir {tmp_path}/gone && cd {tmp_path}/gone && rmdir {tmp_path}/gone && "
    done = _broken(tmp_path, f"{words} exec {BIN / 'ytf'} list")
    assert done.returncode == 2
    assert done.stderr.startswith("ytf: error: the working directory does not exist any more\n")


def test_ctrl_c_while_python_is_loading_is_quiet() -> None:
    code = (
        "import builtins, os, signal\n"
        "from ytf.cli import entry\n"
        "real = builtins.__import__\n"
        "def slow(name, *rest):\n"
        "    if name == 'ytf.cli.main':\n"
        "        os.kill(os.getpid(), signal.SIGINT)\n"
        "    return real(name, *rest)\n"
        "builtins.__import__ = slow\n"
        "entry.ytf()\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, check=False, timeout=TIMEOUT_S
    )
    assert (done.returncode, done.stderr) == (130, b"")


@contextmanager
def _waiting(tmp_path: Path, kind: str) -> Iterator[subprocess.Popen[str]]:
    """``ytf-submit --wait`` that has just said that its job runs."""
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.cli.driver", kind, "-r", "worker:1", "--wait", "true"],
        cwd=ROOT,
        env={**os.environ, "YTF_HOME": str(tmp_path), "YTF_BACKEND": "local"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stderr is not None
    try:
        assert process.stdout.readline() == f"{JOB}\n"
        _read_until(process, f"job {JOB}: RUNNING")
        yield process
    finally:
        process.kill()
        process.wait(TIMEOUT_S)
        process.stdout.close()
        process.stderr.close()


def _read_until(process: subprocess.Popen[str], text: str) -> None:
    assert process.stderr is not None
    for line in process.stderr:
        if text in line:
            return
    pytest.fail(f"it ended without saying {text!r}")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_kills_the_job_and_says_so(tmp_path: Path, number: signal.Signals) -> None:
    with _waiting(tmp_path, "quick") as process:
        process.send_signal(number)
        _read_until(process, f"ytf-submit: {number.name}: killing job {JOB}")
        _read_until(process, f"kill: ytf-submit got {number.name} while it waited")
        _read_until(process, f"ytf-submit: job {JOB} is KILLED")
        assert process.wait(TIMEOUT_S) == 128 + number


def test_a_second_one_leaves_at_once(tmp_path: Path) -> None:
    with _waiting(tmp_path, "slow") as process:
        process.send_signal(signal.SIGINT)
        _read_until(process, "kill: ")
        process.send_signal(signal.SIGINT)
        _read_until(process, f"ytf-submit: left; see `ytf status {JOB}`")
        assert process.wait(TIMEOUT_S) == 130
