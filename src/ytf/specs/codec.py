"""Decodes job specs from plain data and JSON, and encodes them likewise.

Decoding takes exactly the fields of :class:`JobSpec` and ends with
:func:`check`. It raises :class:`SpecError` with the place of what is wrong.
Encoding leaves out fields that have their default.

Resources that are given in part inherit the rest: an override from its group,
the master's from the master's own default. A time may be text with units: ``1h``.

JSON text is read with no surprises: duplicate keys, NaN and endless numbers are
refused rather than taken in silently. ``yaml_builder`` does the same for YAML,
and is a module of its own because its import is slow.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from enum import Enum
from typing import NoReturn

import msgspec

from ytf.decoding import convert
from ytf.errors import SpecError, shown, under
from ytf.specs.amounts import parse_memory
from ytf.specs.check import check
from ytf.specs.decode_errors import decode_error
from ytf.specs.durations import parse_duration
from ytf.specs.job import JobSpec, MasterSpec, Resources, TaskGroupSpec

MAX_DIGITS = 400
"""The most digits of an integer."""

_INDEX = re.compile(r"0|[1-9][0-9]{0,8}")


def from_dict(data: object) -> JobSpec:
    """The job spec that plain data describe."""
    if data is None:
        raise SpecError("there is no job spec in it: it is empty", hint="begin with groups:")
    data = _normalized(data)
    try:
        spec = convert(data, JobSpec)
    except msgspec.ValidationError as exc:
        raise decode_error(data, JobSpec) from exc
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


def read_json(text: str | bytes) -> object:
    """The data a JSON text holds."""
    try:
        return json.loads(
            decoded(text),
            object_pairs_hook=_unique,
            parse_int=whole_number,
            parse_constant=_not_a_number,
        )
    except json.JSONDecodeError as exc:
        where = f"line {exc.lineno}, column {exc.colno}"
        raise SpecError(f"not JSON: {exc.msg}", where=where) from exc
    except RecursionError as exc:
        raise SpecError("nested too deeply for a job spec") from exc


def write_json(data: object) -> str:
    """Data as JSON text, indented, with a final line ending."""
    return json.dumps(data, indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def decoded(text: str | bytes) -> str:
    """The text of a file in UTF-8, without a byte order mark."""
    if isinstance(text, str):
        return text
    try:
        return text.decode("utf-8-sig")
    except UnicodeDecodeError as exc:
        raise SpecError(f"not UTF-8 text: {exc.reason} at byte {exc.start}") from exc


def whole_number(digits: str) -> int:
    """The integer that is written so; Python itself refuses some thousands of digits."""
    if len(digits) > MAX_DIGITS:
        raise SpecError(f"a number of {len(digits)} digits is too large for anything here")
    return int(digits)


def _normalized(data: object) -> object:
    """The data with memory in MB, times in seconds, indices as integers and inherited resources.

    Data of a wrong shape is left as it is: msgspec refuses it.
    """
    data = _at(data, "groups", lambda groups: _each(groups, "groups", _normalized_group))
    data = _at(data, "timeouts", lambda own: _in_seconds(own, "timeouts"))
    return _at(data, "master", _normalized_master)


def _normalized_group(group: object, path: str) -> object:
    group = _at(group, "resources", lambda own: _in_mb(own, f"{path}.resources"))
    group = _at(group, "backoff", lambda own: _in_seconds(own, f"{path}.backoff"))
    usual = group.get("resources", {}) if isinstance(group, dict) else {}

    def override(own: object, path: str) -> object:
        own = _in_mb(own, path)
        return {**usual, **own} if isinstance(own, dict) and isinstance(usual, dict) else own

    group = _at(
        group,
        "task_env_overrides",
        lambda all_: _by_index(all_, f"{path}.task_env_overrides"),
    )
    return _at(
        group,
        "overrides",
        lambda all_: _each(_by_index(all_, f"{path}.overrides"), f"{path}.overrides", override),
    )


def _normalized_master(master: object) -> object:
    def resources(own: object) -> object:
        own = _in_mb(own, "master.resources")
        return {**_plain_all(MasterSpec().resources), **own} if isinstance(own, dict) else own

    return _at(_in_seconds(master, "master"), "resources", resources)


def _in_seconds(data: object, path: str) -> object:
    """A part of a spec with text for its times (``…_s``) parsed."""

    def seconds(value: object, path: str) -> object:
        is_time = path.endswith("_s") and isinstance(value, str)
        return parse_duration(str(value), where=path) if is_time else value

    return _each(data, path, seconds)


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
    """A copy of a mapping with all values changed; ``change`` gets each value and its path."""
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
    """The fields that do not have their default; ``replaced`` gives other values for some."""
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


def _unique(pairs: list[tuple[str, object]]) -> dict[str, object]:
    found: dict[str, object] = {}
    for key, value in pairs:
        if key in found:
            raise SpecError(f"duplicate: the key {shown(key)} is there twice in one object")
        found[key] = value
    return found


def _not_a_number(name: str) -> NoReturn:
    raise SpecError(f"{name} is not a number")
