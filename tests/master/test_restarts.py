"""What the job machine does about failures, policy by policy."""

from __future__ import annotations

import pytest

from tests.master.story import Story, job, policy
from tests.master.world import NODES
from ytf.master import commands as c
from ytf.master import events as e
from ytf.specs.job import Backoff, OnFailure
from ytf.specs.names import TaskId
from ytf.specs.status import FinalStatus, TaskState


def test_restart_task_runs_it_again_in_the_container_it_has_after_a_backoff() -> None:
    backoff = Backoff(initial_s=4, factor=2, max_s=60)
    world = Story(policy(OnFailure.RESTART_TASK, max_restarts=2, backoff=backoff)).start()
    where = world.at("worker:1")
    began = world.now
    world.ends("worker:1", 1)
    assert world.task("worker:1") is TaskState.PENDING
    order = world.machine.order(where)
    assert isinstance(order, c.RestartTask)
    assert order.attempt == 1, "its starter waits until the backoff has passed"
    world.pass_deadline()
    assert world.now == began + 4
    assert world.at("worker:1") == where
    assert world.attempt("worker:1") == 2
    assert world.attempt("worker:0") == 1
    world.register_all()
    world.run_all()
    assert world.task("worker:1") is TaskState.RUNNING
    world.ends("worker:1", 1)
    world.pass_deadline()
    assert world.now == began + 4 + 8
    world.register_all()
    world.run_all()
    world.ends("worker:1", 1)
    assert world.outcome() is FinalStatus.FAILED
    assert "restarted 2 times" in world.text()


def test_a_task_whose_container_died_is_restarted_in_another_and_all_learn_its_address() -> None:
    world = Story(policy(OnFailure.RESTART_TASK)).start()
    assert world.published is not None
    before = world.published
    world.container_ends("worker:0", e.Cause.EXITED)
    world.pass_deadline()
    world.start()
    assert world.published.revision == before.revision + 1
    assert world.published.generation == before.generation
    assert world.published.members["ps"] == before.members["ps"]
    assert world.published.members["worker"] != before.members["worker"]


@pytest.mark.parametrize("cause", [k for k in e.Cause if k.is_infrastructure])
def test_infrastructure_losses_are_retried_without_counting(cause: e.Cause) -> None:
    world = Story(policy(OnFailure.RESTART_TASK, max_restarts=0)).start()
    for _ in range(5):
        world.container_ends("worker:0", cause, None)
        assert world.machine.memory.final is None
        world.pass_deadline()
        world.start()
    world.ends("worker:0")
    world.ends("worker:1")
    assert world.outcome() is FinalStatus.SUCCEEDED


def test_restart_job_keeps_containers_and_gives_everyone_a_new_cluster_spec() -> None:
    world = Story(policy(OnFailure.RESTART_JOB)).start()
    containers = set(world.starters)
    assert world.published is not None
    assert world.published.generation == 1
    world.ends("worker:0", 1)
    assert not world.wishes
    world.register_all()
    assert world.published.generation == 1, "not before the backoff has passed"
    world.pass_deadline()
    assert world.published.generation == 2
    world.run_all()
    assert set(world.starters) == containers
    assert {world.attempt(t) for t in ("ps:0", "worker:0", "worker:1")} == {2}
    world.ends("worker:0")
    world.ends("worker:1")
    assert world.outcome() is FinalStatus.SUCCEEDED


def test_restart_job_runs_those_again_who_had_finished() -> None:
    world = Story(policy(OnFailure.RESTART_JOB, "worker:2")).start()
    world.ends("worker:0", 0)
    assert not world.starters[world.at("worker:0")].told_to_stop
    world.ends("worker:1", 1)
    world.pass_deadline()
    world.start()
    assert world.task("worker:0") is TaskState.RUNNING
    world.ends("worker:0")
    world.ends("worker:1")
    assert world.outcome() is FinalStatus.SUCCEEDED


def test_exits_of_the_old_generation_are_nobodys_business() -> None:
    world = Story(policy(OnFailure.RESTART_JOB, "worker:2", max_restarts=1)).start()
    other = world.starters[world.at("worker:1")]
    container = other.container
    world.ends("worker:0", 1)
    world.feed(
        e.TaskExited(
            task=TaskId("worker:1"),
            attempt=1,
            container=container,
            exit_code=None,
            signal=6,
            ended_at=world.now,
        )
    )
    assert world.machine.memory.final is None
    assert world.machine.memory.restarts == 1


def test_ignored_failures_do_not_fail_the_job_unless_nobody_succeeds() -> None:
    world = Story(policy(OnFailure.IGNORE, "worker:2")).start()
    world.ends("worker:0", 1)
    world.ends("worker:1", 0)
    assert world.outcome() is FinalStatus.SUCCEEDED
    assert "ignored: worker:0" in world.text()
    world = Story(policy(OnFailure.IGNORE, "worker:2")).start()
    world.ends("worker:0", 1)
    world.ends("worker:1", 1)
    assert world.outcome() is FinalStatus.FAILED


def test_a_lost_port_restarts_everyone_without_counting_but_not_for_ever() -> None:
    world = Story(job("worker:2")).start()
    for _ in range(3):
        world.ends("worker:0", 1, port_lost=True)
        assert world.machine.memory.final is None
        world.pass_deadline()
        world.start()
    assert world.machine.memory.restarts == 0
    world.ends("worker:0", 1, port_lost=True)
    assert world.outcome() is FinalStatus.FAILED


def test_a_lost_port_brings_back_even_a_task_that_is_on_its_way_out() -> None:
    world = Story(job("worker:2")).start()
    leaving = world.at("worker:0")
    world.ends("worker:0", 0)
    world.ends("worker:1", 1, port_lost=True)
    assert len(world.wishes) == 1, "its old container is being stopped and cannot serve again"
    world.stop_all()
    world.pass_deadline()
    world.start()
    assert world.task("worker:0") is TaskState.RUNNING
    assert world.at("worker:0") != leaving


def test_a_deadline_told_too_early_is_not_heeded() -> None:
    world = Story(job("worker:1"))
    world.feed(e.DeadlinePassed(deadline="allocation"))
    assert world.machine.memory.final is None
    assert world.machine.memory.deadlines["allocation"] == world.now + 600


def test_a_preempted_task_of_an_unprepared_job_says_how_to_survive_it() -> None:
    world = Story(job("worker:2")).start()
    world.container_ends("worker:1", e.Cause.PREEMPTED, None)
    assert world.outcome() is FinalStatus.FAILED
    assert "preempted" in world.text()
    assert "--on_failure worker:restart-job, or worker:restart-task" in world.text()


def test_nodes_where_tasks_keep_failing_are_avoided() -> None:
    world = Story(policy(OnFailure.RESTART_TASK, "worker:1", max_restarts=9)).start()
    avoided = []
    for _ in range(3):
        world.container_ends("worker:0", e.Cause.EXITED)
        world.pass_deadline()
        (wish,) = world.wishes.values()
        avoided.append(wish.avoid)
        world.start()
    assert avoided == [(), (), (NODES[0],)]
