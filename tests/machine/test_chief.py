"""The chief, whose success decides the job while other tracked tasks still run."""

from __future__ import annotations

import pytest

from tests.machine.scenario import Scenario, job, policy
from ytf.machine import events as e
from ytf.machine.deadlines import AFTER_CHIEF, EVALUATION
from ytf.machine.notes import notes
from ytf.machine.status_view import waits_for
from ytf.specs.job import JobSpec, OnFailure, TaskGroupSpec, Timeouts
from ytf.specs.status import FinalStatus, TaskState


def told(world: Scenario) -> str:
    return "\n".join(notes(world.spec, world.machine.state))


def is_stopping(world: Scenario, task: str) -> bool:
    return world.starters[world.at(task)].told_to_stop


@pytest.mark.parametrize("chief", ["chief", "master"])
def test_workers_get_a_bounded_time_after_the_chiefs_success(chief: str) -> None:
    world = Scenario(job(f"{chief}:1,ps:1,worker:2")).start()
    world.ends(f"{chief}:0")
    assert world.machine.state.deadlines == {AFTER_CHIEF: world.now + 30}
    assert not any(is_stopping(world, task) for task in ("ps:0", "worker:0", "worker:1"))
    assert f"{chief}:0 succeeded" in told(world)
    assert "worker:0, worker:1 to end" in told(world)
    assert "may end by themselves; they are stopped in 30 s" in waits_for(
        world.machine.state, headroom="", now=world.now
    )
    world.pass_deadline()
    assert all(is_stopping(world, task) for task in ("ps:0", "worker:0", "worker:1"))
    assert world.outcome() is FinalStatus.SUCCEEDED
    assert world.text() == f"{chief}:0 succeeded, which decides the job."
    assert "worker:0, worker:1. For programs that serve others" in told(world)
    assert "--untracked worker " in told(world)


def test_workers_that_end_in_time_end_the_wait() -> None:
    world = Scenario(job("chief:1,ps:1,worker:2")).start()
    world.ends("chief:0")
    world.ends("worker:0")
    assert not is_stopping(world, "ps:0")
    world.ends("worker:1")
    assert AFTER_CHIEF not in world.machine.state.deadlines
    assert is_stopping(world, "ps:0")
    assert world.outcome() is FinalStatus.SUCCEEDED
    assert world.text() == "All tracked tasks succeeded."
    assert told(world) == ""


def test_a_chief_that_ends_last_changes_nothing() -> None:
    world = Scenario(job("chief:1,worker:1")).start()
    world.ends("worker:0")
    assert world.machine.state.final is None
    world.ends("chief:0")
    assert world.outcome() is FinalStatus.SUCCEEDED
    assert world.text() == "All tracked tasks succeeded."


def test_every_chief_must_succeed() -> None:
    world = Scenario(job("chief:2,worker:1")).start()
    world.ends("chief:0")
    assert world.machine.state.final is None
    world.ends("chief:1")
    assert world.machine.state.final is FinalStatus.SUCCEEDED


@pytest.mark.parametrize("on_failure", OnFailure)
def test_a_worker_that_fails_after_the_chiefs_success_changes_no_outcome(
    on_failure: OnFailure,
) -> None:
    """A peer that is gone often fails the others: their model is saved."""
    world = Scenario(policy(on_failure, "chief:1,worker:2")).start()
    world.ends("chief:0")
    world.ends("worker:0", 1)
    assert world.task("worker:0") is TaskState.FAILED
    world.container_ends("worker:1", e.Cause.NODE_LOST)
    assert world.task("worker:1") is TaskState.LOST
    assert world.outcome() is FinalStatus.SUCCEEDED
    assert "worker:0 (exit code 1), worker:1 (its node was lost)" in told(world)


def test_a_chief_that_fails_decides_nothing_good() -> None:
    world = Scenario(job("chief:1,worker:1")).start()
    world.ends("chief:0", 1)
    assert world.outcome() is FinalStatus.FAILED


def test_a_chief_whose_failure_is_ignored_decides_nothing() -> None:
    groups = {
        "chief": TaskGroupSpec(count=1, on_failure=OnFailure.IGNORE),
        "worker": TaskGroupSpec(count=1),
    }
    world = Scenario(JobSpec(groups=groups, command="true")).start()
    world.ends("chief:0", 1)
    assert world.machine.state.final is None
    world.ends("worker:0")
    assert world.outcome() is FinalStatus.SUCCEEDED


def test_without_a_limit_the_job_waits_for_all_tracked_tasks() -> None:
    world = Scenario(job("chief:1,worker:1", timeouts=Timeouts(after_chief_s=None))).start()
    world.ends("chief:0")
    assert world.machine.state.final is None
    assert not world.machine.state.deadlines
    world.ends("worker:0", 1)
    assert world.outcome() is FinalStatus.FAILED


def test_untracked_workers_are_stopped_at_once() -> None:
    groups = {"chief": TaskGroupSpec(count=1), "worker": TaskGroupSpec(count=2, tracked=False)}
    world = Scenario(JobSpec(groups=groups, command="true")).start()
    world.ends("chief:0")
    assert is_stopping(world, "worker:0")
    assert world.outcome() is FinalStatus.SUCCEEDED
    assert told(world) == ""


def test_an_untracked_chief_decides_nothing() -> None:
    groups = {"chief": TaskGroupSpec(count=1, tracked=False), "worker": TaskGroupSpec(count=1)}
    world = Scenario(JobSpec(groups=groups, command="true")).start()
    world.ends("chief:0")
    assert world.machine.state.final is None


def test_a_client_has_to_succeed_too() -> None:
    world = Scenario(job("chief:1,worker:1", client=True)).start()
    world.ends("chief:0")
    assert world.machine.state.final is None
    world.ends("client:0")
    assert world.machine.state.final is FinalStatus.SUCCEEDED
    assert AFTER_CHIEF in world.machine.state.deadlines


def test_the_last_evaluation_follows_the_workers_time() -> None:
    world = Scenario(job("chief:1,worker:1,evaluator:1")).start()
    world.ends("chief:0")
    assert EVALUATION not in world.machine.state.deadlines
    world.pass_deadline()
    assert is_stopping(world, "worker:0")
    assert not is_stopping(world, "evaluator:0")
    assert world.machine.state.deadlines[EVALUATION] == world.now + 300
    world.ends("evaluator:0")
    assert world.outcome() is FinalStatus.SUCCEEDED


def test_a_kill_cuts_the_wait_short_but_success_stays() -> None:
    world = Scenario(job("chief:1,worker:1,evaluator:1")).start()
    world.ends("chief:0")
    world.kill()
    assert is_stopping(world, "worker:0")
    assert is_stopping(world, "evaluator:0")
    assert world.outcome() is FinalStatus.SUCCEEDED


def test_a_new_master_keeps_the_workers_time() -> None:
    world = Scenario(job("chief:1,worker:1")).start()
    world.ends("chief:0")
    due = world.machine.state.deadlines[AFTER_CHIEF]
    world.now += 5
    world.restart_master()
    assert world.machine.state.deadlines[AFTER_CHIEF] == due
    assert not is_stopping(world, "worker:0")
    world.pass_deadline()
    assert world.outcome() is FinalStatus.SUCCEEDED
