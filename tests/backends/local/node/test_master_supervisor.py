"""When a master is restarted, and when it counts as hung: policies without processes."""

from __future__ import annotations

from ytf.backends.local.node.master_supervisor import RestartPolicy, SilenceTimer


class TestRestartPolicy:
    def test_the_first_is_at_once_then_they_wait_longer(self) -> None:
        restarts = RestartPolicy(max_attempts=100, window_s=1e9)
        delays = []
        for now in range(12):
            restarts.started(now)
            delays.append(restarts.died(now + 0.1))
        assert delays[:5] == [0.0, 0.5, 1.0, 2.0, 4.0]
        assert delays[-1] == 30.0

    def test_a_master_that_lived_long_is_replaced_at_once(self) -> None:
        restarts = RestartPolicy(max_attempts=10, window_s=1e9)
        for now in (0.0, 1.0, 2.0):
            restarts.started(now)
            restarts.died(now)
        restarts.started(3.0)
        assert restarts.died(100.0) == 0.0

    def test_too_many_within_the_window_end_it(self) -> None:
        restarts = RestartPolicy(max_attempts=2, window_s=100.0)
        restarts.started(0.0)
        assert restarts.died(10.0) is not None
        restarts.started(10.0)
        assert restarts.died(20.0) is None

    def test_old_starts_are_forgiven(self) -> None:
        restarts = RestartPolicy(max_attempts=2, window_s=100.0)
        for now in (0.0, 200.0, 400.0, 600.0):
            restarts.started(now)
            assert restarts.died(now + 150.0) == 0.0


def silent_until(timer: SilenceTimer, end: float) -> float | None:
    """Ask whenever it is due; when the master was given up, or None if it was not by ``end``."""
    while timer.due <= end:
        now = timer.due
        if timer.is_expired(now):
            return now
    return None


class TestSilenceTimer:
    def test_a_silent_master_is_given_up_after_the_limit(self) -> None:
        assert silent_until(SilenceTimer(60.0, now=100.0), 1000.0) == 160.0

    def test_a_slow_master_is_not(self) -> None:
        timer = SilenceTimer(60.0, now=0.0)
        for answered in (55.0, 110.0, 165.0):
            assert silent_until(timer, answered) is None
            timer.heard(answered)
        assert silent_until(timer, 1000.0) == 230.0, (
            "no sooner than after the limit, nor much later"
        )

    def test_what_we_slept_through_does_not_count(self) -> None:
        timer = SilenceTimer(60.0, now=0.0)
        assert silent_until(timer, 50.0) is None
        assert not timer.is_expired(4000.0), "the machine was suspended"
        assert silent_until(timer, 10_000.0) == 4060.0

    def test_a_little_late_is_not_asleep(self) -> None:
        timer = SilenceTimer(60.0, now=0.0)
        asked = [timer.is_expired(now) for now in (15.0, 30.0, 45.0, 60.0)]
        assert asked == [False, False, False, True]
