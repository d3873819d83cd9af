"""Makes what a starter is launched with: its command line, and its variables from the job's spec.

docs/protocols.md §3.
"""

from __future__ import annotations

import os
import sys
from typing import Any

from ytf.backends.api import StarterLaunch
from ytf.errors import InternalError
from ytf.frameworks import tensorflow
from ytf.frameworks.api import RELEASE, SERVE_HOROVOD, by_name
from ytf.machine.commands import LaunchStarter
from ytf.specs.ids import JobId, TaskId, group_of, index_of
from ytf.specs.job import TENSORBOARD, DockerRuntime, Framework, JobSpec
from ytf.specs.registry import ZOOKEEPER, instance_path, kind_of, parse_address
from ytf.specs.staging import destination


def starter_command(python: str, parent: str | None = None) -> list[str]:
    """Return the argv that runs a starter on an interpreter.

    ``parent`` is the directory that holds the ``ytf`` package on the node; by
    default that of this very package. The interpreter is isolated (``-I``) and
    without ``site`` (``-S``): neither ``PYTHON*`` variables meant for the
    user's program nor packages on the node can affect the starter, and it
    starts in half the time.
    """
    if parent is None:
        parent = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    # An empty package with ytf's path stands in for ytf: starters do not need
    # what the public API imports, which would double their start. sys.path
    # itself stays as it is, so that no module beside ytf (the directory may be
    # a site-packages) can hide one of the standard library.
    code = (
        "import sys; ytf = sys.modules['ytf'] = type(sys)('ytf'); ytf.__path__ = [%s]; "
        "from ytf.starter.__main__ import main; sys.exit(main())"
    )
    return [python, "-I", "-S", "-c", code % ascii(os.path.join(parent, "ytf"))]


def helper_arguments() -> list[str]:
    """Return the arguments with which this interpreter runs a module of ytf for a starter.

    The module's name and its own arguments follow. Like a starter, it is isolated;
    it finds modules where this process does, but not in a working directory.
    """
    ours = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    here = os.getcwd()
    folders = [ours, *(path for path in sys.path if path not in ("", here, ours))]
    code = (
        "import sys; sys.path += %s; module = sys.argv.pop(1); import runpy; "
        "runpy.run_module(module, run_name='__main__', alter_sys=True)"
    )
    return ["-I", "-S", "-c", code % ascii(folders)]


def make_starter_launch(
    spec: JobSpec,
    job: JobId,
    master_url: str,
    command: LaunchStarter,
    master_attempt: int = 1,
    *,
    user: str,
) -> StarterLaunch:
    """Make what the starter of ``command`` is given; a backend adds what only it knows.

    ``user`` is the owner of the job.
    """
    group = group_of(command.task)
    group_spec = spec.groups[group]
    framework = spec.framework_of(group)
    profile = by_name(framework.value)
    resources = spec.resources(command.task)
    ranked = spec.ranked_groups(framework)
    policy = profile.port_policy
    if policy == SERVE_HOROVOD and not _serves_horovod(ranked, command.task):
        policy = RELEASE
    image = spec.docker_image_of(group)
    env = {
        **spec.task_env_of(command.task),
        "DTF_TASK_PROGRAM": _program(spec, group),
        "DTF_TASK_JOB_NAME": group,
        "DTF_TASK_INDEX": str(index_of(command.task)),
    }
    optional = {
        "DTF_INPUT_PATH": spec.input,
        "DTF_OUTPUT_PATH": spec.output,
        "DTF_TASK_SCRIPT": spec.script,
        "DTF_DOCKER_IMAGE": image,
    }
    env.update({name: value for name, value in optional.items() if value is not None})
    defaults = profile.defaults(max(resources.vcores // group_spec.processes, 1))
    by_yarn = spec.docker.runtime is DockerRuntime.YARN
    return StarterLaunch(
        container=command.container,
        task=command.task,
        env=env,
        defaults=defaults,
        starter={
            "job": job,
            "container": command.container,
            "attempt": command.attempt,
            "generation": command.generation,
            "master": master_url,
            "master_attempt": master_attempt,
            "registry": kind_of(spec.registry),
            **_zookeeper(spec, job, user),
            "port": policy,
            "task_ports": spec.task_ports,
            "control_ports": spec.control_ports,
            "wait_for_peers": group != TENSORBOARD,
            "framework": framework.value,
            "processes": group_spec.processes,
            "ranked": ranked,
            "grace_s": spec.timeouts.stop_grace_s,
            "master_silence_s": spec.timeouts.master_silence_s,
            "heartbeat_timeout_s": spec.timeouts.heartbeat_timeout_s,
            "log_limit_mb": spec.log_limit_mb,
            "gpus": resources.gpus,
            "hide_gpus": spec.hides_gpus(command.task),
            **_staging(spec, job, command.task),
            "libhdfs": spec.libhdfs and group != TENSORBOARD,
            **_checkpoint_sync(spec, job, command.task),
        },
        memory_mb=resources.memory_mb,
        docker=None
        if image is None or by_yarn
        else {
            "image": image,
            "engine": spec.docker.engine,
            "engine_env": spec.docker.engine_env,
            "variables": [*defaults, *env],
            "memory_mb": resources.memory_mb,
            "vcores": resources.vcores,
        },
        yarn_image=image if by_yarn else None,
        hdfs_plugin=spec.hdfs_plugin and framework is Framework.TENSORFLOW,
    )


def _zookeeper(spec: JobSpec, job: JobId, user: str) -> dict[str, str | list[str]]:
    """What a starter of a job with ZooKeeper needs to know of it."""
    if kind_of(spec.registry) != ZOOKEEPER:
        return {}
    zookeeper = parse_address(spec.registry)
    path = instance_path(zookeeper, user=user, name=spec.name, job=job)
    return {"zookeeper_servers": list(zookeeper.servers), "zookeeper_job_path": path}


def _staging(spec: JobSpec, job: JobId, task: TaskId) -> dict[str, Any]:
    """What a starter stages in and out, if anything."""
    group = group_of(task)
    inputs = [
        {"url": each.source, "to": each.to, "shard": each.shard} for each in spec.stage_in_of(group)
    ]
    outputs = [
        {"dir": each.dir, "url": destination(each, job, task), "always": each.always}
        for each in spec.stage_out_of(group)
    ]
    if not inputs and not outputs:
        return {}
    return {"stage_in": inputs, "stage_out": outputs, "tasks": spec.groups[group].count}


def _checkpoint_sync(spec: JobSpec, job: JobId, task: TaskId) -> dict[str, Any]:
    """Which directory a starter keeps in sync, if any."""
    sync = spec.checkpoint_sync_of(task)
    if sync is None:
        return {}
    return {
        "checkpoint_sync": {
            "dir": sync.dir,
            "to": destination(sync, job, task),
            "interval_s": sync.interval_s,
            "final_s": sync.final_s,
        }
    }


def _serves_horovod(ranked: list[tuple[str, int]], task: TaskId) -> bool:
    """Whether a task's first process has rank 0: among the ranked groups, or alone."""
    groups = [name for name, _ in ranked]
    alone = group_of(task) not in groups
    return alone or (group_of(task) == groups[0] and index_of(task) == 0)


def _program(spec: JobSpec, group: str) -> str:
    command = spec.command_of(group)
    if command is None and spec.servers:
        return tensorflow.SERVER_COMMAND
    if command is None:
        raise InternalError(f"the plan left {group} without a command")
    return command
