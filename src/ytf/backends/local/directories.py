"""Names the directories of local jobs below ``YTF_HOME``, and explains failed writes to them."""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from ytf.backends.local.records import RECORD_FILE
from ytf.errors import SettingsError
from ytf.home import home, make_private_directory
from ytf.specs.ids import JobId
from ytf.storage import DISK_FULL_ERRNOS

_JOB_ID = re.compile(r"local_[0-9a-z]+_[0-9a-z]+")


@dataclass(frozen=True)
class JobDirectories:
    """The directories of one user's local jobs (docs/protocols.md §5)."""

    root: Path

    @classmethod
    def from_environ(cls, environ: Mapping[str, str] | None = None) -> JobDirectories:
        """Return the directories below ``YTF_HOME``."""
        return cls(home(environ))

    @property
    def jobs(self) -> Path:
        """The parent of the staging directories of jobs that are not over."""
        return self.root / "jobs"

    @property
    def history(self) -> Path:
        """The parent of the directories with records and logs."""
        return self.root / "history"

    def staging(self, job: JobId) -> Path:
        """The staging directory of a job, which is removed at the job's end."""
        return self.jobs / job

    def job_history(self, job: JobId) -> Path:
        """The directory of a job that stays after its end, until gc removes it."""
        return self.history / job

    def record(self, job: JobId) -> Path:
        """The record of a job; the file exists once the job is over."""
        return self.job_history(job) / RECORD_FILE

    def logs(self, job: JobId) -> Path:
        """The logs of a job's tasks and of its master."""
        return self.job_history(job) / "logs"

    def results(self, job: JobId) -> Path:
        """What the functions of a job returned, if functions are what it ran."""
        return self.job_history(job) / "results"

    def check(self) -> None:
        """Raise ``SettingsError`` if the root exists but is not a readable directory."""
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
        """Make the directories; raises ``SettingsError`` if that fails."""
        with map_write_errors(self.root):
            # Private, because commands and records may hold secrets of the user.
            make_private_directory(self.root)
            for directory in (self.jobs, self.history):
                directory.mkdir(mode=0o700, exist_ok=True)


def is_job_id(text: str) -> bool:
    """Return whether a text can be the id of a local job. Never use another text in a path."""
    return _JOB_ID.fullmatch(text) is not None


@contextlib.contextmanager
def map_write_errors(path: Path) -> Iterator[None]:
    """Turn an ``OSError`` into a ``SettingsError`` that names the file, or else ``path``."""
    try:
        yield
    except OSError as exc:
        if exc.errno in DISK_FULL_ERRNOS:
            raise SettingsError(
                f"no space left for {exc.filename or path}",
                hint="free some space (`ytf gc --older-than 1d` or `ytf rm ID` remove ended jobs),"
                " or set YTF_HOME to a bigger disk",
            ) from exc
        raise SettingsError(
            f"cannot write {exc.filename or path}: {exc.strerror}",
            hint="set YTF_HOME to a directory that you can write to",
        ) from exc
