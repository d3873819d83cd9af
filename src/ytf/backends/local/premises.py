"""What a master on this machine begins with: the files of its staging directory."""

from __future__ import annotations

from pathlib import Path

import msgspec

from ytf.backends.local.containers import LocalContainers
from ytf.backends.local.record import noted_kill
from ytf.master.events import KillRequested
from ytf.master.info import JobInfo
from ytf.master.premises import Premises
from ytf.specs import codec
from ytf.storage.blobs import LocalBlobs
from ytf.web.access import KeyAccess

_HOST = "127.0.0.1"


def premises(job_dir: Path, attempt: int) -> Premises:
    """Those of one attempt at the job staged in ``job_dir``."""
    noted = noted_kill(str(job_dir))
    secret = (job_dir / "secret").read_bytes()
    return Premises(
        spec=codec.from_json((job_dir / "spec.json").read_bytes()),
        info=msgspec.json.decode((job_dir / "job.json").read_bytes(), type=JobInfo),
        secret=secret,
        attempt=attempt,
        journal=LocalBlobs(job_dir / "journal"),
        journal_patience_s=1.0,
        interface=_HOST,
        host=_HOST,
        backend=LocalContainers(job_dir),
        access=KeyAccess(secret),
        killed=None if noted is None else KillRequested(by=noted[0], reason=noted[1]),
    )
