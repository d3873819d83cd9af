"""``ytf status``, ``list``, ``spec``, ``events``, ``kill`` and ``gc``."""

from __future__ import annotations

import sys

import msgspec

from ytf.cli import tables
from ytf.client import backends, settings
from ytf.client.follow import how_it_ended
from ytf.errors import NotFoundError
from ytf.specs.status import JobStatus, TaskStatus

TASK_HEADERS = ("task", "state", "attempt", "where", "ended")


def status(job: str, *, json: bool) -> int:
    """How a job and its tasks are."""
    found = backends.open_job(job).status()
    if json:
        tables.print_json(msgspec.json.encode(found))
        return 0
    for name, value in headline(found):
        print(f"{name + ':':<13}{value}")
    print()
    tables.show(TASK_HEADERS, [task_row(task) for task in found.tasks], sys.stdout)
    if found.diagnostics:
        print(f"\n{found.diagnostics.rstrip()}")
    return 0


def headline(found: JobStatus) -> list[tuple[str, str]]:
    """What is said of a job before its tasks; nothing that is not known."""
    pairs = [
        ("job", found.id),
        ("name", found.name),
        ("state", found.state.value),
        ("user", found.user),
        ("queue", found.queue),
        ("backend", found.backend),
        ("started", tables.when(found.started)),
        ("finished", tables.when(found.finished)),
        ("took", tables.span(found.started, found.finished)),
        ("tracking", found.tracking_url or ""),
        ("tensorboard", found.tensorboard_url or ""),
    ]
    return [(name, value) for name, value in pairs if value]


def task_row(task: TaskStatus) -> tuple[str, ...]:
    """A task as a line of a table with ``TASK_HEADERS``."""
    where = task.host or task.node or ""
    if task.port:
        where = f"{where}:{task.port}"
    return (
        f"{task.group}:{task.index}",
        task.state.value,
        str(task.attempt) if task.attempt else "",
        where,
        how_it_ended(task),
    )


def list_jobs(*, backend: str | None, json: bool) -> int:
    """Every job the backend still knows, newest first."""
    choice = settings.choose_backend(settings.load({"backend": backend}))
    found = backends.backend(choice.name).list()
    if json:
        tables.print_json(msgspec.json.encode(found))
        return 0
    print(f"ytf: backend {choice.name} ({choice.reason})", file=sys.stderr)
    rows = [
        (
            job.id,
            job.name,
            job.state.value,
            job.queue,
            tables.when(job.started),
            tables.span(job.started, job.finished),
        )
        for job in found
    ]
    tables.show(("id", "name", "state", "queue", "started", "took"), rows, sys.stdout)
    return 0


def spec(job: str) -> int:
    """The cluster spec as JSON: group → ``host:port`` list, fit for ``tf.train.ClusterSpec``."""
    found = backends.open_job(job).cluster_spec()
    if found is None:
        raise NotFoundError(
            f"job {job} has no cluster spec", hint="it is made once every task has reported"
        )
    tables.print_json(msgspec.json.encode(found.members))
    return 0


def events(job: str, *, json: bool) -> int:
    """The job's story."""
    found = backends.open_job(job).events()
    if json:
        tables.print_json(msgspec.json.encode(found))
        return 0
    rows = [(tables.when(e.at), e.task or "", e.event, e.text) for e in found]
    tables.show(("at", "task", "event", "text"), rows, sys.stdout)
    return 0


def kill(job: str) -> int:
    """Ask for a job's end."""
    handle = backends.open_job(job)
    now = handle.status()
    if now.state.is_final:
        print(f"ytf: job {job} has already ended: {now.state.value}", file=sys.stderr)
        return 0
    handle.kill("asked for with ytf kill")
    print(f"ytf: job {job} is being killed", file=sys.stderr)
    return 0
