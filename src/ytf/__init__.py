"""Distributed TensorFlow on Hadoop YARN and on one machine: the public API.

The modules of this package are private and may change. Names are imported when
they are first used, so that ``import ytf`` takes almost no time.
"""

from __future__ import annotations

# Not from typing: every starter imports this package, and typing costs it 2 MB.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from ytf import aio
    from ytf.backends.api import LogLine
    from ytf.client.job import Job, Outcome, job, jobs, submit
    from ytf.client.run import run, start
    from ytf.client.run_on_yarn import run_on_yarn, upload_env
    from ytf.client.topologies import (
        Metrics,
        NodeLabel,
        TaskSpec,
        ps_strategy_topology,
        single_server_topology,
    )
    from ytf.errors import (
        InternalError,
        JobFailedError,
        NotFoundError,
        OutcomeUnknownError,
        RefusedError,
        RunFailed,
        SettingsError,
        SpecError,
        UnreachableError,
        YtfError,
    )
    from ytf.functions.experiments import (
        DataLoaderArgs,
        DistributedDataParallelArgs,
        Experiment,
        KerasExperiment,
        PytorchExperiment,
        get_safe_experiment_fn,
    )
    from ytf.functions.shipped.report_metrics import report_metrics
    from ytf.specs.job import (
        Backoff,
        CheckpointSync,
        DockerRuntime,
        DockerSpec,
        Framework,
        JobSpec,
        MasterSpec,
        OnFailure,
        Placement,
        Resources,
        StageIn,
        StageOut,
        TaskGroupSpec,
        Timeouts,
    )
    from ytf.specs.status import (
        ClusterSpec,
        FinalStatus,
        JobEvent,
        JobState,
        JobStatus,
        JobSummary,
        TaskState,
        TaskStatus,
    )
    from ytf.specs.usage import GpuUsage, TaskUsage

__all__ = [
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

_MODULES = {
    "ytf.backends.api": ("LogLine",),
    "ytf.specs.usage": ("GpuUsage", "TaskUsage"),
    "ytf.client.job": ("Job", "Outcome", "job", "jobs", "submit"),
    "ytf.client.run": ("run", "start"),
    "ytf.client.run_on_yarn": ("run_on_yarn", "upload_env"),
    "ytf.client.topologies": (
        "Metrics",
        "NodeLabel",
        "TaskSpec",
        "ps_strategy_topology",
        "single_server_topology",
    ),
    "ytf.functions.experiments": (
        "DataLoaderArgs",
        "DistributedDataParallelArgs",
        "Experiment",
        "KerasExperiment",
        "PytorchExperiment",
        "get_safe_experiment_fn",
    ),
    "ytf.functions.shipped.report_metrics": ("report_metrics",),
    "ytf.specs.job": (
        "Backoff",
        "CheckpointSync",
        "DockerRuntime",
        "DockerSpec",
        "Framework",
        "JobSpec",
        "MasterSpec",
        "OnFailure",
        "Placement",
        "Resources",
        "StageIn",
        "StageOut",
        "TaskGroupSpec",
        "Timeouts",
    ),
    "ytf.specs.status": (
        "ClusterSpec",
        "FinalStatus",
        "JobEvent",
        "JobState",
        "JobStatus",
        "JobSummary",
        "TaskState",
        "TaskStatus",
    ),
}


def __getattr__(name: str) -> object:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    if name == "aio":
        return import_module("ytf.aio")
    module = next((each for each, names in _MODULES.items() if name in names), "ytf.errors")
    value: object = getattr(import_module(module), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
