"""What the machine keeps of usage, and which jobs are told that they ask for too much."""

from __future__ import annotations

import msgspec

from tests.machine.scenario import Scenario, job, policy
from tests.specs.usages import task_usage
from ytf.machine import events as e
from ytf.machine.notes import notes
from ytf.machine.projection import Projection
from ytf.machine.usage import keep_usage
from ytf.specs.ids import TaskId
from ytf.specs.job import JobSpec, OnFailure, Resources, TaskGroupSpec
from ytf.specs.usage import TaskUsage

MB = 1024 * 1024


def exits(world: Scenario, task: str, usage: TaskUsage | None, code: int = 0) -> None:
    state = world.machine.state.tasks[TaskId(task)]
    assert state.container is not None
    world.feed(
        e.TaskExited(
            task=TaskId(task),
            attempt=state.attempt,
            container=state.container,
            exit_code=code,
            signal=None,
            ended_at=1.0,
            usage=usage,
        )
    )
    world.starters[state.container].program = "ended"


def completes(world: Scenario, task: str, usage: TaskUsage | None, cause: e.Cause) -> None:
    container = world.at(task)
    world.starters.pop(container)
    world.feed(e.ContainerCompleted(container=container, cause=cause, usage=usage))


def kept(world: Scenario, task: str) -> TaskUsage | None:
    return world.machine.state.tasks[TaskId(task)].usage


def test_the_exit_of_a_program_tells_what_it_used() -> None:
    world = Scenario(job("worker:2")).start()
    exits(world, "worker:0", task_usage())
    assert kept(world, "worker:0") == task_usage().as_ended()
    # The last heartbeat before it, which comes with the end of the container, is older.
    completes(world, "worker:0", task_usage(elapsed_s=1.0, cpu_s=0.1), e.Cause.EXITED)
    assert kept(world, "worker:0") == task_usage().as_ended()
    assert kept(world, "worker:1") is None


def test_a_program_that_was_killed_reports_nothing_but_its_last_heartbeat_is_known() -> None:
    world = Scenario(job("worker:1")).start()
    completes(world, "worker:0", task_usage(), e.Cause.MEMORY)
    assert kept(world, "worker:0") == task_usage().as_ended()


def test_peaks_are_those_of_all_attempts() -> None:
    world = Scenario(policy(OnFailure.RESTART_TASK, "worker:1", max_restarts=3)).start()
    exits(world, "worker:0", task_usage(peak_memory_bytes=900 * MB), code=1)
    usage = kept(world, "worker:0")
    assert usage is not None
    assert usage.peak_memory_bytes == 900 * MB
    second = task_usage(attempt=2, elapsed_s=1.0, peak_memory_bytes=5 * MB)
    state = world.machine.state.tasks[TaskId("worker:0")]
    keep_usage(state, second)
    assert state.usage is not None
    assert (state.usage.attempt, state.usage.peak_memory_bytes) == (2, 900 * MB)
    keep_usage(state, task_usage(attempt=1, peak_memory_bytes=950 * MB))
    assert (state.usage.attempt, state.usage.peak_memory_bytes) == (2, 950 * MB)


def test_it_survives_a_master() -> None:
    spec = job("worker:1")
    events: list[tuple[float, e.AnyEvent]] = []
    world = Scenario(spec)
    feed = world.feed

    def recorded(event: e.AnyEvent) -> None:
        events.append((1.0, event))
        feed(event)

    world.feed = recorded  # type: ignore[method-assign]
    world.start()
    exits(world, "worker:0", task_usage())
    written = msgspec.json.encode([event for _, event in events])
    again = msgspec.json.decode(written, type=list[e.AnyEvent])
    projection = Projection(spec)
    projection.restore(None, [(0.0, e.MasterStarted(attempt=1)), *((1.0, x) for x in again)])
    assert projection.machine.state.tasks == world.machine.state.tasks
    restored = Projection(spec)
    restored.restore(projection.snapshot(), [])
    assert restored.machine.state.tasks[TaskId("worker:0")].usage == task_usage().as_ended()


def asked(memory: int = 8192, vcores: int = 1, count: int = 2, **more: object) -> JobSpec:
    group = TaskGroupSpec(
        count=count,
        resources=Resources(memory=memory, vcores=vcores),
        **more,  # type: ignore[arg-type]
    )
    return JobSpec(groups={"worker": group}, command="true")


def told(spec: JobSpec, *used: TaskUsage | None, code: int = 0) -> list[str]:
    """The notes about a job whose workers used this."""
    world = Scenario(spec).start()
    for index, usage in enumerate(used):
        exits(world, f"worker:{index}", usage, code)
    world.stop_all()
    assert world.machine.state.finished
    return [note for note in notes(spec, world.machine.state) if "asked for" in note]


def test_a_job_that_asked_for_far_too_much_memory_is_told_what_would_do() -> None:
    used = [task_usage(peak_memory_bytes=peak * MB) for peak in (300, 900)]
    assert told(asked(8192), *used) == [
        "worker asked for 8192 MB and used at most 900 MB: -m worker:1024 would do"
    ]
    assert told(asked(3599), *used) == []


def test_a_job_that_asked_for_far_too_many_cores_is_told() -> None:
    used = [task_usage(peak_cpu_cores=1.5, peak_memory_bytes=4096 * MB)] * 2
    assert told(asked(vcores=8), *used) == [
        "worker asked for 8 vcores and used at most 1.5 cores: -c worker:2 would do"
    ]
    assert told(asked(vcores=5), *used) == []


def test_nothing_is_said_where_it_would_be_noise() -> None:
    small = task_usage(peak_memory_bytes=10 * MB)
    short = task_usage(peak_memory_bytes=10 * MB, elapsed_s=299.0)
    assert len(told(asked(), small, small)) == 1
    assert told(asked(), short, short) == [], "too short to judge"
    assert told(asked(), small, None) == [], "nobody knows what the other one needed"
    assert told(asked(1024), small, small) == [], "next to nothing to save"
    assert told(asked(), small, code=1) == [], "a job that failed has other trouble"


def test_tasks_that_asked_for_different_amounts_are_told_apart() -> None:
    spec = asked(512, overrides={0: Resources(memory=65536)})
    used = [task_usage(peak_memory_bytes=400 * MB)] * 2
    assert told(spec, *used) == [
        "worker:0 asked for 65536 MB and used at most 400 MB: -m 'worker[0]:512' would do"
    ]
    five = asked(512, count=6, overrides={n: Resources(memory=65536) for n in range(5)})
    (note,) = told(five, *used * 3)
    assert note.endswith("-m 'worker[0]:512' -m 'worker[1]:512' -m 'worker[2]:512' … would do")
