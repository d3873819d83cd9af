"""The Python API for jobs: submit a job or find one, wait for it, read it, kill it."""

from __future__ import annotations

import logging
import math
import os
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from ytf import backends
from ytf.backends.api import JobBackend, JobHandle, LogLine, Notify, Plan
from ytf.client import settings
from ytf.client.cancellation import check_cancelled
from ytf.client.follow import follow_events, settle
from ytf.client.job_lookup import find_job, select_jobs
from ytf.client.last_job import remember_last_job
from ytf.client.log_selection import select_logs
from ytf.client.plan import make_plan
from ytf.client.progress.reporter import ProgressReporter, open_reporter
from ytf.errors import JobFailedError, SpecError, YtfError, shown
from ytf.specs import codec
from ytf.specs.ids import JobId
from ytf.specs.job import JobSpec
from ytf.specs.status import ClusterSpec, JobEvent, JobState, JobStatus, JobSummary

if TYPE_CHECKING:
    from ytf.client.mlflow.job_run import JobRun
    from ytf.packaging.made_environments import EnvironmentRecipe

_log = logging.getLogger("ytf")


class Outcome:
    """How a job ended."""

    def __init__(self, status: JobStatus) -> None:
        self.status = status

    def __repr__(self) -> str:
        return f"<Outcome {self.status.state.value} of {self.status.id}>"

    @property
    def succeeded(self) -> bool:
        """Whether the job ended SUCCEEDED."""
        return self.status.state is JobState.SUCCEEDED

    def raise_for_status(self) -> Outcome:
        """Raise ``JobFailedError`` with the diagnostics unless the job succeeded."""
        if not self.succeeded:
            status = self.status
            diagnostics = status.diagnostics.strip()
            raise JobFailedError(
                f"job {status.id} ended {status.state.value}"
                + (f": {diagnostics}" if diagnostics else ""),
                hint=f"`ytf logs {status.id}` shows what the tasks wrote",
            )
        return self


class Job:
    """One job, running or ended. Every call reads its current state."""

    def __init__(self, handle: JobHandle, run: JobRun | None = None) -> None:
        self._handle = handle
        self._run = run
        """The job's run in MLflow, if it was submitted here and is tracked."""

    def __repr__(self) -> str:
        return f"<Job {self.id}>"

    def _repr_html_(self) -> str:
        """Show the job in a notebook, as it is now."""
        from ytf.client.progress.job_html import job_html

        try:
            return job_html(self.status())
        except YtfError as error:
            return job_html(None, [f"job {self.id}", str(error)])

    @property
    def id(self) -> JobId:
        """The job's id, with which :func:`job` finds it again."""
        return self._handle.job

    def status(self) -> JobStatus:
        """Return the status of the job and its tasks, also after the end."""
        return self._handle.status()

    def wait(self, timeout_s: float | None = None, *, progress: bool | None = None) -> Outcome:
        """Block until the job has ended and all but its record and logs is removed.

        Raises ``TimeoutError`` if it has not ended after ``timeout_s``; the job goes on, also
        after Ctrl-C. If the cluster does not answer for some minutes, this waits for it, and
        says so. What happens meanwhile is shown, see :func:`ytf.run`. Ends the job's run in
        MLflow, if this process has submitted it and uses MLflow.
        """
        now = self.status()
        if now.state.is_final:
            return self._ended(settle(self._handle, now))
        with open_reporter(progress) as reporter:
            try:
                limit_s = math.inf if timeout_s is None else timeout_s
                return self._ended(reporter.follow(self._handle, limit_s))
            except KeyboardInterrupt:
                reporter.warn(f"stopped waiting: job {self.id} goes on (its kill() ends it)")
                raise

    def _ended(self, final: JobStatus) -> Outcome:
        """The outcome of a job that is over, which its run in MLflow gets, too."""
        if self._run is not None:
            self._run.end(final)
        return Outcome(final)

    def results(self, timeout_s: float | None = None, *, progress: bool | None = None) -> list[Any]:
        """Block until a job of :func:`start` has ended, and return what its function returned.

        There is one value for each worker, by index; for each of its processes, if it has
        several. Raises ``RunFailed`` if the function raised, or a task died, with the
        exception as its cause. Results are kept with the job's record: ``ytf rm`` and, after
        some days, ``ytf gc`` remove both. Raises ``TimeoutError`` like :meth:`wait`.
        """
        from ytf.client.function_results import read_results

        return read_results(self._handle, self.wait(timeout_s, progress=progress).status)

    def kill(self, reason: str = "killed from Python") -> None:
        """Kill the job; returns when the job has accepted the request. Idempotent."""
        self._handle.kill(reason)

    def events(self, *, follow: bool = False) -> Iterator[JobEvent]:
        """Yield the events of the job so far. With ``follow``, go on until it has ended."""
        if follow:
            return follow_events(self._handle, notify=_log.warning)
        return iter(self._handle.events())

    def logs(
        self, tasks: Sequence[str] | None = None, *, follow: bool = False
    ) -> Iterator[LogLine]:
        """Yield log lines of groups, tasks or attempts, by default of all tasks.

        They are given as ``ytf logs`` takes them: ``worker``, ``worker:0``,
        ``worker:0#2``. With ``follow``, go on until the job has ended.
        """
        if tasks is not None and not tasks:
            return iter(())
        selection = select_logs(self.status(), tasks or ())
        return selection.of(
            self._handle.logs(selection.tasks, follow=follow, check=check_cancelled)
        )

    def tensorboard_url(self) -> str | None:
        """Return the address of the job's TensorBoard, while it has one that runs."""
        return self.status().tensorboard_url

    def cluster_spec(self) -> ClusterSpec | None:
        """Return the cluster spec, once the addresses of all tasks are known."""
        return self._handle.cluster_spec()


def submit(
    spec: JobSpec,
    *,
    backend: str | JobBackend | None = None,
    progress: bool | None = None,
) -> Job:
    """Submit a job and return once it is accepted; it goes on without this process.

    ``backend`` is a name or a backend; by default the one ``ytf-submit`` would
    choose. Relative paths in the spec are relative to the working directory.
    What takes long (packing, uploading) is shown, see :func:`ytf.run`.
    Raises ``SpecError`` or ``RefusedError`` if nothing was submitted.
    """
    spec = checked(spec)
    if spec.client:
        raise SpecError(
            "a client needs a terminal",
            where="client",
            hint="submit with `ytf-submit --client`, or use the job's cluster_spec() here",
        )
    with open_reporter(progress) as reporter:
        return submit_checked(spec, choose_backend(backend), reporter, tracks=True)


def choose_backend(backend: str | JobBackend | None) -> JobBackend:
    """Return a backend by its name, or the one that ``ytf-submit`` would choose."""
    if backend is not None and not isinstance(backend, str):
        return backend
    chosen = settings.choose_backend(settings.load({"backend": backend}, notify=_log.warning))
    return backends.get_backend(chosen.name)


def submit_checked(
    spec: JobSpec,
    backend: JobBackend,
    reporter: ProgressReporter,
    *,
    keeps_results: bool = False,
    tracks: bool = False,
) -> Job:
    """Plan and submit a spec that :func:`checked` has returned, and show how far that is.

    ``tracks``: in MLflow, if this process uses it.
    """
    from ytf.packaging.tensorboard import find_tensorboard

    plan = make_plan(
        spec,
        backend=backend.name,
        user=backend.user(),
        tensorboard=lambda: find_tensorboard(reporter.notify),
        make_environment=lambda recipe: make_environment(recipe, reporter.notify),
        keeps_results=keeps_results,
    )
    run = _begin_run(plan) if tracks else None
    try:
        submitted = plan if run is None else run.plan
        handle = backend.submit(submitted, reporter.notify, check=check_cancelled)
    except BaseException as error:
        if run is not None:
            run.discard()
        if isinstance(error, KeyboardInterrupt):
            reporter.warn("interrupted: the submission was given up")
        raise
    remember_last_job(backend.name, handle.job)
    if run is not None:
        run.submitted(handle.job)
    reporter.notify(f"job {handle.job} is accepted")
    return Job(handle, run)


def _begin_run(plan: Plan) -> JobRun | None:
    from ytf.client.mlflow.job_run import begin_run

    return begin_run(plan, lambda: settings.mlflow_timeout_s(settings.load({})))


def make_environment(recipe: EnvironmentRecipe, notify: Notify) -> Path:
    """Make an environment, and tell what takes long. A cancelled call ends it within seconds."""
    from ytf.packaging.made_environments import ensure_environment

    def tell(text: str) -> None:
        check_cancelled()
        notify(text)

    return ensure_environment(recipe, tell)


def checked(spec: object) -> JobSpec:
    """Return the spec with the types of all values checked, which Python does not do."""
    if not isinstance(spec, JobSpec):
        raise SpecError(
            f"expected a JobSpec, got {shown(spec)}",
            hint='ytf.JobSpec(groups={"worker": ytf.TaskGroupSpec(count=2)}, command="…")',
        )
    return codec.from_dict(msgspec.to_builtins(spec, enc_hook=_encode_path))


def _encode_path(value: object) -> object:
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    raise SpecError(f"{shown(value)} cannot be a part of a job spec")


def job(job_id: str, *, backend: str | None = None) -> Job:
    """Find a job again, or raise ``NotFoundError``.

    ``job_id`` is what the commands take: an id, a unique part of one, the name of
    a job of yours, or ``@last`` for the last one that was submitted from here.
    ``backend`` is where names and ``@last`` are looked up, by default the one
    that ``ytf-submit`` would choose.
    """
    return Job(find_job(job_id, backend=backend, notify=_log.info))


def jobs(
    *,
    states: Iterable[JobState] | None = None,
    name: str | None = None,
    user: str | None = None,
    limit: int | None = None,
    backend: str | None = None,
) -> list[JobSummary]:
    """Return the jobs that a backend knows, newest first; :func:`job` opens one by its id.

    Only those in one of these states, with a name like this pattern (``*`` and
    ``?`` are wildcards), of this user; and no more than ``limit``.
    """
    chosen = settings.choose_backend(settings.load({"backend": backend}))
    found = select_jobs(
        backends.get_backend(chosen.name).list(),
        states=None if states is None else set(states),
        name=name,
        user=user,
    )
    return found if limit is None else found[: max(limit, 0)]
