"""Finds the part of an object that cannot be pickled, and the way to it.

A pickle that fails tells the type of what it failed at, and neither its name nor where it
is. So the parts of the object are pickled one by one, and theirs, down to one that fails
although none of its own parts does.
"""

from __future__ import annotations

import contextlib
import functools
import types
from collections.abc import Iterator
from dataclasses import dataclass

import cloudpickle

_DEEPEST = 30
_MOST_PARTS = 10_000
"""How many parts are tried: a bigger object is named as far as the search has come."""
_LONGEST_KEY = 40


@dataclass(frozen=True)
class Unpicklable:
    """What cannot be pickled: ``train.<variable> session.lock``, its type, and why."""

    path: str
    type_name: str
    reason: str


class _Null:
    """A file that keeps nothing."""

    def write(self, data: bytes) -> int:
        """Take some bytes."""
        return len(data)


def unpicklable_part(value: object, name: str) -> Unpicklable | None:
    """The innermost part of a value that cannot be pickled; None if all of it can."""
    error = _error(value)
    if error is None:
        return None
    path, seen, left = name, {id(value)}, _MOST_PARTS
    for _ in range(_DEEPEST):
        for step, part in parts_of(value):
            left -= 1
            if id(part) in seen or left < 0:
                continue
            why = _error(part)
            if why is not None:
                path, value, error = f"{path}{step}", part, why
                seen.add(id(part))
                break
        else:
            break
    return Unpicklable(path, _type_name(value), f"{type(error).__name__}: {error}")


def parts_of(value: object) -> Iterator[tuple[str, object]]:
    """The objects with which a value is pickled, and the step of a path to each.

    Of a function these are its defaults and the variables around it that it uses.
    """
    if isinstance(value, types.FunctionType):
        yield from _variables(value)
        for part in value.__defaults__ or ():
            yield "'s default", part
        for name, part in (value.__kwdefaults__ or {}).items():
            yield f"'s default of {name}", part
    elif isinstance(value, types.MethodType):
        yield ".__self__", value.__self__
        yield ".__func__", value.__func__
    elif isinstance(value, functools.partial):
        yield ".func", value.func
        for number, part in enumerate(value.args):
            yield f".args[{number}]", part
        for name, part in value.keywords.items():
            yield f".keywords[{name!r}]", part
    elif isinstance(value, dict):
        for key, part in value.items():
            yield f"[{_shown(key)}]", part
            yield f"'s key {_shown(key)}", key
    elif isinstance(value, (list, tuple)):
        for number, part in enumerate(value):
            yield f"[{number}]", part
    elif isinstance(value, (set, frozenset)):
        for part in value:
            yield "'s element", part
    elif isinstance(value, type):
        for name, part in vars(value).items():
            if not (name.startswith("__") and name.endswith("__")):
                yield f".{name}", part.__func__ if isinstance(part, staticmethod) else part
    elif isinstance(value, property):
        yield "'s getter", value.fget
    else:
        for name, part in _state(value).items():
            yield f".{name}", part


def _variables(function: types.FunctionType) -> Iterator[tuple[str, object]]:
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=False):
        with contextlib.suppress(ValueError):  # it has no value yet
            yield f"'s variable {name}", cell.cell_contents
    for name in sorted(_global_names(function.__code__)):
        if name in function.__globals__:
            yield f"'s variable {name}", function.__globals__[name]


def _global_names(code: types.CodeType) -> set[str]:
    found = set(code.co_names)
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            found |= _global_names(constant)
    return found


def _state(value: object) -> dict[str, object]:
    """The attributes with which a plain object is pickled; empty if it has a way of its own."""
    if isinstance(value, types.ModuleType):
        return {}
    state: object = getattr(value, "__dict__", None)
    return {str(name): part for name, part in state.items()} if isinstance(state, dict) else {}


def _error(value: object) -> Exception | None:
    try:
        cloudpickle.Pickler(_Null()).dump(value)
    except Exception as exc:  # whatever a __reduce__ of the user's raises
        return exc
    return None


def _type_name(value: object) -> str:
    cls = type(value)
    return cls.__qualname__ if cls.__module__ == "builtins" else f"{cls.__module__}.{cls.__name__}"


def _shown(key: object) -> str:
    text = repr(key)
    return text if len(text) <= _LONGEST_KEY else text[:_LONGEST_KEY] + "…"
