from __future__ import annotations

import pytest

from ytf.starter.situation import (
    PARENT_DIED,
    REVOKED,
    STOPPED,
    Acknowledged,
    ClusterSpec,
    Ended,
    Order,
    Situation,
)


def order(attempt: int, *, stop: bool = False, grace_s: float = 10.0, number: int = 1) -> Order:
    return Order(number=number, attempt=attempt, generation=attempt, stop=stop, grace_s=grace_s)


def test_nothing_is_wanted_at_first() -> None:
    situation = Situation()
    assert situation.end() is None
    assert situation.successor(0) is None


def test_a_higher_attempt_supersedes_and_a_late_lower_one_does_not_undo_it() -> None:
    situation = Situation()
    situation.take(order(3, number=9))
    situation.take(order(2, number=10))
    successor = situation.successor(2)
    assert successor is not None
    assert successor.attempt == 3
    assert situation.successor(3) is None


def test_a_stop_is_final() -> None:
    situation = Situation()
    situation.take(order(1, stop=True, grace_s=3.0))
    situation.take(order(5))
    end = situation.end()
    assert end is not None
    assert (end.code, end.grace_s) == (STOPPED, 3.0)


def test_the_first_end_counts() -> None:
    situation = Situation()
    situation.take(order(1, stop=True))
    situation.take(Ended(REVOKED, "first"))
    situation.take(Ended(143, "second", None))
    end = situation.end()
    assert end is not None
    assert (end.code, end.grace_s) == (REVOKED, 0.0)


def test_a_later_end_can_only_shorten_the_grace() -> None:
    situation = Situation()
    situation.take(Ended(143, "a signal", None))
    situation.take(Ended(PARENT_DIED, "the parent died"))
    end = situation.end()
    assert end is not None
    assert (end.code, end.grace_s) == (143, 0.0)


def test_only_a_newer_spec_replaces() -> None:
    situation = Situation()
    situation.take(ClusterSpec(0, 2, {"a": ["new"]}))
    situation.take(ClusterSpec(0, 1, {"a": ["old"]}))
    assert situation.spec is not None
    assert situation.spec.members == {"a": ["new"]}


def test_acknowledgements_are_per_attempt() -> None:
    situation = Situation()
    situation.take(Acknowledged("register", 1))
    assert situation.is_acknowledged("register", 1)
    assert not situation.is_acknowledged("register", 2)


@pytest.mark.parametrize(
    ("generation", "group", "index", "address", "fits"),
    [
        (1, "worker", 1, "b:2", True),
        (0, "worker", 1, "b:2", False),  # of another generation
        (1, "worker", 1, "b:9", False),  # still names the address of an earlier attempt
        (1, "worker", 2, "b:3", False),  # published before this task was known
        (1, "client", 0, None, True),
        (1, "tensorboard", 0, "x:1", True),  # not in the spec at all
        (0, "client", 0, None, False),
    ],
)
def test_when_a_task_may_run(
    generation: int, group: str, index: int, address: str | None, fits: bool
) -> None:
    spec = ClusterSpec(1, 1, {"worker": ["a:1", "b:2"]})
    assert spec.fits(generation, group, index, address) is fits
