"""From ``ytf-submit``'s options and the settings to a job spec."""

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
from ytf.errors import SpecError
from ytf.specs import grammar
from ytf.specs.grammar import Place, Quantity
from ytf.specs.job import (
    TENSORBOARD,
    Framework,
    JobSpec,
    OnFailure,
    RegistryKind,
    TaskGroupSpec,
    Timeouts,
)
from ytf.specs.wording import did_you_mean

_TENSORBOARD_MEMORY_MB = 1024
_CHOICE = TypeVar("_CHOICE", bound=Enum)
_OPTIONS = {
    "command": "the task command",
    "client_command": "--client_command",
    "name": "-n",
    "queue": "-q",
    "input": "-i",
    "output": "-o",
    "script": "-s",
    "files": "--files",
    "env": "--task_env",
    "environment": "--env",
    "docker_image": "--docker_image",
    "timeouts": "--timeout",
    "groups": "-r",
}
"""The option that gives a field of the spec."""
_SETTINGS = {Quantity.VCORES: "task_vcores", Quantity.MEMORY: "task_memory"}


def settings_flags(args: Namespace) -> dict[str, str | None]:
    """The options that are also settings; ``-c`` and ``-m`` merge by their own rules."""
    keys = ("backend", "queue", "name", "env", "registry", "framework")
    return {key: getattr(args, key) for key in keys}


def job_spec(args: Namespace, settings: Settings) -> JobSpec:
    """The job these options describe; ``SpecError`` where they make none."""
    default = JobSpec(groups={})
    groups = _groups(args, settings)
    spec = JobSpec(
        groups=_untracked(
            _with_policies(groups, args.on_failure or (), args.max_restarts or ()),
            args.untracked or (),
        ),
        command=args.task_command[0] if args.task_command else None,
        name=_settled(settings, "name", default.name),
        queue=_settled(settings, "queue", default.queue),
        input=args.input,
        output=args.output,
        script=args.script,
        files=parse_files(args.files or ()),
        env=_variables(args.task_env or ()),
        environment=_settled(settings, "env", default.environment),
        framework=_choice(Framework, settings, "framework") or default.framework,
        registry=_choice(RegistryKind, settings, "registry") or default.registry,
        tensorboard=args.tensorboard,
        client=args.client,
        client_command=args.client_command,
        servers=args.servers,
        docker_image=args.docker_image,
        timeouts=Timeouts(job_s=_seconds(args.timeout)),
    )
    if args.untracked and not spec.servers and not spec.tracked_groups():
        raise SpecError(
            "no group is left whose end would be the job's",
            where=f"--untracked {','.join(args.untracked)}",
            hint="leave out the group that decides when the job is done",
        )
    return spec


def in_options(error: SpecError, settings: Settings) -> SpecError:
    """An error about a field of the spec as one about the option that gave it."""
    where = error.where or ""
    field, _, rest = where.partition(".")
    option = _OPTIONS.get(field)
    if option is None:
        return error
    key = {"environment": "env"}.get(field, field)
    source = settings.sources.get(key, "--")
    if not source.startswith("--"):
        option = f"{key} (from {source})"
    message = str(error).removeprefix(f"{where}: ")
    return SpecError(message, where=f"{option} {rest}".rstrip(), hint=error.hint)


def parse_files(values: Sequence[str]) -> dict[str, str]:
    """Name in the working directory → path here, from ``--files``.

    A value that is itself the path of an existing file is taken whole, so that
    commas and equal signs in a file's name do no harm.
    """
    found: dict[str, str] = {}
    for value in values:
        for part in [value] if os.path.exists(value) else value.split(","):
            name, path = "", part
            if "=" in part and not os.path.exists(part):
                name, _, path = part.partition("=")
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
    vcores = settled_overrides(Quantity.VCORES, settings, counts)
    vcores |= grammar.parse_overrides(Quantity.VCORES, args.task_vcores or (), counts)
    memory = settled_overrides(Quantity.MEMORY, settings, counts)
    memory |= grammar.parse_overrides(Quantity.MEMORY, args.task_memory or (), counts)
    gpus = grammar.parse_overrides(Quantity.GPUS, args.task_gpus or (), counts)
    if TENSORBOARD in counts:
        # What is said of all tasks is meant for the user's own.
        vcores.setdefault(Place(TENSORBOARD), 1)
        memory.setdefault(Place(TENSORBOARD), _TENSORBOARD_MEMORY_MB)
        gpus.setdefault(Place(TENSORBOARD), 0)
    return grammar.task_groups(counts, vcores=vcores, memory=memory, gpus=gpus)


def settled_overrides(
    quantity: Quantity, settings: Settings, counts: Mapping[str, int]
) -> dict[Place, int]:
    """What ``task_vcores`` or ``task_memory`` in the settings give to tasks."""
    key = _SETTINGS[quantity]
    text = settings.get(key)
    if text is None:
        return {}
    said = f"{key} (from {settings.sources[key]})"
    return grammar.parse_overrides(quantity, [text], counts, setting=said)


def _settled(settings: Settings, key: str, default: str) -> str:
    value = settings.get(key)
    # An empty one is refused later, not passed over.
    return default if value is None else value


def _with_policies(
    groups: dict[str, TaskGroupSpec], on_failure: Sequence[str], max_restarts: Sequence[str]
) -> dict[str, TaskGroupSpec]:
    policies = {
        group: _policy(text) for group, text in _by_group("--on_failure", on_failure, groups)
    }
    restarts = {
        group: _count(text) for group, text in _by_group("--max_restarts", max_restarts, groups)
    }
    changed = {}
    for name, group in groups.items():
        # What is said of all groups is not meant for TensorBoard, which has a policy of its own.
        general = name if name == TENSORBOARD else None
        policy = policies.get(name, policies.get(general))
        if policy is not None:
            group = msgspec.structs.replace(group, on_failure=policy)
        count = restarts.get(name, restarts.get(general))
        if count is not None:
            group = msgspec.structs.replace(group, max_restarts=count)
        changed[name] = group
    return changed


def _untracked(groups: dict[str, TaskGroupSpec], names: Sequence[str]) -> dict[str, TaskGroupSpec]:
    changed = dict(groups)
    for name in (part for value in names for part in value.split(",")):
        if name not in groups:
            raise SpecError(
                f"there is no task group {name!r} in the requirement",
                where="--untracked",
                hint=did_you_mean(name, groups),
            )
        changed[name] = msgspec.structs.replace(groups[name], tracked=False)
    return changed


def _by_group(
    option: str, values: Sequence[str], groups: Mapping[str, TaskGroupSpec]
) -> list[tuple[str | None, str]]:
    """Split ``[group:]value``; None is everyone."""
    seen: dict[str | None, str] = {}
    for value in values:
        name, colon, text = value.rpartition(":")
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


def _policy(text: str) -> OnFailure:
    words = [policy.value for policy in OnFailure]
    if text not in words:
        raise SpecError(
            f"there is no policy {text!r}", where="--on_failure", hint=did_you_mean(text, words)
        )
    return OnFailure(text)


def _count(text: str) -> int:
    if not re.fullmatch(r"[0-9]{1,9}", text):
        raise SpecError(f"{text!r} is not a number of restarts", where="--max_restarts")
    return int(text)


def _seconds(text: str | None) -> float | None:
    if text is None:
        return None
    if not re.fullmatch(r"[0-9]{1,12}(\.[0-9]{1,6})?", text) or float(text) == 0:
        raise SpecError(
            f"{text!r} is not a time", where="--timeout", hint="write seconds: --timeout 3600"
        )
    return float(text)


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
    if text is None:
        return None
    words = [str(choice.value) for choice in kind]
    if text not in words:
        raise SpecError(
            f"there is no {key} {text!r}",
            where=settings.sources[key],
            hint=did_you_mean(text, words),
        )
    return kind(text)
