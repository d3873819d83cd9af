"""Finds the job that a user means by its id, a part of it, its name or ``@last``; selects jobs.

One job is looked for in this order:

- ``@last``: the job that was submitted last from this machine by this user;
- a whole id, of anybody's job;
- the name of one of the user's jobs: the one that runs. If several run, the
  name says too little. If none runs, it is the newest that has ended;
- the beginning of one id of the user's jobs, or of one of the id's parts:
  ``local_17``, ``1700000000000_0042``, ``0042``.

All but whole ids are looked up at the chosen backend, whose jobs ``ytf list``
shows; an id that begins with ``local_`` or ``application_`` names its own. Other
people's jobs need a whole id, so that nobody kills one by mistake.
"""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Collection, Sequence

from ytf import backends
from ytf.backends.api import JobHandle, Notify, ignore_notice
from ytf.client import settings
from ytf.client.last_job import last_job
from ytf.errors import NotFoundError, did_you_mean, shown
from ytf.specs.ids import JobId
from ytf.specs.status import JobState, JobSummary

LAST = "@last"

_SHORTEST_PART = 4
"""Fewer characters of an id are more likely a slip than a job."""
_LISTED = 5
"""How many of the jobs that a text may mean are listed."""


def select_jobs(
    jobs: Sequence[JobSummary],
    *,
    states: Collection[JobState] | None = None,
    name: str | None = None,
    user: str | None = None,
) -> list[JobSummary]:
    """The jobs in one of these states, with a name like this pattern, of this user.

    In a pattern ``*`` and ``?`` stand for any characters, as in a shell.
    """
    return [
        job
        for job in jobs
        if (states is None or job.state in states)
        and (name is None or fnmatch.fnmatchcase(job.name, name))
        and (user is None or job.user == user)
    ]


def find_job(text: str, *, backend: str | None = None, notify: Notify = ignore_notice) -> JobHandle:
    """The job that a text names; ``backend`` is where names are looked up, if it was given.

    ``notify`` is told which job was taken where there was a choice. Raises
    ``NotFoundError`` if no job is meant, or more than one may be.
    """
    name = backends.backend_of_id(text)
    missing: NotFoundError | None = None
    if name is not None:
        # Needs no settings: a broken ytf.toml is no reason not to show a job.
        try:
            return backends.open_job(text)
        except NotFoundError as error:
            missing = error
    else:
        chosen = settings.load({"backend": backend})
        if text == LAST:
            return _open_last(chosen.get("backend"))
        name = settings.choose_backend(chosen).name
    where = backends.get_backend(name)
    user = where.user()
    own = [job for job in where.list() if job.user == user]
    named = [job for job in own if job.name == text]
    if named:
        return where.open(_of_name(text, named, notify))
    matching = [job for job in own if is_part(text, job.id)]
    if len(matching) == 1:
        return where.open(matching[0].id)
    if matching:
        raise _ambiguous(f"{shown(text)} may be one of {len(matching)} jobs", matching)
    if missing is not None:
        raise missing
    raise NotFoundError(
        f"you have no job with the id or name {shown(text)} on the backend {where.name}",
        hint=did_you_mean(
            text,
            [LAST, *(job.name for job in own), *(job.id for job in own)],
            otherwise="`ytf list` shows the jobs there are; a part of an id has "
            f"{_SHORTEST_PART} characters or more, and {LAST} is the last one submitted from here",
        ),
    )


def is_part(text: str, job: str) -> bool:
    """Whether a text is the beginning of a job's id, or of one of the id's parts."""
    if len(text) < _SHORTEST_PART:
        return False
    return any(job.startswith(text, begin.end()) for begin in re.finditer("^|_", job))


def _open_last(backend: str | None) -> JobHandle:
    last = last_job(backend)
    if last is None:
        where = "" if backend is None else f" to the backend {backend}"
        raise NotFoundError(
            f"no job was submitted{where} from here yet, so there is no {LAST}",
            hint="`ytf list` shows the jobs there are",
        )
    try:
        return backends.open_job(last.job)
    except NotFoundError as error:
        raise NotFoundError(f"{LAST} is {last.job}: {error}", hint=error.hint) from error


def _of_name(name: str, jobs: list[JobSummary], notify: Notify) -> JobId:
    """The job of that name; ``jobs`` are all that have it, newest first."""
    running = [job for job in jobs if not job.state.is_final]
    if len(running) > 1:
        raise _ambiguous(f"{len(running)} running jobs are called {shown(name)}", running)
    if running:
        return running[0].id
    if len(jobs) > 1:
        notify(f"{len(jobs)} jobs were called {shown(name)}; the newest is {jobs[0].id}")
    return jobs[0].id


def _ambiguous(message: str, jobs: list[JobSummary]) -> NotFoundError:
    lines = [f"  {job.id}  {job.state.value}  {shown(job.name)}" for job in jobs[:_LISTED]]
    if len(jobs) > _LISTED:
        lines.append(f"  and {len(jobs) - _LISTED} more")
    return NotFoundError(message, hint="\n".join(["give the id of one:", *lines]))
