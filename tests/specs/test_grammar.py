from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.specs import strategies
from ytf.errors import SpecError
from ytf.specs.amounts import MAX_INT, format_memory
from ytf.specs.grammar import (
    Place,
    Quantity,
    parse_other_resources,
    parse_overrides,
    parse_requirement,
    task_groups,
)
from ytf.specs.job import Resources, TaskGroupSpec

AMOUNTS = {
    Quantity.VCORES: st.integers(1, MAX_INT),
    Quantity.MEMORY: strategies.memory_mb,
    Quantity.GPUS: st.integers(0, MAX_INT),
}


def groups_of(
    requirement: str,
    *,
    vcores: Sequence[str] = (),
    memory: Sequence[str] = (),
    gpus: Sequence[str] = (),
) -> dict[str, TaskGroupSpec]:
    """The groups of a command line with these options."""
    counts = parse_requirement(requirement)
    return task_groups(
        counts,
        vcores=parse_overrides(Quantity.VCORES, vcores, counts),
        memory=parse_overrides(Quantity.MEMORY, memory, counts),
        gpus=parse_overrides(Quantity.GPUS, gpus, counts),
    )


@pytest.mark.parametrize(
    ("text", "counts"),
    [
        ("worker:1", {"worker": 1}),
        ("ps:2,worker:4", {"ps": 2, "worker": 4}),
        ("worker:4,ps:2", {"worker": 4, "ps": 2}),
        ("My_Group2:100000", {"My_Group2": 100_000}),
        ("ps:2, worker:4", {"ps": 2, "worker": 4}),
        (" ps : 2 ,\n worker: 4 ", {"ps": 2, "worker": 4}),
        ("a:01", {"a": 1}),
        ("a:" + "0" * 5000 + "1", {"a": 1}),
    ],
)
def test_a_requirement_is_read_in_its_order(text: str, counts: dict[str, int]) -> None:
    assert list(parse_requirement(text).items()) == list(counts.items())


@pytest.mark.parametrize(
    ("text", "where", "says"),
    [
        ("", "-r ''", "expected <group>:<number>"),
        ("worker", "-r 'worker'", "expected <group>:<number>"),
        ("ps:1,", "-r 'ps:1,'", "nothing on one side of a comma"),
        ("ps:1,,worker:1", "-r 'ps:1,,worker:1'", "nothing on one side of a comma"),
        (":1", "-r ':1'", "needs a name"),
        ("ps:", "-r 'ps:'", "number is missing"),
        ("ps:0", "-r 'ps:0'", "must be 1 to 100000"),
        ("ps:-1", "-r 'ps:-1'", "must be 1 to 100000"),
        ("ps:100001", "-r 'ps:100001'", "must be 1 to 100000"),
        ("ps:" + "9" * 5000, None, "must be 1 to 100000"),
        ("ps:1.0", "-r 'ps:1.0'", "not a whole number"),
        ("ps:+1", "-r 'ps:+1'", "not a whole number"),
        ("ps:1_0", "-r 'ps:1_0'", "not a whole number"),
        ("ps:١", "-r 'ps:١'", "not a whole number"),
        ("ps:²", "-r 'ps:²'", "not a whole number"),
        ("ps:1:2", "-r 'ps:1:2'", "not a whole number"),
        ("ps:1 0", "-r 'ps:1 0'", "not a whole number"),
        ("ps:1, ,worker:2", "-r 'ps:1, ,worker:2'", "nothing on one side of a comma"),
        ("1ps:1", "-r '1ps:1'", "cannot be the name"),
        ("p-s:1", "-r 'p-s:1'", "cannot be the name"),
        ("größe:1", "-r 'größe:1'", "cannot be the name"),
        ("a\nb:1", r"-r 'a\nb:1'", "cannot be the name"),
        ("a" * 64 + ":1", None, "63 characters"),
        ("ps:1,ps:2", "-r 'ps:2'", "duplicate"),
        ("ps:1,PS:2", "-r 'PS:2'", "differ in case only"),
        ("client:1", "-r 'client:1'", "reserved"),
        ("Client:1", "-r 'Client:1'", "reserved"),
    ],
)
def test_a_wrong_requirement_is_refused_at_its_place(
    text: str, where: str | None, says: str
) -> None:
    with pytest.raises(SpecError, match=says) as caught:
        parse_requirement(text)
    if where is not None:
        assert caught.value.where == where
    assert len(str(caught.value)) < 300


COUNTS = {"ps": 1, "worker": 4}


@pytest.mark.parametrize(
    ("quantity", "texts", "found"),
    [
        (Quantity.MEMORY, [], {}),
        (Quantity.MEMORY, ["4"], {Place(): 4}),
        (Quantity.MEMORY, ["worker:2 GiB"], {Place("worker"): 2048}),
        (Quantity.VCORES, ["worker[3]:4"], {Place("worker", 3): 4}),
        (Quantity.VCORES, ["2", "ps:3", "worker[0]:4"], {Place(): 2, Place("ps"): 3,
                                                         Place("worker", 0): 4}),
        (Quantity.VCORES, ["2,ps:3", "ps[00]:4"], {Place(): 2, Place("ps"): 3, Place("ps", 0): 4}),
        (Quantity.GPUS, ["1,ps:0"], {Place(): 1, Place("ps"): 0}),
        (Quantity.GPUS, [" 1, ps : 0"], {Place(): 1, Place("ps"): 0}),
        (Quantity.MEMORY, ["ps: 2 GiB, worker[ 0 ]: 4g"], {Place("ps"): 2048,
                                                           Place("worker", 0): 4096}),
    ],
)  # fmt: skip
def test_overrides_come_in_three_forms(
    quantity: Quantity, texts: list[str], found: dict[Place, int]
) -> None:
    assert parse_overrides(quantity, texts, COUNTS) == found


@pytest.mark.parametrize(
    ("quantity", "texts", "where", "says", "hint"),
    [
        (Quantity.MEMORY, ["worker[9]:4"], "-m 'worker[9]:4'", "must be 0 to 3", None),
        (Quantity.MEMORY, ["worker[4]:4"], "-m 'worker[4]:4'", "must be 0 to 3", None),
        (Quantity.MEMORY, ["worker[-1]:4"], "-m 'worker[-1]:4'", "must be 0 to 3", None),
        (Quantity.MEMORY, ["worker[]:4"], "-m 'worker[]:4'", "number is missing", None),
        (Quantity.MEMORY, ["worker[٣]:4"], "-m 'worker[٣]:4'", "not a whole number", None),
        (Quantity.MEMORY, ["worker[1 0]:4"], "-m 'worker[1 0]:4'", "not a whole number", None),
        (Quantity.MEMORY, ["wroker:4"], "-m 'wroker:4'", "no task group", "did you mean 'worker'?"),
        (Quantity.MEMORY, ["Worker:4"], "-m 'Worker:4'", "no task group", "did you mean 'worker'?"),
        (Quantity.MEMORY, ["x:4"], "-m 'x:4'", "no task group", "there is 'ps' and 'worker'"),
        (Quantity.MEMORY, ["client:4"], "-m 'client:4'", "no container", None),
        (Quantity.MEMORY, [":4"], "-m ':4'", "no task group ''", None),
        (Quantity.MEMORY, ["[0]:4"], "-m '[0]:4'", "no task group ''", None),
        (Quantity.MEMORY, ["worker[0:4"], "-m 'worker[0:4'", "not understood", "write 4 for"),
        (Quantity.MEMORY, ["worker:4:4"], "-m 'worker:4:4'", "not understood", "write 4 for"),
        (Quantity.MEMORY, ["worker:2 gbi"], "-m 'worker:2 gbi'", "not a unit", "did you mean"),
        (Quantity.MEMORY, [""], "-m ''", "not an amount", "write MB"),
        (Quantity.MEMORY, ["4,"], "-m '4,'", "nothing on one side of a comma", "write 4 for"),
        (Quantity.MEMORY, ["worker:0"], "-m 'worker:0'", "more than 0", None),
        (Quantity.MEMORY, ["4", "8"], "-m '8'", "duplicate: there is 4 MiB for all tasks", None),
        (Quantity.MEMORY, ["ps:4,ps:4"], "-m 'ps:4'", "duplicate", None),
        (Quantity.MEMORY, ["ps[0]:4,ps[00]:5"], "-m 'ps[00]:5'", "duplicate", None),
        (Quantity.VCORES, ["0"], "-c '0'", "must be 1 to 2147483647", None),
        (Quantity.VCORES, ["2147483648"], "-c '2147483648'", "must be 1 to", None),
        (Quantity.VCORES, ["ps:-1"], "-c 'ps:-1'", "must be 1 to", None),
        (Quantity.VCORES, ["ps:1.5"], "-c 'ps:1.5'", "not a whole number", None),
        (Quantity.GPUS, ["-1"], "--task_gpus '-1'", "must be 0 to", None),
        (Quantity.GPUS, ["two"], "--task_gpus 'two'", "not a whole number", None),
    ],
)
def test_a_wrong_override_is_refused_at_its_place(
    quantity: Quantity, texts: list[str], where: str, says: str, hint: str | None
) -> None:
    with pytest.raises(SpecError, match=says) as caught:
        parse_overrides(quantity, texts, COUNTS)
    assert caught.value.where == where
    if hint is not None:
        assert hint in (caught.value.hint or "")


@pytest.mark.parametrize(
    "memory", [["1g", "worker:2g", "worker[1]:3g"], ["worker[1]:3g,worker:2g", "1g"]]
)
def test_the_most_specific_override_wins_whatever_the_order(memory: list[str]) -> None:
    groups = groups_of("ps:1,worker:2", memory=memory)
    assert groups == {
        "ps": TaskGroupSpec(count=1, resources=Resources(memory=1024)),
        "worker": TaskGroupSpec(
            count=2,
            resources=Resources(memory=2048),
            overrides={1: Resources(memory=3072)},
        ),
    }


def test_overrides_of_different_kinds_meet_in_one_task() -> None:
    groups = groups_of(
        "worker:3",
        memory=["worker[0]:1g", "2g"],
        vcores=["worker:4", "worker[0]:8", "worker[2]:1"],
        gpus=["1", "worker[2]:0"],
    )
    assert groups["worker"].resources == Resources(memory=2048, vcores=4, gpus=1)
    assert groups["worker"].overrides == {
        0: Resources(memory=1024, vcores=8, gpus=1),
        2: Resources(memory=2048, vcores=1, gpus=0),
    }


def test_other_resources_come_in_the_same_three_forms() -> None:
    others = parse_other_resources(["fpga=1,worker:yarn.io/x=2", "worker[1]:fpga=0"], COUNTS)
    assert others == {
        "fpga": {Place(): 1, Place("worker", 1): 0},
        "yarn.io/x": {Place("worker"): 2},
    }
    groups = task_groups(COUNTS, vcores={}, memory={}, gpus={}, others=others)
    assert groups["ps"].resources.others == {"fpga": 1}
    assert groups["worker"].resources.others == {"fpga": 1, "yarn.io/x": 2}
    assert groups["worker"].overrides == {1: Resources(others={"yarn.io/x": 2})}


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("fpga", "expected <name>=<number>"),
        ("=1", "expected <name>=<number>"),
        ("fpga=", "the number is missing"),
        ("fpga=-1", "the number of fpga must be 0 to"),
        ("fpga=1,fpga=2", "duplicate: there is fpga=1 for all tasks already"),
        ("wroker:fpga=1", "no task group 'wroker'"),
        ("worker[9]:fpga=1", "an index in worker must be 0 to 3"),
    ],
)
def test_a_wrong_amount_of_something_else_is_refused(text: str, says: str) -> None:
    with pytest.raises(SpecError, match=says) as caught:
        parse_other_resources([text], COUNTS)
    assert (caught.value.where or "").startswith("--task_resources ")


def test_without_overrides_a_task_gets_the_defaults() -> None:
    assert groups_of("ps:1")["ps"] == TaskGroupSpec(count=1)
    assert groups_of("ps:1", memory=["ps[0]:8192"])["ps"] == TaskGroupSpec(count=1)


@given(strategies.requirements())
def test_a_written_requirement_is_read_back(counts: dict[str, int]) -> None:
    text = ",".join(f"{name}:{count}" for name, count in counts.items())
    read = parse_requirement(text)
    assert list(read.items()) == list(counts.items())


def overrides_text(quantity: Quantity, overrides: Mapping[Place, int]) -> str:
    """Overrides as the text of one option."""

    def amount_text(amount: int) -> str:
        return format_memory(amount) if quantity is Quantity.MEMORY else str(amount)

    return ",".join(
        amount_text(amount) if place.group is None else f"{place}:{amount_text(amount)}"
        for place, amount in overrides.items()
    )


@given(st.data(), strategies.requirements(), st.sampled_from(Quantity))
def test_written_overrides_are_read_back(
    data: st.DataObject, counts: dict[str, int], quantity: Quantity
) -> None:
    given_ = data.draw(strategies.overrides(counts, AMOUNTS[quantity]))
    texts = [overrides_text(quantity, given_)] if given_ else []
    assert parse_overrides(quantity, texts, counts) == given_


@given(st.data(), strategies.requirements())
def test_every_task_gets_its_most_specific_amounts(
    data: st.DataObject, counts: dict[str, int]
) -> None:
    amounts = {
        quantity: data.draw(strategies.overrides(counts, AMOUNTS[quantity]))
        for quantity in Quantity
    }
    groups = task_groups(
        counts,
        vcores=amounts[Quantity.VCORES],
        memory=amounts[Quantity.MEMORY],
        gpus=amounts[Quantity.GPUS],
    )
    assert {name: group.count for name, group in groups.items()} == counts

    def expected(quantity: Quantity, group: str, index: int, default: int) -> int:
        of = amounts[quantity]
        return of.get(Place(group, index), of.get(Place(group), of.get(Place(), default)))

    named = {(p.group, p.index) for of in amounts.values() for p in of if p.index is not None}
    for group, index in {*named, *((name, 0) for name in counts)}:
        assert group is not None
        assert index is not None
        got = groups[group].overrides.get(index, groups[group].resources)
        assert got == Resources(
            memory=expected(Quantity.MEMORY, group, index, 8192),
            vcores=expected(Quantity.VCORES, group, index, 1),
            gpus=expected(Quantity.GPUS, group, index, 0),
        )


@given(st.text() | st.text("aA1:,[] -"))
def test_nothing_crashes_the_parsers(text: str) -> None:
    with contextlib.suppress(SpecError):
        parse_requirement(text)
    for quantity in Quantity:
        with contextlib.suppress(SpecError):
            parse_overrides(quantity, [text], {"a": 2, "A1": 1})
    with contextlib.suppress(SpecError):
        parse_other_resources([text], {"a": 2, "A1": 1})
