"""Makes the plan of a submission from a job spec: resolved fields, files to ship, notes.

A note is about something that is not wrong but may surprise the user. The only
I/O here is looking at files.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING

import msgspec

from ytf.backends.api import Plan, Upload
from ytf.client.framework_plan import PlannedFrameworks, check_processes, framework_notes
from ytf.client.hdfs_plan import PlannedHdfs
from ytf.client.local_checks import ignored_fields, refuse_cluster_features
from ytf.client.outside_links import link_notes
from ytf.client.settings import working_directory
from ytf.client.staging_plan import resolve_staging
from ytf.errors import SpecError
from ytf.frameworks import tensorflow
from ytf.hadoop.conf import Configuration
from ytf.packaging.hdfs_plugin import find_plugin
from ytf.specs.amounts import format_memory
from ytf.specs.check import MAX_STRING, check
from ytf.specs.job import (
    EVALUATOR,
    TENSORBOARD,
    Framework,
    JobSpec,
    Resources,
    TaskGroupSpec,
    is_url,
)
from ytf.specs.registry import REST, resolve

if TYPE_CHECKING:
    from ytf.packaging.tensorboard import TensorBoardCommand

TENSORBOARD_RESOURCES = Resources(memory=1024, vcores=1)

_LITTLE_MEMORY_MB = 128
"""Less than this is hardly meant: a Python with TensorFlow needs several times as much."""
_HOST_LENGTH = {"local": len("127.0.0.1")}
_USUAL_HOST_LENGTH = 30
"""An assumed length of host names, where the hosts are not known yet."""


def make_plan(
    spec: JobSpec,
    *,
    backend: str,
    user: str,
    tensorboard: Callable[[], TensorBoardCommand],
    hdfs_plugin: Callable[[], str | None] = find_plugin,
    base: Path | None = None,
    environ: Mapping[str, str] | None = None,
    keeps_results: bool = False,
) -> Plan:
    """Check a spec, look up its files, and resolve it for a backend.

    Relative paths are relative to ``base`` (default: the working directory).
    ``tensorboard`` returns the program that runs TensorBoard; it is called only if
    the job has one. ``hdfs_plugin`` finds TensorFlow's plugin for ``hdfs://``.
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
    environment = _resolved_env(spec.env, "env", base, environ)
    groups = {name: _resolved_group(name, group, base, environ) for name, group in groups.items()}
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
    hdfs = PlannedHdfs(resolved, hdfs_plugin())
    return Plan(
        spec=resolved,
        backend=backend,
        user=user,
        uploads=tuple(uploads),
        hdfs_plugin=hdfs.plugin,
        notes=(
            *links,
            *frameworks.notes,
            *_notes(resolved, backend, script or None),
            *hdfs.notes(),
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


def _resolved_group(
    name: str, group: TaskGroupSpec, base: Path, environ: Mapping[str, str]
) -> TaskGroupSpec:
    if group.env is None:
        return group
    where = f"groups.{name}.env"
    environment = _resolved_env(group.env, where, base, environ)
    return msgspec.structs.replace(group, env=environment)


def _resolve_registry(registry: str, environ: Mapping[str, str]) -> str:
    """A spec's registry with what Hadoop's configuration says of it, where there is one."""
    if registry == REST:
        return registry
    place = Configuration.find(environ)
    if place is None:
        return resolve(registry, lambda _: None)
    return resolve(registry, Configuration.load(place, environ=environ).get_trimmed)


def _resolved_env(asked: str, where: str, base: Path, environ: Mapping[str, str]) -> str:
    """The ``env`` of a spec as an absolute path, or ``node``."""
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


def _notes(spec: JobSpec, backend: str, script: str | None) -> Iterator[str]:
    """Sentences about a resolved spec; ``script`` is the name of the script file here."""
    yield from _script_notes(spec, script)
    yield from _memory_notes(spec)
    if backend == "local":
        yield from _machine_notes(spec)
        yield from _docker_notes(spec)
        yield from ignored_fields(spec)
    yield from _variable_notes(spec, backend)
    yield from framework_notes(spec)


def _script_notes(spec: JobSpec, name: str | None) -> Iterator[str]:
    if name is None or spec.script is None:
        return
    named = ("DTF_TASK_SCRIPT", name, spec.script, name.rpartition(".")[0] or name)
    commands = [spec.command, spec.client_command, *(g.command for g in spec.groups.values())]
    if not any(word in command for command in commands if command for word in named):
        yield (
            f"no command names the script {name}: write $DTF_TASK_SCRIPT, and the command in "
            "single quotes, so that the task's shell expands it"
        )


def _memory_notes(spec: JobSpec) -> Iterator[str]:
    """Notes on amounts that no program can run in: most likely a unit was left out."""
    amounts = {("the master", "--master_memory "): spec.master.resources}
    for name, group in spec.groups.items():
        amounts[name, f"-m {name}:"] = group.resources
        for index, own in group.overrides.items():
            amounts[f"{name}:{index}", f"-m '{name}[{index}]:"] = own
    for (who, option), resources in amounts.items():
        mb = resources.memory_mb
        if mb < _LITTLE_MEMORY_MB:
            end = "'" if "'" in option else ""
            yield (
                f"{who} gets {mb} MB of memory, too little for most programs: a number without a "
                f"unit is in MB; for {mb} GiB write {option}{mb}g{end}, in a file memory: {mb}g"
            )


def _machine_notes(spec: JobSpec) -> Iterator[str]:
    cores = os.cpu_count() or 1
    memory_mb = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") >> 20
    for name, group in spec.groups.items():
        asked = (group.resources, *group.overrides.values())
        vcores = max(resources.vcores for resources in asked)
        if vcores > cores:
            yield f"{name} asks for {vcores} vcores, and this machine has {cores}: tasks share them"
        most_mb = max(resources.memory_mb for resources in asked)
        # The default is a limit, not a request.
        if most_mb > max(memory_mb, Resources().memory_mb):
            yield (
                f"{name} asks for {format_memory(most_mb)} of memory, and this machine has "
                f"{memory_mb} MiB: a task that uses more than there is will fail"
            )


def _docker_notes(spec: JobSpec) -> Iterator[str]:
    groups = [name for name in spec.groups if spec.docker_image_of(name)]
    if groups and not spec.expose_ports:
        yield (
            f"{', '.join(groups)} runs in a docker image: if this machine's engine is a daemon "
            "(docker), other machines can reach the ports of its programs, see docs/security.md"
        )


def _variable_notes(spec: JobSpec, backend: str) -> Iterator[str]:
    members = {n: g.count for n, g in spec.groups.items() if n != TENSORBOARD}
    host = _HOST_LENGTH.get(backend, _USUAL_HOST_LENGTH)
    # "host:port," in DTF_…_HOSTS.
    longest = max(members.values(), default=0) * (host + len(":65535,"))
    # YTF_HOSTS and TF_CONFIG have all groups but the evaluator.
    cluster = sum(count for name, count in members.items() if name != EVALUATOR)
    longest = max(longest, cluster * (host + len('":65535", ')))
    if longest >= MAX_STRING:
        yield (
            f"{sum(members.values())} hosts are more than fit in a variable of "
            f"{MAX_STRING // 1024} KiB: DTF_…_HOSTS, YTF_HOSTS and TF_CONFIG will be left out; "
            "programs find the cluster spec in the file that YTF_CLUSTER_SPEC_FILE names"
        )
