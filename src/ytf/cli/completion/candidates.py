"""Candidates for completion that are known only when a user presses Tab: jobs, tasks, clusters.

The scripts of ``ytf completion`` call ``ytf completion --candidates KIND``. It is silent:
whatever is wrong, it prints no more than what it has found.
"""

from __future__ import annotations

import os
import re
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from ytf import backends
from ytf.backends.api import ignore_notice
from ytf.backends.local.directories import JobDirectories
from ytf.client import settings
from ytf.client.job_lookup import LAST, find_job
from ytf.home import home_directory
from ytf.specs.job import CLIENT
from ytf.specs.status import TaskState

_WORD = re.compile(r"@?[A-Za-z0-9][A-Za-z0-9_.:#-]*")
"""What a shell takes for one plain word. Names of tasks and jobs may be of other users,
and bash puts a candidate into the command line as it is."""
_MOST_ATTEMPTS = 100
_TIME_LIMIT_S = 3.0
"""A cluster that does not answer must not block the shell for longer."""


def print_candidates(kind: str, words: Sequence[str]) -> int:
    """Print the candidates of a kind that are plain words, one per line.

    ``words``: what they depend on.
    """
    watchdog = threading.Timer(_TIME_LIMIT_S, os._exit, (0,))
    watchdog.daemon = True
    watchdog.start()
    try:
        for candidate in _KINDS[kind](words):
            # Each at once: what is found before an error or the time limit is of use.
            if _WORD.fullmatch(candidate):
                print(candidate, flush=True)
    except Exception:
        return 0
    finally:
        watchdog.cancel()
    return 0


def _running_jobs(words: Sequence[str]) -> Iterator[str]:
    yield LAST
    yield from _names(JobDirectories.from_environ().jobs)
    yield from _own_jobs(running=True)


def _known_jobs(words: Sequence[str]) -> Iterator[str]:
    yield LAST
    yield from _names(JobDirectories.from_environ().jobs)
    yield from _names(JobDirectories.from_environ().history)
    yield from _own_jobs(running=False)


def _ended_jobs(words: Sequence[str]) -> Iterator[str]:
    directories = JobDirectories.from_environ()
    running = set(_names(directories.jobs))
    yield from (job for job in _names(directories.history) if job not in running)
    choice = settings.choose_backend(settings.load(notify=ignore_notice))
    if choice.name != "local":
        backend = backends.get_backend(choice.name)
        user = backend.user()
        yield from (j.id for j in backend.list() if j.user == user and j.state.is_final)


def _own_jobs(*, running: bool) -> Iterator[str]:
    """The names and, at a cluster, the ids of the user's jobs at the chosen backend."""
    choice = settings.choose_backend(settings.load(notify=ignore_notice))
    backend = backends.get_backend(choice.name)
    user = backend.user()
    jobs = [job for job in backend.list() if job.user == user]
    jobs = [job for job in jobs if not (running and job.state.is_final)]
    if choice.name != "local":
        yield from (job.id for job in jobs)
    yield from dict.fromkeys(job.name for job in jobs)


def _tasks(words: Sequence[str]) -> Iterator[str]:
    """The groups of a job, their tasks, and the last attempts of those that were restarted."""
    tasks = [task for task in find_job(words[0]).status().tasks if task.group != CLIENT]
    yield from dict.fromkeys(task.group for task in tasks)
    yield from (f"{task.group}:{task.index}" for task in tasks)
    for task in tasks:
        if task.attempt > 1:
            numbers = range(max(1, task.attempt + 1 - _MOST_ATTEMPTS), task.attempt + 1)
            yield from (f"{task.group}:{task.index}#{number}" for number in numbers)


def _running_tasks(words: Sequence[str]) -> Iterator[str]:
    """The tasks of a job in whose containers a shell can be opened."""
    for task in find_job(words[0]).status().tasks:
        if task.group != CLIENT and task.state is TaskState.RUNNING:
            yield f"{task.group}:{task.index}"


def _topics(words: Sequence[str]) -> Iterator[str]:
    from ytf.cli.help.topics import topics
    from ytf.cli.main import parser

    yield from dict.fromkeys([*(topic.name for topic in topics()), *parser().commands()])


def _clusters(words: Sequence[str]) -> Iterator[str]:
    yield from _names(home_directory("clusters"))


def _names(folder: Path) -> Iterator[str]:
    try:
        yield from sorted(os.listdir(folder))
    except OSError:
        return


_KINDS: dict[str, Callable[[Sequence[str]], Iterator[str]]] = {
    "running": _running_jobs,
    "known": _known_jobs,
    "ended": _ended_jobs,
    "tasks": _tasks,
    "running-tasks": _running_tasks,
    "topics": _topics,
    "clusters": _clusters,
}
