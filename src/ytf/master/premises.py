"""What a master needs to begin, and no two backends give in the same way."""

from __future__ import annotations

from dataclasses import dataclass

from ytf.backends.api import ContainerBackend
from ytf.master.events import KillRequested
from ytf.master.info import JobInfo
from ytf.specs.job import JobSpec
from ytf.storage.blobs import Blobs
from ytf.web.access import Access


@dataclass(frozen=True, kw_only=True)
class Premises:
    """One attempt's job, its place in the world, and whom it gets containers from."""

    spec: JobSpec
    info: JobInfo
    secret: bytes
    attempt: int
    journal: Blobs
    journal_patience_s: float
    """How long the journal waits for a disk that does not take it."""
    interface: str
    """Where the master listens."""
    host: str
    """The name under which starters and clients reach it."""
    backend: ContainerBackend
    access: Access
    """Who may read the job's page."""
    killed: KillRequested | None = None
    """Who wanted the job's end and could tell no earlier master."""
