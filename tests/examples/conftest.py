"""Submitting the examples as a user would: real commands, real processes, real TensorFlow."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from ytf.testing.waiting import eventually

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples"
TENSORFLOW = ROOT / ".venv-tf"
COMMANDS = Path(sys.executable).parent

JOB_S = 600
"""What a job may take on a busy machine, where importing TensorFlow alone takes long."""


@dataclass
class Commands:
    """``ytf-submit`` and ``ytf`` in a home and a directory of their own."""

    home: Path
    directory: Path
    jobs: list[str] = field(default_factory=list)

    def run(self, name: str, *words: str, check: bool = True) -> subprocess.CompletedProcess[str]:
        """One command to its end, with its output."""
        done = subprocess.run(
            [COMMANDS / name, *words],
            cwd=self.directory,
            env=os.environ | {"YTF_HOME": str(self.home), "YTF_BACKEND": "local"},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
            timeout=JOB_S + 30,
        )
        if name == "ytf-submit" or words[0] == "submit":
            self.jobs += re.findall(r"^local_\S+", done.stdout, re.MULTILINE)
        if check and done.returncode != 0:
            pytest.fail(f"{name} {words} exited with {done.returncode}:\n{done.stderr}")
        return done

    def submit(self, *words: str, check: bool = True) -> Job:
        """Submit a job with ``ytf-submit``."""
        done = self.run("ytf-submit", "--timeout", str(JOB_S), *words, check=check)
        assert self.jobs, done.stderr
        return Job(self, self.jobs[-1], done)


@dataclass(frozen=True)
class Job:
    """One submitted job, and what the submitting command said."""

    commands: Commands
    id: str
    done: subprocess.CompletedProcess[str]

    def status(self) -> dict[str, object]:
        """``ytf status --json``."""
        seen = json.loads(self.commands.run("ytf", "status", self.id, "--json").stdout)
        assert isinstance(seen, dict)
        return seen

    def logs(self, *tasks: str) -> str:
        """What the tasks printed."""
        return self.commands.run("ytf", "logs", self.id, *tasks).stdout

    def wait(self) -> dict[str, object]:
        """Follow a job to its end; its last status."""
        self.commands.run("ytf", "logs", "-f", self.id)
        return self.status()

    def finals(self, *tasks: str) -> list[dict[str, str]]:
        """The ``FINAL name=value …`` lines of the tasks."""
        lines = self.logs(*tasks).splitlines()
        # A rank stands before the lines of a task with several processes.
        return [finals(line) for line in lines if re.search(r" \| (\[\d+\] )?FINAL ", line)]


def finals(line: str) -> dict[str, str]:
    """The values of one such line."""
    return dict(re.findall(r"(\w+)=(\S+)", line))


@pytest.fixture(scope="session")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One home for all, so that TensorBoard's environment is made once."""
    return tmp_path_factory.mktemp("home")


@pytest.fixture
def ytf(home: Path, tmp_path: Path) -> Iterator[Commands]:
    """The commands; afterwards nothing of their jobs is left."""
    commands = Commands(home, tmp_path)
    yield commands
    for job in commands.jobs:
        commands.run("ytf", "kill", job, check=False)
    eventually(
        lambda: not any(_processes(job) for job in commands.jobs), describe="all processes end"
    )
    eventually(
        lambda: not any((home / "jobs" / job).exists() for job in commands.jobs),
        describe="staging goes",
    )


@pytest.fixture
def tensorflow() -> str:
    """The environment that has TensorFlow, for ``--env``."""
    if not (TENSORFLOW / "bin" / "python").exists():
        pytest.fail(f"there is no {TENSORFLOW}: run scripts/environment tf")
    return str(TENSORFLOW)


def _processes(job: str) -> list[int]:
    """The processes that were started as part of a job."""
    found = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            environ = (entry / "environ").read_bytes()
        except (FileNotFoundError, ProcessLookupError, PermissionError):
            continue  # Gone meanwhile, or another user's.
        if f"YTF_JOB_ID={job}".encode() in environ.split(b"\0"):
            found.append(int(entry.name))
    return found
