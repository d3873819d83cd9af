"""From the job's spec to what one starter is given (docs/protocols.md §3)."""

from __future__ import annotations

from ytf.backends.api import Launch
from ytf.errors import InternalError
from ytf.frameworks import tensorflow
from ytf.frameworks.profiles import profile
from ytf.master.commands import LaunchStarter
from ytf.specs.job import TENSORBOARD, JobSpec
from ytf.specs.names import JobId, group_of, index_of


def make_launch(spec: JobSpec, job: JobId, master_url: str, command: LaunchStarter) -> Launch:
    """What the starter of ``command`` needs to know, but for what only the backend knows."""
    group = group_of(command.task)
    group_spec = spec.groups[group]
    framework = profile(group_spec.framework or spec.framework)
    resources = spec.resources(command.task)
    env = {
        **spec.env,
        **group_spec.env,
        "DTF_TASK_PROGRAM": _program(spec, group),
        "DTF_TASK_JOB_NAME": group,
        "DTF_TASK_INDEX": str(index_of(command.task)),
    }
    optional = {
        "DTF_INPUT_PATH": spec.input,
        "DTF_OUTPUT_PATH": spec.output,
        "DTF_TASK_SCRIPT": spec.script,
        "DTF_DOCKER_IMAGE": spec.docker_image,
    }
    env.update({name: value for name, value in optional.items() if value is not None})
    return Launch(
        container=command.container,
        task=command.task,
        env=env,
        defaults=framework.defaults(resources.vcores),
        starter={
            "job": job,
            "container": command.container,
            "attempt": command.attempt,
            "generation": command.generation,
            "master": master_url,
            "port": framework.port.value,
            "rendezvous": group != TENSORBOARD,
            "variables": framework.variables,
            "grace_s": spec.timeouts.stop_grace_s,
            "orphan_s": spec.timeouts.orphan_s,
            "heartbeat_s": spec.timeouts.heartbeat_s,
            "log_limit_mb": spec.log_limit_mb,
        },
        memory_mb=resources.memory_mb,
    )


def _program(spec: JobSpec, group: str) -> str:
    command = spec.command_of(group)
    if command is None and spec.servers:
        return tensorflow.server_command()
    if command is None:
        raise InternalError(f"the plan left {group} without a command")
    return command
