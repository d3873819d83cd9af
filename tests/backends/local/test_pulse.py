"""When a master counts as hung: a matter of numbers."""

from __future__ import annotations

from ytf.backends.local.pulse import Pulse


def silent_until(pulse: Pulse, end: float) -> float | None:
    """Ask whenever it is due; when the master was given up, or None if it was not by ``end``."""
    while pulse.due <= end:
        now = pulse.due
        if pulse.is_lost(now):
            return now
    return None


def test_a_silent_master_is_given_up_after_the_limit() -> None:
    assert silent_until(Pulse(60.0, now=100.0), 1000.0) == 160.0


def test_a_slow_master_is_not() -> None:
    pulse = Pulse(60.0, now=0.0)
    for answered in (55.0, 110.0, 165.0):
        assert silent_until(pulse, answered) is None
        pulse.heard(answered)
    assert silent_until(pulse, 1000.0) == 230.0, "no sooner than after the limit, nor much later"


def test_what_we_slept_through_does_not_count() -> None:
    pulse = Pulse(60.0, now=0.0)
    assert silent_until(pulse, 50.0) is None
    assert not pulse.is_lost(4000.0), "the machine was suspended"
    assert silent_until(pulse, 10_000.0) == 4060.0


def test_a_little_late_is_not_asleep() -> None:
    pulse = Pulse(60.0, now=0.0)
    asked = [pulse.is_lost(now) for now in (15.0, 30.0, 45.0, 60.0)]
    assert asked == [False, False, False, True]
