"""Who submitted a job, and when. Apart from all else of the master: clients write it."""

from __future__ import annotations

import msgspec

from ytf.specs.names import JobId


class JobInfo(msgspec.Struct, frozen=True, kw_only=True):
    """What is known of a submission beyond its spec; part of ``job.json``."""

    id: JobId
    user: str
    submitted_at: float
    backend: str
