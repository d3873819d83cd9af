"""``run_on_yarn``: tf-yarn's interface, on jobs of ytf (ADR 34)."""

from __future__ import annotations

import logging
import os
import shlex
import sys
from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from typing import Any

import cloudpickle

from ytf.backends.api import JobBackend
from ytf.client.environments import resolve_environment
from ytf.client.evaluator_monitor import EvaluatorMonitor, Thresholds, check_thresholds
from ytf.client.function_results import first_values
from ytf.client.job import Job, checked, choose_backend, make_environment
from ytf.client.progress.reporter import open_reporter
from ytf.client.run import submit_function, wait_or_kill
from ytf.client.settings import working_directory
from ytf.client.topologies import (
    ContainerKey,
    Metrics,
    NodeLabel,
    TaskSpec,
    check_task_specs,
    single_server_topology,
)
from ytf.errors import SpecError, did_you_mean
from ytf.functions.payload import COMMAND
from ytf.functions.pickling import Call
from ytf.functions.shipped import report_metrics
from ytf.functions.shipped import run_experiment as experiment_program
from ytf.specs.event_kinds import EventKind
from ytf.specs.ids import TaskId, task_id
from ytf.specs.job import (
    EVALUATOR,
    TENSORBOARD,
    Framework,
    JobSpec,
    OnFailure,
    Resources,
    StageIn,
    TaskGroupSpec,
    Timeouts,
)
from ytf.specs.status import JobEvent

_log = logging.getLogger("ytf")

PyenvPath = str | Mapping[NodeLabel, str]
ExperimentFn = Callable[[], Any]

_KINDS = {
    "_independent_workers_task": (experiment_program.TRAIN, Framework.TENSORFLOW),
    "evaluator_task": (experiment_program.EVALUATE, Framework.TENSORFLOW),
    "gloo_allred_task": (experiment_program.HOROVOD, Framework.HOROVOD),
}
_MODULES = {
    f"tf_yarn{package}.tasks.{name}": kind
    for name, kind in _KINDS.items()
    for package in ("", ".tensorflow")
}
_MODULES["tf_yarn.pytorch.tasks.worker"] = (experiment_program.PYTORCH, Framework.PYTORCH)
"""tf-yarn's task modules, as its releases name them."""

# They travel as code: the tasks' environment need not have ytf.
cloudpickle.register_pickle_by_value(experiment_program)
cloudpickle.register_pickle_by_value(report_metrics)


def run_on_yarn(
    *positional: Any,
    pyenv_zip_path: PyenvPath | None = None,
    experiment_fn: ExperimentFn | None = None,
    task_specs: Mapping[str, TaskSpec] | None = None,
    files: Mapping[str, str] | None = None,
    env: Mapping[str, str] | None = None,
    queue: str = "default",
    acls: Any = None,
    file_systems: Sequence[str] | None = None,
    eval_monitor_log_thresholds: Thresholds | None = None,
    nb_retries: int = 0,
    custom_task_module: str | None = None,
    name: str = "RunOnYarn",
    pre_script_hook: str | None = None,
    cuda_runtime_hdfs_path: str | None = None,
    skein_client: object = None,
    backend: str | JobBackend | None = None,
    progress: bool | None = None,
) -> Metrics | None:
    """Run an experiment in the tasks of a job, and wait for its end.

    Called as ``run_on_yarn(pyenv_zip_path, experiment_fn, task_specs, …)`` or as
    ``run_on_yarn(experiment_fn, task_specs, …)``. ``pyenv_zip_path`` is an environment, or one
    for each ``NodeLabel``: a pex file or an archive, here or in HDFS, a directory, or whatever
    else ``env`` of a job may be; by default the tasks run in the environment of this process.
    ``env`` are variables of the tasks, ``files`` go to their working directories, from which
    modules can be imported. With ``nb_retries`` all tasks are started again after a failure, so
    often. ``pre_script_hook`` is shell that runs before each task's Python. The archive
    ``cuda_runtime_hdfs_path`` is unpacked into ``./cuda`` of each task. The figures of
    evaluators are logged as they change, and are in ``Job.status()``;
    ``eval_monitor_log_thresholds`` leaves out of the log what is below or above. ``backend``
    is as in :func:`ytf.submit`: the same call runs on one machine. ``progress`` is as in
    :func:`ytf.run`.

    Raises ``RunFailed`` with the first failure, and ``SpecError`` for what ytf does not
    support, before anything is submitted. Ctrl-C kills the job.
    """
    pyenv_zip_path, experiment_fn, task_specs = _arguments(
        positional, pyenv_zip_path, experiment_fn, task_specs
    )
    if skein_client is not None:
        _log.info("skein_client is not needed: ytf has no process that several jobs could share")
    thresholds = eval_monitor_log_thresholds or {}
    check_thresholds(thresholds)
    if file_systems:
        _log.info("file_systems is not needed: tasks read any HDFS that needs no Kerberos")
    kind, framework = _task_kind(custom_task_module)
    specs = dict(task_specs)
    check_task_specs(specs)
    command = f"{pre_script_hook}\n{COMMAND}" if pre_script_hook else COMMAND
    cuda = None if cuda_runtime_hdfs_path is None else _cuda(cuda_runtime_hdfs_path, env or {})
    spec = checked(
        JobSpec(
            name=name,
            queue=queue,
            command=f"{_unpack_cuda(cuda)}\n{command}" if cuda else command,
            groups={
                each: _group(each, spec, pyenv_zip_path, nb_retries, command)
                for each, spec in specs.items()
            },
            env="current",
            output=specs[TENSORBOARD].tb_model_dir if TENSORBOARD in specs else None,
            files=dict(files or {}),
            stage_in=(cuda,) if cuda else (),
            task_env=dict(env or {}),
            framework=framework,
            timeouts=_timeouts(specs),
            **_acls(acls),
        )
    )
    board = specs.get(TENSORBOARD)
    call = Call(
        experiment_program.run_experiment,
        (experiment_fn, kind, (board.tb_extra_args if board else None) or ""),
    )
    with open_reporter(progress) as reporter:
        job = submit_function(call, spec, choose_backend(backend), reporter)
        wait_or_kill(job, reporter, EvaluatorMonitor(thresholds, reporter.notify).take)
    metrics = _metrics(first_values(job), list(job.events()), specs)
    _track(job, metrics)
    return metrics


def upload_env(package_path: str | None = None, **options: object) -> tuple[str, str]:
    """Return an environment for ``pyenv_zip_path``, and its name.

    By default it is that of this process, else what is given: a pex file or an archive, here
    or in HDFS, or whatever else ``env`` of a job may be, which is downloaded, unpacked or made
    now. Nothing is uploaded yet: the first job that needs it does that, and only what the
    cluster does not have. ``options`` are those that cluster_pack's function has for the
    packages to ship; they are not used: an environment is shipped as it is.
    """
    if options:
        _log.info("an environment is shipped as it is: %s is not used", ", ".join(options))
    if package_path is None:
        return sys.prefix, "current"
    prefix = resolve_environment(
        package_path,
        where="package_path",
        base=working_directory(),
        environ=os.environ,
        make=lambda recipe: make_environment(recipe, _log.info),
    )
    return prefix, os.path.basename(package_path)


def _arguments(
    positional: tuple[Any, ...],
    pyenv_zip_path: PyenvPath | None,
    experiment_fn: ExperimentFn | None,
    task_specs: Mapping[str, TaskSpec] | None,
) -> tuple[PyenvPath | None, ExperimentFn, Mapping[str, TaskSpec]]:
    """Sort out the two orders of arguments: with the environment first, and without it."""
    rest = list(positional)
    if rest and not callable(rest[0]):
        if pyenv_zip_path is not None:
            raise TypeError("run_on_yarn() got two values for pyenv_zip_path")
        pyenv_zip_path = rest.pop(0)
    if rest:
        if experiment_fn is not None:
            raise TypeError("run_on_yarn() got two values for experiment_fn")
        experiment_fn = rest.pop(0)
    if rest:
        if task_specs is not None:
            raise TypeError("run_on_yarn() got two values for task_specs")
        task_specs = rest.pop(0)
    if rest:
        raise TypeError(f"run_on_yarn() got {len(rest)} positional arguments too many")
    if not callable(experiment_fn):
        raise TypeError("run_on_yarn() needs an experiment_fn, a function without arguments")
    return (
        pyenv_zip_path,
        experiment_fn,
        single_server_topology() if task_specs is None else task_specs,
    )


def _cuda(archive: str, env: Mapping[str, str]) -> StageIn:
    if "LD_LIBRARY_PATH" not in env:
        raise SpecError(
            "nothing would find the libraries of CUDA, which are then in ./cuda of each task",
            where="cuda_runtime_hdfs_path",
            hint="name their directory in env, "
            "for example env={'LD_LIBRARY_PATH': 'cuda/usr/cuda-11.2/lib64'}",
        )
    return StageIn(source=archive)


def _unpack_cuda(archive: StageIn) -> str:
    name = shlex.quote(archive.source.rpartition("/")[2])
    return f"mkdir -p cuda && tar -xf {name} -C cuda || exit"


def _task_kind(module: str | None) -> tuple[str, Framework]:
    if module is None:
        # What the experiment function uses tells PyTorch from TensorFlow.
        return experiment_program.TRAIN, Framework.AUTO
    if module in _MODULES:
        return _MODULES[module]
    raise SpecError(
        f"{module!r} is none of tf-yarn's modules for experiments, and others talk to skein",
        where="custom_task_module",
        hint=did_you_mean(
            module, _MODULES, otherwise="ytf.run(function, …) runs any function in the tasks"
        ),
    )


def _group(
    name: str, spec: TaskSpec, pyenv: PyenvPath | None, nb_retries: int, command: str
) -> TaskGroupSpec:
    env: str | None = None
    if pyenv is not None:
        if not isinstance(pyenv, str) and spec.label not in pyenv:
            raise SpecError(
                f"there is no environment for {spec.label}, which {name} has",
                where="pyenv_zip_path",
            )
        env = pyenv if isinstance(pyenv, str) else pyenv[spec.label]
    if nb_retries and name != TENSORBOARD:
        restarts: dict[str, Any] = {
            "on_failure": OnFailure.RESTART_JOB,
            "max_restarts": nb_retries,
        }
    else:
        restarts = {}
    board = {"TB_MODEL_DIR": spec.tb_model_dir} if spec.tb_model_dir else {}
    # ytf's own TensorBoard needs nothing of the environment, and only a directory.
    is_own = bool(spec.tb_model_dir) and not spec.tb_extra_args
    return TaskGroupSpec(
        count=spec.instances,
        resources=Resources(memory=spec.memory, vcores=spec.vcores),
        processes=spec.nb_proc_per_worker,
        node_label=spec.label.value or None,
        env=env,
        task_env=board,
        command=command if name == TENSORBOARD and not is_own else None,
        **restarts,
    )


def _timeouts(specs: Mapping[str, TaskSpec]) -> Timeouts:
    # A negative time is tf-yarn's for none that is given.
    stays = specs[TENSORBOARD].tb_termination_timeout_seconds if TENSORBOARD in specs else 0
    # All tasks have to end, as they do in tf-yarn; a chief does not decide alone.
    return Timeouts(after_chief_s=None, tensorboard_s=max(0, stays))


def _acls(acls: Any) -> dict[str, Any]:
    """The ACLs of a skein ``ACLs``, or of a mapping with its fields."""
    if acls is None:
        return {}

    def names(field: str) -> list[str]:
        found = acls.get(field) if isinstance(acls, Mapping) else getattr(acls, field, None)
        return list(found or ())

    is_enabled = acls.get("enable") if isinstance(acls, Mapping) else acls.enable
    if not is_enabled:
        return {}
    fields: dict[str, Any] = {}
    for ours, theirs in (("acl_view", "view"), ("acl_modify", "modify")):
        users, groups = names(f"{theirs}_users"), names(f"{theirs}_groups")
        if "*" in users or "*" in groups:
            fields[ours] = "*"
        elif users or groups:
            fields[ours] = f"{','.join(users)} {','.join(groups)}".rstrip()
    return fields


def _track(job: Job, metrics: Metrics) -> None:
    """Add the metrics to the runs of the job in MLflow, if there are any."""
    if job._run is None:
        return
    of_job = {
        "total_training_duration_s": metrics.total_training_duration,
        "total_eval_duration_s": metrics.total_eval_duration,
    }
    job._run.log_metrics(
        {name: took.total_seconds() for name, took in of_job.items() if took is not None},
        {
            task_id(key.type, key.id): {"train_eval_duration_s": took.total_seconds()}
            for key, took in metrics.train_eval_time_per_node.items()
            if took is not None
        },
    )


def _metrics(
    values: Mapping[TaskId, object], events: Sequence[JobEvent], specs: Mapping[str, TaskSpec]
) -> Metrics:
    keys = {
        task_id(name, index): ContainerKey(name, index)
        for name, spec in specs.items()
        for index in range(spec.instances)
    }
    spans = {keys[task]: value for task, value in values.items() if isinstance(value, tuple)}

    def total(is_eval: bool) -> timedelta | None:
        of = [span for key, span in spans.items() if (key.type == EVALUATOR) is is_eval]
        if not of:
            return None
        return timedelta(seconds=max(end for _, end in of) - min(begin for begin, _ in of))

    began: dict[str | None, float] = {}
    ended: dict[str | None, float] = {}
    for event in events:
        if event.event == EventKind.TASK_STARTED.value:
            began.setdefault(event.task, event.at)
        elif event.event == EventKind.TASK_EXITED.value:
            ended[event.task] = event.at
    return Metrics(
        total_training_duration=total(False),
        total_eval_duration=total(True),
        container_duration={
            key: timedelta(seconds=ended[task] - began[task])
            if task in began and task in ended
            else None
            for task, key in keys.items()
        },
        train_eval_time_per_node={
            key: timedelta(seconds=spans[key][1] - spans[key][0]) if key in spans else None
            for key in keys.values()
        },
    )
