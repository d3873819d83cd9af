"""Staged jobs, stand-in masters and a look at their processes, for tests of the local backend."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path

from ytf import processes
from ytf.backends.local.directories import JobDirectories
from ytf.backends.local.job_handle import LocalJobHandle
from ytf.specs import codec
from ytf.specs.ids import JobId
from ytf.specs.job import JobSpec, TaskGroupSpec

Submit = Callable[..., LocalJobHandle]
"""The type of the fixture ``submit``."""

SPEC = JobSpec(groups={"worker": TaskGroupSpec(count=2)}, command="true", name="näme")
OLD_JOB = JobId("local_20200101000000_abcd")


def is_running(pid: int) -> bool:
    return processes.start_ticks(pid) is not None


def is_gone(pid: int) -> bool:
    return not is_running(pid)


def node_pid(home: JobDirectories, job: JobId) -> int:
    pid: int = json.loads((home.staging(job) / "node.json").read_bytes())["pid"]
    return pid


def is_empty(home: JobDirectories) -> bool:
    return not any(home.jobs.iterdir()) and not any(home.history.iterdir())


def master_program(text: str) -> list[str]:
    """Return the command of a master that only runs this Python code."""
    return [sys.executable, "-I", "-S", "-c", f"import os, sys, time\n{text}"]


def stage_dead_job(home: JobDirectories, job: JobId = OLD_JOB) -> Path:
    """Make a staging directory as a submission leaves it, with a node that is dead."""
    home.ensure()
    directory = home.staging(job)
    directory.mkdir()
    (directory / "spec.json").write_text(codec.to_json(SPEC))
    about = {"id": job, "user": "ada", "submitted_at": 1.5, "backend": "local"}
    (directory / "job.json").write_text(json.dumps(about))
    (directory / "node.json").write_text('{"pid": 1, "start_ticks": 7}')
    home.logs(job).mkdir(parents=True)
    return directory
