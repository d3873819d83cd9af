"""The environment of a program at the terminal: a task's, but nothing of other users' choice."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.client.fakes import JOB
from ytf.backends.api import JobCredentials
from ytf.client.client_env import client_env
from ytf.specs.job import JobSpec, TaskGroupSpec
from ytf.starter.desired_state import ReceivedClusterSpec

MASTER = "http://127.0.0.1:1"


@pytest.fixture
def environment(tmp_path: Path) -> Path:
    """An environment with a bash of its own."""
    bash = tmp_path / "env" / "bin" / "bash"
    bash.parent.mkdir(parents=True)
    bash.write_text("#!/bin/sh\n")
    bash.chmod(0o755)
    return tmp_path / "env"


def credentials(owner: str, environment: Path) -> JobCredentials:
    return JobCredentials(
        job=JOB,
        spec=JobSpec(
            groups={"worker": TaskGroupSpec(count=1)},
            command="true",
            env=str(environment),
            task_env={"BASH_ENV": "/tmp/theirs.sh", "LD_PRELOAD": "/tmp/theirs.so"},
            input="/data",
        ),
        user="alice",
        owner=owner,
        secret=b"secret",
        find_master=lambda: None,
        folder=None,
    )


def program(owner: str, environment: Path) -> tuple[list[str], dict[bytes, bytes], list[str]]:
    """The words and the variables of ``true`` as a client of a job, and what was told."""
    told: list[str] = []
    way = credentials(owner, environment)
    with client_env(way, MASTER, "true", index=0, notify=told.append) as env:
        made = env.command(ReceivedClusterSpec(1, 1, {"worker": ["a:1"]}), attempt=1)
        return made.argv, dict(made.env), told


def test_a_program_of_ones_own_job_has_the_tasks_environment(environment: Path) -> None:
    argv, env, told = program("alice", environment)
    assert argv[0] == str(environment / "bin" / "bash")
    assert env[b"BASH_ENV"] == b"/tmp/theirs.sh"
    assert told == []


def test_no_variable_of_another_users_job_reaches_a_program(
    environment: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("BASH_ENV", raising=False)
    monkeypatch.setenv("LD_PRELOAD", "")
    argv, env, told = program("mallory", environment)
    assert not argv[0].startswith(str(environment))
    assert b"BASH_ENV" not in env
    assert env[b"LD_PRELOAD"] == b""
    assert str(environment).encode() not in env[b"PATH"]
    assert env.get(b"VIRTUAL_ENV") != str(environment).encode()
    # What the program is to work on is the job's all the same.
    assert env[b"DTF_INPUT_PATH"] == b"/data"
    assert env[b"DTF_WORKER_HOSTS"] == b"a:1"
    assert len(told) == 1
    assert "a job of mallory" in told[0]
