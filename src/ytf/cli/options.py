"""From ``ytf-submit``'s options and the settings to a job spec."""

from __future__ import annotations

import os
import re
from argparse import Namespace
from collections.abc import Mapping, Sequence
from enum import Enum
from pathlib import Path
from typing import TypeVar

from ytf.cli import groupwise
from ytf.client.settings import Settings
from ytf.errors import SpecError
from ytf.specs import grammar
from ytf.specs.grammar import Place, Quantity
from ytf.specs.job import (
    TENSORBOARD,
    Framework,
    JobSpec,
    MasterSpec,
    RegistryKind,
    Resources,
    TaskGroupSpec,
    Timeouts,
)
from ytf.specs.units import MAX_INT, parse_memory
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
    "python": "--python",
    "docker_image": "--docker_image",
    "priority": "--priority",
    "tags": "--tags",
    "acl_view": "--acl_view",
    "acl_modify": "--acl_modify",
    "node_label": "--node_label",
    "timeouts.job_s": "--timeout",
    "timeouts.lifetime_s": "--lifetime",
    "groups": "-r",
}
"""The option that gives a field of the spec."""
_SETTINGS = {Quantity.VCORES: "task_vcores", Quantity.MEMORY: "task_memory"}


_QUEUE_KEYS = ("priority", "acl_view", "acl_modify")


def settings_flags(args: Namespace) -> dict[str, str | None]:
    """The options that are also settings; ``-c`` and ``-m`` merge by their own rules."""
    keys = ("backend", "queue", "name", "env", "python", "registry", "framework", *_QUEUE_KEYS)
    labels = [value for value in args.node_label or () if ":" not in value]
    return {
        **{key: getattr(args, key) for key in keys},
        "tags": None if args.tags is None else ",".join(args.tags),
        "node_label": labels[0] if labels else None,
    }


def job_spec(args: Namespace, settings: Settings) -> JobSpec:
    """The job these options describe; ``SpecError`` where they make none."""
    default = JobSpec(groups={})
    groups = _groups(args, settings)
    groups = groupwise.with_policies(groups, args.on_failure or (), args.max_restarts or ())
    groups = groupwise.untracked(groups, args.untracked or ())
    groups = groupwise.with_labels(groups, args.node_label or ())
    groups, placement = groupwise.with_placements(groups, args.placement or ())
    spec = JobSpec(
        groups=groups,
        command=args.task_command[0] if args.task_command else None,
        name=_settled(settings, "name", default.name),
        queue=_settled(settings, "queue", default.queue),
        input=args.input,
        output=args.output,
        script=args.script,
        files=parse_files(args.files or ()),
        env=_variables(args.task_env or ()),
        environment=_settled(settings, "env", default.environment),
        python=settings.get("python"),
        framework=_choice(Framework, settings, "framework") or default.framework,
        registry=_choice(RegistryKind, settings, "registry") or default.registry,
        tensorboard=args.tensorboard,
        client=args.client,
        client_command=args.client_command,
        servers=args.servers,
        docker_image=args.docker_image,
        priority=priority(settings),
        tags=tags(settings),
        acl_view=settings.get("acl_view"),
        acl_modify=settings.get("acl_modify"),
        node_label=settings.get("node_label"),
        placement=placement or default.placement,
        timeouts=Timeouts(
            job_s=_seconds("--timeout", args.timeout),
            lifetime_s=_seconds("--lifetime", args.lifetime),
        ),
        master=_master(args),
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
    if where in _OPTIONS:
        field, rest = where, ""
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
    others = grammar.parse_other_resources(args.task_resources or (), counts)
    if TENSORBOARD in counts:
        # What is said of all tasks is meant for the user's own.
        vcores.setdefault(Place(TENSORBOARD), 1)
        memory.setdefault(Place(TENSORBOARD), _TENSORBOARD_MEMORY_MB)
        for given in (gpus, *others.values()):
            given.setdefault(Place(TENSORBOARD), 0)
    return grammar.task_groups(counts, vcores=vcores, memory=memory, gpus=gpus, others=others)


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


def priority(settings: Settings) -> int | None:
    """The priority in the settings or flags."""
    text = settings.get("priority")
    return None if text is None else _whole("priority", text, 0, settings.sources["priority"])


def tags(settings: Settings) -> tuple[str, ...]:
    """The tags in the settings or flags; each once."""
    text = settings.get("tags")
    return () if text is None else tuple(dict.fromkeys(text.split(",")))


def _settled(settings: Settings, key: str, default: str) -> str:
    value = settings.get(key)
    # An empty one is refused later, not passed over.
    return default if value is None else value


def _master(args: Namespace) -> MasterSpec:
    usual = MasterSpec()
    memory, vcores, attempts = args.master_memory, args.master_vcores, args.max_master_attempts
    resources = Resources(
        memory_mb=usual.resources.memory_mb
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
    if not re.fullmatch(r"[0-9]{1,12}(\.[0-9]{1,6})?", text) or float(text) == 0:
        raise SpecError(
            f"{text!r} is not a time", where=option, hint=f"write seconds: {option} 3600"
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
