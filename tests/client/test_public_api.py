from __future__ import annotations

import subprocess
import sys

import pytest

import ytf
from ytf.specs.job import SPECS

PUBLIC = [
    "Backoff",
    "CheckpointSync",
    "ClusterSpec",
    "DataLoaderArgs",
    "DistributedDataParallelArgs",
    "DockerRuntime",
    "DockerSpec",
    "Experiment",
    "FinalStatus",
    "Framework",
    "GpuUsage",
    "InternalError",
    "Job",
    "JobEvent",
    "JobFailedError",
    "JobSpec",
    "JobState",
    "JobStatus",
    "JobSummary",
    "KerasExperiment",
    "LogLine",
    "MasterSpec",
    "Metrics",
    "NodeLabel",
    "NotFoundError",
    "OnFailure",
    "Outcome",
    "OutcomeUnknownError",
    "Placement",
    "PytorchExperiment",
    "RefusedError",
    "Resources",
    "RunFailed",
    "SettingsError",
    "SpecError",
    "StageIn",
    "StageOut",
    "TaskGroupSpec",
    "TaskSpec",
    "TaskState",
    "TaskStatus",
    "TaskUsage",
    "Timeouts",
    "UnreachableError",
    "YtfError",
    "aio",
    "get_safe_experiment_fn",
    "job",
    "jobs",
    "ps_strategy_topology",
    "report_metrics",
    "run",
    "run_on_yarn",
    "single_server_topology",
    "start",
    "submit",
    "upload_env",
]


def test_the_public_names_are_these_and_no_others() -> None:
    assert ytf.__all__ == PUBLIC
    assert dir(ytf) == sorted(PUBLIC)


@pytest.mark.parametrize("name", PUBLIC)
def test_each_can_be_had(name: str) -> None:
    assert getattr(ytf, name).__name__.removeprefix("ytf.") == name


def test_every_part_of_a_job_spec_can_be_had() -> None:
    assert {spec.__name__ for spec in SPECS} <= set(PUBLIC)


def test_others_cannot() -> None:
    with pytest.raises(AttributeError, match="no attribute 'Machine'"):
        _ = ytf.Machine


def test_importing_costs_next_to_nothing() -> None:
    code = "import sys, ytf; print([m for m in ('msgspec', 'asyncio', 'rich') if m in sys.modules])"
    said = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=100
    )
    assert said.stdout == "[]\n"
