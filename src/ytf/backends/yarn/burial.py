"""The end of a job that YARN ended without its master: a record, and nothing else left."""

from __future__ import annotations

import time

from ytf.backends.yarn.home import JobHome
from ytf.specs import codec
from ytf.specs.job import JobSpec
from ytf.specs.status import JobEvent, JobRecord, JobStatus


def bury(home: JobHome, status: JobStatus, spec: JobSpec | None) -> None:
    """Record how a job ended, and remove what it left. Idempotent."""
    record_end(home, status, spec)
    home.remove_staging()


def record_end(home: JobHome, status: JobStatus, spec: JobSpec | None) -> None:
    """Record how a job ended, unless that is recorded."""
    ended = JobEvent(
        at=status.finished or time.time(), event="JobFinished", text=status.diagnostics
    )
    home.keep(
        JobRecord(
            status=status,
            spec={} if spec is None else codec.to_dict(spec),
            cluster_spec=None,
            events=(ended,),
        )
    )
