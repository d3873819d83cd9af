"""Checks the rules of a job spec that its types do not express."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping

import msgspec

from ytf.errors import SpecError, shown, under
from ytf.specs.amounts import MAX_INT, parse_memory, parse_ports
from ytf.specs.grammar import MAX_TASKS, check_group_names
from ytf.specs.job import (
    TENSORBOARD,
    Backoff,
    CheckpointSync,
    JobSpec,
    Resources,
    TaskGroupSpec,
    Timeouts,
)
from ytf.specs.registry import check_registry
from ytf.specs.staging import check_staging

MAX_SECONDS = 10 * 365 * 24 * 3600
"""Ten years: clocks and timers of the systems below do not go further."""
MAX_STRING = 128 * 1024
"""Linux passes no longer string to a program (``MAX_ARG_STRLEN``), its final NUL included."""
MAX_PROCESSES = 256
"""The most processes of a task."""
MAX_FACTOR = 100.0
"""``Backoff`` raises it to at most the 64th power, which must fit a float."""
MAX_TAGS = 10
"""The most tags an application may have (``ApplicationSubmissionContextPBImpl``)."""
TAG = r"[!-+\--~]([ -+\--~]{0,98}[!-+\--~])?"
"""Up to 100 printable ASCII characters but the comma, which separates tags everywhere."""
LABEL = r"[0-9A-Za-z][0-9A-Za-z_-]{0,254}"
"""``NodeLabelUtil.checkAndThrowLabelName``."""
IMAGE = r"[A-Za-z0-9][A-Za-z0-9._/:@-]*"
"""The characters of an image's name: nothing that a shell or the engine's options would read."""
ENGINE = r"[A-Za-z0-9][A-Za-z0-9._-]*|/.*[^/]"
RESOURCE_NAME = r"([0-9A-Za-z.-]+/)?[A-Za-z][0-9A-Za-z_.-]*"
"""What a resource type may be called: ``yarn.io/fpga``, ``licences``."""

_NAMED = {"memory-mb": "memory", "memory": "memory", "vcores": "vcores", "yarn.io/gpu": "gpus"}
_ACL_FORMS = 'write users, then groups: "alice,bob admins", " admins", or "*" for everybody'
_SCRIPT = re.compile(r"\$DTF_TASK_SCRIPT\b|\$\{DTF_TASK_SCRIPT\}")
"""Not ``${DTF_TASK_SCRIPT-…}``, which has a value also without a script."""


def check(spec: JobSpec) -> None:
    """Raise :class:`SpecError` with the place of the first error in the spec.

    A job whose spec passes can be planned and, given the resources, would run and
    end. Whether files exist and whether a backend accepts the job is not checked.
    """
    _check_leaves(spec, "")
    _check_job(spec)
    _check_queue_request(spec)
    if not spec.groups:
        raise SpecError("a job needs at least one task group", where="groups")
    check_group_names(spec.groups, path="groups")
    for name, group in spec.groups.items():
        _check_group(group, under("groups", name))
    _check_programs(spec)
    _check_life(spec)
    _check_env(spec.task_env, "task_env")
    _check_files(spec)
    _check_docker(spec)
    _check_timeouts(spec.timeouts)
    check_staging(spec)
    _check_checkpoint_sync(spec.checkpoint_sync, "checkpoint_sync")
    for name, group in spec.groups.items():
        _check_checkpoint_sync(group.checkpoint_sync, f"groups.{name}.checkpoint_sync")


def _check_job(spec: JobSpec) -> None:
    _single_line(spec.name, "name")
    _single_line(spec.queue, "queue")
    _not_empty(spec.env, "env")
    check_registry(spec.registry)
    if spec.python is not None and not spec.python.startswith("/"):
        raise SpecError(
            f"must be the path of a Python on the nodes, from / on, not {shown(spec.python)}",
            where="python",
        )
    for where, path in (("input", spec.input), ("output", spec.output)):
        if path is not None:
            _not_empty(path, where)
    # A group of that name may have a command that needs none, see _check_programs.
    if spec.tensorboard and spec.output is None and TENSORBOARD not in spec.groups:
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
    for where, ports in (("task_ports", spec.task_ports), ("control_ports", spec.control_ports)):
        if ports is not None:
            parse_ports(ports, where=where)


def _check_docker(spec: JobSpec) -> None:
    if spec.docker_image is not None:
        _check_image(spec.docker_image, "docker_image")
    for name, group in spec.groups.items():
        where = f"groups.{name}"
        if group.docker_image:
            _check_image(group.docker_image, f"{where}.docker_image")
        if spec.docker_image_of(name) is None:
            continue
        given = "env" if group.env is None else f"{where}.env"
        if (group.env or spec.env) != "node":
            raise SpecError(
                f"{name} runs in a docker image, which brings its own python",
                where=given,
                hint="leave env out, or the image",
            )
        if name == TENSORBOARD and group.command is None:
            raise SpecError(
                "ytf's own TensorBoard does not run in an image",
                where=f"{where}.docker_image",
                hint="leave the image out, or give a command for it",
            )
    engine = spec.docker.engine
    if engine is not None and re.fullmatch(ENGINE, engine) is None:
        raise SpecError(
            f"must be docker, podman, or the path of a command from / on, not {shown(engine)}",
            where="docker.engine",
        )
    _check_env(spec.docker.engine_env, "docker.engine_env")


def _check_image(image: str, where: str) -> None:
    if re.fullmatch(IMAGE, image) is None:
        raise SpecError(
            f"{shown(image)} cannot be the name of an image",
            where=where,
            hint="names look like tensorflow/tensorflow:2.15.0 or host:5000/team/image@sha256:…",
        )


def _check_queue_request(spec: JobSpec) -> None:
    """Check what is passed on to the cluster's queue."""
    if spec.gpus_per_node is not None:
        _in_range(spec.gpus_per_node, 1, MAX_INT, "gpus_per_node")
    if spec.priority is not None and not 0 <= spec.priority <= MAX_INT:
        raise SpecError(f"must be 0 to {MAX_INT}, not {shown(spec.priority)}", where="priority")
    _check_tags(spec.tags)
    for where, acl in (("acl_view", spec.acl_view), ("acl_modify", spec.acl_modify)):
        if acl is not None:
            _check_acl(acl, where)
    if spec.node_label is not None:
        _check_label(spec.node_label, "node_label")


def _check_label(label: str, where: str) -> None:
    """Check a node label; the empty label means nodes without one."""
    if label and re.fullmatch(LABEL, label) is None:
        raise SpecError(
            f"{shown(label)} cannot be a node's label",
            where=where,
            hint="a label is letters, digits, '-' and '_', and begins with a letter or digit",
        )


def _check_other_resources(resources: Resources, path: str) -> None:
    """Check the amounts of resources that have no field of their own."""
    for name, amount in resources.others.items():
        where = under(path, name)
        if name in _NAMED:
            raise SpecError(
                "has a field of its own", where=where, hint=f"give it as {_NAMED[name]}"
            )
        if re.fullmatch(RESOURCE_NAME, name) is None:
            raise SpecError(
                f"{shown(name)} cannot be the name of a resource",
                where=where,
                hint="names look like yarn.io/fpga",
            )
        if not 0 <= amount <= MAX_INT:
            raise SpecError(f"must be 0 to {MAX_INT}, not {shown(amount)}", where=where)


def _check_tags(tags: tuple[str, ...]) -> None:
    if len(tags) > MAX_TAGS:
        raise SpecError(f"a job may have {MAX_TAGS} tags, not {len(tags)}", where="tags")
    for tag in tags:
        if re.fullmatch(TAG, tag) is None:
            raise SpecError(
                f"{shown(tag)} cannot be a tag",
                where="tags",
                hint="a tag is up to 100 printable ASCII characters without a comma",
            )


def _check_acl(acl: str, where: str) -> None:
    if not acl.isprintable() or not 1 <= len(acl.split()) <= 2:
        raise SpecError(f"{shown(acl)} is not understood", where=where, hint=_ACL_FORMS)


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
        _check_index(index, group, where)
        _check_resources(resources, where)
    _in_range(group.max_restarts, 0, MAX_INT, f"{path}.max_restarts")
    _in_range(group.processes, 1, MAX_PROCESSES, f"{path}.processes")
    _check_backoff(group.backoff, f"{path}.backoff")
    if group.env is not None:
        _not_empty(group.env, f"{path}.env")
    if group.node_label is not None:
        _check_label(group.node_label, f"{path}.node_label")
    _check_env(group.task_env, f"{path}.task_env")
    for index, env in group.task_env_overrides.items():
        where = under(f"{path}.task_env_overrides", index)
        _check_index(index, group, where)
        _check_env(env, where)


def _check_index(index: int, group: TaskGroupSpec, where: str) -> None:
    if not 0 <= index < group.count:
        raise SpecError(
            f"there is no task {shown(index)}",
            where=where,
            hint=f"the group's tasks are 0 to {group.count - 1}",
        )


def _check_resources(resources: Resources, path: str) -> None:
    parse_memory(resources.memory_mb, where=f"{path}.memory")
    _in_range(resources.vcores, 1, MAX_INT, f"{path}.vcores")
    _in_range(resources.gpus, 0, MAX_INT, f"{path}.gpus")
    _check_other_resources(resources, f"{path}.others")


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
    # 0 makes sense for these: kill at once, do not wait for the evaluator or for workers.
    may_be_zero = {"stop_grace_s", "evaluator_s", "after_chief_s", "tensorboard_s"}
    for name in timeouts.__struct_fields__:
        value: float | None = getattr(timeouts, name)
        if value is not None:
            _seconds(value, f"timeouts.{name}", zero=name in may_be_zero)


def _check_checkpoint_sync(sync: CheckpointSync | None, path: str) -> None:
    if sync is None:
        return
    _seconds(sync.final_s, f"{path}.final_s")
    _seconds(sync.interval_s, f"{path}.interval_s")
    if sync.interval_s < 1:
        raise SpecError(
            f"must be 1 second or more, not {shown(sync.interval_s)}", where=f"{path}.interval_s"
        )


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
                    hint=f"give the output path (-o on the command line), or a command in {where}",
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
            "without a client no task runs this command",
            where="client_command",
            hint="add client: true",
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
    if spec.timeouts.tensorboard_s and not spec.tensorboard and tensorboard is None:
        raise SpecError(
            "the job has no TensorBoard that could stay after its end",
            where="timeouts.tensorboard_s",
            hint="ask for one (-t; in a file: tensorboard: true), or leave it out",
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
                    f"is inside {shown('/'.join(parts[:length]))}, which is shipped itself",
                    where=where,
                    hint="ship one of the two, or give this one a name outside the other",
                )


def _check_leaves(value: object, path: str) -> None:
    """Refuse strings that no system call takes, and nan and infinity, in any field."""
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
