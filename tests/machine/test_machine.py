"""The job machine from the first request to the last end: events in, commands out."""

from __future__ import annotations

import pytest

from tests.machine.scenario import Scenario, job, policy
from tests.machine.world import NODES
from ytf.machine import commands as c
from ytf.machine import events as e
from ytf.machine.deadlines import JOB
from ytf.machine.machine import Machine
from ytf.specs.ids import ContainerId, RequestId
from ytf.specs.job import (
    Backoff,
    JobSpec,
    OnFailure,
    Resources,
    StageIn,
    TaskGroupSpec,
    Timeouts,
)
from ytf.specs.status import FinalStatus, JobState, TaskState

# ---------------------------------------------------------------- the usual way


def test_every_task_gets_a_container_then_everyone_learns_where_everyone_is() -> None:
    world = Scenario(job())
    assert len(world.open_requests) == 3
    assert world.machine.job_state is JobState.STARTING
    world.allocate_all()
    assert world.published is None
    world.register_all()
    assert world.published is not None
    assert {k: len(v) for k, v in world.published.members.items()} == {"ps": 1, "worker": 2}
    world.run_all()
    assert world.machine.job_state is JobState.RUNNING


def test_each_container_profile_has_a_priority_that_no_later_profile_changes() -> None:
    small, large = Resources(memory=512), Resources(memory=4096)
    worker = TaskGroupSpec(count=3, resources=small, overrides={1: large})
    spec = JobSpec(groups={"ps": TaskGroupSpec(count=1, resources=small), "worker": worker})
    first = Scenario(spec)
    requests = list(first.open_requests.values())
    assert [(r.profile.group, r.profile.resources.memory_mb, r.priority) for r in requests] == [
        ("ps", 512, 1),
        ("worker", 512, 2),
        ("worker", 4096, 3),
        ("worker", 512, 2),
    ]
    # A later master with other sizes, as for a retry with more memory: the state it takes over
    # knows the profiles of the containers that still run.
    first.allocate_all()
    bigger = TaskGroupSpec(count=3, resources=Resources(memory=8192))
    later = Machine(JobSpec(groups={**spec.groups, "worker": bigger}), first.machine.state)
    lost = e.ContainerCompleted(container=first.at("worker:0"), cause=e.Cause.PREEMPTED)
    (again,) = [x for x in later.handle(lost, first.now) if isinstance(x, c.RequestContainer)]
    assert (again.profile.resources.memory_mb, again.priority) == (8192, 4)
    assert [profile.group for profile in later.state.profiles] == [
        "ps",
        "worker",
        "worker",
        "worker",
    ]


def test_why_containers_are_awaited_is_known_until_they_are_there() -> None:
    world = Scenario(job("worker:2"))
    world.feed(e.MessageNoted(text="The queue is full.", is_waiting=True))
    assert world.machine.state.backend_note == "The queue is full."
    world.feed(e.MessageNoted(text="worker: 2 tasks share 1 node"))
    assert world.machine.state.backend_note == "The queue is full."
    world.allocate_all()
    assert world.machine.state.backend_note == ""
    world.feed(e.MessageNoted(text="The queue was full.", is_waiting=True))
    assert world.machine.state.backend_note == "", "that came too late"


def test_a_warning_is_kept_once() -> None:
    world = Scenario(job("worker:2")).start()
    for _ in range(2):  # a second master is told it, too
        world.feed(e.MessageNoted(text="ports are open", is_warning=True))
    assert world.machine.state.warnings == ["ports are open"]


def test_all_workers_done_is_success_and_the_ps_is_stopped() -> None:
    world = Scenario(job()).start()
    world.ends("worker:0")
    assert world.machine.state.final is None
    world.ends("worker:1")
    assert world.starters[world.at("ps:0")].told_to_stop
    assert world.machine.job_state is JobState.RUNNING, "not over before everything is stopped"
    assert world.outcome() is FinalStatus.SUCCEEDED
    assert world.task("ps:0") is TaskState.KILLED


def test_one_failed_worker_fails_the_job_and_is_named_as_the_cause() -> None:
    world = Scenario(job()).start()
    world.ends("worker:1", 3)
    assert all(s.told_to_stop for s in world.starters.values() if s.task != "worker:1")
    assert world.outcome() is FinalStatus.FAILED
    assert world.text().startswith("worker:1 exited with code 3 on node0")


def test_a_ps_that_fails_ends_the_job_and_one_that_is_done_does_not() -> None:
    world = Scenario(job()).start()
    world.ends("ps:0", 0)
    assert world.machine.state.final is None
    world = Scenario(job()).start()
    world.ends("ps:0", 1)
    assert world.outcome() is FinalStatus.FAILED


def test_only_untracked_groups_are_all_tracked() -> None:
    world = Scenario(job("evaluator:1")).start()
    world.ends("evaluator:0")
    assert world.outcome() is FinalStatus.SUCCEEDED


def test_the_first_cause_is_the_earliest_end_not_the_first_report() -> None:
    world = Scenario(job()).start()
    died_at = world.now
    world.now += 30
    world.restart_master()
    late = world.starters[world.at("worker:0")]
    world.ends("worker:1", 1)
    world.feed(
        e.TaskExited(
            task=late.task,
            attempt=1,
            container=late.container,
            exit_code=None,
            signal=9,
            ended_at=died_at,
        )
    )
    assert world.outcome() is FinalStatus.FAILED
    assert world.text().startswith("worker:0 was ended by SIGKILL on node0")
    assert world.task("worker:0") is TaskState.FAILED


def test_a_task_that_ends_before_everybody_is_there_fails_the_job_at_once() -> None:
    world = Scenario(job())
    world.allocate_all()
    first = world.starters[world.at("worker:0")]
    world.register(first)
    world.feed(
        e.TaskExited(
            task=first.task,
            attempt=1,
            container=first.container,
            exit_code=126,
            signal=None,
            ended_at=world.now,
            reason="the environment cannot be made",
        )
    )
    assert world.outcome() is FinalStatus.FAILED
    assert "the environment cannot be made" in world.text()


def test_while_the_master_lives_what_is_told_first_came_first() -> None:
    world = Scenario(job()).start()
    late = world.starters[world.at("worker:0")]
    world.ends("worker:1", 1)
    world.feed(
        e.TaskExited(
            task=late.task,
            attempt=1,
            container=late.container,
            exit_code=1,
            signal=None,
            ended_at=world.now - 20,
        )
    )
    assert world.outcome() is FinalStatus.FAILED
    assert world.text().startswith("worker:1"), "the clock of worker:0's node may be wrong"


# ---------------------------------------------------------------- before the programs run


@pytest.mark.parametrize("cause", [e.Cause.PREEMPTED, e.Cause.EXITED])
def test_a_container_lost_before_the_rendezvous_is_replaced_unseen(cause: e.Cause) -> None:
    world = Scenario(job("worker:2"))
    world.allocate_all()
    world.container_ends("worker:0", cause)
    assert world.machine.state.final is None
    world.start()
    assert world.machine.job_state is JobState.RUNNING


def test_a_starter_that_never_comes_up_anywhere_fails_the_job() -> None:
    world = Scenario(job("worker:1"))
    for _ in range(4):
        world.allocate_all()
        world.container_ends("worker:0", e.Cause.EXITED)
    assert world.outcome() is FinalStatus.FAILED


def test_too_few_containers_in_time_fail_the_job_and_say_how_many_came() -> None:
    world = Scenario(job("ps:1,worker:3"))
    for request in list(world.open_requests)[:2]:
        world.allocate(request, NODES[0])
    deadline = world.machine.next_deadline()
    assert deadline is not None
    world.now = deadline[1]
    world.feed(e.DeadlinePassed(deadline=deadline[0], note="The queue has 0 MB left."))
    assert world.outcome() is FinalStatus.FAILED
    assert "got 1 of 3 worker" in world.text()
    assert "The queue has 0 MB left." in world.text()


def test_with_a_min_the_job_starts_with_what_it_got() -> None:
    groups = {"ps": TaskGroupSpec(count=1), "worker": TaskGroupSpec(count=4, min=2)}
    world = Scenario(JobSpec(groups=groups, command="true"))
    for request in list(world.open_requests)[:3]:
        world.allocate(request, NODES[0])
    world.register_all()
    world.pass_deadline()
    assert world.published is not None
    assert len(world.published.members["worker"]) == 2
    assert not world.open_requests
    world.run_all()
    world.ends("worker:0")
    world.ends("worker:1")
    assert world.outcome() is FinalStatus.SUCCEEDED


def test_a_job_that_runs_loses_nobody_to_its_min() -> None:
    group = TaskGroupSpec(count=4, min=1, on_failure=OnFailure.RESTART_TASK)
    world = Scenario(JobSpec(groups={"worker": group}, command="true")).start()
    world.container_ends("worker:1", e.Cause.NODE_LOST, None)
    world.pass_deadline()
    world.pass_deadline()
    assert "got 3 of 4 worker" in world.machine.state.diagnostics
    assert world.outcome() is FinalStatus.FAILED


def test_a_task_without_an_address_cannot_be_ignored() -> None:
    world = Scenario(policy(OnFailure.IGNORE, "worker:3"))
    world.refuse(RequestId("worker:1#1"))
    assert world.outcome() is FinalStatus.FAILED
    world = Scenario(policy(OnFailure.IGNORE, "worker:3"))
    for _ in range(4):
        world.allocate_all()
        world.container_ends("worker:1", e.Cause.EXITED)
    assert world.outcome() is FinalStatus.FAILED
    assert "cannot be left out" in world.text()


def test_containers_that_keep_getting_lost_before_the_start_do_not_go_on_for_ever() -> None:
    world = Scenario(job("worker:2"))
    for _ in range(200):
        if world.machine.state.final is not None:
            break
        world.allocate_all()
        world.now += 31
        world.container_ends("worker:0", e.Cause.NODE_LOST, None)
        deadline = world.machine.next_deadline()
        if deadline is not None and deadline[1] <= world.now:
            world.feed(e.DeadlinePassed(deadline=deadline[0]))
    assert "could not start within 900 s" in world.machine.state.diagnostics
    assert world.outcome() is FinalStatus.FAILED


def test_a_pause_before_a_restart_may_be_longer_than_a_rendezvous() -> None:
    backoff = Backoff(initial_s=600, max_s=600)
    world = Scenario(policy(OnFailure.RESTART_JOB, "worker:2", backoff=backoff)).start()
    began = world.now
    world.ends("worker:0", 1)
    world.register_all()
    world.pass_deadline()
    assert world.now == began + 600
    world.run_all()
    assert world.machine.job_state is JobState.RUNNING
    assert world.machine.state.final is None


def test_a_stage_in_may_be_longer_than_a_rendezvous() -> None:
    source = StageIn(source="hdfs:///data")
    groups = {"worker": TaskGroupSpec(count=2, stage_in=(source,))}
    spec = JobSpec(groups=groups, command="x", timeouts=Timeouts(stage_in_s=3600))
    world = Scenario(spec)
    world.allocate_all()
    began = world.now
    world.register_all()
    world.pass_deadline()
    assert world.now == began + 300 + 3600
    assert "within 3900 s" in world.machine.state.diagnostics
    assert world.outcome() is FinalStatus.FAILED


def test_a_starter_that_never_registers_ends_the_wait_with_its_name() -> None:
    world = Scenario(job("worker:2"))
    world.allocate_all()
    world.register(world.starters[world.at("worker:0")])
    world.pass_deadline()
    assert "worker:1 (not registered)" in world.machine.state.diagnostics
    assert world.outcome() is FinalStatus.FAILED


def test_a_task_that_never_starts_again_ends_the_wait_with_those_that_run() -> None:
    world = Scenario(policy(OnFailure.RESTART_TASK, "worker:2")).start()
    world.container_ends("worker:1", e.Cause.PREEMPTED)
    world.pass_deadline()
    world.pass_deadline()
    told = world.machine.state.diagnostics
    assert told.startswith("Not everything was allocated within 600 s: got 1 of 2 worker.")
    assert told.endswith("\nRunning meanwhile: worker:0.")


def test_a_refused_request_fails_the_job_at_once() -> None:
    world = Scenario(job("worker:1"))
    world.refuse(next(iter(world.open_requests)))
    assert world.outcome() is FinalStatus.FAILED
    assert "too big" in world.text()


# ---------------------------------------------------------------- ends


def test_the_job_timeout_ends_it() -> None:
    world = Scenario(job("worker:1", timeouts=Timeouts(job_s=60))).start()
    world.pass_deadline()
    assert "within its time limit of 60 s" in world.machine.state.diagnostics
    assert world.outcome() is FinalStatus.FAILED


def test_a_timeout_names_who_still_ran_and_what_they_wrote_last() -> None:
    world = Scenario(job("ps:1,worker:3", timeouts=Timeouts(job_s=60))).start()
    world.ends("worker:1")
    assert world.machine.running_tasks() == ["worker:0", "worker:2", "ps:0"]
    output = "Last lines of worker:0's stdout:\n  | x"
    passed = e.DeadlinePassed(deadline=JOB, output=output)
    world.machine.handle(passed, world.machine.state.deadlines[JOB])
    assert world.machine.state.diagnostics == (
        "The job did not end within its time limit of 60 s. "
        "Still running: worker:0, worker:2, ps:0.\n"
        "Last lines of worker:0's stdout:\n  | x"
    )


def test_a_container_that_does_not_stop_is_taken_away_and_then_given_up() -> None:
    world = Scenario(job("worker:1,ps:1")).start()
    world.ends("worker:0")
    world.pass_deadline()
    assert world.finished is None
    world.pass_deadline()
    assert world.finished is not None
    assert world.finished.status is FinalStatus.SUCCEEDED
    assert "did not report the end of these containers" in world.finished.diagnostics


def test_an_allocation_that_comes_after_the_end_is_given_back() -> None:
    world = Scenario(job("worker:1"))
    (request,) = world.open_requests
    world.kill()
    commands = world.machine.handle(
        e.ContainerAllocated(request=request, container=ContainerId("late"), node=NODES[0]),
        world.now,
    )
    assert commands == [c.ReleaseContainer(container=ContainerId("late"))]


def test_a_backend_that_is_gone_ends_the_job() -> None:
    world = Scenario(job()).start()
    world.backend_gone()
    assert world.finished is not None
    assert world.finished.status is FinalStatus.FAILED
    assert world.task("worker:0") is TaskState.LOST


# ---------------------------------------------------------------- a new master


def test_a_new_master_takes_over_running_tasks_as_they_are() -> None:
    world = Scenario(job()).start()
    before = {t: (world.task(t), world.attempt(t)) for t in ("ps:0", "worker:0", "worker:1")}
    world.restart_master()
    assert {t: (world.task(t), world.attempt(t)) for t in before} == before
    assert world.published is not None
    world.ends("worker:0")
    world.ends("worker:1")
    assert world.outcome() is FinalStatus.SUCCEEDED


def test_a_new_master_releases_a_container_that_never_registered_and_asks_again() -> None:
    world = Scenario(job("worker:1"))
    world.allocate_all()
    world.restart_master()
    assert len(world.open_requests) == 1
    world.stop_all()
    world.start()
    world.ends("worker:0")
    assert world.outcome() is FinalStatus.SUCCEEDED


def test_containers_that_turn_up_late_do_not_disturb_the_new_masters_own() -> None:
    world = Scenario(job("worker:2"))
    world.allocate_all()
    world.restart_master()
    world.stop_all()
    world.allocate_all()
    before = set(world.starters)
    world.feed(e.ContainersRecovered(containers=(ContainerId("c77"),), complete=False))
    assert set(world.starters) == before
    assert not any(s.told_to_stop for s in world.starters.values())
    assert not world.open_requests


def test_a_new_master_of_a_finished_job_only_finishes_it() -> None:
    world = Scenario(job("worker:1")).start()
    world.ends("worker:0")
    world.outcome()
    again = Machine(world.spec)
    for event, at in world.log:
        again.handle(event, at)
    assert world.finished in again.commands_to_repeat()
