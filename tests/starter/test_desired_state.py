from __future__ import annotations

import pytest

from ytf.starter.desired_state import (
    PARENT_DIED,
    REVOKED,
    STOPPED,
    DesiredState,
    ReceivedClusterSpec,
    ReceivedOrder,
    Registered,
    Shutdown,
)


def order(
    attempt: int, *, stop: bool = False, grace_s: float = 10.0, number: int = 1
) -> ReceivedOrder:
    return ReceivedOrder(
        number=number, attempt=attempt, generation=attempt, stop=stop, grace_s=grace_s
    )


def test_nothing_is_wanted_at_first() -> None:
    state = DesiredState()
    assert state.shutdown() is None
    assert state.next_attempt(0) is None


def test_a_higher_attempt_supersedes_and_a_late_lower_one_does_not_undo_it() -> None:
    state = DesiredState()
    state.update(order(3, number=9))
    state.update(order(2, number=10))
    successor = state.next_attempt(2)
    assert successor is not None
    assert successor.attempt == 3
    assert state.next_attempt(3) is None


def test_a_stop_is_final() -> None:
    state = DesiredState()
    state.update(order(1, stop=True, grace_s=3.0))
    state.update(order(5))
    end = state.shutdown()
    assert end is not None
    assert (end.code, end.grace_s) == (STOPPED, 3.0)


def test_the_first_end_counts() -> None:
    state = DesiredState()
    state.update(order(1, stop=True))
    state.update(Shutdown(REVOKED, "first"))
    state.update(Shutdown(143, "second", None))
    end = state.shutdown()
    assert end is not None
    assert (end.code, end.grace_s) == (REVOKED, 0.0)


def test_a_later_end_can_only_shorten_the_grace() -> None:
    state = DesiredState()
    state.update(Shutdown(143, "a signal", None))
    state.update(Shutdown(PARENT_DIED, "the parent died"))
    end = state.shutdown()
    assert end is not None
    assert (end.code, end.grace_s) == (143, 0.0)


def test_only_a_newer_spec_replaces() -> None:
    state = DesiredState()
    state.update(ReceivedClusterSpec(0, 2, {"a": ["new"]}))
    state.update(ReceivedClusterSpec(0, 1, {"a": ["old"]}))
    assert state.spec is not None
    assert state.spec.members == {"a": ["new"]}


def test_registrations_are_per_attempt() -> None:
    state = DesiredState()
    state.update(Registered(1))
    assert state.is_registered(1)
    assert not state.is_registered(2)


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
    spec = ReceivedClusterSpec(1, 1, {"worker": ["a:1", "b:2"]})
    assert spec.fits(generation, group, index, address) is fits
