"""Programs that are idle, or whose output is lost, are reported once, of their current attempt."""

from __future__ import annotations

from tests.machine.scenario import Scenario, job
from ytf.machine.events import JobBecameIdle, JobIdleEnded, OutputLost
from ytf.master.program_monitor import ProgramMonitor, check_for_idleness
from ytf.registry.api import ProgramCondition
from ytf.specs.ids import ContainerId


def idle(
    *idle_since: float | None, is_idle: bool = False, running: int | None = None
) -> JobBecameIdle | JobIdleEnded | None:
    """Two containers at the time 1000, with 100 s of idleness allowed."""
    conditions = {
        ContainerId(f"c{n}"): ProgramCondition(attempt=1, idle_since=at)
        for n, at in enumerate(idle_since)
    }
    names = list(conditions)
    if running is not None:
        names = [ContainerId(f"c{n}") for n in range(running)]
    return check_for_idleness(1000.0, 100.0, names, conditions.get, is_idle=is_idle)


def test_a_job_becomes_idle_when_the_last_program_has_been_so_long_enough() -> None:
    assert idle(500.0, 900.0) == JobBecameIdle(since=900.0)
    assert idle(500.0, 901.0) is None
    assert idle(500.0, 900.0, is_idle=True) is None


def test_one_program_that_works_is_enough() -> None:
    assert idle(500.0, None) is None
    assert idle(500.0, None, is_idle=True) == JobIdleEnded()


def test_a_job_that_waits_for_something_else_is_not_idle() -> None:
    assert idle() is None
    assert idle(is_idle=True) == JobIdleEnded()


def test_before_every_starter_has_called_nothing_changes() -> None:
    assert idle(500.0, running=2) is None
    assert idle(500.0, running=2, is_idle=True) is None


def test_each_change_is_reported_once_and_of_the_current_attempt_only() -> None:
    scenario = Scenario(job("worker:2")).start()
    conditions: dict[ContainerId, ProgramCondition] = {}
    monitor = ProgramMonitor(scenario.machine, conditions.get, idle_s=60.0)

    def all_are(condition: ProgramCondition) -> None:
        conditions.update(dict.fromkeys(map(scenario.at, ("worker:0", "worker:1")), condition))

    all_are(ProgramCondition(attempt=0, idle_since=900.0))
    assert list(monitor.check(1000.0, 5000.0)) == []
    all_are(ProgramCondition(attempt=1, idle_since=900.0))
    assert list(monitor.check(1000.0, 5000.0)) == [JobBecameIdle(since=4900.0)]
    assert list(monitor.check(1001.0, 5001.0)) == []
    all_are(ProgramCondition(attempt=1, output_lost_at=3.0))
    *lost, resumed = monitor.check(1002.0, 5002.0)
    assert [each.task for each in lost if isinstance(each, OutputLost)] == ["worker:0", "worker:1"]
    assert resumed == JobIdleEnded()
    assert list(monitor.check(1003.0, 5003.0)) == []
