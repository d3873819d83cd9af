"""Finds the backend and the job that a command's arguments name, and says so if it may surprise.

A backend is no surprise if the user named it on this command line, or if it is the one
to which the last job was submitted from here. The line is printed

- at the first submission from this machine;
- if the last job went to another backend;
- if it is ``local`` by default although ``HADOOP_HOME`` is set: the Hadoop there
  has no configuration.
"""

from __future__ import annotations

import os

from ytf.backends.api import JobHandle
from ytf.cli.output import say
from ytf.client.job_lookup import find_job
from ytf.client.last_job import last_job
from ytf.client.settings import BackendChoice, Settings, choose_backend


def chosen_backend(prog: str, settings: Settings, *, submits: bool = False) -> BackendChoice:
    """The backend to use. ``submits``: the command submits a job, and says so the first time."""
    choice = choose_backend(settings)
    if _is_surprise(settings, choice, submits=submits):
        say(f"{prog}: backend {choice.name} ({choice.reason})")
    return choice


def open_job(text: str, backend: str | None = None) -> JobHandle:
    """The job with this id, part of an id, or name, or ``@last``; see ``client.job_lookup``."""
    return find_job(text, backend=backend, notify=lambda note: say(f"ytf: {note}"))


def _is_surprise(settings: Settings, choice: BackendChoice, *, submits: bool) -> bool:
    source = settings.sources.get("backend")
    if source == "--backend":
        return False
    last = last_job()
    if last is None:
        return submits
    no_configuration = source is None and choice.name == "local" and "HADOOP_HOME" in os.environ
    return last.backend != choice.name or no_configuration
