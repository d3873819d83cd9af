"""What a job spec must be beyond its types, before anything is done with it."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping

import msgspec

from ytf.errors import SpecError
from ytf.specs.grammar import MAX_TASKS, check_group_names
from ytf.specs.job import TENSORBOARD, Backoff, JobSpec, Resources, TaskGroupSpec, Timeouts
from ytf.specs.units import MAX_INT, parse_memory
from ytf.specs.wishes import check_label, check_other_resources, check_wishes
from ytf.specs.wording import shown, under

MAX_SECONDS = 10 * 365 * 24 * 3600
"""Ten years: beyond it clocks and timers of the systems below give up."""
MAX_STRING = 128 * 1024
"""Linux passes no longer string to a program (``MAX_ARG_STRLEN``), its final NUL included."""
MAX_FACTOR = 100.0
"""``Backoff`` takes up to the 64th power, which must stay a float."""

_SCRIPT = re.compile(r"\$DTF_TASK_SCRIPT\b|\$\{DTF_TASK_SCRIPT\}")
"""Not ``${DTF_TASK_SCRIPT-…}``, which is prepared for there being none."""


def check(spec: JobSpec) -> None:
    """Raise :class:`SpecError`, naming the place, unless the spec makes sense.

    It promises that the job can be planned and, given the resources, would run
    and end; whether files exist and a backend agrees is not looked at.
    """
    _check_leaves(spec, "")
    _check_job(spec)
    check_wishes(spec)
    if not spec.groups:
        raise SpecError("a job needs at least one task group", where="groups")
    check_group_names(spec.groups, path="groups")
    for name, group in spec.groups.items():
        _check_group(group, under("groups", name))
    _check_programs(spec)
    _check_life(spec)
    _check_env(spec.env, "env")
    _check_files(spec)
    _check_timeouts(spec.timeouts)


def _check_job(spec: JobSpec) -> None:
    _single_line(spec.name, "name")
    _single_line(spec.queue, "queue")
    _not_empty(spec.environment, "environment")
    if spec.python is not None and not spec.python.startswith("/"):
        raise SpecError(
            f"must be the path of a Python on the nodes, from / on, not {shown(spec.python)}",
            where="python",
        )
    for where, path in (("input", spec.input), ("output", spec.output)):
        if path is not None:
            _not_empty(path, where)
    if spec.docker_image is not None:
        _not_empty(spec.docker_image, "docker_image")
    if spec.tensorboard and spec.output is None:
        raise SpecError(
            "TensorBoard needs to know where the summaries are",
            where="output",
            hint="give the output path (-o on the command line)",
        )
    _check_resources(spec.master.resources, "master.resources")
    _in_range(spec.master.max_attempts, 1, MAX_INT, "master.max_attempts")
    _seconds(spec.master.attempt_window_s, "master.attempt_window_s")
    _in_range(spec.max_node_failures, 1, MAX_INT, "max_node_failures")
    _in_range(spec.log_limit_mb, 1, MAX_INT, "log_limit_mb")


def _check_group(group: TaskGroupSpec, path: str) -> None:
    _in_range(group.count, 1, MAX_TASKS, f"{path}.count")
    if group.min is not None and not 1 <= group.min <= group.count:
        raise SpecError(
            f"must be 1 to the group's count, which is {group.count}, not {shown(group.min)}",
            where=f"{path}.min",
        )
    _check_resources(group.resources, f"{path}.resources")
    for index, resources in group.overrides.items():
        where = under(f"{path}.overrides", index)
        if not 0 <= index < group.count:
            raise SpecError(
                f"there is no task {shown(index)}",
                where=where,
                hint=f"the group's tasks are 0 to {group.count - 1}",
            )
        _check_resources(resources, where)
    _in_range(group.max_restarts, 0, MAX_INT, f"{path}.max_restarts")
    _check_backoff(group.backoff, f"{path}.backoff")
    if group.environment is not None:
        _not_empty(group.environment, f"{path}.environment")
    if group.node_label is not None:
        check_label(group.node_label, f"{path}.node_label")
    _check_env(group.env, f"{path}.env")


def _check_resources(resources: Resources, path: str) -> None:
    parse_memory(resources.memory_mb, where=f"{path}.memory")
    _in_range(resources.vcores, 1, MAX_INT, f"{path}.vcores")
    _in_range(resources.gpus, 0, MAX_INT, f"{path}.gpus")
    check_other_resources(resources, f"{path}.others")


def _check_backoff(backoff: Backoff, path: str) -> None:
    _seconds(backoff.initial_s, f"{path}.initial_s", zero=True)
    _seconds(backoff.max_s, f"{path}.max_s", zero=True)
    if not 1 <= backoff.factor <= MAX_FACTOR:
        raise SpecError(
            f"must be 1 to {MAX_FACTOR:g}, not {shown(backoff.factor)}", where=f"{path}.factor"
        )
    if backoff.max_s < backoff.initial_s:
        raise SpecError(
            f"must not be less than initial_s, which is {backoff.initial_s:g}",
            where=f"{path}.max_s",
        )


def _check_timeouts(timeouts: Timeouts) -> None:
    # To wait for nothing can be meant in these two: kill at once, drop the evaluator.
    may_be_zero = {"stop_grace_s", "evaluator_s"}
    for name in timeouts.__struct_fields__:
        value: float | None = getattr(timeouts, name)
        if value is not None:
            _seconds(value, f"timeouts.{name}", zero=name in may_be_zero)


def _check_programs(spec: JobSpec) -> None:
    _check_command(spec, spec.command, "command")
    _check_command(spec, spec.client_command, "client_command")
    for name, group in spec.groups.items():
        where = f"groups.{name}.command"
        _check_command(spec, group.command, where)
        if name == TENSORBOARD:
            if group.command is None and spec.output is None:
                raise SpecError(
                    "TensorBoard needs to know where the summaries are",
                    where="output",
                    hint=f"give the output path, or a command in {where}",
                )
        elif spec.servers:
            if group.command is not None:
                raise SpecError(
                    "with servers every task runs a TensorFlow server, not a command",
                    where=where,
                    hint="leave out the command, or servers",
                )
        elif group.command is None and spec.command is None:
            raise SpecError(
                "there is no command to run", where=where, hint="or give one for all: command"
            )
    if spec.client:
        if spec.client_command is None and spec.command is None:
            raise SpecError("the client needs a command to run", where="client_command")
    elif spec.client_command is not None:
        raise SpecError(
            "nobody would run this command", where="client_command", hint="add client: true"
        )
    elif spec.servers and spec.command is not None:
        raise SpecError(
            "with servers only a client would run this command",
            where="command",
            hint="add the client (--client; in a file: client: true), or use ytf attach later",
        )


def _check_life(spec: JobSpec) -> None:
    tensorboard = spec.groups.get(TENSORBOARD)
    if tensorboard is not None and tensorboard.tracked:
        raise SpecError(
            "TensorBoard never ends by itself, so the job would not either",
            where=f"groups.{TENSORBOARD}.tracked",
            hint="leave it out",
        )
    if not spec.servers and not spec.tracked_groups():
        raise SpecError(
            "no task group is tracked, so nothing would end the job",
            where="groups",
            hint="set tracked: true in the group whose end is the job's",
        )


def _check_env(env: Mapping[str, str], path: str) -> None:
    for name, value in env.items():
        where = under(path, name)
        if not name:
            raise SpecError("an environment variable needs a name", where=where)
        if "=" in name:
            raise SpecError("the name of an environment variable has no '='", where=where)
        if name.startswith(("DTF_", "YTF_")) or name == "TF_CONFIG":
            raise SpecError(
                "ytf sets this variable itself",
                where=where,
                hint="names that begin with DTF_ or YTF_, and TF_CONFIG, are taken: use another",
            )
        _short_enough(f"{name}={value}", where)


def _check_files(spec: JobSpec) -> None:
    taken: dict[str, str] = {}
    if spec.script is not None:
        script = spec.script.rpartition("/")[2]
        if script in ("", ".", ".."):
            raise SpecError(f"{shown(spec.script)} does not name a file", where="script")
        taken[script] = "the script"
    for name, source in spec.files.items():
        where = under("files", name)
        parts = name.split("/")
        if any(part in ("", ".", "..") for part in parts):
            raise SpecError(
                f"{shown(name)} is not a name in the task's working directory",
                where=where,
                hint="use a relative path without '.', '..' and empty parts, such as data/train",
            )
        _not_empty(source, where)
        if name in taken:
            raise SpecError(f"duplicate: {shown(name)} is {taken[name]}", where=where)
        taken[name] = "there already"
    for name in spec.files:
        where = under("files", name)
        parts = name.split("/")
        for length in range(1, len(parts)):
            if "/".join(parts[:length]) in taken:
                raise SpecError(
                    f"lies inside {shown('/'.join(parts[:length]))}, which is shipped itself",
                    where=where,
                    hint="ship one of the two, or give this one a name outside the other",
                )


def _check_leaves(value: object, path: str) -> None:
    """Refuse strings no system call takes and numbers that are none, wherever they are."""
    if isinstance(value, str):
        if "\0" in value:
            raise SpecError("has a NUL character in it", where=path)
        try:
            value.encode()
        except UnicodeEncodeError as exc:
            raise SpecError("has a character that UTF-8 cannot express", where=path) from exc
    elif isinstance(value, float):
        if not math.isfinite(value):
            raise SpecError(f"must be a finite number, not {value}", where=path)
    elif isinstance(value, dict):
        for key, item in value.items():
            _check_leaves(key, under(path, key))
            _check_leaves(item, under(path, key))
    elif isinstance(value, tuple):
        for item in value:
            _check_leaves(item, path)
    elif isinstance(value, msgspec.Struct):
        for name, encoded in zip(
            value.__struct_fields__, value.__struct_encode_fields__, strict=True
        ):
            _check_leaves(getattr(value, name), under(path, encoded))


def _check_command(spec: JobSpec, command: str | None, where: str) -> None:
    if command is None:
        return
    _not_empty(command, where)
    _short_enough(f"DTF_TASK_PROGRAM={command}", where)
    if spec.script is None and _SCRIPT.search(command):
        raise SpecError(
            "the command uses $DTF_TASK_SCRIPT, and there is no script",
            where=where,
            hint="ship one (-s FILE; in a file: script: FILE)",
        )


def _short_enough(text: str, where: str) -> None:
    if len(text.encode()) >= MAX_STRING:
        raise SpecError(
            f"is longer than the {MAX_STRING // 1024} KiB that can be passed to a program",
            where=where,
            hint="put it in a file and ship that",
        )


def _not_empty(text: str, where: str) -> None:
    if not text.strip():
        raise SpecError("must not be empty", where=where)


def _single_line(text: str, where: str) -> None:
    _not_empty(text, where)
    if any(ord(char) < 0x20 or 0x7F <= ord(char) < 0xA0 for char in text):
        raise SpecError(f"has control characters in it: {shown(text)}", where=where)


def _in_range(value: int, low: int, high: int, where: str) -> None:
    if not low <= value <= high:
        raise SpecError(f"must be {low} to {high}, not {shown(value)}", where=where)


def _seconds(value: float, where: str, *, zero: bool = False) -> None:
    if value < 0 or (value == 0 and not zero):
        least = "0 or more" if zero else "more than 0"
        raise SpecError(f"must be {least} seconds, not {shown(value)}", where=where)
    if value > MAX_SECONDS:
        raise SpecError(
            f"must be at most {MAX_SECONDS} seconds (ten years), not {shown(value)}", where=where
        )
