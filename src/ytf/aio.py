"""The Python API for programs with an event loop: each name does what its twin in ``ytf`` does.

``await ytf.aio.run(train, workers=4)``, ``job = await ytf.aio.start(train)``,
``await job.wait()``, ``async for line in job.logs(follow=True)``. The loop is never blocked:
calls run in threads.

A :func:`run` or :func:`run_on_yarn` that is cancelled kills its job, as Ctrl-C does, and ends
when the job has ended; a :func:`start` or :func:`submit` leaves no job behind. Every other call
that is cancelled just ends: the job goes on.
"""

from __future__ import annotations

import functools
from collections.abc import AsyncGenerator, Callable, Coroutine, Iterator
from contextlib import contextmanager
from typing import Any, Concatenate, ParamSpec, TypeVar

from ytf import backends
from ytf.client import job as _sync
from ytf.client import run as _sync_run
from ytf.client import run_on_yarn as _run_on_yarn
from ytf.client.async_calls import call_in_thread, iterate_in_thread
from ytf.specs.ids import JobId

__all__ = ["AsyncJob", "job", "jobs", "run", "run_on_yarn", "start", "submit"]

P = ParamSpec("P")
R = TypeVar("R")


def _call(function: Callable[P, R], *, finish: bool) -> Callable[P, Coroutine[Any, Any, R]]:
    @functools.wraps(function)
    async def call(*args: P.args, **kwargs: P.kwargs) -> R:
        return await call_in_thread(functools.partial(function, *args, **kwargs), finish=finish)

    return call


def _job_of(
    function: Callable[P, _sync.Job], *, submits: bool
) -> Callable[P, Coroutine[Any, Any, AsyncJob]]:
    @functools.wraps(function)
    async def call(*args: P.args, **kwargs: P.kwargs) -> AsyncJob:
        found = await call_in_thread(
            functools.partial(function, *args, **kwargs),
            finish=submits,
            undo=(lambda job: job.kill("cancelled while it was submitted")) if submits else None,
        )
        return AsyncJob(found)

    return call


def _method(
    method: Callable[Concatenate[_sync.Job, P], R],
) -> Callable[Concatenate[AsyncJob, P], Coroutine[Any, Any, R]]:
    @functools.wraps(method)
    async def call(self: AsyncJob, /, *args: P.args, **kwargs: P.kwargs) -> R:
        def blocking() -> R:
            with self._borrowed() as job:
                return method(job, *args, **kwargs)

        return await call_in_thread(blocking)

    return call


def _iterator(
    method: Callable[Concatenate[_sync.Job, P], Iterator[R]],
) -> Callable[Concatenate[AsyncJob, P], AsyncGenerator[R, None]]:
    @functools.wraps(method)
    def call(self: AsyncJob, /, *args: P.args, **kwargs: P.kwargs) -> AsyncGenerator[R, None]:
        def items() -> Iterator[R]:
            with self._borrowed() as job:
                yield from method(job, *args, **kwargs)

        return iterate_in_thread(items)

    return call


class AsyncJob:
    """One job, running or ended: ``ytf.Job`` with methods to await."""

    def __init__(self, job: _sync.Job) -> None:
        self.id: JobId = job.id
        """The job's id, with which :func:`job` finds it again."""
        self._free = [job]
        """Not in use: each serves one thread at a time."""

    def __repr__(self) -> str:
        return f"<AsyncJob {self.id}>"

    @contextmanager
    def _borrowed(self) -> Iterator[_sync.Job]:
        """A job for one thread. Called there, because finding one may block."""
        try:
            job = self._free.pop()
        except IndexError:
            job = _sync.Job(backends.open_job(self.id))
        try:
            yield job
        finally:
            self._free.append(job)

    status = _method(_sync.Job.status)
    wait = _method(_sync.Job.wait)
    results = _method(_sync.Job.results)
    kill = _method(_sync.Job.kill)
    events = _iterator(_sync.Job.events)
    logs = _iterator(_sync.Job.logs)
    tensorboard_url = _method(_sync.Job.tensorboard_url)
    cluster_spec = _method(_sync.Job.cluster_spec)


run = _call(_sync_run.run, finish=True)
run_on_yarn = _call(_run_on_yarn.run_on_yarn, finish=True)
start = _job_of(_sync_run.start, submits=True)
submit = _job_of(_sync.submit, submits=True)
job = _job_of(_sync.job, submits=False)
jobs = _call(_sync.jobs, finish=False)
