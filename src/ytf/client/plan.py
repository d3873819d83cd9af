"""Makes the plan of a submission from a job spec: resolved fields, files to ship, notes.

The only I/O here is looking at files, and making an environment from one, which may be in HDFS.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING

import msgspec

from ytf.backends.api import Plan, Upload
from ytf.backends.hdfs_access import tensorflow_groups
from ytf.client.environments import MakeEnvironment, resolve_environment
from ytf.client.framework_plan import PlannedFrameworks, check_processes
from ytf.client.local_checks import refuse_cluster_features
from ytf.client.plan_notes import link_notes, spec_notes
from ytf.client.settings import working_directory
from ytf.errors import SpecError, shown
from ytf.frameworks import tensorflow
from ytf.hadoop.conf import Configuration
from ytf.packaging.hdfs_plugin import find_plugin
from ytf.specs.check import check
from ytf.specs.job import (
    EVALUATOR,
    TENSORBOARD,
    CheckpointSync,
    Framework,
    JobSpec,
    Resources,
    StageIn,
    StageOut,
    TaskGroupSpec,
    is_url,
)
from ytf.specs.registry import REST, resolve
from ytf.specs.staging import has_wildcard

if TYPE_CHECKING:
    from ytf.packaging.tensorboard import TensorBoardCommand

TENSORBOARD_RESOURCES = Resources(memory=1024, vcores=1)


def make_plan(
    spec: JobSpec,
    *,
    backend: str,
    user: str,
    tensorboard: Callable[[], TensorBoardCommand],
    hdfs_plugin: Callable[[], str | None] = find_plugin,
    make_environment: MakeEnvironment | None = None,
    base: Path | None = None,
    environ: Mapping[str, str] | None = None,
    keeps_results: bool = False,
) -> Plan:
    """Check a spec, look up its files, and resolve it for a backend.

    Relative paths are relative to ``base`` (default: the working directory).
    ``tensorboard`` returns the program that runs TensorBoard; it is called only if
    the job has one. ``hdfs_plugin`` finds TensorFlow's plugin for ``hdfs://``.
    ``make_environment`` makes the environments that are given as files.
    ``keeps_results``: see ``Plan``.
    """
    check(spec)
    base = working_directory() if base is None else base.absolute()
    environ = os.environ if environ is None else environ
    if backend == "local":
        refuse_cluster_features(spec)

    uploads = find_uploads(spec, base, remote=backend == "yarn")
    links = list(link_notes(uploads))
    groups = dict(spec.groups)
    if spec.tensorboard or TENSORBOARD in groups:
        groups[TENSORBOARD] = _tensorboard_group(groups.get(TENSORBOARD), tensorboard)
    if spec.servers:
        uploads.append(Upload(source=tensorflow.SERVER_FILE, name=tensorflow.SERVER_NAME))
        groups = {
            name: group if name == TENSORBOARD else _server_group(name, group)
            for name, group in groups.items()
        }

    frameworks = PlannedFrameworks(spec, uploads)
    groups = {
        name: msgspec.structs.replace(group, framework=frameworks.of_group(group))
        for name, group in groups.items()
    }

    def environment_of(asked: str, where: str) -> str:
        return resolve_environment(
            asked, where=where, base=base, environ=environ, make=make_environment
        )

    environment = environment_of(spec.env, "env")
    groups = {
        name: group
        if group.env is None
        else msgspec.structs.replace(group, env=environment_of(group.env, f"groups.{name}.env"))
        for name, group in groups.items()
    }
    variables: dict[str, str] = {}
    if backend == "local":
        # Nothing is shipped: the tasks use the environment in its place.
        variables = activation(environment, environ)
        groups = {name: _with_activation(group, environ) for name, group in groups.items()}
    resolved = msgspec.structs.replace(
        spec,
        groups=groups,
        tensorboard=TENSORBOARD in groups,
        input=_data_path(spec.input, backend, base),
        output=_data_path(spec.output, backend, base),
        script=safe_name(os.path.basename(spec.script)) if spec.script else None,
        files={name: _absolute(path, base) for name, path in spec.files.items()},
        env=environment,
        registry=_resolve_registry(spec.registry, environ),
        task_env=variables | spec.task_env,
        framework=frameworks.of_client,
    )
    resolved = resolve_staging(resolved, backend, base)
    check_processes(resolved)
    script = os.path.basename(spec.script or "")
    uses_plugin = resolved.hdfs_plugin and tensorflow_groups(resolved)
    plugin = hdfs_plugin() if uses_plugin else None
    return Plan(
        spec=resolved,
        backend=backend,
        user=user,
        uploads=tuple(uploads),
        hdfs_plugin=plugin,
        notes=(
            *links,
            *frameworks.notes,
            *spec_notes(resolved, backend, script=script or None, hdfs_plugin=plugin),
        ),
        keeps_results=keeps_results,
    )


def _tensorboard_group(
    asked: TaskGroupSpec | None, find: Callable[[], TensorBoardCommand]
) -> TaskGroupSpec:
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
    # Quoted: the path may have any characters.
    command = (
        f'exec {words} --logdir "$DTF_OUTPUT_PATH" --host "$YTF_TASK_HOST" --port "$YTF_TASK_PORT"'
    )
    return msgspec.structs.replace(group, command=command, env=tool.environment)


def _server_group(name: str, group: TaskGroupSpec) -> TaskGroupSpec:
    if name == EVALUATOR:
        raise SpecError(
            "an evaluator is not part of TensorFlow's cluster and cannot be a server",
            where=f"groups.{name}",
            hint="leave it out, or do not ask for servers",
        )
    return msgspec.structs.replace(group, framework=Framework.TENSORFLOW)


def _resolve_registry(registry: str, environ: Mapping[str, str]) -> str:
    """A spec's registry with what Hadoop's configuration says of it, where there is one."""
    if registry == REST:
        return registry
    place = Configuration.find(environ)
    if place is None:
        return resolve(registry, lambda _: None)
    return resolve(registry, Configuration.load(place, environ=environ).get_trimmed)


def _with_activation(group: TaskGroupSpec, environ: Mapping[str, str]) -> TaskGroupSpec:
    if group.env is None:
        return group
    variables = activation(group.env, environ)
    return msgspec.structs.replace(group, task_env=variables | group.task_env)


def activation(environment: str, environ: Mapping[str, str]) -> dict[str, str]:
    """The variables that put the programs of an environment first on the path."""
    if environment == "node":
        return {}
    programs = os.path.join(environment, "bin")
    path = os.pathsep.join((programs, environ.get("PATH", os.defpath)))
    return {"PATH": path, "VIRTUAL_ENV": environment}


def _data_path(path: str | None, backend: str, base: Path) -> str | None:
    """The input or output path of the tasks. On this machine a relative path becomes absolute.

    In a task it would be relative to the task's working directory, which is removed with
    the job.
    """
    if path is None or backend != "local" or is_url(path):
        return path
    return path if os.path.isabs(path) else str(base / path)


def _absolute(path: str, base: Path) -> str:
    """The absolute path of a path; a URL is not changed."""
    return path if is_url(path) else os.path.normpath(base / path)


def safe_name(name: str) -> str:
    """A name that stays one word in an unquoted ``$DTF_TASK_SCRIPT``.

    Letters and digits of any script are safe. Characters that a shell would split
    at or expand, and a leading ``-``, become underscores.
    """
    safe = "".join(char if char.isalnum() or char in "._-+@%" else "_" for char in name)
    return "_" + safe[1:] if safe.startswith("-") else safe


def find_uploads(spec: JobSpec, base: Path, *, remote: bool) -> list[Upload]:
    """The files of ``script`` and ``files``; raises ``SpecError`` for one that is missing.

    With ``remote`` a file may be an ``hdfs://`` URL, which only the backend can check.
    A script whose name is not safe is shipped under its safe name, too.
    """
    uploads: list[Upload] = []
    if spec.script is not None:
        source = _existing(spec.script, base, "script", remote)
        if os.path.isdir(source):
            raise SpecError(
                f"{source} is a directory", where="script", hint="--files ships directories"
            )
        name = os.path.basename(spec.script)
        uploads.append(Upload(source=source, name=name))
        alias = safe_name(name)
        if alias != name:
            if alias in spec.files:
                raise SpecError(
                    f"the script {name!r} is also shipped as {alias!r}, for commands that do not "
                    "quote its name, and a file of that name is shipped already",
                    where="files",
                    hint="rename one of the two",
                )
            uploads.append(Upload(source=source, name=alias))
    for name, path in spec.files.items():
        uploads.append(Upload(source=_existing(path, base, f"files.{name}", remote), name=name))
    return uploads


def _existing(path: str, base: Path, where: str, remote: bool) -> str:
    if is_url(path):
        if remote and path.startswith("hdfs://"):
            return path
        raise SpecError(
            f"{path} cannot be shipped",
            where=where,
            hint="ship a file of this machine"
            + (
                ", or one in HDFS: hdfs://…" if remote else ": files in HDFS are for --backend yarn"
            ),
        )
    place = base / path
    if not place.exists():
        # An absolute path shows by itself where the file was looked for.
        there = "" if os.path.isabs(path) else f" in {place.parent}"
        raise SpecError(f"there is no file {path!r}{there}", where=where)
    if not os.access(place, os.R_OK):
        raise SpecError(f"{place} cannot be read", where=where, hint="check its permissions")
    return os.path.normpath(place)


def resolve_staging(spec: JobSpec, backend: str, base: Path) -> JobSpec:
    """The job with absolute paths, relative ones being those of ``base``.

    Raises ``SpecError`` for a path of this machine that other nodes do not have, and for
    one that does not exist.
    """

    def inputs(given: tuple[StageIn, ...], where: str) -> tuple[StageIn, ...]:
        return tuple(
            msgspec.structs.replace(
                each, source=_staged_path(each.source, backend, base, f"{where}stage_in", True)
            )
            for each in given
        )

    def outputs(given: tuple[StageOut, ...], where: str) -> tuple[StageOut, ...]:
        return tuple(
            msgspec.structs.replace(
                each, to=_staged_path(each.to, backend, base, f"{where}stage_out", False)
            )
            for each in given
        )

    def sync(given: CheckpointSync | None, where: str) -> CheckpointSync | None:
        if given is None:
            return None
        to = _staged_path(given.to, backend, base, f"{where}checkpoint_sync", False)
        return msgspec.structs.replace(given, to=to)

    groups = {
        name: msgspec.structs.replace(
            group,
            stage_in=inputs(group.stage_in, f"groups.{name}."),
            stage_out=outputs(group.stage_out, f"groups.{name}."),
            checkpoint_sync=sync(group.checkpoint_sync, f"groups.{name}."),
        )
        for name, group in spec.groups.items()
    }
    return msgspec.structs.replace(
        spec,
        groups=groups,
        stage_in=inputs(spec.stage_in, ""),
        stage_out=outputs(spec.stage_out, ""),
        checkpoint_sync=sync(spec.checkpoint_sync, ""),
    )


def _staged_path(path: str, backend: str, base: Path, where: str, must_exist: bool) -> str:
    if path.startswith(("hdfs://", "viewfs://")):
        return path
    if backend != "local":
        raise SpecError(
            f"{shown(path)} is on this machine, and the tasks run on others",
            where=where,
            hint="use an hdfs:// URL; --files ships files of this machine",
        )
    if is_url(path):
        return path
    place = os.path.normpath(base / path)
    if must_exist and not has_wildcard(path) and not os.path.exists(place):
        raise SpecError(f"there is no {place}", where=where)
    return place
