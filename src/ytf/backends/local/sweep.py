"""What dead jobs left behind: buried or removed by the next ``ytf`` command."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from ytf.backends.api import KEEP_S, Removed
from ytf.backends.local.burial import (
    MASTER,
    bury,
    locked,
    master_is_alive,
    node_is_alive,
    remove_leftovers,
)
from ytf.backends.local.clients import sweep_clients, sweep_temporary
from ytf.backends.local.handle import LOST
from ytf.backends.local.home import Home, is_job_id
from ytf.backends.local.removal import remove_tree
from ytf.errors import YtfError
from ytf.specs.names import JobId

DEAD = "dead job, recorded as FAILED"
ENDED = "staging directory of an ended job"
HALF_MADE = "half-made job"
_HALF_MADE_S = 60.0
"""A staging directory without a node so old was left by a submission that died."""


def sweep(
    home: Home,
    *,
    keep_s: float = KEEP_S,
    dryrun: bool = False,
    master: Sequence[str] = MASTER,
) -> list[Removed]:
    """Bury jobs that nobody runs any more, remove what half-made ones and old ones left.

    Answers what went; ``dryrun``: what would. Costs a look at each job's
    directory when there is nothing to do. What cannot be removed (a task ran as
    another user, say) is logged and does not keep a command from its work.
    """
    removed: list[Removed] = []
    now = time.time()
    staged = _entries(home.jobs)
    for job, path, modified in staged:
        with _unhindered(job):
            if not dryrun:
                sweep_clients(path)
            what = _verdict(home, job, now - modified)
            if what is not None:
                told = Removed(what=what, where=str(path), size=_size(path))
                if dryrun or _remove_staged(home, job, what, master):
                    removed.append(told)
    if not dryrun:
        with _unhindered("a client"):
            sweep_temporary()
    running = {job for job, _, _ in staged}
    for job, path, modified in _entries(home.history):
        if now - modified > keep_s and job not in running:
            with _unhindered(job):
                removed.append(Removed(what="record and logs", where=str(path), size=_size(path)))
                if not dryrun:
                    remove_tree(str(path))
    return removed


def _verdict(home: Home, job: JobId, age_s: float) -> str | None:
    """Why a staged job's directory is rubbish; None if it is not."""
    staging = home.staging(job)
    node = node_is_alive(staging)
    if node is None:
        return HALF_MADE if age_s > _HALF_MADE_S else None
    if node or master_is_alive(staging):
        return None
    return ENDED if home.record(job).exists() else DEAD


def _remove_staged(home: Home, job: JobId, what: str, master: Sequence[str]) -> bool:
    """Remove a staged job's directory; False if somebody else is at it."""
    if what == DEAD:
        return bury(home.staging(job), LOST, master=master)
    if what == ENDED:
        return _remove_recorded(home.staging(job))
    return _remove_half_made(home, job)


@contextlib.contextmanager
def _unhindered(who: str) -> Iterator[None]:
    try:
        yield
    except (OSError, YtfError) as exc:
        # Loaded only when there is something to say: every command passes here.
        import logging

        logging.getLogger("ytf.local").warning("what %s left cannot be removed: %s", who, exc)


def _remove_recorded(staging: Path) -> bool:
    with locked(staging, wait=False) as ours:
        if ours:
            remove_leftovers(staging)
        return ours


def _remove_half_made(home: Home, job: JobId) -> bool:
    """Remove a submission that died; one that is still copying holds the lock."""
    staging = home.staging(job)
    with locked(staging, wait=False) as ours:
        is_dead = ours and node_is_alive(staging) is None
        if is_dead:
            remove_leftovers(staging)
            remove_tree(str(home.kept(job)))
        return is_dead


def _size(directory: Path) -> int:
    """How many bytes the files below a directory have; of what just went, none."""
    sizes = []
    for folder, _, names in os.walk(directory):
        for name in names:
            with contextlib.suppress(FileNotFoundError):
                sizes.append(os.lstat(os.path.join(folder, name)).st_size)
    return sum(sizes)


def _entries(directory: Path) -> list[tuple[JobId, Path, float]]:
    try:
        with os.scandir(directory) as entries:
            return [
                (JobId(entry.name), Path(entry.path), entry.stat().st_mtime)
                for entry in entries
                if is_job_id(entry.name)
            ]
    except (FileNotFoundError, NotADirectoryError):
        return []
