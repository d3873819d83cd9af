"""What a process at the submitter's needs to take part in a job: the master and the secret.

Only the local backend's jobs can be reached so far: through the files of
docs/protocols.md §5, which only the job's owner can read.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from ytf.backends.local.home import Home
from ytf.errors import NotFoundError
from ytf.specs import codec
from ytf.specs.job import JobSpec
from ytf.specs.names import JobId


@dataclass(frozen=True, kw_only=True)
class Access:
    """A way into a running job."""

    job: JobId
    master: str
    """``http://host:port`` of the master now."""
    master_file: Path
    """Names the current master, also after that one."""
    secret: bytes
    spec: JobSpec


def access(job: JobId, home: Home | None = None) -> Access:
    """The way into a job of this machine; ``NotFoundError`` if it does not run (any more)."""
    staging = (home or Home.of()).staging(job)
    try:
        return Access(
            job=job,
            master=str(json.loads((staging / "master.json").read_bytes())["url"]),
            master_file=staging / "master.json",
            secret=(staging / "secret").read_bytes(),
            spec=codec.from_json((staging / "spec.json").read_bytes()),
        )
    except FileNotFoundError as exc:
        raise NotFoundError(
            f"job {job} does not run any more", hint=f"`ytf status {job}` tells how it ended"
        ) from exc
