"""Says where data does not fit a type, for users who wrote the data.

msgspec names a place like ``$.groups[...].count``, without the keys. So when it
has refused some data, :func:`decode_error` tries each part of the data on its own,
down to the smallest part that does not fit.
"""

from __future__ import annotations

import types
from enum import Enum
from typing import Any, Union, get_args, get_origin

import msgspec

from ytf.decoding import convert
from ytf.errors import SpecError, did_you_mean, listed, shown, under

_WORDS: dict[object, str] = {
    int: "a whole number",
    float: "a number",
    str: "text",
    bool: "true or false",
    dict: "a mapping",
    tuple: "a list",
}


def decode_error(data: object, wanted: object, path: str = "") -> SpecError:
    """The error to raise for data that msgspec refused to convert to ``wanted``."""
    if get_origin(wanted) in (Union, types.UnionType):
        # Of several types the first is the one to name.
        wanted = next(part for part in get_args(wanted) if part is not type(None))
    if isinstance(wanted, type) and issubclass(wanted, msgspec.Struct) and isinstance(data, dict):
        return _field_error(data, wanted, path)
    if get_origin(wanted) is dict and isinstance(data, dict):
        return _item_error(data, wanted, path)
    if get_origin(wanted) is tuple and isinstance(data, (list, tuple)):
        item_type = get_args(wanted)[0]
        wrong = next(item for item in data if not _fits(item, item_type))
        return decode_error(wrong, item_type, path)
    if isinstance(wanted, type) and issubclass(wanted, Enum):
        choices = [str(member.value) for member in wanted]
        hint = did_you_mean(data, choices) if isinstance(data, str) else None
        return SpecError(f"expected {_any_of(choices)}, got {shown(data)}", where=path, hint=hint)
    return _wrong_type(data, wanted, path)


def _field_error(data: dict[object, object], wanted: type[msgspec.Struct], path: str) -> SpecError:
    fields = {field.encode_name: field for field in msgspec.structs.fields(wanted)}
    for key, item in data.items():
        if not isinstance(key, str):
            return _wrong_type(key, str, under(path, key))
        if key not in fields:
            return SpecError(
                "there is no such field",
                where=under(path, key),
                hint=did_you_mean(key, fields),
            )
        if not _fits(item, fields[key].type):
            return decode_error(item, fields[key].type, under(path, key))
    missing = [name for name, field in fields.items() if field.required and name not in data]
    if missing:
        return SpecError("is missing", where=under(path, missing[0]))
    return _wrong_type(data, wanted, path)


def _item_error(data: dict[object, object], wanted: object, path: str) -> SpecError:
    key_type, item_type = get_args(wanted)
    for key, item in data.items():
        if not _fits(key, key_type):
            return _wrong_type(key, key_type, under(path, key))
        if not _fits(item, item_type):
            return decode_error(item, item_type, under(path, key))
    return _wrong_type(data, wanted, path)


def _fits(data: object, wanted: Any) -> bool:
    try:
        convert(data, wanted)
    except msgspec.ValidationError:
        return False
    return True


def _wrong_type(data: object, wanted: object, path: str) -> SpecError:
    word = _WORDS.get(wanted) or _WORDS.get(get_origin(wanted)) or _WORDS[dict]
    hint = None
    if wanted is float and path.endswith("_s"):
        word, hint = "a time", "write seconds, or text with units: 90, 90s, 5m, 1h"
    if wanted is str and isinstance(data, (bool, int, float)):
        hint = "put it in quotes to make it text"
    return SpecError(f"expected {word}, got {shown(data)}", where=path or None, hint=hint)


def _any_of(choices: list[str]) -> str:
    return listed(choices).replace(" and ", " or ")
