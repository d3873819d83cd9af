"""Makes a job spec from the options of ``ytf-submit`` and the settings."""

from __future__ import annotations

import os
import re
from argparse import Namespace
from collections.abc import Mapping, Sequence
from enum import Enum
from pathlib import Path
from typing import TypeVar

import msgspec

from ytf.client.settings import Settings
from ytf.errors import SpecError, did_you_mean
from ytf.specs import grammar
from ytf.specs.amounts import MAX_INT, parse_memory
from ytf.specs.durations import parse_duration
from ytf.specs.grammar import Place, Quantity
from ytf.specs.job import (
    TENSORBOARD,
    CheckpointSync,
    DockerRuntime,
    DockerSpec,
    Framework,
    JobSpec,
    MasterSpec,
    OnFailure,
    Placement,
    Resources,
    StageIn,
    StageOut,
    TaskGroupSpec,
    Timeouts,
)
from ytf.specs.staging import parse_checkpoint_sync, parse_stage_in, parse_stage_out

_TENSORBOARD_MEMORY_MB = 1024
_CHOICE = TypeVar("_CHOICE", bound=Enum)

Groups = dict[str, TaskGroupSpec]
_OPTIONS = {
    "command": "the task command",
    "client_command": "--client_command",
    "name": "-n",
    "queue": "-q",
    "input": "-i",
    "output": "-o",
    "script": "-s",
    "files": "--files",
    "stage_in": "--stage_in",
    "stage_out": "--stage_out",
    "checkpoint_sync": "--sync_checkpoints",
    "env": "--env",
    "task_env": "--task_env",
    "python": "--python",
    "docker_image": "--docker_image",
    "docker.engine": "--docker_engine",
    "priority": "--priority",
    "tags": "--tags",
    "acl_view": "--acl_view",
    "acl_modify": "--acl_modify",
    "node_label": "--node_label",
    "gpus_per_node": "--gpus_per_node",
    "task_ports": "--task_ports",
    "control_ports": "--control_ports",
    "timeouts.job_s": "--timeout",
    "timeouts.lifetime_s": "--lifetime",
    "groups": "-r",
}
"""The option that sets each field of the spec, for error messages."""
_SETTINGS = {Quantity.VCORES: "task_vcores", Quantity.MEMORY: "task_memory"}
_QUEUE_KEYS = ("priority", "acl_view", "acl_modify", "gpus_per_node")
_PORT_KEYS = ("task_ports", "control_ports")


def settings_flags(args: Namespace) -> dict[str, str | None]:
    """The options that are also settings; ``-c`` and ``-m`` merge by their own rules."""
    keys = ("backend", "queue", "name", "env", "python", "registry", "framework", "docker_engine")
    labels = [value for value in args.node_label or () if ":" not in value]
    return {
        **{key: getattr(args, key) for key in (*keys, *_QUEUE_KEYS, *_PORT_KEYS)},
        "tags": None if args.tags is None else ",".join(args.tags),
        "node_label": labels[0] if labels else None,
    }


def job_spec(args: Namespace, settings: Settings) -> JobSpec:
    """The job that these options describe; raises ``SpecError`` if they describe none."""
    default = JobSpec(groups={})
    groups = _groups(args, settings)
    groups = _with_policies(groups, args.on_failure or (), args.max_restarts or ())
    groups = _with_untracked(groups, args.untracked or ())
    groups = _with_labels(groups, args.node_label or ())
    groups = _with_processes(groups, args.processes or ())
    groups, placement = _with_placements(groups, args.placement or ())
    groups, stage_in, stage_out = _with_staging(groups, args)
    groups, checkpoint_sync = _with_checkpoint_sync(groups, args.sync_checkpoints or ())
    spec = JobSpec(
        groups=groups,
        command=args.task_command[0] if args.task_command else None,
        name=_setting_or(settings, "name", default.name),
        queue=_setting_or(settings, "queue", default.queue),
        input=args.input,
        output=args.output,
        script=args.script,
        files=parse_files(args.files or ()),
        stage_in=stage_in,
        stage_out=stage_out,
        checkpoint_sync=checkpoint_sync,
        env=_setting_or(settings, "env", default.env),
        task_env=_variables(args.task_env or ()),
        python=settings.get("python"),
        framework=_choice(Framework, settings, "framework") or default.framework,
        hdfs_plugin=not args.no_hdfs_plugin,
        libhdfs=args.libhdfs,
        registry=_setting_or(settings, "registry", default.registry),
        tensorboard=args.tensorboard,
        client=args.client,
        client_command=args.client_command,
        servers=args.servers,
        docker_image=args.docker_image,
        docker=DockerSpec(
            engine=settings.get("docker_engine"),
            runtime=DockerRuntime.STARTER
            if args.docker_runtime is None
            else _one_of(DockerRuntime, "runtime", "--docker_runtime", args.docker_runtime),
        ),
        priority=priority(settings),
        tags=tags(settings),
        acl_view=settings.get("acl_view"),
        acl_modify=settings.get("acl_modify"),
        node_label=settings.get("node_label"),
        placement=placement or default.placement,
        gpus_per_node=gpus_per_node(settings),
        timeouts=Timeouts(
            job_s=_seconds("--timeout", args.timeout),
            lifetime_s=_seconds("--lifetime", args.lifetime),
        ),
        master=_master(args),
        task_ports=settings.get("task_ports"),
        control_ports=settings.get("control_ports"),
        expose_ports=args.expose_ports,
    )
    if args.untracked and not spec.servers and not spec.tracked_groups():
        raise SpecError(
            "no group is left whose end would be the job's",
            where=f"--untracked {','.join(args.untracked)}",
            hint="leave out the group that decides when the job is done",
        )
    return spec


def error_about_option(error: SpecError, settings: Settings) -> SpecError:
    """Make an error about a field of the spec one about the option or setting that set it."""
    where = error.where or ""
    field, _, rest = where.partition(".")
    if where in _OPTIONS:
        field, rest = where, ""
    option = _OPTIONS.get(field)
    if option is None:
        return error
    source = settings.sources.get(field, "--")
    if not source.startswith("--"):
        option = f"{field} (from {source})"
    message = str(error).removeprefix(f"{where}: ")
    return SpecError(message, where=f"{option} {rest}".rstrip(), hint=error.hint)


def parse_files(values: Sequence[str]) -> dict[str, str]:
    """Name in the task's working directory → path here, from ``--files``.

    A value that is the path of an existing file is not split, so that the name
    of a file may have commas and equal signs.
    """
    found: dict[str, str] = {}
    for value in values:
        for part in [value] if os.path.exists(value) else value.split(","):
            name, path = "", part if os.path.exists(part) else part.strip()
            if "=" in path and not os.path.exists(path):
                name, _, path = path.partition("=")
            if not path:
                raise SpecError("an empty path", where=f"--files {value!r}")
            # Absolute first: the name of "." or ".." is the directory's own.
            name = name or Path(os.path.abspath(path)).name
            if found.get(name, path) != path:
                raise SpecError(
                    f"two files would be called {name!r}: {found[name]} and {path}",
                    where="--files",
                    hint="give one another name: <name>=<path>",
                )
            found[name] = path
    return found


def _groups(args: Namespace, settings: Settings) -> dict[str, TaskGroupSpec]:
    counts = grammar.parse_requirement(args.cluster_requirement)
    if args.tensorboard:
        counts.setdefault(TENSORBOARD, 1)
    vcores = overrides_from_settings(Quantity.VCORES, settings, counts)
    vcores |= grammar.parse_overrides(Quantity.VCORES, args.task_vcores or (), counts)
    memory = overrides_from_settings(Quantity.MEMORY, settings, counts)
    memory |= grammar.parse_overrides(Quantity.MEMORY, args.task_memory or (), counts)
    gpus = grammar.parse_overrides(Quantity.GPUS, args.task_gpus or (), counts)
    others = grammar.parse_other_resources(args.task_resources or (), counts)
    if TENSORBOARD in counts:
        # An amount for all tasks is meant for the user's own tasks.
        vcores.setdefault(Place(TENSORBOARD), 1)
        memory.setdefault(Place(TENSORBOARD), _TENSORBOARD_MEMORY_MB)
        for given in (gpus, *others.values()):
            given.setdefault(Place(TENSORBOARD), 0)
    return grammar.task_groups(counts, vcores=vcores, memory=memory, gpus=gpus, others=others)


def overrides_from_settings(
    quantity: Quantity, settings: Settings, counts: Mapping[str, int]
) -> dict[Place, int]:
    """The amounts that the settings ``task_vcores`` or ``task_memory`` give to tasks."""
    key = _SETTINGS[quantity]
    text = settings.get(key)
    if text is None:
        return {}
    source = f"{key} (from {settings.sources[key]})"
    return grammar.parse_overrides(quantity, [text], counts, source=source)


def priority(settings: Settings) -> int | None:
    """The priority in the settings or flags."""
    text = settings.get("priority")
    return None if text is None else _whole("priority", text, 0, settings.sources["priority"])


def gpus_per_node(settings: Settings) -> int | None:
    """The GPUs of each node in the settings or flags."""
    name = "gpus_per_node"
    text = settings.get(name)
    return None if text is None else _whole(name, text, 1, settings.sources[name])


def tags(settings: Settings) -> tuple[str, ...]:
    """The tags in the settings or flags; each once."""
    text = settings.get("tags")
    return () if text is None else tuple(dict.fromkeys(grammar.split_list(text)))


def _setting_or(settings: Settings, key: str, default: str) -> str:
    value = settings.get(key)
    # An empty value is refused later; it does not mean the default.
    return default if value is None else value


def _master(args: Namespace) -> MasterSpec:
    usual = MasterSpec()
    memory, vcores, attempts = args.master_memory, args.master_vcores, args.max_master_attempts
    resources = Resources(
        memory=usual.resources.memory_mb
        if memory is None
        else parse_memory(memory, where=f"--master_memory {memory!r}"),
        vcores=usual.resources.vcores
        if vcores is None
        else _whole("the number of vcores", vcores, 1, "--master_vcores"),
    )
    return MasterSpec(
        resources=resources,
        max_attempts=usual.max_attempts
        if attempts is None
        else _whole("the number of attempts", attempts, 1, "--max_master_attempts"),
    )


def _whole(what: str, text: str, least: int, where: str) -> int:
    if not re.fullmatch(r"[0-9]{1,10}", text) or not least <= int(text) <= MAX_INT:
        raise SpecError(
            f"{what} must be a whole number from {least} to {MAX_INT}, not {text!r}", where=where
        )
    return int(text)


def _seconds(option: str, text: str | None) -> float | None:
    if text is None:
        return None
    seconds = parse_duration(text, where=option)
    if seconds == 0:
        raise SpecError("a limit of no time", where=option, hint="leave it out for no limit at all")
    return seconds


def _variables(values: Sequence[str]) -> dict[str, str]:
    found: dict[str, str] = {}
    for value in values:
        name, equals, text = value.partition("=")
        if not equals:
            raise SpecError(
                f"{value!r} is not NAME=VALUE", where="--task_env", hint="--task_env SEED=7"
            )
        if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name):
            raise SpecError(
                f"{name!r} cannot be the name of a variable",
                where="--task_env",
                hint="a name is letters, digits and underscores, and begins with no digit",
            )
        if name in found:
            raise SpecError(f"duplicate: {name} has a value already", where="--task_env")
        found[name] = text
    return found


def _choice(kind: type[_CHOICE], settings: Settings, key: str) -> _CHOICE | None:
    text = settings.get(key)
    return None if text is None else _one_of(kind, key, settings.sources[key], text)


def _with_policies(
    groups: Groups, on_failure: Sequence[str], max_restarts: Sequence[str]
) -> Groups:
    """The groups with the policies of ``--on_failure`` and ``--max_restarts``."""
    policies = {
        group: _one_of(OnFailure, "policy", "--on_failure", text)
        for group, text in _by_group("--on_failure", on_failure, groups)
    }
    restarts = {
        group: _count(text) for group, text in _by_group("--max_restarts", max_restarts, groups)
    }
    changed = {}
    for name, group in groups.items():
        # A policy for all groups is not meant for TensorBoard, which has its own.
        general = name if name == TENSORBOARD else None
        policy = policies.get(name, policies.get(general))
        if policy is not None:
            group = msgspec.structs.replace(group, on_failure=policy)
        count = restarts.get(name, restarts.get(general))
        if count is not None:
            group = msgspec.structs.replace(group, max_restarts=count)
        changed[name] = group
    return changed


def _with_untracked(groups: Groups, names: Sequence[str]) -> Groups:
    """The groups, of which those named by ``--untracked`` do not end the job."""
    changed = dict(groups)
    for name in (part for value in names for part in grammar.split_list(value)):
        if name not in groups:
            raise SpecError(
                f"there is no task group {name!r} in the requirement",
                where="--untracked",
                hint=did_you_mean(name, groups),
            )
        changed[name] = msgspec.structs.replace(groups[name], tracked=False)
    return changed


def _with_labels(groups: Groups, values: Sequence[str]) -> Groups:
    """The groups with the labels that ``--node_label`` gives to single groups."""
    own = dict(_by_group("--node_label", values, groups))
    return {
        name: msgspec.structs.replace(group, node_label=own[name]) if name in own else group
        for name, group in groups.items()
    }


def _with_processes(groups: Groups, values: Sequence[str]) -> Groups:
    """The groups with the numbers of ``--processes``."""
    counts = {
        group: _whole("the number of processes", text, 1, "--processes")
        for group, text in _by_group("--processes", values, groups)
    }
    changed = {}
    for name, group in groups.items():
        # A number for all groups is not meant for TensorBoard.
        count = counts.get(name, counts.get(name if name == TENSORBOARD else None))
        changed[name] = group if count is None else msgspec.structs.replace(group, processes=count)
    return changed


def _with_placements(groups: Groups, values: Sequence[str]) -> tuple[Groups, Placement | None]:
    """The groups with their own placements of ``--placement``, and the placement of the others."""
    own = {
        group: _one_of(Placement, "placement", "--placement", text)
        for group, text in _by_group("--placement", values, groups)
    }
    general = own.pop(None, None)
    changed = {
        name: msgspec.structs.replace(group, placement=own[name]) if name in own else group
        for name, group in groups.items()
    }
    return changed, general


def _with_staging(
    groups: Groups, args: Namespace
) -> tuple[Groups, tuple[StageIn, ...], tuple[StageOut, ...]]:
    """The groups with what is staged for them, and what is staged for all tasks."""
    inputs = [
        parse_stage_in(text, groups, option=f"--{name}", shard=shard)
        for name, shard in (("stage_in", False), ("stage_in_sharded", True))
        for text in getattr(args, name) or ()
    ]
    outputs = [parse_stage_out(text, groups, option="--stage_out") for text in args.stage_out or ()]
    changed = {
        name: msgspec.structs.replace(
            group,
            stage_in=tuple(each for own, each in inputs if own == name),
            stage_out=tuple(each for own, each in outputs if own == name),
        )
        for name, group in groups.items()
    }
    return (
        changed,
        tuple(each for own, each in inputs if own is None),
        tuple(each for own, each in outputs if own is None),
    )


def _with_checkpoint_sync(
    groups: Groups, values: Sequence[str]
) -> tuple[Groups, CheckpointSync | None]:
    """The groups with their own directories of ``--sync_checkpoints``, and the job's."""
    own: dict[str | None, CheckpointSync] = {}
    for text in values:
        group, sync = parse_checkpoint_sync(text, groups, option="--sync_checkpoints")
        if group in own:
            raise SpecError(
                f"{group or 'the job'} already has a directory that is kept in sync",
                where=f"--sync_checkpoints {text!r}",
                hint="let the program write everything to one directory",
            )
        own[group] = sync
    changed = {
        name: msgspec.structs.replace(group, checkpoint_sync=own.get(name))
        for name, group in groups.items()
    }
    return changed, own.get(None)


def _by_group(
    option: str, values: Sequence[str], groups: Mapping[str, TaskGroupSpec]
) -> list[tuple[str | None, str]]:
    """Split each ``[group:]value``; the group None means all groups."""
    seen: dict[str | None, str] = {}
    for value in values:
        name, colon, text = map(str.strip, value.rpartition(":"))
        group = name if colon else None
        where = f"{option} {value!r}"
        if group is not None and group not in groups:
            raise SpecError(
                f"there is no task group {group!r} in the requirement",
                where=where,
                hint=did_you_mean(group, groups),
            )
        if group in seen:
            raise SpecError(f"duplicate: {group or 'every group'} has one already", where=where)
        seen[group] = text
    return list(seen.items())


def _one_of(kind: type[_CHOICE], noun: str, where: str, text: str) -> _CHOICE:
    words = [str(choice.value) for choice in kind]
    if text not in words:
        raise SpecError(f"there is no {noun} {text!r}", where=where, hint=did_you_mean(text, words))
    return kind(text)


def _count(text: str) -> int:
    if not re.fullmatch(r"[0-9]{1,9}", text):
        raise SpecError(f"{text!r} is not a number of restarts", where="--max_restarts")
    return int(text)
