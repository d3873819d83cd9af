"""Which starters count as lost, and which jobs as idle; the times are the test's own."""

from __future__ import annotations

from ytf.machine.events import StarterLost
from ytf.machine.state import Container
from ytf.master.heartbeats import HeartbeatMonitor
from ytf.specs.ids import ContainerId, TaskId

C1, C2 = ContainerId("c1"), ContainerId("c2")
TIMEOUT_S = 10.0
BEGAN = 100.0


class Starters:
    """Two registered starters, and when they called last."""

    def __init__(self) -> None:
        self.containers = {
            each: Container(task=TaskId(f"worker:{n}"), node=None, registered=True)
            for n, each in enumerate((C1, C2))
        }
        self.heard: dict[ContainerId, float] = {}
        self.monitor = HeartbeatMonitor(TIMEOUT_S, BEGAN)

    def check(self, now: float) -> list[ContainerId]:
        return [lost.container for lost in self.events(now)]

    def events(self, now: float) -> list[StarterLost]:
        return self.monitor.check(now, self.containers, self.heard.get)

    def run_until(self, end: float) -> list[ContainerId]:
        """Check as often as the monitor asks for; all that were lost."""
        now, lost = self.monitor._last_check, []
        while now < end:
            now = min(end, now + self.monitor.interval_s)
            lost += self.check(now)
        return lost


def test_a_starter_is_lost_once_it_is_silent_for_longer_than_the_timeout() -> None:
    starters = Starters()
    starters.heard = {C1: BEGAN + 5, C2: BEGAN + 15}
    assert starters.run_until(BEGAN + 15) == []
    assert starters.events(BEGAN + 16) == [StarterLost(container=C1, silent_s=11.0)]


def test_a_new_master_gives_starters_time_to_find_it() -> None:
    starters = Starters()
    starters.heard = {C1: 1.0}
    assert starters.run_until(BEGAN + TIMEOUT_S) == []
    assert starters.check(BEGAN + TIMEOUT_S + 1) == [C1, C2]


def test_no_starter_is_lost_because_the_master_itself_did_not_run() -> None:
    starters = Starters()
    starters.heard = {C1: BEGAN, C2: BEGAN}
    assert starters.run_until(BEGAN + 4) == []
    stopped_until = BEGAN + 1000
    assert starters.check(stopped_until) == []
    starters.heard[C2] = stopped_until + 1
    assert starters.run_until(stopped_until + TIMEOUT_S) == []
    assert starters.check(stopped_until + TIMEOUT_S + 0.5) == [C1]


def test_only_starters_that_should_call_are_missed() -> None:
    starters = Starters()
    starters.containers[C1].registered = False
    starters.containers[C2].stopping = True
    assert starters.run_until(BEGAN + 3 * TIMEOUT_S) == []
    starters.containers[C2].stopping, starters.containers[C2].needed = False, False
    assert starters.run_until(BEGAN + 6 * TIMEOUT_S) == []


def test_a_starter_that_never_called_this_master_is_told_from_one_that_did() -> None:
    starters = Starters()
    starters.heard[C1] = BEGAN + 1
    lost: list[StarterLost] = []
    now = BEGAN
    while now < BEGAN + 2 * TIMEOUT_S:
        now += starters.monitor.interval_s
        lost += starters.events(now)
    assert {(each.container, each.was_heard) for each in lost} == {(C1, True), (C2, False)}
