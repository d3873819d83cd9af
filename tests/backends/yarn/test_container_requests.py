"""Which hosts are named for a group: pure arithmetic."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ytf.backends.yarn.container_requests import MAX_HOSTS, NO_LIMIT, HostCapacity, host_limits
from ytf.hadoop.yarn.records import Resource
from ytf.specs.job import Placement

TASK = Resource(1000, 1)
BIG = Resource(10_000, 16)


def host(name: str, free_mb: int, capability: Resource = BIG) -> HostCapacity:
    return HostCapacity(name, Resource(free_mb, 16), capability)


HOSTS = [host("a", 2500), host("b", 900), host("c", 5000)]


@pytest.mark.parametrize(
    ("placement", "count", "held", "found"),
    [
        (Placement.ANY, 2, {}, {"c": NO_LIMIT, "a": NO_LIMIT}),
        (Placement.SPREAD, 2, {}, {"c": 1, "a": 1}),
        (Placement.SPREAD, 3, {}, {"c": 2, "a": 1}),
        (Placement.SPREAD, 9, {}, {"c": 5, "a": 2}),
        (Placement.SPREAD, 2, {"c": 2}, {"a": 2}),
        (Placement.PACK, 3, {}, {"c": 3}),
        (Placement.PACK, 6, {}, {"c": 5, "a": 1}),
        (Placement.PACK, 3, {"a": 1}, {"a": 2, "c": 1}),
        # Room comes and goes: what counts is that it could be there.
        (Placement.APART, 2, {}, {"a": 1, "b": 1, "c": 1}),
        (Placement.APART, 2, {"c": 1}, {"a": 1, "b": 1}),
    ],
)
def test_how_many_a_host_may_get(
    placement: Placement, count: int, held: dict[str, int], found: dict[str, int]
) -> None:
    assert host_limits(placement, count, TASK, HOSTS, held) == found


def test_a_host_that_is_too_small_is_never_named() -> None:
    small = [host("a", 500, Resource(500, 16))]
    assert all(host_limits(placement, 1, TASK, small, {}) == {} for placement in Placement)


def test_a_type_that_a_host_does_not_have_is_no_room() -> None:
    gpu = Resource(1000, 1, {"yarn.io/gpu": 1})
    with_gpus = HostCapacity("g", Resource(4000, 4, {"yarn.io/gpu": 2}), BIG)
    assert host_limits(Placement.PACK, 9, gpu, [*HOSTS, with_gpus], {}) == {"g": 2}


def test_where_any_will_do_not_all_are_named() -> None:
    many = [host(str(number), 5000) for number in range(MAX_HOSTS + 9)]
    assert len(host_limits(Placement.ANY, 1, TASK, many, {})) == MAX_HOSTS


sizes = st.lists(st.integers(0, 20_000), max_size=8)


@given(sizes, st.integers(1, 40))
def test_a_spread_is_even_and_fits(free: list[int], count: int) -> None:
    hosts = [host(str(number), mb) for number, mb in enumerate(free)]
    found = host_limits(Placement.SPREAD, count, TASK, hosts, {})
    slots = {each.name: min(each.free.memory_mb // 1000, 16) for each in hosts}
    assert sum(found.values()) == min(count, sum(slots.values()))
    assert all(many <= slots[name] for name, many in found.items())
    # Who could have one more has at most one less than anybody.
    most = max(found.values(), default=0)
    assert all(most - found.get(n, 0) <= 1 for n in slots if found.get(n, 0) < slots[n])


@given(sizes, st.integers(1, 40))
def test_a_pack_takes_the_fewest_hosts(free: list[int], count: int) -> None:
    hosts = [host(str(number), mb) for number, mb in enumerate(free)]
    found = host_limits(Placement.PACK, count, TASK, hosts, {})
    slots = sorted((min(each.free.memory_mb // 1000, 16) for each in hosts), reverse=True)
    assert sum(found.values()) == min(count, sum(slots))
    assert sum(slots[: len(found) - 1]) < count or not found
