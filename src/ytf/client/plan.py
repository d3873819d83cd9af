"""From what the user asked to what will be submitted. Pure but for looking at files."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from shlex import quote

import msgspec

from ytf.client.notes import notes
from ytf.client.settings import working_directory
from ytf.client.uploads import Upload, collect, safe_name
from ytf.errors import RefusedError, SpecError
from ytf.frameworks import tensorflow
from ytf.specs.check import check
from ytf.specs.job import EVALUATOR, TENSORBOARD, Framework, JobSpec, Resources, TaskGroupSpec

__all__ = ["TENSORBOARD_RESOURCES", "Plan", "Upload", "make_plan", "safe_name"]

TENSORBOARD_RESOURCES = Resources(memory_mb=1024, vcores=1)

_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")


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
    tensorboard: Callable[[], Sequence[str]],
    base: Path | None = None,
    environ: Mapping[str, str] | None = None,
) -> Plan:
    """Check a spec against itself, the files here and the backend, and resolve it.

    ``base`` is what relative paths are relative to (the working directory by
    default). ``tensorboard`` gives the first words of a command line that runs
    TensorBoard; it is called only if the job has one.
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
        _refuse_gpus(spec)

    uploads = collect(spec, base)
    groups = dict(spec.groups)
    if spec.tensorboard or TENSORBOARD in groups:
        groups[TENSORBOARD] = _tensorboard_group(groups.get(TENSORBOARD), tensorboard)
    if spec.servers:
        uploads.append(Upload(source=str(tensorflow.server_file()), name=tensorflow.SERVER_NAME))
        groups = {
            name: group if name == TENSORBOARD else _server_group(name, group)
            for name, group in groups.items()
        }

    environment, variables = _environment(spec.environment, base, environ)
    resolved = msgspec.structs.replace(
        spec,
        groups=groups,
        tensorboard=TENSORBOARD in groups,
        input=_data_path(spec.input, backend, base),
        output=_data_path(spec.output, backend, base),
        script=safe_name(os.path.basename(spec.script)) if spec.script else None,
        files={name: str(base / path) for name, path in spec.files.items()},
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


def _refuse_gpus(spec: JobSpec) -> None:
    for name, group in spec.groups.items():
        for resources in (group.resources, *group.overrides.values()):
            if resources.gpus:
                raise RefusedError(
                    f"{name} asks for GPUs ({resources.gpus}), and the local backend gives none",
                    hint="leave --task_gpus out: a task sees whatever GPUs this machine has",
                )


def _tensorboard_group(
    asked: TaskGroupSpec | None, argv: Callable[[], Sequence[str]]
) -> TaskGroupSpec:
    if asked is None:
        asked = TaskGroupSpec(count=1, resources=TENSORBOARD_RESOURCES)
    if asked.count != 1:
        raise SpecError(
            f"there is one TensorBoard in a job, not {asked.count}",
            where=f"groups.{TENSORBOARD}.count",
        )
    command = asked.command
    if command is None:
        words = " ".join(quote(word) for word in argv())
        # Seed variables reach TensorBoard as they are: whatever the path holds, it is one word.
        command = (
            f'exec {words} --logdir "$DTF_OUTPUT_PATH" '
            '--host "$YTF_TASK_HOST" --port "$YTF_TASK_PORT"'
        )
    return msgspec.structs.replace(asked, command=command, framework=Framework.NONE)


def _server_group(name: str, group: TaskGroupSpec) -> TaskGroupSpec:
    if name == EVALUATOR:
        raise SpecError(
            "an evaluator is not part of TensorFlow's cluster and cannot be a server",
            where=f"groups.{name}",
            hint="leave it out, or do not ask for servers",
        )
    return msgspec.structs.replace(group, framework=Framework.TENSORFLOW)


def _environment(asked: str, base: Path, environ: Mapping[str, str]) -> tuple[str, dict[str, str]]:
    """The environment as an absolute path (or ``node``), and the variables that activate it."""
    if asked == "node":
        return asked, {}
    if asked == "current":
        active = environ.get("VIRTUAL_ENV") or environ.get("CONDA_PREFIX") or sys.prefix
        prefix = Path(active)
    else:
        prefix = base / asked
    if not os.access(prefix / "bin" / "python", os.X_OK):
        raise SpecError(
            f"{asked!r} is not an environment: there is no {prefix / 'bin' / 'python'}",
            where="environment",
            hint="give node, current, or the directory of a venv or conda environment; "
            "pex files and archives cannot be used on the local backend",
        )
    path = os.pathsep.join((str(prefix / "bin"), environ.get("PATH", os.defpath)))
    return str(prefix), {"PATH": path, "VIRTUAL_ENV": str(prefix)}


def _data_path(path: str | None, backend: str, base: Path) -> str | None:
    """Input and output are not interpreted, but for a relative path on this very machine.

    In a task it would lie in the task's own working directory, which goes with the job.
    """
    if path is None or backend != "local" or _URL.match(path):
        return path
    return path if os.path.isabs(path) else str(base / path)
