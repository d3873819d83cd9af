"""Tracks a job in MLflow: a run for the job, one below it for each task (ADR 37).

It is done where MLflow is in use: ``MLFLOW_TRACKING_URI`` is set, or this process has called
``mlflow.set_tracking_uri`` or ``mlflow.start_run``. The tasks are given the variables with
which ``mlflow.log_metric`` in them logs to their own runs.

Whatever MLflow does, the job goes on: each wait for it is bounded, and what fails is told once.
"""

from __future__ import annotations

import atexit
import logging
import os
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeoutError
from dataclasses import dataclass, field
from typing import TypeVar
from urllib.parse import urlsplit

import msgspec

from ytf import backends
from ytf.backends.api import Plan
from ytf.client.mlflow.content import (
    job_end,
    job_metrics,
    job_params,
    job_yaml,
    task_end,
    task_metrics,
    task_tags,
)
from ytf.client.mlflow.daemon_calls import DaemonCalls
from ytf.client.mlflow.server import MlflowError, MlflowServer, Run
from ytf.specs.ids import JobId, TaskId, group_of, index_of, task_id
from ytf.specs.job import TENSORBOARD, JobSpec, TaskGroupSpec
from ytf.specs.status import JobStatus, TaskState, TaskStatus
from ytf.terminal_text import printable_line

_T = TypeVar("_T")

_log = logging.getLogger("ytf")

MOST_TASK_RUNS = 64
"""Of a job with more tasks than this, all tasks log to the job's run."""
_MOST_LOGS = 4
"""Of so many failed tasks the end of the log is stored."""
_LOG_LINES = 500
_LOOPBACK = ("localhost", "127.0.0.1", "::1")
_PARENT = "mlflow.parentRunId"


@dataclass(frozen=True)
class _Usage:
    """How MLflow is used by this process: the server, and the run that is active, if any."""

    uri: str
    active_run: str | None


@dataclass
class _Runs:
    """The runs of a job. ``is_ours``: the job's was made here, and is ended here."""

    job: Run
    is_ours: bool
    tasks: dict[TaskId, Run] = field(default_factory=dict)

    @property
    def keeps_texts(self) -> bool:
        """Whether artifacts can be stored."""
        return self.job.is_stored_by_server


def begin_run(plan: Plan, timeout: Callable[[], float]) -> JobRun | None:
    """Make the runs of a job that is about to be submitted; None if MLflow is not in use.

    ``timeout`` is asked for only if it is, and returns the seconds that this may take at
    most. A server that has not answered then is done without; after 0 s, it is not asked.
    """
    usage = _usage()
    timeout_s = 0.0 if usage is None else timeout()
    if usage is None or not timeout_s:
        return None
    # Addresses are not repeated: they may have a password in them.
    scheme = usage.uri.partition(":")[0]
    if scheme not in ("http", "https"):
        _log.info("MLflow: its tracking URI (%s) is no server: this job is not tracked", scheme)
        return None
    try:
        run = JobRun(plan, usage, timeout_s)
    except ValueError:
        _log.warning("MLflow: its tracking URI is not valid: the job runs without it")
        return None
    except OSError as exc:
        _log.warning("MLflow: its certificate: %s: the job runs without it", exc)
        return None
    return run if run.begin() else None


class JobRun:
    """The run of one job, and those of its tasks. Its calls do not raise."""

    def __init__(self, plan: Plan, usage: _Usage, timeout_s: float) -> None:
        self.plan = plan
        """The plan; once begun, its tasks have the variables for MLflow."""
        self._usage = usage
        self._timeout_s = timeout_s
        self._server = MlflowServer(usage.uri, os.environ, retry_s=timeout_s / 2)
        self._calls = DaemonCalls("ytf-mlflow")
        self._is_discarded = threading.Event()
        self._runs: _Runs | None = None
        self._is_ended = False

    def begin(self) -> bool:
        """Make the runs; tells whether that has succeeded in time."""
        made = self._calls.submit(self._create)
        try:
            is_made = self._wait(made, self._deadline(), "the job runs without it")
        except BaseException:
            self._abandon(made)
            raise
        if not is_made:
            self._abandon(made)
            return False
        self._runs = runs = made.result()
        self.plan = msgspec.structs.replace(self.plan, spec=self._with_variables(runs))
        if self.plan.backend != "local" and urlsplit(self._server.url).hostname in _LOOPBACK:
            _log.warning("MLflow: tasks on other nodes do not reach %s", self._server.url)
        return True

    def submitted(self, job: JobId) -> None:
        """Tell MLflow of the job. Waits for nothing; the end of the process then waits for it."""
        runs, server, spec = self._runs, self._server, self.plan.spec
        if runs is None:
            return

        def describe() -> None:
            for run in (runs.job, *runs.tasks.values()):
                server.log(run.id, tags={"ytf.job_id": job, "ytf.backend": self.plan.backend})
            if runs.keeps_texts:
                server.store_text(runs.job, "job.yaml", job_yaml(spec))
            # A run of the user's may have other values of an earlier job, which stay.
            server.log(runs.job.id, params=job_params(spec))

        _log.info("MLflow: run %s at %s", runs.job.id, server.url)
        if not runs.keeps_texts:
            place = printable_line(runs.job.artifacts)
            _log.info("MLflow: artifacts are kept in %s, where ytf stores none", place)
        described = self._calls.submit(lambda: self._told("all of the job", describe))

        def wait() -> None:
            self._wait(described, self._deadline(), f"run {runs.job.id} may miss job {job}")

        atexit.register(wait)
        described.add_done_callback(lambda _: atexit.unregister(wait))

    def discard(self) -> None:
        """Remove the runs: there is no job. Waits for nothing."""
        runs, self._runs = self._runs, None
        if runs is not None:
            self._calls.submit(lambda: self._remove(runs))

    def end(self, status: JobStatus) -> None:
        """Write down how the job ended, and end its runs. Only the first call counts.

        Takes the time that :func:`begin_run` was given at most.
        """
        runs = self._runs
        if runs is None or self._is_ended:
            return
        self._is_ended = True
        deadline = self._deadline()
        otherwise = f"run {runs.job.id} may miss something of job {status.id}"
        written = self._calls.submit(lambda: self._write_end(runs, status))
        failed = [task for task in status.tasks if task.state is TaskState.FAILED]
        if self._wait(written, deadline, otherwise) and failed and runs.keeps_texts:
            stored = self._calls.submit(lambda: self._store_logs(runs, status.id, failed))
            self._wait(stored, deadline, otherwise)

    def log_metrics(
        self, metrics: Mapping[str, float], of_tasks: Mapping[TaskId, Mapping[str, float]]
    ) -> None:
        """Add metrics to the job's run and to those of its tasks. Takes as long as :meth:`end`."""
        runs = self._runs
        if runs is None:
            return

        def write() -> None:
            self._server.log(runs.job.id, metrics=metrics)
            for task, own in of_tasks.items():
                if task in runs.tasks:
                    self._server.log(runs.tasks[task].id, metrics=own)

        written = self._calls.submit(write)
        self._wait(written, self._deadline(), f"run {runs.job.id} may miss metrics")

    # -- in the calling thread -------------------------------------------------------

    def _deadline(self) -> float:
        return time.monotonic() + self._timeout_s

    def _wait(self, done: Future[_T], deadline: float, otherwise: str) -> bool:
        """Wait for a call, and say what follows if it has failed, or is not done in time."""
        try:
            done.result(max(deadline - time.monotonic(), 0.0))
        except FutureTimeoutError:
            _log.warning(
                "MLflow at %s has not answered within %g s: %s",
                self._server.url,
                self._timeout_s,
                otherwise,
            )
        # Whatever goes wrong here must not cost the user a job or its results.
        except Exception as exc:
            told = printable_line(str(exc)) or type(exc).__name__
            _log.warning("MLflow at %s: %s: %s", self._server.url, told, otherwise)
        else:
            return True
        return False

    def _abandon(self, made: Future[_Runs]) -> None:
        """Remove the runs once their making has ended, whenever that is."""
        self._is_discarded.set()

        def remove() -> None:
            if made.exception() is None:
                self._remove(made.result())

        self._calls.submit(remove)

    def _with_variables(self, runs: _Runs) -> JobSpec:
        """The spec in which the tasks know their runs. What the user has set is not changed."""
        spec = self.plan.spec
        common = {
            "MLFLOW_TRACKING_URI": self._usage.uri,
            "MLFLOW_EXPERIMENT_ID": runs.job.experiment,
            "MLFLOW_RUN_ID": runs.job.id,
        }
        groups = {
            name: _with_runs(name, group, spec, runs.tasks) for name, group in spec.groups.items()
        }
        return msgspec.structs.replace(spec, task_env={**common, **spec.task_env}, groups=groups)

    # -- in the thread of the calls --------------------------------------------------

    def _create(self) -> _Runs:
        server, spec, active = self._server, self.plan.spec, self._usage.active_run
        if active is not None:
            runs = _Runs(server.get_run(active), is_ours=False)
        else:
            tags = {"mlflow.user": self.plan.user, "mlflow.source.name": sys.argv[0] or "python"}
            experiment = server.experiment(os.environ)
            runs = _Runs(server.create_run(experiment, spec.name, tags), is_ours=True)
        tasks = [task for task in spec.tasks() if group_of(task) != TENSORBOARD]
        try:
            for task in tasks if len(tasks) <= MOST_TASK_RUNS else ():
                if self._is_discarded.is_set():
                    break
                tags = {_PARENT: runs.job.id, "ytf.task": task, "mlflow.user": self.plan.user}
                runs.tasks[task] = server.create_run(runs.job.experiment, task, tags)
        except MlflowError:
            self._remove(runs)
            raise
        return runs

    def _remove(self, runs: _Runs) -> None:
        def remove() -> None:
            for run in [*runs.tasks.values(), *([runs.job] if runs.is_ours else [])]:
                self._server.delete_run(run.id)

        self._told("that there is no job", remove)

    def _write_end(self, runs: _Runs, status: JobStatus) -> None:
        server = self._server
        for task in status.tasks:
            run = runs.tasks.get(task_id(task.group, task.index))
            if run is not None:
                server.log(run.id, metrics=task_metrics(task), tags=task_tags(task))
                server.end_run(run.id, task_end(task))
        tags = {"ytf.state": status.state.value}
        server.log(runs.job.id, metrics=job_metrics(status), tags=tags)
        if runs.is_ours:
            server.end_run(runs.job.id, job_end(status))
        if status.diagnostics and runs.keeps_texts:
            server.store_text(runs.job, "diagnostics.txt", f"{status.diagnostics}\n")

    def _store_logs(self, runs: _Runs, job: JobId, failed: list[TaskStatus]) -> None:
        # A handle is for one thread.
        handle = backends.open_job(job)
        for task in failed[:_MOST_LOGS]:
            name = task_id(task.group, task.index)
            last = deque(handle.logs([name], follow=False), maxlen=_LOG_LINES)
            text = "".join(f"{line.stream}: {line.text}\n" for line in last)
            target = runs.tasks.get(name, runs.job)
            self._server.store_text(target, f"logs/{task.group}-{task.index}.txt", text)

    def _told(self, what: str, call: Callable[[], None]) -> None:
        """Make a call of which nobody waits for the result."""
        try:
            call()
        except MlflowError as exc:
            told = printable_line(str(exc))
            _log.warning("MLflow at %s was not told %s: %s", self._server.url, what, told)


def _usage() -> _Usage | None:
    """How this process uses MLflow. Imports nothing: who uses ``mlflow`` has imported it."""
    variable, run = os.environ.get("MLFLOW_TRACKING_URI"), os.environ.get("MLFLOW_RUN_ID")
    mlflow = sys.modules.get("mlflow")
    try:
        if mlflow is not None:
            active = mlflow.active_run()
            if active is not None or mlflow.is_tracking_uri_set():
                run = active.info.run_id if active is not None else run
                return _Usage(str(mlflow.get_tracking_uri()), run)
    except AttributeError:
        pass  # Another module of that name.
    return None if not variable else _Usage(variable, run)


def _with_runs(
    name: str, group: TaskGroupSpec, spec: JobSpec, runs: Mapping[TaskId, Run]
) -> TaskGroupSpec:
    if "MLFLOW_RUN_ID" in spec.task_env | group.task_env:
        return group
    own = {
        index_of(task): {"MLFLOW_RUN_ID": run.id}
        for task, run in runs.items()
        if group_of(task) == name
    }
    given = group.task_env_overrides
    merged = {index: {**own.get(index, {}), **given.get(index, {})} for index in {*own, *given}}
    return msgspec.structs.replace(group, task_env_overrides=merged)
