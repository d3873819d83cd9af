"""``ytf status``, ``list``, ``spec``, ``events``, ``kill`` and ``gc``."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

import msgspec

from ytf.backends.api import JobHandle
from ytf.cli import failures, tables
from ytf.cli.streams import say
from ytf.client import backends, settings
from ytf.client.follow import how_it_ended
from ytf.errors import NotFoundError, YtfError
from ytf.specs.status import JobStatus, TaskState, TaskStatus

_LOOK_S = 5.0
"""How long a kill waits to be told that it is not needed."""

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
        ("logs", _logs(found)),
    ]
    return [(name, value) for name, value in pairs if value]


def _logs(found: JobStatus) -> str:
    """Where the logs of all tasks are, if that is one directory."""
    urls = [task.log_url for task in found.tasks if task.log_url]
    if not urls or not all(url.startswith("file://") for url in urls):
        return ""
    from urllib.parse import unquote, urlsplit

    # <logs>/<task>/<attempt>
    return os.path.commonpath(
        [os.path.dirname(os.path.dirname(unquote(urlsplit(url).path))) for url in urls]
    )


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
        "exit code 0" if task.state is TaskState.SUCCEEDED else how_it_ended(task),
    )


def list_jobs(*, backend: str | None, json: bool) -> int:
    """Every job the backend still knows, newest first."""
    choice = settings.choose_backend(settings.load({"backend": backend}))
    found = backends.backend(choice.name).list()
    if json:
        tables.print_json(msgspec.json.encode(found))
        return 0
    say(f"ytf: backend {choice.name} ({choice.reason})")
    rows = [
        (
            job.id,
            job.name,
            job.user,
            job.state.value,
            job.queue,
            tables.when(job.started),
            tables.span(job.started, job.finished),
        )
        for job in found
    ]
    headers = ("id", "name", "user", "state", "queue", "started", "took")
    tables.show(headers, rows, sys.stdout)
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
    rows = [(tables.when(e.at), e.task or "", e.event, _headline(e.text)) for e in found]
    tables.show(("at", "task", "event", "text"), rows, sys.stdout)
    return 0


def _headline(text: str) -> str:
    """As much of a text as fits a line of a table."""
    first, _, more = text.partition("\n")
    return f"{first} …" if more else first


def kill(jobs: Sequence[str]) -> int:
    """Ask for the end of each job; what one says does not keep the others from it."""
    return max([_kill(job) for job in jobs])


def _status_if_told(handle: JobHandle) -> JobStatus | None:
    try:
        return handle.wait(timeout_s=_LOOK_S)
    except NotFoundError:
        raise
    except YtfError:
        return None  # a kill has other ways than through the master


def _kill(job: str) -> int:
    try:
        handle = backends.open_job(job)
        now = _status_if_told(handle)
        if now is not None and now.state.is_final:
            say(f"ytf: job {job} has already ended: {now.state.value}")
        else:
            handle.kill("asked for with ytf kill")
            say(f"ytf: job {job} is being killed")
    except YtfError as error:
        failures.report("ytf", error)
        return error.exit_code
    return 0
