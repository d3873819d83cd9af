"""What the job machine does about failures, policy by policy."""

from __future__ import annotations

import pytest

from tests.machine.scenario import Scenario, job, policy
from tests.machine.world import NODES
from ytf.machine import commands as c
from ytf.machine import events as e
from ytf.specs.ids import TaskId
from ytf.specs.job import Backoff, OnFailure
from ytf.specs.status import FinalStatus, TaskState


def test_restart_task_runs_it_again_in_the_container_it_has_after_a_backoff() -> None:
    backoff = Backoff(initial_s=4, factor=2, max_s=60)
    world = Scenario(policy(OnFailure.RESTART_TASK, max_restarts=2, backoff=backoff)).start()
    where = world.at("worker:1")
    began = world.now
    world.ends("worker:1", 1)
    assert world.task("worker:1") is TaskState.PENDING
    order = world.machine.order(where)
    assert isinstance(order, c.RunAttempt)
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
    world = Scenario(policy(OnFailure.RESTART_TASK)).start()
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
    world = Scenario(policy(OnFailure.RESTART_TASK, max_restarts=0)).start()
    for _ in range(5):
        world.container_ends("worker:0", cause, None)
        assert world.machine.state.final is None
        world.pass_deadline()
        world.start()
    world.ends("worker:0")
    world.ends("worker:1")
    assert world.outcome() is FinalStatus.SUCCEEDED


def test_restart_job_keeps_containers_and_gives_everyone_a_new_cluster_spec() -> None:
    world = Scenario(policy(OnFailure.RESTART_JOB)).start()
    containers = set(world.starters)
    assert world.published is not None
    assert world.published.generation == 1
    world.ends("worker:0", 1)
    assert not world.open_requests
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
    world = Scenario(policy(OnFailure.RESTART_JOB, "worker:2")).start()
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
    world = Scenario(policy(OnFailure.RESTART_JOB, "worker:2", max_restarts=1)).start()
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
    assert world.machine.state.final is None
    assert world.machine.state.restarts == 1


def test_ignored_failures_do_not_fail_the_job_unless_nobody_succeeds() -> None:
    world = Scenario(policy(OnFailure.IGNORE, "worker:2")).start()
    world.ends("worker:0", 1)
    world.ends("worker:1", 0)
    assert world.outcome() is FinalStatus.SUCCEEDED
    assert "ignored: worker:0" in world.text()
    world = Scenario(policy(OnFailure.IGNORE, "worker:2")).start()
    world.ends("worker:0", 1)
    world.ends("worker:1", 1)
    assert world.outcome() is FinalStatus.FAILED


def test_a_lost_port_restarts_everyone_without_counting_but_not_for_ever() -> None:
    world = Scenario(job("worker:2")).start()
    for _ in range(3):
        world.ends("worker:0", 1, port_lost=True)
        assert world.machine.state.final is None
        world.pass_deadline()
        world.start()
    assert world.machine.state.restarts == 0
    world.ends("worker:0", 1, port_lost=True)
    assert world.outcome() is FinalStatus.FAILED


def test_a_lost_port_brings_back_even_a_task_that_is_on_its_way_out() -> None:
    world = Scenario(job("worker:2")).start()
    leaving = world.at("worker:0")
    world.ends("worker:0", 0)
    world.ends("worker:1", 1, port_lost=True)
    assert len(world.open_requests) == 1, "its old container is being stopped"
    world.stop_all()
    world.pass_deadline()
    world.start()
    assert world.task("worker:0") is TaskState.RUNNING
    assert world.at("worker:0") != leaving


def test_a_deadline_told_too_early_is_not_heeded() -> None:
    world = Scenario(job("worker:1"))
    world.feed(e.DeadlinePassed(deadline="allocation"))
    assert world.machine.state.final is None
    assert world.machine.state.deadlines["allocation"] == world.now + 600


def test_a_preempted_task_of_an_unprepared_job_says_how_to_survive_it() -> None:
    world = Scenario(job("worker:2")).start()
    world.container_ends("worker:1", e.Cause.PREEMPTED, None)
    assert world.outcome() is FinalStatus.FAILED
    assert "preempted" in world.text()
    assert "--on_failure worker:restart-job, or worker:restart-task" in world.text()


def test_nodes_where_tasks_keep_failing_are_avoided() -> None:
    world = Scenario(policy(OnFailure.RESTART_TASK, "worker:1", max_restarts=9)).start()
    avoided = []
    for _ in range(3):
        world.container_ends("worker:0", e.Cause.EXITED)
        world.pass_deadline()
        (request,) = world.open_requests.values()
        avoided.append(request.avoid)
        world.start()
    assert avoided == [(), (), (NODES[0],)]


# ---------------------------------------------------------------- containers lost with a master


def takes_over(world: Scenario, *lost: str) -> None:
    """A new master takes over; the cluster has not kept the containers of these tasks."""
    world.restart_master(complete=False, lost=tuple(world.at(task) for task in lost))


@pytest.mark.parametrize("on_failure", list(OnFailure))
def test_containers_that_were_not_kept_are_nobodys_failure(on_failure: OnFailure) -> None:
    world = Scenario(policy(on_failure, max_restarts=0)).start()
    takes_over(world, "worker:0", "worker:1")
    for task in ("worker:0", "worker:1"):
        world.container_ends(task, e.Cause.NOT_KEPT, signal=None)
    while world.machine.next_deadline() and not world.open_requests:
        world.pass_deadline()
    alone = on_failure is OnFailure.RESTART_TASK
    assert world.machine.state.generation == (1 if alone else 2)
    assert world.attempt("ps:0") == (1 if alone else 2)
    assert world.machine.state.restarts == 0
    assert not world.machine.state.node_failures
    while world.task("worker:1") is not TaskState.RUNNING:
        world.start()
        if world.task("worker:1") is not TaskState.RUNNING:
            world.pass_deadline()
    world.ends("worker:0")
    world.ends("worker:1")
    assert world.outcome() is FinalStatus.SUCCEEDED


def test_a_container_lost_before_the_cluster_spec_is_replaced_alone() -> None:
    world = Scenario(job("worker:2"))
    world.allocate_all()
    world.register(world.starters[world.at("worker:0")])
    takes_over(world, "worker:0", "worker:1")
    world.container_ends("worker:0", e.Cause.NOT_KEPT, signal=None)
    assert world.machine.state.generation == 1
    world.stop_all()
    world.start()
    world.ends("worker:0")
    world.ends("worker:1")
    assert world.outcome() is FinalStatus.SUCCEEDED


def test_a_program_that_failed_because_its_peer_was_not_kept_does_not_fail_the_job() -> None:
    world = Scenario(job("worker:2")).start()
    takes_over(world, "worker:1")
    world.container_ends("worker:1", e.Cause.NOT_KEPT, signal=None)
    peer = world.starters[world.at("worker:0")]
    late = e.TaskExited(
        task=peer.task, attempt=1, container=peer.container, exit_code=1, signal=None, ended_at=1.0
    )
    world.feed(late)
    assert world.machine.state.final is None
    assert world.attempt("worker:0") == 2


def test_tensorboard_that_was_not_kept_is_restarted_alone() -> None:
    world = Scenario(job("worker:1,tensorboard:1")).start()
    takes_over(world, "tensorboard:0")
    world.container_ends("tensorboard:0", e.Cause.NOT_KEPT, signal=None)
    assert world.machine.state.generation == 1
    world.pass_deadline()
    assert len(world.open_requests) == 1
    assert world.task("worker:0") is TaskState.RUNNING


@pytest.mark.parametrize(
    ("kept", "was_heard", "survives"),
    [(False, False, True), (True, False, False), (False, True, False)],
    ids=["unknown to all", "kept by the cluster", "heard by this master"],
)
def test_a_silent_starter_after_a_takeover(kept: bool, was_heard: bool, survives: bool) -> None:
    world = Scenario(job("worker:2")).start()
    where = world.at("worker:1")
    world.restart_master(complete=False, lost=() if kept else (where,))
    world.feed(e.StarterLost(container=where, silent_s=31, was_heard=was_heard))
    assert (world.machine.state.final is None) == survives
    assert world.machine.state.generation == (2 if survives else 1)


def test_a_container_of_this_masters_own_is_judged_by_its_policy() -> None:
    world = Scenario(job("worker:2"))
    world.restart_master()
    world.start()
    world.feed(e.StarterLost(container=world.at("worker:1"), silent_s=31, was_heard=False))
    assert world.machine.state.final is FinalStatus.FAILED
