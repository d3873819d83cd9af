"""The history of usage: bounded, from the newest heartbeats, of the current attempt."""

from __future__ import annotations

import sys
from array import array

import pytest

from tests.machine.scenario import Scenario, job
from tests.specs.usages import task_usage
from ytf.master.usage_monitor import FIRST_INTERVAL_S, POINTS, BoundedHistory, UsageMonitor
from ytf.registry.api import ProgramCondition
from ytf.specs.ids import ContainerId, TaskId
from ytf.specs.usage import GpuUsage

START = 1000.0
WORKER = TaskId("worker:0")


def test_a_value_is_the_highest_of_its_interval() -> None:
    history = BoundedHistory(START)
    history.add(task_usage(cpu_cores=0.5), START)
    history.add(task_usage(cpu_cores=2.0), START + 1)
    history.add(task_usage(cpu_cores=1.0), START + 4.9)
    history.add(task_usage(cpu_cores=0.25), START + 15)
    found = history.read()
    assert (found.start, found.interval_s) == (START, FIRST_INTERVAL_S)
    assert found.series["cpu_cores"] == [2.0, None, None, 0.25]


def test_it_never_grows_and_forgets_no_peak() -> None:
    history = BoundedHistory(START)
    step = FIRST_INTERVAL_S
    for number in range(POINTS * 9):
        at_peak = number == 77
        history.add(task_usage(cpu_cores=7.0 if at_peak else 1.0), START + number * step)
    found = history.read()
    values = found.series["cpu_cores"]
    assert found.interval_s == 16 * step
    assert len(values) <= POINTS
    assert len(values) == -(-POINTS * 9 // 16)
    assert values[77 // 16] == 7.0
    assert set(values) == {1.0, 7.0}


def test_a_sample_after_a_long_gap_finds_its_place() -> None:
    history = BoundedHistory(START)
    history.add(task_usage(), START)
    history.add(task_usage(cpu_cores=3.0), START + 30 * 24 * 3600)
    values = history.read().series["cpu_cores"]
    assert len(values) <= POINTS
    assert (values[0], values[-1]) == (0.5, 3.0)


def test_its_size() -> None:
    history = BoundedHistory(START)
    gpu = GpuUsage(busy=1.0, memory_bytes=5, total_memory_bytes=9)
    for number in range(POINTS * 3):
        history.add(task_usage(gpus=(gpu,)), START + number * 5)
    series = history._series
    size = sys.getsizeof(series) + sum(map(sys.getsizeof, series.values()))
    assert all(isinstance(values, array) for values in series.values())
    assert len(series) == 9
    assert size < 8 * 1024


def test_series_that_stay_zero_take_no_room() -> None:
    history = BoundedHistory(START)
    idle = task_usage(cpu_cores=0.0, memory_bytes=0, threads=0).as_ended()
    history.add(idle, START)
    assert history.read().series == {"cpu_cores": [0.0], "memory_bytes": [0.0]}


@pytest.fixture
def conditions() -> dict[ContainerId, ProgramCondition]:
    return {}


def take(monitor: UsageMonitor, world: Scenario, now: float) -> None:
    for _ in monitor.take(world.machine.state, now):
        pass


def test_the_newest_heartbeats_are_taken_once(
    conditions: dict[ContainerId, ProgramCondition],
) -> None:
    world = Scenario(job("worker:2")).start()
    monitor = UsageMonitor(conditions.get)
    take(monitor, world, START)
    assert monitor.history(WORKER) is None
    container = world.at("worker:0")
    conditions[container] = ProgramCondition(attempt=1, usage=task_usage())
    take(monitor, world, START)
    take(monitor, world, START + 60)
    found = monitor.history(WORKER)
    assert found is not None
    assert found.series["cpu_cores"] == [0.5], "the same sample counts once"
    assert monitor.history(TaskId("worker:1")) is None
    conditions[container] = ProgramCondition(attempt=1)
    assert monitor.latest(container) == task_usage(), "of a program that has ended meanwhile"
    world.ends("worker:0")
    world.stop_all()
    take(monitor, world, START + 70)
    assert monitor.latest(container) is None
    assert monitor.history(WORKER) is not None


def test_what_a_task_uses_now_is_of_its_current_attempt(
    conditions: dict[ContainerId, ProgramCondition],
) -> None:
    world = Scenario(job("worker:1")).start()
    monitor = UsageMonitor(conditions.get)
    task = world.machine.state.tasks[WORKER]
    assert monitor.of_running(task) is None
    conditions[world.at("worker:0")] = ProgramCondition(attempt=1, usage=task_usage(attempt=0))
    assert monitor.of_running(task) is None
    conditions[world.at("worker:0")] = ProgramCondition(attempt=1, usage=task_usage())
    task.usage = task_usage(peak_threads=99)
    found = monitor.of_running(task)
    assert found is not None
    assert (found.threads, found.peak_threads) == (3, 99)
    task.container = None
    assert monitor.of_running(task) is None


def test_a_program_that_has_ended_uses_nothing_though_its_starter_lives(
    conditions: dict[ContainerId, ProgramCondition],
) -> None:
    world = Scenario(job("worker:2")).start()
    monitor = UsageMonitor(conditions.get)
    task = world.machine.state.tasks[WORKER]
    conditions[world.at("worker:0")] = ProgramCondition(attempt=1, usage=task_usage())
    assert monitor.of_running(task) is not None
    world.ends("worker:0")
    assert task.container is not None
    assert monitor.of_running(task) is None
