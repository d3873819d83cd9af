"""Keeps the secrets of a user's jobs on the user's machine, below ``YTF_HOME`` (docs/adr/0020).

A job's secret signs calls to its master. It is staged in HDFS, where commands on
any machine of its owner find it. The machine that a job was submitted from, and
those that have read the secret once, reach the master also while HDFS is unavailable.

A cached secret is an advantage, never a need. So errors of the disk are ignored
here: then the secret is read from HDFS.
"""

from __future__ import annotations

import contextlib
import os
import time
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

from ytf.errors import SettingsError
from ytf.home import home, make_private_directory
from ytf.specs.ids import JobId

_KEPT_S = 30 * 86400.0
"""A secret is removed with the end of its job, at the latest after this time."""


@dataclass(frozen=True)
class SecretCache:
    """A directory that only its owner can read, with one file for each job."""

    root: Path

    @classmethod
    def of(cls, user: str) -> SecretCache:
        """The cache in ``YTF_HOME`` for a user of the cluster.

        Without Kerberos a person may be several users (``HADOOP_USER_NAME``).
        """
        return cls(home() / "secrets" / quote(user, safe=""))

    def find(self, job: JobId) -> bytes | None:
        """The secret of a job, if it is known here and only its owner can read it."""
        with contextlib.suppress(OSError), (self.root / job).open("rb") as file:
            status = os.fstat(file.fileno())
            if status.st_uid == os.geteuid() and not status.st_mode & 0o077:
                return file.read() or None
        return None

    def keep(self, job: JobId, secret: bytes) -> None:
        """Keep the secret of a job, and remove those that are old; not where others can write."""
        with contextlib.suppress(OSError, SettingsError):
            make_private_directory(self.root)
            self._remove_old()
            written = self.root / f".{job}.{os.getpid()}"
            written.unlink(missing_ok=True)
            file = os.open(written, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            with os.fdopen(file, "wb") as opened:
                opened.write(secret)
            written.replace(self.root / job)

    def remove(self, job: JobId) -> None:
        """Forget the secret of a job that has ended."""
        with contextlib.suppress(OSError):
            (self.root / job).unlink()

    def _remove_old(self) -> None:
        oldest = time.time() - _KEPT_S
        for path in self.root.iterdir():
            with contextlib.suppress(OSError):
                if path.stat().st_mtime < oldest:
                    path.unlink()
