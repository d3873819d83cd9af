"""Writes the record and the kill note of a local job, and finds its last master attempt.

The master, the node and clients use this. Standard library only, because the
node imports it.
"""

from __future__ import annotations

import json
import os
import time

from ytf.backends.local.files import write_atomically
from ytf.storage import DISK_FULL_ERRNOS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

RECORD_FILE = "record.json"
_KILL_NOTE_FILE = "killed.json"
_RESERVE_FILE = "reserve"


def history_dir(job_dir: str) -> str:
    """Return the directory for the record and the logs of the job staged at ``jobs/<id>``."""
    jobs, job = os.path.split(os.path.abspath(job_dir))
    return os.path.join(os.path.dirname(jobs), "history", job)


def last_master_attempt(job_dir: str) -> int:
    """Return the highest master attempt that has a journal; 0 if there is none."""
    try:
        names = os.listdir(os.path.join(job_dir, "journal"))
    except FileNotFoundError:
        return 0
    return max((int(name) for name in names if name.isdigit()), default=0)


def reserve_record_space(job_dir: str, tasks: int) -> None:
    """Allocate a file as big as a record of ``tasks`` tasks, for the case of a full disk."""
    path = os.path.join(job_dir, _RESERVE_FILE)
    reserve = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        os.posix_fallocate(reserve, 0, (64 + 4 * tasks) << 10)
    finally:
        os.close(reserve)


def write_record(job_dir: str, text: str) -> None:
    """Write the record atomically; on a full disk into the file reserved for it."""
    path = os.path.join(history_dir(job_dir), RECORD_FILE)
    try:
        write_atomically(path, text)
    except OSError as exc:
        if exc.errno not in DISK_FULL_ERRNOS:
            raise
        reserve = os.path.join(job_dir, _RESERVE_FILE)
        if not os.path.exists(reserve):
            raise
        with open(os.open(reserve, os.O_RDWR), "r+") as file:
            file.write(text)
            file.truncate()
        os.replace(reserve, path)


def write_minimal_record(job_dir: str, reason: str) -> None:
    """Record the job as FAILED for ``reason``, using only what was submitted.

    This is for a job whose journal cannot be replayed. The job is recorded as
    KILLED if a kill note was written. An existing record is not changed.
    """
    history = history_dir(job_dir)
    if os.path.exists(os.path.join(history, RECORD_FILE)):
        return
    spec = _read_object(os.path.join(job_dir, "spec.json"))
    job = _read_object(os.path.join(job_dir, "job.json"))
    tasks = [
        {"group": name, "index": index, "state": "LOST", "attempt": 1}
        for name, group in spec.get("groups", {}).items()
        for index in range(group["count"])
    ]
    killed = read_kill_note(job_dir)
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
    events = [{"at": now, "event": "job-finished", "text": reason}]
    os.makedirs(history, exist_ok=True)
    write_record(
        job_dir,
        json.dumps({"status": status, "spec": spec, "cluster_spec": None, "events": events}),
    )


def write_kill_note(job_dir: str, by: str, reason: str) -> None:
    """Note who killed the job and why, when its master does not answer.

    The next master of the job, or the process that records it, reads the note.
    """
    path = os.path.join(job_dir, _KILL_NOTE_FILE)
    write_atomically(path, json.dumps({"by": by, "reason": reason}))


def read_kill_note(job_dir: str) -> tuple[str, str] | None:
    """Return who killed the job and why; None if there is no kill note."""
    note = _read_object(os.path.join(job_dir, _KILL_NOTE_FILE))
    return (note["by"], note["reason"]) if note else None


def _read_object(path: str) -> dict[str, Any]:
    """Read a JSON object; empty if the file is missing or incomplete."""
    try:
        with open(path, encoding="utf-8") as file:
            found: dict[str, Any] = json.load(file)
    except (FileNotFoundError, ValueError):
        return {}
    return found
