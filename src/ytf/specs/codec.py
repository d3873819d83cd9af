"""The one codec of job specs: dict, JSON and YAML, strict in, canonical out.

Decoding takes exactly the fields of :class:`JobSpec` and ends with
:func:`check`; whatever is wrong becomes a :class:`SpecError` that names the
place. Encoding leaves out what is as by default, and decodes to an equal spec.

Resources that are given in part inherit the rest: a task's override from its
group, the master's from the master's own default.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from enum import Enum

import msgspec

from ytf.errors import SpecError
from ytf.specs.blame import blame
from ytf.specs.check import check
from ytf.specs.job import JobSpec, MasterSpec, Resources, TaskGroupSpec
from ytf.specs.text import read_json, read_yaml, write_json, write_yaml
from ytf.specs.units import parse_memory
from ytf.specs.wording import shown, under

_INDEX = re.compile(r"0|[1-9][0-9]{0,8}")


def from_dict(data: object) -> JobSpec:
    """The job spec that plain data describe."""
    if data is None:
        raise SpecError("there is no job spec in it: it is empty", hint="begin with groups:")
    data = _normalized(data)
    try:
        spec = msgspec.convert(data, JobSpec)
    except msgspec.ValidationError as exc:
        raise blame(data, JobSpec) from exc
    check(spec)
    return spec


def to_dict(spec: JobSpec) -> dict[str, object]:
    """The job spec as plain data; overrides have integers for keys."""
    return _plain_struct(spec)


def from_json(text: str | bytes) -> JobSpec:
    """The job spec that a JSON text describes."""
    return from_dict(read_json(text))


def to_json(spec: JobSpec) -> str:
    """The job spec as JSON text."""
    return write_json(to_dict(spec))


def from_yaml(text: str | bytes) -> JobSpec:
    """The job spec that a YAML text describes."""
    return from_dict(read_yaml(text))


def to_yaml(spec: JobSpec) -> str:
    """The job spec as YAML text."""
    return write_yaml(to_dict(spec))


def _normalized(data: object) -> object:
    """The data with memory in MB, indices as integers and inherited resources in place.

    What has not the expected shape is left as it is, for msgspec to refuse.
    """
    data = _at(data, "groups", lambda groups: _each(groups, "groups", _normalized_group))
    return _at(data, "master", _normalized_master)


def _normalized_group(group: object, path: str) -> object:
    group = _at(group, "resources", lambda own: _in_mb(own, f"{path}.resources"))
    usual = group.get("resources", {}) if isinstance(group, dict) else {}

    def override(own: object, path: str) -> object:
        own = _in_mb(own, path)
        return {**usual, **own} if isinstance(own, dict) and isinstance(usual, dict) else own

    return _at(
        group,
        "overrides",
        lambda all_: _each(_by_index(all_, f"{path}.overrides"), f"{path}.overrides", override),
    )


def _normalized_master(master: object) -> object:
    def resources(own: object) -> object:
        own = _in_mb(own, "master.resources")
        return {**_plain_all(MasterSpec().resources), **own} if isinstance(own, dict) else own

    return _at(master, "resources", resources)


def _in_mb(resources: object, path: str) -> object:
    def mb(memory: object) -> object:
        return parse_memory(memory, where=f"{path}.memory") if isinstance(memory, str) else memory

    return _at(resources, "memory", mb)


def _by_index(overrides: object, path: str) -> object:
    """JSON has no integers for keys: ``"0"`` is taken for 0."""
    if not isinstance(overrides, dict):
        return overrides
    found: dict[object, object] = {}
    for key, own in overrides.items():
        index = int(key) if isinstance(key, str) and _INDEX.fullmatch(key) else key
        if index in found:
            raise SpecError(f"duplicate: task {shown(index)} is there twice", where=path)
        found[index] = own
    return found


def _at(data: object, key: str, change: Callable[[object], object]) -> object:
    """A copy of a mapping with one value changed, if it is there."""
    if isinstance(data, dict) and key in data:
        return {**data, key: change(data[key])}
    return data


def _each(data: object, path: str, change: Callable[[object, str], object]) -> object:
    """A copy of a mapping with all values changed; ``change`` is told each one's path."""
    if isinstance(data, dict):
        return {key: change(value, under(path, key)) for key, value in data.items()}
    return data


def _plain(value: object) -> object:
    if isinstance(value, TaskGroupSpec):
        return _plain_group(value)
    if isinstance(value, MasterSpec):
        return _plain_struct(value, resources=_difference(value.resources, MasterSpec().resources))
    if isinstance(value, msgspec.Struct):
        return _plain_struct(value)
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, tuple):
        return [_plain(item) for item in value]
    return value


def _plain_group(group: TaskGroupSpec) -> dict[str, object]:
    overrides = {
        index: _difference(own, group.resources) for index, own in sorted(group.overrides.items())
    }
    return _plain_struct(group, overrides=overrides)


def _plain_struct(struct: msgspec.Struct, **replaced: object) -> dict[str, object]:
    """The fields that are not as by default, some of them said in another way."""
    plain: dict[str, object] = {}
    for field in msgspec.structs.fields(struct):
        value = getattr(struct, field.name)
        is_default = value == field.default or (not field.required and value == {})
        if not is_default:
            plain[field.encode_name] = _plain(replaced.get(field.name, value))
    return plain


def _difference(own: Resources, usual: Resources) -> dict[str, object]:
    ours, theirs = _plain_all(own), _plain_all(usual)
    return {name: value for name, value in ours.items() if value != theirs[name]}


def _plain_all(resources: Resources) -> dict[str, object]:
    return {
        encoded: getattr(resources, name)
        for name, encoded in zip(
            resources.__struct_fields__, resources.__struct_encode_fields__, strict=True
        )
    }
