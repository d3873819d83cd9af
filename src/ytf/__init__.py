"""Distributed TensorFlow on Hadoop YARN, and on a laptop.

The public API; everything else is private and may change. Names are loaded
when they are first used, so that ``import ytf`` costs next to nothing.
"""

from __future__ import annotations

# Not from typing: every starter imports this package, and typing costs it 2 MB.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from ytf.client.job import Job, Outcome, job, submit
    from ytf.errors import (
        InternalError,
        JobFailedError,
        NotFoundError,
        OutcomeUnknownError,
        RefusedError,
        SettingsError,
        SpecError,
        UnreachableError,
        YtfError,
    )
    from ytf.specs.cluster import ClusterSpec
    from ytf.specs.job import (
        Backoff,
        Framework,
        JobSpec,
        MasterSpec,
        OnFailure,
        Placement,
        RegistryKind,
        Resources,
        TaskGroupSpec,
        Timeouts,
    )
    from ytf.specs.status import (
        FinalStatus,
        JobEvent,
        JobState,
        JobStatus,
        TaskState,
        TaskStatus,
    )

__all__ = [
    "Backoff",
    "ClusterSpec",
    "FinalStatus",
    "Framework",
    "InternalError",
    "Job",
    "JobEvent",
    "JobFailedError",
    "JobSpec",
    "JobState",
    "JobStatus",
    "MasterSpec",
    "NotFoundError",
    "OnFailure",
    "Outcome",
    "OutcomeUnknownError",
    "Placement",
    "RefusedError",
    "RegistryKind",
    "Resources",
    "SettingsError",
    "SpecError",
    "TaskGroupSpec",
    "TaskState",
    "TaskStatus",
    "Timeouts",
    "UnreachableError",
    "YtfError",
    "job",
    "submit",
]

_HOMES = {
    "ytf.client.job": ("Job", "Outcome", "job", "submit"),
    "ytf.specs.cluster": ("ClusterSpec",),
    "ytf.specs.job": (
        "Backoff",
        "Framework",
        "JobSpec",
        "MasterSpec",
        "OnFailure",
        "Placement",
        "RegistryKind",
        "Resources",
        "TaskGroupSpec",
        "Timeouts",
    ),
    "ytf.specs.status": (
        "FinalStatus",
        "JobEvent",
        "JobState",
        "JobStatus",
        "TaskState",
        "TaskStatus",
    ),
}


def __getattr__(name: str) -> object:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    home = next((home for home, names in _HOMES.items() if name in names), "ytf.errors")
    value: object = getattr(import_module(home), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
