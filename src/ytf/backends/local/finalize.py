"""Ends a local job whose node and master are dead: records it and removes what is left.

Clients do this when they find such a job, because no process of the job is left to do it.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path

from ytf.backends.local.directories import map_write_errors
from ytf.backends.local.files import remove_tree
from ytf.backends.local.job_processes import MASTER_COMMAND, kill_job_processes
from ytf.backends.local.records import (
    RECORD_FILE,
    history_dir,
    last_master_attempt,
    read_kill_note,
    write_minimal_record,
)

DEAD_JOB_REASON = (
    "the process that runs the job on this machine and the job's master died: killed, or the "
    "machine was shut down"
)
"""The diagnostics of a job that is finalized because its processes were found dead."""

_FINALIZE_TIMEOUT_S = 60.0


def finalize_dead_job(
    job_dir: Path, reason: str, *, master: Sequence[str] = MASTER_COMMAND
) -> bool:
    """Record a job without node and master as FAILED, and remove all that is left of it.

    The job is recorded as KILLED if a kill note was written. A master is
    started that only replays the journal and writes the record. If that fails,
    the record holds what was submitted, and its diagnostics say why there is no more.
    Returns False if another process has finalized the job meanwhile.
    """
    with staging_lock(job_dir) as acquired:
        if not acquired:
            return False
        if not os.path.exists(os.path.join(history_dir(str(job_dir)), RECORD_FILE)):
            with map_write_errors(job_dir):
                _record(job_dir, reason, master)
        remove_leftovers(job_dir)
        return True


def remove_leftovers(job_dir: Path) -> None:
    """Kill what still runs of a job without a node, and remove its staging directory."""
    kill_job_processes(job_dir.name)
    remove_tree(str(job_dir))


@contextlib.contextmanager
def staging_lock(job_dir: Path, *, wait: bool = True) -> Iterator[bool]:
    """Lock a staging directory. Submit, finalize and gc hold this lock while they work.

    Yields False if the directory is gone, or, without ``wait``, if another
    process holds the lock.
    """
    try:
        directory = os.open(job_dir, os.O_RDONLY | os.O_DIRECTORY)
    except FileNotFoundError:
        yield False
        return
    try:
        fcntl.flock(directory, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
    except BlockingIOError:
        os.close(directory)
        yield False
        return
    try:
        # The process that held the lock before may have removed the directory.
        yield job_dir.exists() and os.path.samestat(os.fstat(directory), os.stat(job_dir))
    finally:
        os.close(directory)


def _record(job_dir: Path, reason: str, master: Sequence[str]) -> None:
    killed = read_kill_note(str(job_dir))
    if killed is not None:
        reason = f"the job was killed by {killed[0]}"
    attempt = last_master_attempt(str(job_dir)) + 1
    command = [*master, "--backend", "local", "--job-dir", str(job_dir)]
    command += ["--attempt", str(attempt), "--finalize", reason]
    log = Path(history_dir(str(job_dir)), "logs", "master.log")
    log.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with open(log, "ab") as output:
        try:
            subprocess.run(
                command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                cwd="/",
                timeout=_FINALIZE_TIMEOUT_S,
                check=True,
            )
        except (subprocess.SubprocessError, OSError) as exc:
            write_minimal_record(str(job_dir), f"{reason} (its journal: {exc})")
    # A master that exits 0 without a record has a bug. The job needs a record all the same.
    write_minimal_record(str(job_dir), reason)
