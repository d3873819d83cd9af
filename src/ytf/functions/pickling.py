"""Pickles a call of a function for the tasks of a job, and notes which modules it refers to.

A function of a module that can be imported travels as its name, any other (a lambda, one
that is defined inside another, one of ``__main__`` or of a notebook) as its code, with what
that uses of the variables around it.
"""

from __future__ import annotations

import dis
import functools
import sys
import types
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import IO, TYPE_CHECKING

import cloudpickle

from ytf.errors import SpecError
from ytf.functions.experiments import MODULE
from ytf.functions.unpicklable import parts_of, unpicklable_part
from ytf.specs.amounts import format_bytes

if TYPE_CHECKING:
    from typing import Any

BIG = 16 << 20
"""A function that travels with more than this is told, with what is big in it."""
_NAMED = (type, types.FunctionType, types.BuiltinFunctionType)


@dataclass(frozen=True)
class Call:
    """A function and its arguments."""

    function: Callable[..., object]
    args: Sequence[object] = ()
    kwargs: Mapping[str, object] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """The name of the function, for messages."""
        function: object = self.function
        while isinstance(function, functools.partial):
            function = function.func
        return getattr(function, "__name__", type(function).__name__)

    def parts(self) -> Iterator[tuple[str, object]]:
        """What travels, and how a message names it."""
        yield self.name, self.function
        for number, value in enumerate(self.args):
            yield f"args[{number}]", value
        for name, value in self.kwargs.items():
            yield f"kwargs[{name!r}]", value


def pickle_call(call: Call, file: IO[bytes]) -> set[str]:
    """Write the call to a file; return the packages that have to be importable where it is read.

    Raises ``SpecError`` that names what cannot be pickled, and where it is.
    """
    pickler = _Pickler(file)
    try:
        pickler.dump((call.function, tuple(call.args), dict(call.kwargs)))
    except Exception as exc:
        # Whatever a __reduce__ of the user's raises.
        raise _explained(call, exc) from exc
    imported = [imported_packages(part) for _, part in call.parts()]
    return pickler.packages.union(*imported) - {"__main__", "builtins"}


class _Pickler(cloudpickle.Pickler):  # type: ignore[misc]
    """Notes the packages of what is pickled by its name."""

    def __init__(self, file: IO[bytes]) -> None:
        super().__init__(file)
        self.packages: set[str] = set()

    def reducer_override(self, obj: Any) -> Any:
        """See ``pickle.Pickler.reducer_override``."""
        reduced = super().reducer_override(obj)
        if reduced is NotImplemented:
            module = None
            if isinstance(obj, types.ModuleType):
                module = obj.__name__
            elif isinstance(obj, _NAMED):
                module = getattr(obj, "__module__", None)
            if isinstance(module, str):
                self.packages.add(module.partition(".")[0])
        return reduced


def _explained(call: Call, error: Exception) -> SpecError:
    for name, value in call.parts():
        found = unpicklable_part(value, name)
        if found is not None:
            return SpecError(
                f"{call.name} cannot be sent to the tasks: {found.path}, a {found.type_name}, "
                f"cannot be pickled: {found.reason}",
                hint="make it inside the function, where the tasks have it, or pass what it is "
                "made from",
            )
    return SpecError(f"{call.name} cannot be pickled: {type(error).__name__}: {error}")


def describe_size(call: Call, size: int) -> str | None:
    """A sentence on a big pickle: how big it is and what in it is; None for one that is not."""
    if size < BIG:
        return None
    sizes: dict[str, int] = {}
    for name, value in call.parts():
        inside = [(f"{name}{step}", each) for step, each in parts_of(value)]
        for path, each in inside or [(name, value)]:
            sizes[path] = max(sizes.get(path, 0), _pickled_size(each))
    biggest = sorted(sizes.items(), key=lambda item: -item[1])[:3]
    told = ", ".join(f"{path} {format_bytes(n)}" for path, n in biggest if n >= BIG // 16)
    return (
        f"{call.name} travels with {format_bytes(size)} to each task"
        + (f": {told}" if told else "")
        + "; data that all tasks read is better read by them, or staged in"
    )


class _Counter:
    """A file that only counts."""

    def __init__(self) -> None:
        self.size = 0

    def write(self, data: Any) -> int:
        """Take some bytes."""
        size = memoryview(data).nbytes
        self.size += size
        return size


def _pickled_size(value: object) -> int:
    counter = _Counter()
    _Pickler(counter).dump(value)  # type: ignore[arg-type]
    return counter.size


def imported_packages(function: object) -> set[str]:
    """The packages that a function imports while it runs, or one that travels with it."""
    found: set[str] = set()
    seen: set[int] = set()
    waiting: list[object] = [function]
    while waiting:
        each = waiting.pop()
        if id(each) in seen:
            continue
        seen.add(id(each))
        if isinstance(each, functools.partial):
            waiting.append(each.func)
        elif isinstance(each, types.MethodType):
            waiting.append(each.__func__)
        elif isinstance(each, type) and each.__module__ == "__main__":
            waiting += vars(each).values()
        elif isinstance(each, types.FunctionType) and not _travels_by_name(each):
            found |= set(_imports(each.__code__))
            if MODULE in vars(each):
                found.add(str(vars(each)[MODULE]).partition(".")[0])
            waiting += [value for _, value in parts_of(each)]
    return found


def _travels_by_name(function: types.FunctionType) -> bool:
    if function.__module__ == "__main__":
        return False
    found: object = sys.modules.get(function.__module__)
    for name in function.__qualname__.split("."):
        found = getattr(found, name, None)
    return found is function


def _imports(code: types.CodeType) -> Iterator[str]:
    for instruction in dis.get_instructions(code):
        if instruction.opname == "IMPORT_NAME" and instruction.argval:
            yield str(instruction.argval).partition(".")[0]
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _imports(constant)
