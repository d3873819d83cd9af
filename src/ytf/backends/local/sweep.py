"""What dead jobs left behind: buried or removed by the next ``ytf`` command."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

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

KEEP_S = 7 * 24 * 3600.0
"""How long the record and the logs of a job stay."""
_HALF_MADE_S = 60.0
"""A staging directory without a node so old was left by a submission that died."""


def sweep(home: Home, *, keep_s: float = KEEP_S, master: Sequence[str] = MASTER) -> list[JobId]:
    """Bury jobs that nobody runs any more, remove what half-made ones and old ones left.

    Answers which jobs it buried. Costs a look at each job's directory when
    there is nothing to do. What cannot be removed (a task ran as another user,
    say) is logged and does not keep a command from its work.
    """
    buried = []
    now = time.time()
    staged = _entries(home.jobs)
    for job, path, modified in staged:
        with _unhindered(job):
            sweep_clients(path)
            node = node_is_alive(path)
            if node is None:
                if now - modified > _HALF_MADE_S:
                    _remove_half_made(home, job)
            elif not node and not master_is_alive(path):
                if home.record(job).exists():
                    _remove_recorded(path)
                elif bury(path, LOST, master=master):
                    buried.append(job)
    with _unhindered("a client"):
        sweep_temporary()
    running = {job for job, _, _ in staged}
    for job, path, modified in _entries(home.history):
        if now - modified > keep_s and job not in running:
            with _unhindered(job):
                remove_tree(str(path))
    return buried


@contextlib.contextmanager
def _unhindered(who: str) -> Iterator[None]:
    try:
        yield
    except (OSError, YtfError) as exc:
        # Loaded only when there is something to say: every command passes here.
        import logging

        logging.getLogger("ytf.local").warning("what %s left cannot be removed: %s", who, exc)


def _remove_recorded(staging: Path) -> None:
    with locked(staging, wait=False) as ours:
        if ours:
            remove_leftovers(staging)


def _remove_half_made(home: Home, job: JobId) -> None:
    """Remove a submission that died; one that is still copying holds the lock."""
    staging = home.staging(job)
    with locked(staging, wait=False) as ours:
        if ours and node_is_alive(staging) is None:
            remove_leftovers(staging)
            remove_tree(str(home.kept(job)))


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
