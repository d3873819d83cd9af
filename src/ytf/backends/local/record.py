"""The record of a job: how it is kept on a full disk, and without a master."""

from __future__ import annotations

import errno
import json
import os
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

RECORD = "record.json"
_KILLED = "killed.json"
_RESERVE = "reserve"
FULL = (errno.ENOSPC, errno.EDQUOT)
"""What a disk says that takes no more."""


def history_of(job_dir: str) -> str:
    """Where the record and the logs of the job staged at ``jobs/<id>`` stay."""
    jobs, job = os.path.split(os.path.abspath(job_dir))
    return os.path.join(os.path.dirname(jobs), "history", job)


def reserve_record(job_dir: str, tasks: int) -> None:
    """Take the room a record of so many tasks needs while there is some."""
    path = os.path.join(job_dir, _RESERVE)
    reserve = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        os.posix_fallocate(reserve, 0, (64 + 4 * tasks) << 10)
    finally:
        os.close(reserve)


def keep_record(job_dir: str, text: str) -> None:
    """Put a record where it stays, whole; on a full disk into the room reserved for it."""
    path = os.path.join(history_of(job_dir), RECORD)
    try:
        replace(path, text)
    except OSError as exc:
        if exc.errno not in FULL:
            raise
        reserve = os.path.join(job_dir, _RESERVE)
        with open(os.open(reserve, os.O_RDWR), "r+") as file:
            file.write(text)
            file.truncate()
        os.replace(reserve, path)


def write_last_record(job_dir: str, reason: str) -> None:
    """Record the job as FAILED for ``reason``, from what was submitted alone.

    As KILLED, should somebody have noted that wish. Only for when the journal
    cannot be replayed. A record that is already there stays.
    """
    history = history_of(job_dir)
    if os.path.exists(os.path.join(history, RECORD)):
        return
    spec = _object(os.path.join(job_dir, "spec.json"))
    job = _object(os.path.join(job_dir, "job.json"))
    tasks = [
        {"group": group, "index": index, "state": "LOST", "attempt": 1}
        for group, told in spec.get("groups", {}).items()
        for index in range(told["count"])
    ]
    killed = noted_kill(job_dir)
    state = "FAILED"
    if killed is not None:
        state, reason = "KILLED", f"Killed by {killed[0]}: {killed[1]}.\n{reason}"
    now = time.time()
    status = {
        "id": os.path.basename(os.path.abspath(job_dir)),
        "name": spec.get("name", "TensorFlow"),
        "user": job.get("user", ""),
        "queue": spec.get("queue", "default"),
        "backend": "local",
        "state": state,
        "final_status": state,
        "diagnostics": reason,
        "started": job.get("submitted_at"),
        "finished": now,
        "tasks": tasks,
    }
    events = [{"at": now, "event": "JobFinished", "text": reason}]
    os.makedirs(history, exist_ok=True)
    keep_record(
        job_dir,
        json.dumps({"status": status, "spec": spec, "cluster_spec": None, "events": events}),
    )


def note_kill(job_dir: str, by: str, reason: str) -> None:
    """Note who wants the job's end and why, for whoever records it or runs it on."""
    replace(os.path.join(job_dir, _KILLED), json.dumps({"by": by, "reason": reason}))


def noted_kill(job_dir: str) -> tuple[str, str] | None:
    """Who wants the job's end and why, if that had to be noted."""
    note = _object(os.path.join(job_dir, _KILLED))
    return (note["by"], note["reason"]) if note else None


def replace(path: str, text: str) -> None:
    """Write a file so that readers see all of it or what was there before."""
    new = f"{path}.{os.getpid()}.new"
    try:
        with open(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
            file.write(text)
        os.replace(new, path)
    except OSError:
        if os.path.exists(new):
            os.unlink(new)
        raise


def _object(path: str) -> dict[str, Any]:
    """A JSON object from a file; empty if there is none or it was cut short."""
    try:
        with open(path, encoding="utf-8") as file:
            found: dict[str, Any] = json.load(file)
    except (FileNotFoundError, ValueError):
        return {}
    return found
