"""TensorBoard, the evaluator and the client, whose ends count differently."""

from __future__ import annotations

from tests.machine.scenario import Scenario, job
from tests.machine.world import NODES
from ytf.machine.containers import CLIENT_CONTAINER
from ytf.specs.job import Timeouts
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
