"""A home below a directory with an awkward name, and proof that nothing is left behind."""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest

from tests.backends.local.puppet import DEADLINE_S, Strings
from ytf import processes
from ytf.backends.local.burial import JOB_VARIABLE, end_processes
from ytf.backends.local.handle import LocalJob
from ytf.backends.local.home import Home
from ytf.backends.local.jobs import LocalJobs
from ytf.client.plan import Plan, Upload
from ytf.specs.job import JobSpec, MasterSpec, TaskGroupSpec
from ytf.specs.names import JobId

Submit = Callable[..., LocalJob]


def eventually(condition: Callable[[], bool], what: str) -> None:
    """Wait for a condition, at most until the deadline."""
    deadline = time.monotonic() + DEADLINE_S
    while not condition():
        assert time.monotonic() < deadline, f"never happened: {what}"
        time.sleep(0.01)


def is_running(pid: int) -> bool:
    return processes.start_ticks(pid) is not None


def is_gone(pid: int) -> bool:
    return not is_running(pid)


def node_pid(home: Home, job: JobId) -> int:
    pid: int = json.loads((home.staging(job) / "node.json").read_bytes())["pid"]
    return pid


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path / "a höme with spaces")


@pytest.fixture
def strings(tmp_path: Path) -> Iterator[Strings]:
    held = Strings(tmp_path / "strings")
    yield held
    held.close()


@pytest.fixture
def submit(home: Home, strings: Strings) -> Iterator[Submit]:
    """Submit a job whose masters are puppets; afterwards nothing of it may be left."""
    backend = LocalJobs(home, master=strings.command)
    nodes: dict[JobId, int] = {}

    def submit(*uploads: Upload, max_attempts: int = 4) -> LocalJob:
        spec = JobSpec(
            groups={"worker": TaskGroupSpec(count=2)},
            command="true",
            master=MasterSpec(max_attempts=max_attempts),
        )
        plan = Plan(spec=spec, backend="local", user="ada", uploads=uploads)
        handle = backend.submit(plan)
        nodes[handle.job] = node_pid(home, handle.job)
        return handle

    yield submit

    left = []
    for job, pid in nodes.items():
        if is_running(pid):
            os.kill(pid, signal.SIGTERM)
            eventually(partial(is_gone, pid), f"the end of node {pid}")
        left += processes.with_variable(JOB_VARIABLE, job)
        end_processes(job)
    assert left == [], "processes were left behind"
