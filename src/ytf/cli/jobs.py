"""The commands ``ytf status``, ``list``, ``spec``, ``events`` and ``kill``.

``job`` is always what the user wrote: an id, a part of one, a name or ``@last``.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Collection, Sequence

import msgspec

from ytf import backends
from ytf.backends.api import JobHandle
from ytf.cli import output, tables
from ytf.cli.job_arguments import chosen_backend, open_job
from ytf.cli.output import say
from ytf.client import settings
from ytf.client.follow import follow
from ytf.client.job_lookup import select_jobs
from ytf.client.status_text import TASK_HEADERS, span, task_row
from ytf.errors import NotFoundError, YtfError
from ytf.specs.status import JobState, JobStatus
from ytf.specs.usage import metrics_text
from ytf.terminal_text import printable, printable_line

_STATUS_TIMEOUT_S = 5.0
"""How long a kill waits for the status: a job that has ended need not be killed."""

TERMINAL_LIMIT = 20
"""How many jobs ``ytf list`` shows on a terminal by default, so that the newest stay in sight."""


def status(job: str, *, backend: str | None = None, json: bool) -> int:
    """Print the state of a job and its tasks."""
    found = open_job(job, backend).status()
    if json:
        tables.print_json(msgspec.json.encode(found))
        return 0
    for name, value in headline(found):
        print(f"{name + ':':<13}{printable_line(value)}")
    print()
    tables.show(TASK_HEADERS, [task_row(task) for task in found.tasks], sys.stdout)
    metrics = [
        (f"{task.group}:{task.index}", metrics_text(task.usage.metrics))
        for task in found.tasks
        if task.usage is not None and task.usage.metrics
    ]
    if metrics:
        print()
        tables.show(("task", "metrics"), metrics, sys.stdout)
    if found.diagnostics:
        print(f"\n{printable(found.diagnostics.rstrip())}")
    return 0


def headline(found: JobStatus) -> list[tuple[str, str]]:
    """The lines about the job itself: name and value of all that is known."""
    pairs = [
        ("job", found.id),
        ("name", found.name),
        ("state", found.state.value),
        ("user", found.user),
        ("queue", found.queue),
        ("backend", found.backend),
        ("started", tables.when(found.started)),
        ("finished", tables.when(found.finished)),
        ("took", span(found.started, found.finished)),
        ("tracking", found.tracking_url or ""),
        ("tensorboard", found.tensorboard_url or ""),
        ("logs", _logs(found)),
    ]
    return [(name, value) for name, value in pairs if value]


def _logs(found: JobStatus) -> str:
    """The directory with the logs of all tasks, if there is one."""
    urls = [task.log_url for task in found.tasks if task.log_url]
    if not urls or not all(url.startswith("file://") for url in urls):
        return ""
    from urllib.parse import unquote, urlsplit

    # <logs>/<task>/<attempt>
    return os.path.commonpath(
        [os.path.dirname(os.path.dirname(unquote(urlsplit(url).path))) for url in urls]
    )


def list_jobs(
    *,
    backend: str | None,
    json: bool,
    states: Collection[JobState] | None = None,
    name: str | None = None,
    user: str | None = None,
    limit: int | None = None,
) -> int:
    """Print the jobs that the backend knows, newest first; ``limit``: only so many.

    On a terminal the limit is ``TERMINAL_LIMIT`` unless one is given; 0 is no limit.
    """
    chosen = settings.load({"backend": backend})
    choice = settings.choose_backend(chosen) if json else chosen_backend("ytf", chosen)
    on_terminal = sys.stdout.isatty() and not json
    if limit is None and on_terminal:
        limit = TERMINAL_LIMIT
    known = backends.get_backend(choice.name).list()
    matching = select_jobs(known, states=states, name=name, user=user)
    found = matching[: limit or None]
    if json:
        tables.print_json(msgspec.json.encode(found))
        return 0
    if not matching:
        what = "job matches" if known else "jobs are known"
        say(f"ytf: no {what} on the backend {choice.name}")
    when = tables.when_short if on_terminal else tables.when
    rows = [
        (
            job.id,
            job.name,
            job.user,
            job.state.value,
            job.queue,
            when(job.started),
            span(job.started, job.finished),
        )
        for job in found
    ]
    headers = ("id", "name", "user", "state", "queue", "started", "took")
    tables.show(headers, rows, sys.stdout, drop=("queue", "user"), cut=("name",))
    if on_terminal and len(found) < len(matching):
        say(f"ytf: {len(matching) - len(found)} older jobs are not shown: --all shows them")
    return 0


def spec(job: str, *, backend: str | None = None) -> int:
    """Print the cluster spec as JSON: group → list of ``host:port``, as ``tf.train.ClusterSpec``
    takes it.
    """
    handle = open_job(job, backend)
    found = handle.cluster_spec()
    if found is None:
        raise NotFoundError(
            f"job {handle.job} has no cluster spec", hint="it is made once every task has reported"
        )
    tables.print_json(msgspec.json.encode(found.members))
    return 0


def events(job: str, *, backend: str | None = None, json: bool) -> int:
    """Print the events of a job."""
    found = open_job(job, backend).events()
    if json:
        tables.print_json(msgspec.json.encode(found))
        return 0
    rows = [(tables.when(e.at), e.task or "", e.event, _headline(e.text)) for e in found]
    tables.show(("at", "task", "event", "text"), rows, sys.stdout)
    return 0


def _headline(text: str) -> str:
    """The first line of a text, for a table."""
    first, _, more = text.partition("\n")
    return f"{first} …" if more else first


def kill(jobs: Sequence[str], *, backend: str | None = None, wait: bool = False) -> int:
    """Ask for the end of each job. An error with one does not stop the others.

    ``wait``: return when all have ended, and nothing of them is left but record and logs.
    """
    asked = [_kill(job, backend) for job in jobs]
    codes = [each for each in asked if isinstance(each, int)]
    if wait:
        codes += [_wait_for_end(each) for each in asked if not isinstance(each, int)]
    return max(codes, default=0)


def _status_if_known(handle: JobHandle) -> JobStatus | None:
    try:
        return handle.wait(timeout_s=_STATUS_TIMEOUT_S)
    except NotFoundError:
        raise
    except YtfError:
        return None  # a kill need not go through the master


def _kill(job: str, backend: str | None) -> JobHandle | int:
    """Ask for the end of one job: returns its handle, or an exit code if that is all."""
    try:
        handle = open_job(job, backend)
        now = _status_if_known(handle)
        if now is not None and now.state.is_final:
            say(f"ytf: job {handle.job} has already ended: {now.state.value}")
            return 0
        handle.kill("asked for with ytf kill")
        say(f"ytf: job {handle.job} is being killed")
    except YtfError as error:
        output.report_error("ytf", error)
        return error.exit_code
    return handle


def _wait_for_end(handle: JobHandle) -> int:
    try:
        for status in follow(handle, notify=lambda text: say(f"ytf: {text}")):
            if status.state.is_final:
                # A final status comes once the job's staging directory is gone, too.
                final = handle.wait(status)
                say(f"ytf: job {handle.job} has ended: {final.state.value}")
    except YtfError as error:
        output.report_error("ytf", error)
        return error.exit_code
    return 0
