"""From what the user asked to what will be submitted. Pure but for looking at files."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING

import msgspec

from ytf.client.notes import notes
from ytf.client.one_machine import refuse_what_takes_a_cluster
from ytf.client.settings import working_directory
from ytf.client.uploads import Upload, absolute, collect, safe_name
from ytf.errors import RefusedError, SpecError
from ytf.frameworks import tensorflow
from ytf.specs.check import check
from ytf.specs.job import EVALUATOR, TENSORBOARD, Framework, JobSpec, Resources, TaskGroupSpec
from ytf.specs.urls import is_url

if TYPE_CHECKING:
    from ytf.packaging.environments import Tool

__all__ = ["TENSORBOARD_RESOURCES", "Plan", "Upload", "make_plan", "safe_name"]

TENSORBOARD_RESOURCES = Resources(memory_mb=1024, vcores=1)


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """A submission, ready to be sent; ``--dryrun`` prints it.

    ``spec`` is resolved: TensorBoard is a group with a command, paths are
    absolute, defaults are in place, and ``script`` is the name that
    ``DTF_TASK_SCRIPT`` gets. ``notes`` are for the user's eyes.
    """

    spec: JobSpec
    backend: str
    user: str
    uploads: tuple[Upload, ...] = ()
    notes: tuple[str, ...] = ()


def make_plan(
    spec: JobSpec,
    *,
    backend: str,
    user: str,
    tensorboard: Callable[[], Tool],
    base: Path | None = None,
    environ: Mapping[str, str] | None = None,
) -> Plan:
    """Check a spec against itself, the files here and the backend, and resolve it.

    ``base`` is what relative paths are relative to (the working directory by
    default). ``tensorboard`` gives what runs TensorBoard; it is called only if
    the job has one.
    """
    check(spec)
    base = working_directory() if base is None else base.absolute()
    environ = os.environ if environ is None else environ
    if spec.docker_image is not None:
        raise RefusedError(
            "running tasks in docker images is not supported by this version",
            hint="leave it out: tasks run on the node itself, or on a shipped environment",
        )
    if backend == "local":
        refuse_what_takes_a_cluster(spec)

    uploads = collect(spec, base, remote=backend == "yarn")
    groups = dict(spec.groups)
    if spec.tensorboard or TENSORBOARD in groups:
        groups[TENSORBOARD] = _tensorboard_group(groups.get(TENSORBOARD), tensorboard)
    if spec.servers:
        uploads.append(Upload(source=str(tensorflow.server_file()), name=tensorflow.SERVER_NAME))
        groups = {
            name: group if name == TENSORBOARD else _server_group(name, group)
            for name, group in groups.items()
        }

    environment = _environment(spec.environment, "environment", base, environ)
    groups = {name: _settled(name, group, base, environ) for name, group in groups.items()}
    variables: dict[str, str] = {}
    if backend == "local":
        # Nothing is shipped: what is found here is used where it lies.
        variables = activation(environment, environ)
        groups = {name: _activated(group, environ) for name, group in groups.items()}
    resolved = msgspec.structs.replace(
        spec,
        groups=groups,
        tensorboard=TENSORBOARD in groups,
        input=_data_path(spec.input, backend, base),
        output=_data_path(spec.output, backend, base),
        script=safe_name(os.path.basename(spec.script)) if spec.script else None,
        files={name: absolute(path, base) for name, path in spec.files.items()},
        environment=environment,
        env=variables | spec.env,
    )
    return Plan(
        spec=resolved,
        backend=backend,
        user=user,
        uploads=tuple(uploads),
        notes=tuple(notes(resolved, backend, os.path.basename(spec.script or "") or None)),
    )


def _tensorboard_group(asked: TaskGroupSpec | None, find: Callable[[], Tool]) -> TaskGroupSpec:
    if asked is None:
        asked = TaskGroupSpec(count=1, resources=TENSORBOARD_RESOURCES)
    if asked.count != 1:
        raise SpecError(
            f"there is one TensorBoard in a job, not {asked.count}",
            where=f"groups.{TENSORBOARD}.count",
        )
    group = msgspec.structs.replace(asked, framework=Framework.NONE)
    if group.command is not None:
        return group
    tool = find()
    words = " ".join(quote(word) for word in tool.argv)
    # Seed variables reach TensorBoard as they are: whatever the path holds, it is one word.
    command = (
        f'exec {words} --logdir "$DTF_OUTPUT_PATH" --host "$YTF_TASK_HOST" --port "$YTF_TASK_PORT"'
    )
    return msgspec.structs.replace(group, command=command, environment=tool.environment)


def _server_group(name: str, group: TaskGroupSpec) -> TaskGroupSpec:
    if name == EVALUATOR:
        raise SpecError(
            "an evaluator is not part of TensorFlow's cluster and cannot be a server",
            where=f"groups.{name}",
            hint="leave it out, or do not ask for servers",
        )
    return msgspec.structs.replace(group, framework=Framework.TENSORFLOW)


def _settled(
    name: str, group: TaskGroupSpec, base: Path, environ: Mapping[str, str]
) -> TaskGroupSpec:
    if group.environment is None:
        return group
    where = f"groups.{name}.environment"
    environment = _environment(group.environment, where, base, environ)
    return msgspec.structs.replace(group, environment=environment)


def _environment(asked: str, where: str, base: Path, environ: Mapping[str, str]) -> str:
    """The environment as an absolute path, or ``node``."""
    if asked == "node":
        return asked
    if asked == "current":
        active = environ.get("VIRTUAL_ENV") or environ.get("CONDA_PREFIX") or sys.prefix
        prefix = Path(active)
    else:
        prefix = base / asked
    if not os.access(prefix / "bin" / "python", os.X_OK):
        raise SpecError(
            f"{asked!r} is not an environment: there is no {prefix / 'bin' / 'python'}",
            where=where,
            hint="give node, current, or the directory of a venv or conda environment; "
            "pex files and archives cannot be used by this version",
        )
    return str(prefix)


def _activated(group: TaskGroupSpec, environ: Mapping[str, str]) -> TaskGroupSpec:
    if group.environment is None:
        return group
    variables = activation(group.environment, environ)
    return msgspec.structs.replace(group, env=variables | group.env)


def activation(environment: str, environ: Mapping[str, str]) -> dict[str, str]:
    """The variables with which commands find an environment first."""
    if environment == "node":
        return {}
    programs = os.path.join(environment, "bin")
    path = os.pathsep.join((programs, environ.get("PATH", os.defpath)))
    return {"PATH": path, "VIRTUAL_ENV": environment}


def _data_path(path: str | None, backend: str, base: Path) -> str | None:
    """Input and output are not interpreted, but for a relative path on this very machine.

    In a task it would lie in the task's own working directory, which goes with the job.
    """
    if path is None or backend != "local" or is_url(path):
        return path
    return path if os.path.isabs(path) else str(base / path)
