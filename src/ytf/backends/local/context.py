"""Builds the ``MasterContext`` of a local master from the files of its staging directory."""

from __future__ import annotations

from pathlib import Path

from ytf.backends.api import MasterContext
from ytf.backends.local.container_backend import LocalContainerBackend
from ytf.backends.local.records import read_kill_note
from ytf.decoding import decode_json
from ytf.machine.events import KillRequested
from ytf.specs import codec
from ytf.specs.status import JobInfo
from ytf.storage.blobs import LocalBlobs
from ytf.web.page_auth import KeyPageAuth

_HOST = "127.0.0.1"


def master_context(job_dir: Path, attempt: int) -> MasterContext:
    """Return the context of one master attempt of the job staged in ``job_dir``."""
    killed = read_kill_note(str(job_dir))
    secret = (job_dir / "secret").read_bytes()
    return MasterContext(
        spec=codec.from_json((job_dir / "spec.json").read_bytes()),
        info=decode_json((job_dir / "job.json").read_bytes(), JobInfo),
        secret=secret,
        attempt=attempt,
        journal=LocalBlobs(job_dir / "journal"),
        journal_timeout_s=1.0,
        host=_HOST,
        peer=(_HOST, 1),
        backend=LocalContainerBackend(job_dir),
        page_auth=KeyPageAuth(secret),
        kill_requested=None if killed is None else KillRequested(by=killed[0], reason=killed[1]),
    )
