"""TensorBoard, the evaluator and the client, whose ends count differently."""

from __future__ import annotations

import msgspec
import pytest

from tests.machine.scenario import Scenario, job, policy
from tests.machine.world import NODES
from ytf.machine import events as e
from ytf.machine.containers import CLIENT_CONTAINER
from ytf.machine.deadlines import AFTER_CHIEF, EVALUATION, RELEASE, STOP, TENSORBOARD_STAY
from ytf.machine.notes import notes
from ytf.machine.status_view import waits_for
from ytf.specs.job import OnFailure, Timeouts
from ytf.specs.status import FinalStatus, JobState, TaskState


def test_tensorboard_runs_beside_the_job_and_never_fails_it() -> None:
    world = Scenario(job("worker:1,tensorboard:1")).start()
    assert world.published is not None
    assert "tensorboard" not in world.published.members
    world.ends("tensorboard:0", 1)
    assert world.machine.state.final is None
    world.ends("worker:0")
    assert world.outcome() is FinalStatus.SUCCEEDED


def test_the_job_starts_without_its_tensorboard() -> None:
    world = Scenario(job("worker:1,tensorboard:1"))
    for request in [r for r in world.open_requests if r.startswith("worker")]:
        world.allocate(request, NODES[0])
    world.register_all()
    world.run_all()
    assert world.machine.job_state is JobState.RUNNING
    world.ends("worker:0")
    assert world.outcome() is FinalStatus.SUCCEEDED


def test_a_running_evaluator_gets_time_for_its_last_evaluation() -> None:
    world = Scenario(job("worker:1,ps:1,evaluator:1")).start()
    world.ends("worker:0")
    assert world.starters[world.at("ps:0")].told_to_stop
    assert not world.starters[world.at("evaluator:0")].told_to_stop
    world.stop_all()
    assert world.finished is None
    world.ends("evaluator:0")
    assert world.outcome() is FinalStatus.SUCCEEDED


def test_a_job_runs_though_its_worker_was_done_before_its_evaluator_had_started() -> None:
    world = Scenario(job("worker:1,evaluator:1"))
    world.allocate_all()
    world.register_all()
    world.run(world.starters[world.at("worker:0")])
    world.ends("worker:0")
    assert world.machine.state.running_since is None
    world.run(world.starters[world.at("evaluator:0")])
    assert world.machine.job_state is JobState.RUNNING


def test_the_evaluators_time_is_bounded() -> None:
    spec = job("worker:1,evaluator:1", timeouts=Timeouts(evaluator_s=30))
    world = Scenario(spec).start()
    world.ends("worker:0")
    world.stop_all()
    assert world.machine.state.deadlines["evaluation"] == world.now + 30
    while "evaluation" in world.machine.state.deadlines:
        world.pass_deadline()
    assert world.starters[world.at("evaluator:0")].told_to_stop
    assert world.outcome() is FinalStatus.SUCCEEDED


def test_a_kill_cuts_the_last_evaluation_short_but_success_stays() -> None:
    world = Scenario(job("worker:1,evaluator:1")).start()
    world.ends("worker:0")
    world.kill()
    assert world.outcome() is FinalStatus.SUCCEEDED


def test_with_servers_only_the_clients_exit_counts() -> None:
    world = Scenario(job("ps:1,worker:1", servers=True, client=True)).start()
    world.ends("client:0", 0)
    assert world.outcome() is FinalStatus.SUCCEEDED
    world = Scenario(job("ps:1,worker:1", servers=True, client=True)).start()
    world.ends("client:0", 4)
    assert world.outcome() is FinalStatus.FAILED
    assert "client:0 exited with code 4" in world.text()


def test_with_servers_and_a_client_a_failing_server_does_not_end_the_job() -> None:
    world = Scenario(job("ps:1,worker:1", servers=True, client=True)).start()
    world.ends("worker:0", 1)
    assert world.machine.state.final is None
    world.ends("client:0", 0)
    assert world.outcome() is FinalStatus.SUCCEEDED


def test_a_tensorboard_that_lost_its_port_is_restarted_alone() -> None:
    world = Scenario(job("worker:1,tensorboard:1")).start()
    world.ends("tensorboard:0", 1, port_lost=True)
    world.pass_deadline()
    world.register_all()
    world.run_all()
    assert world.task("tensorboard:0") is TaskState.RUNNING
    assert world.attempt("worker:0") == 1


def test_a_long_last_evaluation_ends_without_complaint() -> None:
    world = Scenario(job("worker:1,ps:1,evaluator:1")).start()
    world.ends("worker:0")
    world.stop_all()
    while "evaluation" in world.machine.state.deadlines:
        world.pass_deadline()
    assert world.outcome() is FinalStatus.SUCCEEDED
    assert world.text() == "All tracked tasks succeeded."


STAYS = Timeouts(tensorboard_s=60, evaluator_s=300)


def has_to_stop(world: Scenario, task: str) -> bool:
    return world.starters[world.at(task)].told_to_stop


def test_tensorboard_ends_with_the_others_by_default() -> None:
    world = Scenario(job("worker:1,ps:1,tensorboard:1")).start()
    world.ends("worker:0")
    assert has_to_stop(world, "tensorboard:0")
    assert TENSORBOARD_STAY not in world.machine.state.deadlines


def test_tensorboard_stays_for_its_time_after_all_others_have_ended() -> None:
    world = Scenario(job("worker:1,ps:1,tensorboard:1", timeouts=STAYS)).start()
    world.ends("worker:0")
    assert has_to_stop(world, "ps:0")
    # The others are being stopped: its time has not begun.
    assert set(world.machine.state.deadlines) == {STOP}
    world.now += 5
    world.stop_all()
    assert world.machine.state.deadlines == {TENSORBOARD_STAY: world.now + 60}
    assert not has_to_stop(world, "tensorboard:0")
    assert (world.finished, world.machine.job_state) == (None, JobState.RUNNING)
    (note,) = notes(world.spec, world.machine.state)
    assert "TensorBoard stays until 1970-01-01 00:" in note
    assert "it is stopped in 60 s" in waits_for(world.machine.state, headroom="", now=world.now)
    world.pass_deadline()
    assert has_to_stop(world, "tensorboard:0")
    assert world.outcome() is FinalStatus.SUCCEEDED
    assert world.task("tensorboard:0") is TaskState.KILLED
    assert list(notes(world.spec, world.machine.state)) == []
    assert world.text() == "All tracked tasks succeeded."


def test_its_time_begins_after_the_last_evaluation() -> None:
    world = Scenario(job("chief:1,worker:1,evaluator:1,tensorboard:1", timeouts=STAYS)).start()
    world.ends("chief:0")
    assert set(world.machine.state.deadlines) == {AFTER_CHIEF}
    world.ends("worker:0")
    world.stop_all()
    assert EVALUATION in world.machine.state.deadlines
    assert TENSORBOARD_STAY not in world.machine.state.deadlines
    world.now += 100
    world.ends("evaluator:0")
    world.stop_all()
    assert world.machine.state.deadlines == {TENSORBOARD_STAY: world.now + 60}


def test_an_evaluator_that_is_stopped_does_not_stop_tensorboard() -> None:
    world = Scenario(job("worker:1,evaluator:1,tensorboard:1", timeouts=STAYS)).start()
    world.ends("worker:0")
    while EVALUATION in world.machine.state.deadlines:
        world.pass_deadline()
    assert has_to_stop(world, "evaluator:0")
    assert not has_to_stop(world, "tensorboard:0")
    text = waits_for(world.machine.state, headroom="", now=world.now)
    assert text == "The job ends as SUCCEEDED. Waiting for evaluator:0 to stop."
    world.stop_all()
    assert TENSORBOARD_STAY in world.machine.state.deadlines


def test_containers_that_never_end_do_not_keep_its_time_from_beginning() -> None:
    world = Scenario(job("worker:1,ps:1,tensorboard:1", timeouts=STAYS)).start()
    world.ends("worker:0")
    while TENSORBOARD_STAY not in world.machine.state.deadlines:
        world.pass_deadline()
    assert world.machine.state.deadlines == {TENSORBOARD_STAY: world.now + 60}
    assert "did not report the end of these containers" in world.machine.state.diagnostics


def test_it_has_its_grace_period_though_another_container_does_not_end() -> None:
    world = Scenario(job("worker:1,ps:1,tensorboard:1", timeouts=STAYS)).start()
    world.ends("worker:0")
    world.pass_deadline()
    assert RELEASE in world.machine.state.deadlines
    world.kill()
    assert has_to_stop(world, "tensorboard:0")
    assert set(world.machine.state.deadlines) == {STOP}


@pytest.mark.parametrize("code", [0, 1])
@pytest.mark.parametrize("alone", [True, False])
def test_a_tensorboard_that_ends_by_itself_ends_its_time(code: int, alone: bool) -> None:
    world = Scenario(job("worker:1,evaluator:1,tensorboard:1", timeouts=STAYS)).start()
    world.ends("worker:0")
    if alone:
        world.ends("evaluator:0")
        world.stop_all()
        assert TENSORBOARD_STAY in world.machine.state.deadlines
    world.ends("tensorboard:0", code)
    assert has_to_stop(world, "tensorboard:0")
    assert TENSORBOARD_STAY not in world.machine.state.deadlines
    if not alone:
        assert not has_to_stop(world, "evaluator:0")
        world.ends("evaluator:0")
    assert world.outcome() is FinalStatus.SUCCEEDED


def test_a_lost_container_of_tensorboard_ends_its_time() -> None:
    world = Scenario(job("worker:1,tensorboard:1", timeouts=STAYS)).start()
    world.ends("worker:0")
    world.stop_all()
    world.container_ends("tensorboard:0", e.Cause.NODE_LOST)
    assert world.finished is not None
    assert world.outcome() is FinalStatus.SUCCEEDED


@pytest.mark.parametrize("alone", [True, False])
def test_a_kill_ends_tensorboards_time_but_success_stays(alone: bool) -> None:
    world = Scenario(job("worker:1,evaluator:1,tensorboard:1", timeouts=STAYS)).start()
    world.ends("worker:0")
    if alone:
        world.ends("evaluator:0")
        world.stop_all()
    world.kill()
    assert has_to_stop(world, "tensorboard:0")
    assert TENSORBOARD_STAY not in world.machine.state.deadlines
    assert world.outcome() is FinalStatus.SUCCEEDED


def test_the_tensorboard_of_a_job_that_failed_or_was_killed_does_not_stay() -> None:
    world = Scenario(job("worker:1,tensorboard:1", timeouts=STAYS)).start()
    world.ends("worker:0", 1)
    assert has_to_stop(world, "tensorboard:0")
    assert world.outcome() is FinalStatus.FAILED
    world = Scenario(job("worker:1,tensorboard:1", timeouts=STAYS)).start()
    world.kill()
    assert has_to_stop(world, "tensorboard:0")
    assert world.outcome() is FinalStatus.KILLED


def test_a_tensorboard_that_has_no_container_yet_does_not_stay() -> None:
    world = Scenario(job("worker:1,tensorboard:1", timeouts=STAYS))
    for request in [r for r in world.open_requests if r.startswith("worker")]:
        world.allocate(request, NODES[0])
    world.register_all()
    world.run_all()
    world.ends("worker:0")
    world.stop_all()
    assert world.outcome() is FinalStatus.SUCCEEDED


def test_a_new_master_keeps_tensorboards_time() -> None:
    world = Scenario(job("worker:1,ps:1,tensorboard:1", timeouts=STAYS)).start()
    world.ends("worker:0")
    # Before its time has begun, and after.
    world.restart_master()
    assert not has_to_stop(world, "tensorboard:0")
    world.stop_all()
    due = world.machine.state.deadlines[TENSORBOARD_STAY]
    world.now += 5
    world.restart_master()
    assert world.machine.state.deadlines == {TENSORBOARD_STAY: due}
    assert not has_to_stop(world, "tensorboard:0")
    world.pass_deadline()
    assert world.now == due
    assert world.outcome() is FinalStatus.SUCCEEDED


def test_tasks_that_keep_their_containers_for_a_restart_do_not_keep_tensorboard_waiting() -> None:
    spec = policy(OnFailure.RESTART_JOB, "worker:2,tensorboard:1")
    world = Scenario(msgspec.structs.replace(spec, timeouts=STAYS)).start()
    world.ends("worker:0")
    world.ends("worker:1")
    world.stop_all()
    assert world.machine.state.deadlines == {TENSORBOARD_STAY: world.now + 60}


def test_a_client_that_vanishes_fails_the_job() -> None:
    world = Scenario(job("worker:1", client=True)).start()
    world.silent(world.starters[CLIENT_CONTAINER])
    assert world.outcome() is FinalStatus.FAILED
    assert "the client has sent no heartbeat" in world.text()


def test_servers_without_a_client_run_until_killed() -> None:
    world = Scenario(job("ps:1,worker:1", servers=True)).start()
    assert world.machine.state.deadlines == {}
    world.kill()
    assert world.outcome() is FinalStatus.KILLED
    assert world.text() == "Killed by alice."
