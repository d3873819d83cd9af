"""Finalizes dead local jobs and removes what jobs left, for ``ytf gc`` and before each command."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec

from ytf.backends.api import RECORD_RETENTION_S, Notify, RemovedItem, ignore_notice
from ytf.backends.local.client_directories import gc_client_directories, gc_temporary_directories
from ytf.backends.local.directories import JobDirectories, is_job_id
from ytf.backends.local.files import remove_tree
from ytf.backends.local.finalize import (
    DEAD_JOB_REASON,
    finalize_dead_job,
    remove_leftovers,
    staging_lock,
)
from ytf.backends.local.job_processes import MASTER_COMMAND, master_is_alive, node_is_alive
from ytf.backends.registry_access import RegistryLeftovers
from ytf.decoding import decode_json
from ytf.errors import RefusedError, YtfError
from ytf.specs.ids import JobId
from ytf.specs.job import JobSpec
from ytf.specs.registry import REST

DEAD_JOB = "dead job, recorded as FAILED"
ENDED_JOB = "staging directory of an ended job"
INCOMPLETE_JOB = "incomplete submission"
UNUSED_ENVIRONMENT = "environment that no job has used for 30 days"
UNUSED_DOWNLOAD = "downloaded file of which no environment was made"
_ZOOKEEPER = b'"zk://'
"""The records of jobs that used one have this in them."""
_INCOMPLETE_AFTER_S = 60.0
"""From this age on, a staging directory without a node is the rest of a failed submission."""


class _RecordedSpec(msgspec.Struct, kw_only=True):
    registry: str = REST
    name: str = JobSpec(groups={}).name


class _RecordedStatus(msgspec.Struct, kw_only=True):
    user: str


class _Record(msgspec.Struct, kw_only=True):
    """The fields of a record that locate the job's znodes."""

    status: _RecordedStatus
    spec: _RecordedSpec


def gc_jobs(
    home: JobDirectories,
    *,
    keep_s: float = RECORD_RETENTION_S,
    dryrun: bool = False,
    master: Sequence[str] = MASTER_COMMAND,
) -> list[RemovedItem]:
    """Finalize dead jobs, and remove incomplete submissions and records older than ``keep_s``.

    Returns what was removed; with ``dryrun`` what would be. If there is nothing
    to do, this costs a look at each job's directory. What cannot be removed (a
    task ran as another user, say) is logged, and the command goes on.
    """
    now = time.time()
    staged = _entries(home.jobs)
    # First what can be removed without a write: on a full disk that makes the room to record
    # dead jobs.
    removed = _remove_old_history(home, {job for job, _, _ in staged}, now - keep_s, dryrun)
    for job, path, modified in staged:
        with _log_errors(job):
            if not dryrun:
                gc_client_directories(path)
            what = _garbage_kind(home, job, now - modified)
            if what is not None:
                item = RemovedItem(what=what, where=str(path), size=_size(path))
                if dryrun or _remove_staged(home, job, what, master):
                    removed.append(item)
    if not dryrun:
        with _log_errors("a client"):
            gc_temporary_directories()
    return removed


def gc_registries(
    home: JobDirectories, *, dryrun: bool = False, notify: Notify = ignore_notice
) -> list[RemovedItem]:
    """Remove what recorded jobs left in ZooKeepers that were unavailable when they ended."""
    leftovers = RegistryLeftovers(notify, dryrun)
    removed = []
    for job, _, _ in _entries(home.history):
        with contextlib.suppress(FileNotFoundError, msgspec.DecodeError):
            data = home.record(job).read_bytes()
            if _ZOOKEEPER in data:
                record = decode_json(data, _Record)
                spec = record.spec
                removed.append(
                    leftovers.remove(
                        spec.registry, user=record.status.user, name=spec.name, job=job
                    )
                )
    return [item for item in removed if item is not None]


def gc_environments(home: JobDirectories, *, dryrun: bool = False) -> list[RemovedItem]:
    """Remove the environments in ``YTF_HOME`` with which no job was started for a month.

    Likewise the files that were downloaded to make one, and of which none was made.
    """
    from ytf.packaging.made_environments import remove_unused_downloads, remove_unused_environments

    kinds = (
        (UNUSED_ENVIRONMENT, remove_unused_environments),
        (UNUSED_DOWNLOAD, remove_unused_downloads),
    )
    return [
        RemovedItem(what=what, where=str(path), size=size)
        for what, remove in kinds
        for path, size in remove(home.root, dryrun=dryrun)
    ]


def remove_job(home: JobDirectories, job: JobId) -> RemovedItem:
    """Remove all that is left of a job that has ended or died. Writes nothing.

    Raises ``RefusedError`` if the job runs or another process works on its files.
    """
    staging, history = home.staging(job), home.job_history(job)
    removed = RemovedItem(
        what="record and logs", where=str(history), size=_size(staging) + _size(history)
    )
    if staging.exists():
        with staging_lock(staging, wait=False) as acquired:
            if acquired and (node_is_alive(staging) or master_is_alive(staging)):
                raise RefusedError(
                    f"job {job} has not ended", hint=f"`ytf kill {job}` ends it; then remove it"
                )
            if acquired:
                remove_leftovers(staging)
            elif staging.exists():
                raise RefusedError(
                    f"another command works on the files of job {job}", hint="try again"
                )
    remove_tree(str(history))
    return removed


def _remove_old_history(
    home: JobDirectories, staged: set[JobId], before: float, dryrun: bool
) -> list[RemovedItem]:
    """Remove records and logs that are older than ``before``, but not those of staged jobs."""
    removed: list[RemovedItem] = []
    for job, path, modified in _entries(home.history):
        if modified < before and job not in staged:
            with _log_errors(job):
                item = RemovedItem(what="record and logs", where=str(path), size=_size(path))
                if not dryrun:
                    remove_tree(str(path))
                removed.append(item)
    return removed


def _garbage_kind(home: JobDirectories, job: JobId, age_s: float) -> str | None:
    """Return why a staging directory is garbage; None if it is not."""
    staging = home.staging(job)
    node = node_is_alive(staging)
    if node is None:
        return INCOMPLETE_JOB if age_s > _INCOMPLETE_AFTER_S else None
    if node or master_is_alive(staging):
        return None
    return ENDED_JOB if home.record(job).exists() else DEAD_JOB


def _remove_staged(home: JobDirectories, job: JobId, what: str, master: Sequence[str]) -> bool:
    """Remove a staging directory; False if another process does so now."""
    if what == DEAD_JOB:
        return finalize_dead_job(home.staging(job), DEAD_JOB_REASON, master=master)
    if what == ENDED_JOB:
        return _remove_ended(home.staging(job))
    return _remove_incomplete(home, job)


@contextlib.contextmanager
def _log_errors(who: str) -> Iterator[None]:
    try:
        yield
    except (OSError, YtfError) as exc:
        # Imported only in case of an error, because every command runs this module.
        import logging

        logging.getLogger("ytf.local").warning("what %s left cannot be removed: %s", who, exc)


def _remove_ended(staging: Path) -> bool:
    with staging_lock(staging, wait=False) as acquired:
        if acquired:
            remove_leftovers(staging)
        return acquired


def _remove_incomplete(home: JobDirectories, job: JobId) -> bool:
    """Remove a submission that died; one that is still copying files holds the lock."""
    staging = home.staging(job)
    with staging_lock(staging, wait=False) as acquired:
        is_dead = acquired and node_is_alive(staging) is None
        if is_dead:
            remove_leftovers(staging)
            remove_tree(str(home.job_history(job)))
        return is_dead


def _size(directory: Path) -> int:
    """Return the total size of the files below a directory; files that vanish count as 0."""
    sizes = []
    for folder, _, names in os.walk(directory):
        for name in names:
            with contextlib.suppress(FileNotFoundError):
                sizes.append(os.lstat(os.path.join(folder, name)).st_size)
    return sum(sizes)


def _entries(directory: Path) -> list[tuple[JobId, Path, float]]:
    """Return id, path and modification time of each job's directory below ``directory``."""
    try:
        with os.scandir(directory) as entries:
            return [
                (JobId(entry.name), Path(entry.path), entry.stat().st_mtime)
                for entry in entries
                if is_job_id(entry.name)
            ]
    except (FileNotFoundError, NotADirectoryError):
        return []
