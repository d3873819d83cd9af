"""A YTF_HOME with an awkward name, and a check that jobs leave no process behind."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from tests.backends.local.fake_master import DEADLINE_S, FakeMasters
from tests.backends.local.harness import Submit, is_gone, is_running, node_pid
from ytf import processes
from ytf.backends.api import Plan, Upload
from ytf.backends.local.backend import LocalJobBackend
from ytf.backends.local.directories import JobDirectories
from ytf.backends.local.job_handle import LocalJobHandle
from ytf.backends.local.job_processes import JOB_VARIABLE, kill_job_processes
from ytf.specs.ids import JobId
from ytf.specs.job import JobSpec, MasterSpec, TaskGroupSpec
from ytf.testing.waiting import eventually


@pytest.fixture
def home(tmp_path: Path) -> JobDirectories:
    return JobDirectories(tmp_path / "a höme with spaces")


@pytest.fixture
def fake_masters(tmp_path: Path) -> Iterator[FakeMasters]:
    masters = FakeMasters(tmp_path / "masters")
    yield masters
    masters.close()


@pytest.fixture
def submit(home: JobDirectories, fake_masters: FakeMasters) -> Iterator[Submit]:
    """Submit a job with fake masters; afterwards no process of it may be left."""
    backend = LocalJobBackend(home, master=fake_masters.command)
    nodes: dict[JobId, int] = {}

    def submit(*uploads: Upload, max_attempts: int = 4) -> LocalJobHandle:
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
            eventually(partial(is_gone, pid), DEADLINE_S, f"the end of node {pid}")
        left += processes.with_variable(JOB_VARIABLE, job)
        kill_job_processes(job)
    assert left == [], "processes were left behind"
