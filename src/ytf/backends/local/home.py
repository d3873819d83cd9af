"""Where the local backend keeps things: the directories below ``YTF_HOME``."""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from ytf.backends.local.record import FULL, RECORD
from ytf.errors import SettingsError
from ytf.home import home
from ytf.specs.names import JobId

_JOB = re.compile(r"local_[0-9a-z]+_[0-9a-z]+")


@dataclass(frozen=True)
class Home:
    """The directories of one user's local jobs (docs/protocols.md §5)."""

    root: Path

    @classmethod
    def of(cls, environ: Mapping[str, str] | None = None) -> Home:
        """Those below ``YTF_HOME``."""
        return cls(home(environ))

    @property
    def jobs(self) -> Path:
        """Staging directories of jobs that are not over."""
        return self.root / "jobs"

    @property
    def history(self) -> Path:
        """Records and logs, kept for a set time."""
        return self.root / "history"

    def staging(self, job: JobId) -> Path:
        """What goes with the job."""
        return self.jobs / job

    def kept(self, job: JobId) -> Path:
        """What stays of the job."""
        return self.history / job

    def record(self, job: JobId) -> Path:
        """The record of a job; it is there once the job is over."""
        return self.kept(job) / RECORD

    def logs(self, job: JobId) -> Path:
        """The logs of a job's tasks and of its master."""
        return self.kept(job) / "logs"

    def check(self) -> None:
        """Raise ``SettingsError`` if something is there that cannot be looked into."""
        if not self.root.exists():
            return
        if not self.root.is_dir():
            problem = "is not a directory"
        elif not os.access(self.root, os.R_OK | os.X_OK):
            problem = "cannot be read"
        else:
            return
        raise SettingsError(f"{self.root} {problem}", hint="set YTF_HOME to a directory of yours")

    def ensure(self) -> None:
        """Make the directories; raises ``SettingsError`` where that cannot be."""
        with writing(self.root):
            # Commands and records may hold what is nobody else's business.
            self.root.mkdir(mode=0o700, parents=True, exist_ok=True)
            for directory in (self.jobs, self.history):
                directory.mkdir(mode=0o700, exist_ok=True)


def is_job_id(text: str) -> bool:
    """Whether a text can be the id of a local job; what cannot must never become a path."""
    return _JOB.fullmatch(text) is not None


@contextlib.contextmanager
def writing(place: Path) -> Iterator[None]:
    """Turn what the file system refuses into a ``SettingsError`` that names the place."""
    try:
        yield
    except OSError as exc:
        if exc.errno in FULL:
            raise SettingsError(
                f"no space left for {exc.filename or place}",
                hint="free some space (old jobs: ytf gc), or set YTF_HOME to a bigger disk",
            ) from exc
        raise SettingsError(
            f"cannot write {exc.filename or place}: {exc.strerror}",
            hint="set YTF_HOME to a directory that is yours to write",
        ) from exc
