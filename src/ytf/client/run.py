"""Runs functions as the tasks of jobs: ``ytf.run`` and ``ytf.start`` (ADR 34)."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from ytf.backends.api import JobBackend, Notify
from ytf.client.environments import CURRENT, NODE, resolve_environment
from ytf.client.framework_detection import framework_of_packages
from ytf.client.job import Job, checked, choose_backend, make_environment, submit_checked
from ytf.client.progress.reporter import ProgressReporter, open_reporter
from ytf.client.settings import working_directory
from ytf.errors import SpecError, YtfError, did_you_mean
from ytf.functions.code_modules import TaskEnvironment
from ytf.functions.payload import COMMAND, FOLDER, NODE_COMMAND, RESULTS, write_payload
from ytf.functions.pickling import Call
from ytf.specs.job import TENSORBOARD, Framework, JobSpec, StageOut, TaskGroupSpec
from ytf.specs.status import JobState, JobStatus

GROUP = "worker"
"""The task group of the tasks of :func:`run`."""
_OF_JOB = frozenset(JobSpec.__struct_fields__) - {
    "groups", "command", "script", "client", "client_command", "servers", "env",
}  # fmt: skip
_OF_GROUP = frozenset(TaskGroupSpec.__struct_fields__) - _OF_JOB - {
    "count", "command", "resources", "overrides", "env",
}  # fmt: skip
_NOT_FOR_FUNCTIONS = (Framework.TORCHRUN, Framework.MPI)


def run(
    function: Callable[..., Any],
    workers: int = 1,
    *,
    args: Sequence[object] = (),
    kwargs: Mapping[str, object] | None = None,
    memory: int | str | None = None,
    vcores: int | None = None,
    gpus: int | None = None,
    env: str = "current",
    backend: str | JobBackend | None = None,
    progress: bool | None = None,
    **fields: object,
) -> list[Any]:
    """Run a function in the tasks of a new job, and return what it returned in each.

    Blocks until the job has ended; the list has one value for each worker, by index. The
    arguments are those of :func:`start`. Raises ``RunFailed`` if the function raised in a
    task, or a task died, and ``SpecError`` or ``RefusedError`` if nothing was submitted.
    Ctrl-C kills the job.

    What happens is shown: in a notebook or on a terminal in one place that is drawn anew,
    elsewhere as lines on stderr. With ``progress=False`` nothing is. The logger ``ytf`` tells
    it all at level INFO; where that is printed, there are no lines beside it, unless with
    ``progress=True``.
    """
    call, spec = _function_job(function, workers, args, kwargs, memory, vcores, gpus, env, fields)
    with open_reporter(progress) as reporter:
        job = submit_function(call, spec, choose_backend(backend), reporter)
        wait_or_kill(job, reporter)
    return job.results(progress=False)


def start(
    function: Callable[..., Any],
    workers: int = 1,
    *,
    args: Sequence[object] = (),
    kwargs: Mapping[str, object] | None = None,
    memory: int | str | None = None,
    vcores: int | None = None,
    gpus: int | None = None,
    env: str = "current",
    backend: str | JobBackend | None = None,
    progress: bool | None = None,
    **fields: object,
) -> Job:
    """Submit a job whose tasks call a function, and return once it is accepted.

    :meth:`Job.results` waits for it and returns what the function returned. Each of the
    ``workers`` calls ``function(*args, **kwargs)``; which of them it is, it finds in the
    variables that every program of a task has (``DTF_TASK_INDEX``, ``TF_CONFIG``, ``RANK``).
    ``memory`` (``"4 GiB"``), ``vcores`` and ``gpus`` are what each task gets. ``env`` is the
    environment of the tasks: by default that of this process, shipped as it is; or the
    directory of another one, a file to make one from (``requirements.txt``, ``pyproject.toml``,
    ``uv.lock``, a pex file or an archive, the last two also in HDFS), or ``node``. ``fields``
    are any others of ``JobSpec`` and ``TaskGroupSpec``: ``name``, ``queue``, ``files``,
    ``task_env``, ``framework``, ``processes``, ``on_failure``, ``max_restarts``, ``timeouts``,
    ``docker_image`` …
    How far it is is shown, see :func:`run`.

    Raises ``SpecError`` that names what cannot travel, before anything is submitted.
    """
    call, spec = _function_job(function, workers, args, kwargs, memory, vcores, gpus, env, fields)
    with open_reporter(progress) as reporter:
        return submit_function(call, spec, choose_backend(backend), reporter)


def _function_job(
    function: Callable[..., Any],
    workers: int,
    args: Sequence[object],
    kwargs: Mapping[str, object] | None,
    memory: int | str | None,
    vcores: int | None,
    gpus: int | None,
    env: str,
    fields: Mapping[str, object],
) -> tuple[Call, JobSpec]:
    """The call that each task makes, and the spec of the job; the arguments of :func:`start`."""
    resources = {"memory": memory, "vcores": vcores, "gpus": gpus}
    group: dict[str, object] = {
        "count": workers,
        "resources": {name: value for name, value in resources.items() if value is not None},
    }
    job: dict[str, object] = {"env": env, "command": COMMAND}
    for name, value in fields.items():
        if name in _OF_JOB:
            job[name] = value
        elif name in _OF_GROUP:
            group[name] = value
        else:
            raise SpecError(
                f"there is no option {name!r} of a function's job",
                hint=did_you_mean(name, sorted(_OF_JOB | _OF_GROUP)),
            )
    call = Call(function, tuple(args), dict(kwargs or {}))
    job.setdefault("name", call.name)
    return call, checked(JobSpec(groups={GROUP: group}, **job))  # type: ignore[dict-item, arg-type]


def submit_function(
    call: Call, spec: JobSpec, backend: JobBackend, reporter: ProgressReporter
) -> Job:
    """Submit a job of which the tasks make the call, and keep what they return.

    The spec's commands end with :data:`COMMAND`, which makes it. TensorBoard makes it only
    if it has a command of its own.
    """
    spec = msgspec.structs.replace(
        spec,
        env=_prefix(spec.env, "env", reporter.notify),
        groups={
            name: msgspec.structs.replace(
                each, env=each.env and _prefix(each.env, f"groups.{name}.env", reporter.notify)
            )
            for name, each in spec.groups.items()
        },
    )
    calling = [
        name
        for name, each in spec.groups.items()
        if name != TENSORBOARD or each.command is not None
    ]
    environments = {name: _environment(spec, name) for name in calling}
    with tempfile.TemporaryDirectory(prefix="ytf-") as temporary:
        folder = Path(temporary, FOLDER)
        folder.mkdir()
        packages = write_payload(call, folder, set(environments.values()), reporter.notify)
        if spec.framework is Framework.AUTO:
            found = framework_of_packages(packages, f"{call.name} uses")
            if found is not None:
                spec = msgspec.structs.replace(spec, framework=found.framework)
        for name in calling:
            _check_framework(spec, name)
        results = StageOut(dir=RESULTS, to=backend.results_url(), always=True)
        spec = msgspec.structs.replace(
            spec,
            files={**spec.files, FOLDER: str(folder)},
            groups={
                name: msgspec.structs.replace(
                    each,
                    command=_command(each.command or spec.command, environments[name]),
                    # TensorBoard returns nothing, and is stopped with the job.
                    stage_out=each.stage_out if name == TENSORBOARD else (*each.stage_out, results),
                )
                if name in environments
                else each
                for name, each in spec.groups.items()
            },
        )
        return submit_checked(spec, backend, reporter, keeps_results=True, tracks=True)


def wait_or_kill(
    job: Job, reporter: ProgressReporter, watch: Callable[[JobStatus], None] | None = None
) -> JobStatus:
    """Wait for the end of a job, and show what happens. An interrupt kills the job first.

    ``watch`` is called with each status.
    """
    try:
        return job._ended(reporter.follow(job._handle, watch=watch)).status
    except KeyboardInterrupt:
        reporter.warn(f"interrupted: killing job {job.id} (interrupt again to leave at once)")
        try:
            job.kill("interrupted while it was waited for")
            state = job._ended(reporter.follow(job._handle)).status.state
            # It may have succeeded just before, or while its TensorBoard stayed.
            end = "is killed" if state is JobState.KILLED else f"has ended: {state.value}"
            reporter.warn(f"job {job.id} {end}")
        except YtfError as error:
            reporter.warn(f"{error}; the job may go on: `ytf kill {job.id}` ends it")
        raise


def _command(given: str | None, environment: TaskEnvironment) -> str:
    text = given or COMMAND
    return text if environment.prefix else text.replace(COMMAND, NODE_COMMAND)


def _prefix(env: str, where: str, notify: Notify) -> str:
    """The directory of the environment that tasks get."""
    if env == CURRENT:
        # That of this process, which has what the function uses, need not be the active one.
        env = sys.prefix
    return resolve_environment(
        env,
        where=where,
        base=working_directory(),
        environ=os.environ,
        make=lambda recipe: make_environment(recipe, notify),
    )


def _environment(spec: JobSpec, group: str) -> TaskEnvironment:
    env = spec.groups[group].env or spec.env
    return TaskEnvironment(None if env == NODE or spec.docker_image_of(group) else env)


def _check_framework(spec: JobSpec, group: str) -> None:
    framework = spec.framework_of(group)
    if framework in _NOT_FOR_FUNCTIONS:
        raise SpecError(
            f"{framework.value} starts a command, not a function",
            where="framework",
            hint="framework='pytorch' with processes=… starts the function so often in each task",
        )
