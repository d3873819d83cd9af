"""Stage-in, stage-out and checkpoint sync in a job spec: short forms, checks, placeholders.

::

    stage_in         = [ group ":" ] source [ ":" directory ]
    stage_out        = [ group ":" ] directory ":" destination
    sync_checkpoints = [ group ":" ] directory ":" destination

A source or destination is a URL, ``hdfs://namenode:8020/path``, or on the local
backend a path. A colon in its first part belongs to it: only after the path has
begun does a colon separate it from the directory.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from ytf.errors import SpecError, did_you_mean, shown
from ytf.specs.ids import JobId, TaskId, group_of, index_of, task_id
from ytf.specs.job import CheckpointSync, JobSpec, StageIn, StageOut, TaskGroupSpec, is_url

OWN_DIRECTORY = ".ytf"
"""The directory of ytf's own files in the working directory of a task."""

_GROUP = re.compile(r"([A-Za-z][A-Za-z0-9_]*):(?!//)(.*)", re.DOTALL)
_URL = re.compile(r"(?P<begin>[A-Za-z][A-Za-z0-9+.-]*://[^/]*)(?P<path>.*)", re.DOTALL)
_DESTINATION = re.compile(r":(?=[A-Za-z][A-Za-z0-9+.-]*://|/)")
_PLACEHOLDER = re.compile(r"\{([^{}/]*)\}")
_PLACEHOLDERS = ("job", "group", "index", "task")
_IN_FORMS = "write hdfs://namenode:8020/path, …/path:dir, or worker:hdfs://…/path:dir"
_OUT_FORMS = "write dir:hdfs://namenode:8020/path, or chief:dir:hdfs://…/path"
_SCHEMES = ("hdfs://", "viewfs://", "file://")


def parse_stage_in(
    text: str, groups: Mapping[str, TaskGroupSpec], *, option: str, shard: bool = False
) -> tuple[str | None, StageIn]:
    """The group, None for all, and the source of an option's value."""
    where = f"{option} {shown(text)}"
    group, rest = _split_group(text, groups, where)
    url = _URL.fullmatch(rest)
    begin, path = (url["begin"], url["path"]) if url else ("", rest)
    if not path:
        raise SpecError("there is no path in it", where=where, hint=_IN_FORMS)
    source, colon, directory = path.rpartition(":")
    if not colon:
        return group, StageIn(source=rest, shard=shard)
    if not source or not directory:
        raise SpecError("there is nothing on one side of the colon", where=where, hint=_IN_FORMS)
    return group, StageIn(source=begin + source, to=directory, shard=shard)


def parse_stage_out(
    text: str, groups: Mapping[str, TaskGroupSpec], *, option: str
) -> tuple[str | None, StageOut]:
    """The group, None for all, the directory and the destination of an option's value."""
    group, directory, to = _parse_output(text, groups, option)
    return group, StageOut(dir=directory, to=to)


def parse_checkpoint_sync(
    text: str, groups: Mapping[str, TaskGroupSpec], *, option: str
) -> tuple[str | None, CheckpointSync]:
    """The group, None for the task that writes checkpoints, and what is synced to where."""
    group, directory, to = _parse_output(text, groups, option)
    return group, CheckpointSync(dir=directory, to=to)


def _parse_output(
    text: str, groups: Mapping[str, TaskGroupSpec], option: str
) -> tuple[str | None, str, str]:
    where = f"{option} {shown(text)}"
    found = _DESTINATION.search(text)
    left, _, to = (
        (text[: found.start()], ":", text[found.end() :]) if found else text.rpartition(":")
    )
    if not left or not to:
        raise SpecError("expected <directory>:<destination>", where=where, hint=_OUT_FORMS)
    group, directory = _split_group(left, groups, where)
    if not directory:
        raise SpecError("the directory is missing", where=where, hint=_OUT_FORMS)
    return group, directory, to


def _split_group(
    text: str, groups: Mapping[str, TaskGroupSpec], where: str
) -> tuple[str | None, str]:
    found = _GROUP.fullmatch(text)
    if found is None:
        return None, text
    name, rest = found.groups()
    if name in groups:
        return name, rest
    if is_url(rest):
        raise SpecError(
            f"there is no task group {shown(name)} in the requirement",
            where=where,
            hint=did_you_mean(name, groups),
        )
    return None, text  # a path of the local backend


def has_wildcard(source: str) -> bool:
    """Whether the path of a source may stand for several files."""
    return any(char in source for char in "*?[{")


def destination(output: StageOut | CheckpointSync, job: JobId, task: TaskId) -> str:
    """The destination of a task, with its placeholders replaced."""
    return _filled(output.to, str(job), task)


def _filled(to: str, job: str, task: TaskId) -> str:
    group, index = group_of(task), str(index_of(task))
    values = {"job": job, "group": group, "index": index, "task": f"{group}-{index}"}
    return _PLACEHOLDER.sub(lambda found: values[found[1]], to)


def check_staging(spec: JobSpec) -> None:
    """Raise :class:`SpecError` for what could never be staged, or would be staged twice."""
    for path, inputs, outputs in (
        ("", spec.stage_in, spec.stage_out),
        *((f"groups.{name}.", each.stage_in, each.stage_out) for name, each in spec.groups.items()),
    ):
        for source in inputs:
            _check_url(source.source, f"{path}stage_in")
            if source.to is not None:
                _check_directory(source.to, f"{path}stage_in")
        for output in outputs:
            _check_directory(output.dir, f"{path}stage_out")
            _check_destination(output.to, f"{path}stage_out")
    for name, group in spec.groups.items():
        if group.min is not None and any(each.shard for each in spec.stage_in_of(name)):
            raise SpecError(
                "a job that may start with fewer tasks cannot share files among them: those of "
                "a missing task would be missing",
                where=f"groups.{name}.min",
                hint="leave out min, or shard",
            )
    _check_checkpoint_sync(spec)
    _check_distinct(spec)


def _check_checkpoint_sync(spec: JobSpec) -> None:
    for where, sync in (
        ("checkpoint_sync", spec.checkpoint_sync),
        *((f"groups.{name}.checkpoint_sync", g.checkpoint_sync) for name, g in spec.groups.items()),
    ):
        if sync is None:
            continue
        if sync.dir == ".":
            raise SpecError(
                "the working directory itself cannot be synced",
                where=where,
                hint="let the program write its checkpoints to a directory in it",
            )
        _check_directory(sync.dir, where)
        _check_destination(sync.to, where)


def _check_url(url: str, where: str) -> None:
    if is_url(url) and not url.startswith(_SCHEMES):
        raise SpecError(
            f"{shown(url)} cannot be staged",
            where=where,
            hint="use an hdfs:// or viewfs:// URL; on the local backend also a path",
        )
    found = _URL.fullmatch(url)
    if not (found["path"] if found else url).strip("/"):
        raise SpecError(f"there is no path in {shown(url)}", where=where)


def _check_directory(path: str, where: str) -> None:
    parts = path.rstrip("/").split("/")
    if path == ".":
        return
    if any(part in ("", ".", "..") for part in parts) or parts[0] == OWN_DIRECTORY:
        raise SpecError(
            f"{shown(path)} is not a directory for data in the task's working directory",
            where=where,
            hint="use a relative path without '.', '..' and empty parts, such as data/train",
        )


def _check_destination(to: str, where: str) -> None:
    _check_url(to, where)
    for word in _PLACEHOLDER.findall(to):
        if word not in _PLACEHOLDERS:
            raise SpecError(
                f"there is no placeholder {{{word}}}",
                where=where,
                hint=did_you_mean(word, _PLACEHOLDERS),
            )


def _check_distinct(spec: JobSpec) -> None:
    """Refuse two outputs with one destination: one would be in the way of the other."""
    seen: dict[str, TaskId] = {}
    for task, output in _outputs(spec):
        to = _filled(output.to, "job", task).rstrip("/")
        if to in seen:
            who = "twice" if seen[to] == task else f"and {seen[to]}"
            raise SpecError(
                f"{task} {who} would write to the same destination, {shown(output.to)}",
                where="stage_out" if isinstance(output, StageOut) else "checkpoint_sync",
                hint=f"give each its own, for example {output.to.rstrip('/')}/{{task}} "
                "({job}, {group}, {index} and {task} are replaced)",
            )
        seen[to] = task


def _outputs(spec: JobSpec) -> Iterator[tuple[TaskId, StageOut | CheckpointSync]]:
    """Yield what each task leaves outside of its container, in groups that leave anything."""
    for name, group in spec.groups.items():
        own: list[StageOut | CheckpointSync] = [*spec.stage_out_of(name)]
        if group.checkpoint_sync is not None:
            own.append(group.checkpoint_sync)
        for index in range(group.count if own else 0):
            yield from ((task_id(name, index), output) for output in own)
    writer = spec.checkpoint_writer()
    sync = spec.checkpoint_sync
    if writer is not None and sync is not None and not spec.group(writer).checkpoint_sync:
        yield writer, sync
