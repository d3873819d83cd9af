"""The record of a job whose master cannot write it any more."""

from __future__ import annotations

import json
import os
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

RECORD = "record.json"


def history_of(job_dir: str) -> str:
    """Where the record and the logs of the job staged at ``jobs/<id>`` stay."""
    jobs, job = os.path.split(os.path.abspath(job_dir))
    return os.path.join(os.path.dirname(jobs), "history", job)


def write_last_record(job_dir: str, reason: str) -> None:
    """Record the job as FAILED for ``reason``, from what was submitted alone.

    Only for when the journal cannot be replayed. A record that is already
    there stays.
    """
    history = history_of(job_dir)
    path = os.path.join(history, RECORD)
    if os.path.exists(path):
        return
    spec = _object(os.path.join(job_dir, "spec.json"))
    job = _object(os.path.join(job_dir, "job.json"))
    tasks = [
        {"group": group, "index": index, "state": "LOST", "attempt": 1}
        for group, told in spec.get("groups", {}).items()
        for index in range(told["count"])
    ]
    now = time.time()
    status = {
        "id": os.path.basename(os.path.abspath(job_dir)),
        "name": spec.get("name", "TensorFlow"),
        "user": job.get("user", ""),
        "queue": spec.get("queue", "default"),
        "backend": "local",
        "state": "FAILED",
        "final_status": "FAILED",
        "diagnostics": reason,
        "started": job.get("submitted_at"),
        "finished": now,
        "tasks": tasks,
    }
    events = [{"at": now, "event": "JobFinished", "text": reason}]
    os.makedirs(history, exist_ok=True)
    replace(
        path,
        json.dumps({"status": status, "spec": spec, "cluster_spec": None, "events": events}),
    )


def replace(path: str, text: str) -> None:
    """Write a file so that readers see all of it or what was there before."""
    new = f"{path}.{os.getpid()}.new"
    with open(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
        file.write(text)
    os.replace(new, path)


def _object(path: str) -> dict[str, Any]:
    """A JSON object from a file; empty if there is none or it was cut short."""
    try:
        with open(path, encoding="utf-8") as file:
            found: dict[str, Any] = json.load(file)
    except (FileNotFoundError, ValueError):
        return {}
    return found
