"""Remembers the last job that was submitted from here, per cluster: what ``@last`` means.

``$YTF_HOME/last`` has a file for the local backend and one for each cluster,
by the directory of its configuration. The file holds the id of a job.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from ytf.backends import BACKEND_NAMES
from ytf.backends.local.files import write_atomically
from ytf.client.settings import hadoop_configuration
from ytf.errors import SettingsError
from ytf.home import home, make_private_directory
from ytf.specs.ids import JobId


@dataclass(frozen=True)
class LastJob:
    """The job that was submitted last, and its backend."""

    job: JobId
    backend: str


def remember_last_job(backend: str, job: JobId) -> None:
    """Note that a job was submitted. If that fails, only ``@last`` is not right."""
    path = _path(backend, os.environ)
    try:
        make_private_directory(path.parent)
        write_atomically(str(path), f"{job}\n")
    except (OSError, SettingsError):
        # The job is accepted: a full disk here must not make its submission an error.
        return


def last_job(backend: str | None = None) -> LastJob | None:
    """The last job submitted from here to a backend, by default to whichever came last.

    Of several clusters only the one counts that is configured now.
    """
    found = []
    for name in (backend,) if backend is not None else BACKEND_NAMES:
        path = _path(name, os.environ)
        try:
            written_at, text = path.stat().st_mtime_ns, path.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError):
            continue  # nothing was submitted to it yet, or its note cannot be read
        found.append((written_at, LastJob(JobId(text.strip()), name)))
    return max(found, key=lambda each: each[0])[1] if found else None


def _path(backend: str, environ: Mapping[str, str]) -> Path:
    cluster = hadoop_configuration(environ) if backend != "local" else None
    if cluster is not None:
        backend += f"-{hashlib.sha256(os.fsencode(cluster)).hexdigest()[:16]}"
    return home(environ) / "last" / backend
