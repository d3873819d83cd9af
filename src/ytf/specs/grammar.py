"""Parses the short forms of ``-r``, ``-c``, ``-m``, ``--task_gpus`` and ``--task_resources``.

::

    requirement = group ":" count { "," group ":" count }
    override    = [ group [ "[" index "]" ] ":" ] amount
    overrides   = override { "," override }          the option may be repeated

With ``--task_resources`` an amount is ``name "=" count``. There may be spaces
around every word: ``"ps:2, worker:4"``.

The most specific override wins, whatever their order: a task's over its
group's over the general one.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from enum import Enum

import msgspec

from ytf.errors import SpecError, did_you_mean, shown, under
from ytf.specs.amounts import MAX_INT, format_memory, parse_memory
from ytf.specs.job import CLIENT, Resources, TaskGroupSpec

MAX_TASKS = 100_000
"""The most tasks a group may have."""
MAX_NAME = 63
"""The longest name of a group: it becomes a part of file and variable names."""

_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]*")
_OVERRIDE = re.compile(r"(?:([^:\[\]]*)(?:\[([^:\[\]]*)\])?:)?([^:\[\]]*)")
_REQUIREMENT_FORM = "write it like ps:1,worker:4"
_STRAY_COMMA = "there is nothing on one side of a comma"
_OVERRIDE_FORMS = "write 4 for all tasks, worker:4 for a group or worker[0]:4 for one task"
_OTHER = "--task_resources"
_OTHER_FORMS = "write yarn.io/fpga=1, worker:yarn.io/fpga=1 or worker[0]:yarn.io/fpga=1"


class Quantity(Enum):
    """What an override gives an amount of; the value is its option."""

    VCORES = "-c"
    MEMORY = "-m"
    GPUS = "--task_gpus"


class Place(msgspec.Struct, frozen=True):
    """What an override applies to: all tasks, a group, or one task of it."""

    group: str | None = None
    index: int | None = None

    def __str__(self) -> str:
        if self.group is None:
            return "all tasks"
        return self.group if self.index is None else f"{self.group}[{self.index}]"


def parse_requirement(text: str) -> dict[str, int]:
    """Group → number of tasks, in the order written."""
    counts: dict[str, int] = {}
    seen: dict[str, str] = {}
    for part in split_list(text):
        where = f"-r {shown(part)}"
        if not part and text:
            raise SpecError(_STRAY_COMMA, where=f"-r {shown(text)}", hint=_REQUIREMENT_FORM)
        name, colon, count = map(str.strip, part.partition(":"))
        if not colon:
            raise SpecError("expected <group>:<number>", where=where, hint=_REQUIREMENT_FORM)
        check_group_name(name, where=where)
        if name.lower() in seen:
            raise _same_name(name, seen[name.lower()], where)
        seen[name.lower()] = name
        counts[name] = _number(count, "the number of tasks", 1, MAX_TASKS, where)
    return counts


def split_list(text: str) -> list[str]:
    """The parts of a comma-separated list, without spaces around them."""
    return [part.strip() for part in text.split(",")]


def parse_overrides(
    quantity: Quantity,
    texts: Iterable[str],
    counts: Mapping[str, int],
    *,
    source: str | None = None,
) -> dict[Place, int]:
    """The amount for each place, in a job with these groups.

    ``source`` names the setting that gave the texts; default: the option did.
    """
    found: dict[Place, int] = {}
    source = source or quantity.value
    for where, place, text in _by_place(source, texts, counts, _OVERRIDE_FORMS):
        amount = _amount(quantity, text, where)
        if place in found:
            raise _same_place(place, _format_amount(quantity, found[place]), where)
        found[place] = amount
    return found


def parse_other_resources(
    texts: Iterable[str], counts: Mapping[str, int]
) -> dict[str, dict[Place, int]]:
    """The amounts of resources that have no option of their own: name → place → amount."""
    found: dict[str, dict[Place, int]] = {}
    for where, place, text in _by_place(_OTHER, texts, counts, _OTHER_FORMS):
        name, equals, number = map(str.strip, text.rpartition("="))
        if not equals or not name:
            raise SpecError("expected <name>=<number>", where=where, hint=_OTHER_FORMS)
        given = found.setdefault(name, {})
        if place in given:
            raise _same_place(place, f"{name}={given[place]}", where)
        given[place] = _number(number, f"the number of {name}", 0, MAX_INT, where)
    return found


def task_groups(
    counts: Mapping[str, int],
    *,
    vcores: Mapping[Place, int],
    memory: Mapping[Place, int],
    gpus: Mapping[Place, int],
    others: Mapping[str, Mapping[Place, int]] | None = None,
) -> dict[str, TaskGroupSpec]:
    """Task groups with the resources that result from the overrides."""
    others = others or {}
    default = Resources()

    def resources(group: str, index: int | None) -> Resources:
        def most_specific(given: Mapping[Place, int], otherwise: int) -> int:
            for place in (Place(group, index), Place(group), Place()):
                if place in given:
                    return given[place]
            return otherwise

        return Resources(
            memory=most_specific(memory, default.memory_mb),
            vcores=most_specific(vcores, default.vcores),
            gpus=most_specific(gpus, default.gpus),
            others={
                name: amount
                for name, given in others.items()
                if (amount := most_specific(given, 0)) > 0
            },
        )

    indices: dict[str, set[int]] = {group: set() for group in counts}
    for place in (
        *vcores,
        *memory,
        *gpus,
        *(place for given in others.values() for place in given),
    ):
        if place.group is not None and place.index is not None:
            indices[place.group].add(place.index)

    groups: dict[str, TaskGroupSpec] = {}
    for group, count in counts.items():
        usual = resources(group, None)
        single = {index: resources(group, index) for index in sorted(indices[group])}
        groups[group] = TaskGroupSpec(
            count=count,
            resources=usual,
            overrides={index: own for index, own in single.items() if own != usual},
        )
    return groups


def check_group_name(name: str, *, where: str) -> None:
    """Raise :class:`SpecError` unless a task group may have this name."""
    if not name:
        raise SpecError("a task group needs a name", where=where, hint=_REQUIREMENT_FORM)
    if _NAME.fullmatch(name) is None:
        raise SpecError(
            f"{shown(name)} cannot be the name of a task group",
            where=where,
            hint="a name is a letter (a-z, A-Z), then letters, digits and underscores",
        )
    if len(name) > MAX_NAME:
        raise SpecError(
            f"the name of a task group may have {MAX_NAME} characters, not {len(name)}",
            where=where,
        )
    if name.lower() == CLIENT:
        raise SpecError(
            f"{name!r} is reserved for the task at the submitter's terminal",
            where=where,
            hint="ask for it with --client (in a file: client: true), or choose another name",
        )


def check_group_names(names: Iterable[str], *, path: str) -> None:
    """Raise :class:`SpecError` unless task groups may have these names, and all differ."""
    seen: dict[str, str] = {}
    for name in names:
        where = under(path, name)
        check_group_name(name, where=where)
        if name.lower() in seen:
            raise _same_name(name, seen[name.lower()], where)
        seen[name.lower()] = name


def _same_name(name: str, other: str, where: str) -> SpecError:
    if name == other:
        return SpecError(f"duplicate: {name!r} is there already", where=where)
    return SpecError(
        f"duplicate: {name!r} and {other!r} differ in case only",
        where=where,
        hint="the tasks' variables (DTF_…_HOSTS) are named in upper case and would clash",
    )


def _by_place(
    source: str, texts: Iterable[str], counts: Mapping[str, int], forms: str
) -> Iterator[tuple[str, Place, str]]:
    """Each ``[place:]amount`` of an option: its location, the place, and the amount's text."""
    for text, part in ((given, part) for given in texts for part in split_list(given)):
        if not part and text:
            raise SpecError(_STRAY_COMMA, where=f"{source} {shown(text)}", hint=forms)
        where = f"{source} {shown(part)}"
        match = _OVERRIDE.fullmatch(part)
        if match is None:
            raise SpecError("not understood", where=where, hint=forms)
        group, index, amount = (word and word.strip() for word in match.groups())
        yield where, Place() if group is None else _place(group, index, counts, where), amount


def _same_place(place: Place, given: str, where: str) -> SpecError:
    return SpecError(
        f"duplicate: there is {given} for {place} already",
        where=where,
        hint="give one value for each place",
    )


def _place(group: str, index: str | None, counts: Mapping[str, int], where: str) -> Place:
    if group == CLIENT:
        raise SpecError(
            "the client runs at the submitter's terminal and has no container",
            where=where,
            hint=did_you_mean(group, counts),
        )
    if group not in counts:
        raise SpecError(
            f"there is no task group {shown(group)} in the requirement",
            where=where,
            hint=did_you_mean(group, counts),
        )
    if index is None:
        return Place(group)
    return Place(group, _number(index, f"an index in {group}", 0, counts[group] - 1, where))


def _amount(quantity: Quantity, text: str, where: str) -> int:
    if quantity is Quantity.MEMORY:
        return parse_memory(text, where=where)
    if quantity is Quantity.VCORES:
        return _number(text, "the number of vcores", 1, MAX_INT, where)
    # 0 lets a group have none where the others have some.
    return _number(text, "the number of GPUs", 0, MAX_INT, where)


def _format_amount(quantity: Quantity, amount: int) -> str:
    return format_memory(amount) if quantity is Quantity.MEMORY else str(amount)


def _number(text: str, what: str, low: int, high: int, where: str) -> int:
    if re.fullmatch(r"-?[0-9]+", text) is None:
        problem = f"{shown(text)} is not a whole number" if text else "the number is missing"
        raise SpecError(problem, where=where, hint=f"{what} is written in the digits 0-9")
    # Length first: int() refuses to read some thousands of digits.
    digits = text.lstrip("0") or "0"
    if len(digits) > len(str(high)) or not low <= int(digits) <= high:
        raise SpecError(f"{what} must be {low} to {high}, not {shown(text)}", where=where)
    return int(digits)
