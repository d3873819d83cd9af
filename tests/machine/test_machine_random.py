"""Hypothesis gives the job machine events in every possible order."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.machine.world import World
from ytf.specs.job import JobSpec, OnFailure, TaskGroupSpec, Timeouts

POLICIES = st.sampled_from([None, *OnFailure])


@st.composite
def groups(draw: st.DrawFn) -> dict[str, TaskGroupSpec]:
    names = draw(
        st.lists(
            st.sampled_from(["ps", "worker", "chief", "evaluator"]),
            min_size=1,
            max_size=3,
            unique=True,
        )
    )
    found = {}
    for name in names:
        count = draw(st.integers(1, 3))
        found[name] = TaskGroupSpec(
            count=count,
            on_failure=draw(POLICIES),
            max_restarts=draw(st.integers(0, 2)),
            min=draw(st.none() | st.integers(1, count)),
        )
    if draw(st.booleans()):
        found["tensorboard"] = TaskGroupSpec(count=1)
    return found


specs = st.builds(
    JobSpec,
    groups=groups(),
    command=st.just("true"),
    client=st.booleans(),
    servers=st.booleans(),
    timeouts=st.builds(
        Timeouts,
        job_s=st.sampled_from([None, 5000.0]),
        after_chief_s=st.sampled_from([None, 0.0, 30.0]),
        tensorboard_s=st.sampled_from([0.0, 60.0]),
    ),
)


@settings(max_examples=400, deadline=None)
@given(spec=specs, choices=st.lists(st.integers(0, 10_000), max_size=60))
def test_whatever_happens_the_job_ends_and_ends_truly(spec: JobSpec, choices: list[int]) -> None:
    world = World(spec)
    for choice in choices:
        possible = world.actions()
        names = list(possible)
        if world.finished is not None or not names:
            break
        possible[names[choice % len(names)]]()
        world.now += 0.5
    world.drive_home()
    world.judge()


@settings(max_examples=100, deadline=None)
@given(spec=specs, choices=st.lists(st.integers(0, 10_000), max_size=40))
def test_events_after_the_end_change_nothing(spec: JobSpec, choices: list[int]) -> None:
    world = World(spec)
    world.drive_home()
    before = world.finished
    handled = list(world.log)
    for choice in choices:
        event, _ = handled[choice % len(handled)]
        world.feed(event)
    assert world.finished == before
