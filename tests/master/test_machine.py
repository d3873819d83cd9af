"""The job machine's policies: events in, commands out, one story each."""

from __future__ import annotations

import pytest

from tests.master.world import NODES, World
from ytf.master import commands as c
from ytf.master import events as e
from ytf.master.containers import CLIENT_CONTAINER
from ytf.master.machine import Machine
from ytf.specs.job import Backoff, JobSpec, OnFailure, TaskGroupSpec, Timeouts
from ytf.specs.names import ContainerId, RequestId, TaskId
from ytf.specs.status import FinalStatus, JobState, TaskState


def job(text: str = "ps:1,worker:2", **changes: object) -> JobSpec:
    groups = {}
    for part in text.split(","):
        name, _, count = part.partition(":")
        groups[name] = TaskGroupSpec(count=int(count))
    fields: dict[str, object] = {"groups": groups, "command": "true", **changes}
    return JobSpec(**fields)  # type: ignore[arg-type]  # a test's short form


def policy(on_failure: OnFailure, text: str = "ps:1,worker:2", **fields: object) -> JobSpec:
    """All groups with one policy."""
    groups = {
        name: TaskGroupSpec(count=group.count, on_failure=on_failure, **fields)  # type: ignore[arg-type]
        for name, group in job(text).groups.items()
    }
    return JobSpec(groups=groups, command="true")


class Story(World):
    """A world in which a test says what happens, by task."""

    def at(self, task: str) -> ContainerId:
        return next(k for k, s in self.starters.items() if s.task == task)

    def task(self, task: str) -> TaskState:
        return self.machine.memory.tasks[TaskId(task)].state

    def attempt(self, task: str) -> int:
        return self.machine.memory.tasks[TaskId(task)].attempt

    def allocate_all(self) -> None:
        for request in list(self.wishes):
            self.allocate(request, NODES[0])

    def register_all(self) -> None:
        for starter in list(self.starters.values()):
            if not starter.registered and not starter.told_to_stop:
                self.register(starter)

    def run_all(self) -> None:
        for starter in list(self.starters.values()):
            if starter.registered and starter.program == "none" and self.may_run(starter):
                self.run(starter)

    def start(self) -> Story:
        self.allocate_all()
        self.register_all()
        self.run_all()
        return self

    def ends(self, task: str, code: int = 0, port_lost: bool = False) -> None:
        self.exit(self.starters[self.at(task)], code, port_lost)

    def container_ends(self, task: str, cause: e.Cause, signal: int | None = 9) -> None:
        self.complete(self.starters[self.at(task)], cause, signal)

    def stop_all(self) -> None:
        for starter in list(self.starters.values()):
            if starter.told_to_stop:
                self.complete(starter, e.Cause.RELEASED)

    def outcome(self) -> FinalStatus:
        self.stop_all()
        assert self.finished is not None, self.machine.memory
        return self.finished.status

    def text(self) -> str:
        assert self.finished is not None
        return self.finished.diagnostics


# ---------------------------------------------------------------- the usual way


def test_every_task_gets_a_container_then_everyone_learns_where_everyone_is() -> None:
    world = Story(job())
    assert len(world.wishes) == 3
    assert world.machine.state is JobState.STARTING
    world.allocate_all()
    assert world.published is None
    world.register_all()
    assert world.published is not None
    assert {k: len(v) for k, v in world.published.members.items()} == {"ps": 1, "worker": 2}
    world.run_all()
    assert world.machine.state is JobState.RUNNING


def test_why_containers_are_awaited_is_known_until_they_are_there() -> None:
    world = Story(job("worker:2"))
    world.feed(e.BackendNoted(text="The queue is full.", is_waiting=True))
    assert world.machine.memory.waiting == "The queue is full."
    world.feed(e.BackendNoted(text="worker: 2 tasks share 1 node"))
    assert world.machine.memory.waiting == "The queue is full."
    world.allocate_all()
    assert world.machine.memory.waiting == ""
    world.feed(e.BackendNoted(text="The queue was full.", is_waiting=True))
    assert world.machine.memory.waiting == "", "that came too late"


def test_all_workers_done_is_success_and_the_ps_is_stopped() -> None:
    world = Story(job()).start()
    world.ends("worker:0")
    assert world.machine.memory.final is None
    world.ends("worker:1")
    assert world.starters[world.at("ps:0")].told_to_stop
    assert world.machine.state is JobState.RUNNING, "not over before everything is stopped"
    assert world.outcome() is FinalStatus.SUCCEEDED
    assert world.task("ps:0") is TaskState.KILLED


def test_one_failed_worker_fails_the_job_and_is_named_as_the_cause() -> None:
    world = Story(job()).start()
    world.ends("worker:1", 3)
    assert all(s.told_to_stop for s in world.starters.values() if s.task != "worker:1")
    assert world.outcome() is FinalStatus.FAILED
    assert world.text().startswith("worker:1 exited with code 3 on node0")


def test_a_ps_that_fails_ends_the_job_and_one_that_is_done_does_not() -> None:
    world = Story(job()).start()
    world.ends("ps:0", 0)
    assert world.machine.memory.final is None
    world = Story(job()).start()
    world.ends("ps:0", 1)
    assert world.outcome() is FinalStatus.FAILED


def test_only_untracked_groups_are_all_tracked() -> None:
    world = Story(job("evaluator:1")).start()
    world.ends("evaluator:0")
    assert world.outcome() is FinalStatus.SUCCEEDED


def test_the_first_cause_is_the_earliest_end_not_the_first_report() -> None:
    world = Story(job()).start()
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
    world = Story(job())
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
    world = Story(job()).start()
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


# ---------------------------------------------------------------- TensorBoard, evaluator, client


def test_tensorboard_runs_beside_the_job_and_never_fails_it() -> None:
    world = Story(job("worker:1,tensorboard:1")).start()
    assert world.published is not None
    assert "tensorboard" not in world.published.members
    world.ends("tensorboard:0", 1)
    assert world.machine.memory.final is None
    world.ends("worker:0")
    assert world.outcome() is FinalStatus.SUCCEEDED


def test_the_job_starts_without_its_tensorboard() -> None:
    world = Story(job("worker:1,tensorboard:1"))
    for request in [r for r in world.wishes if r.startswith("worker")]:
        world.allocate(request, NODES[0])
    world.register_all()
    world.run_all()
    assert world.machine.state is JobState.RUNNING
    world.ends("worker:0")
    assert world.outcome() is FinalStatus.SUCCEEDED


def test_a_running_evaluator_gets_time_for_its_last_evaluation() -> None:
    world = Story(job("worker:1,ps:1,evaluator:1")).start()
    world.ends("worker:0")
    assert world.starters[world.at("ps:0")].told_to_stop
    assert not world.starters[world.at("evaluator:0")].told_to_stop
    world.stop_all()
    assert world.finished is None
    world.ends("evaluator:0")
    assert world.outcome() is FinalStatus.SUCCEEDED


def test_a_job_runs_though_its_worker_was_done_before_its_evaluator_had_started() -> None:
    world = Story(job("worker:1,evaluator:1"))
    world.allocate_all()
    world.register_all()
    world.run(world.starters[world.at("worker:0")])
    world.ends("worker:0")
    assert world.machine.memory.running_since is None
    world.run(world.starters[world.at("evaluator:0")])
    assert world.machine.state is JobState.RUNNING


def test_the_evaluators_time_is_bounded() -> None:
    spec = job("worker:1,evaluator:1", timeouts=Timeouts(evaluator_s=30))
    world = Story(spec).start()
    world.ends("worker:0")
    world.stop_all()
    assert world.machine.memory.deadlines["evaluation"] == world.now + 30
    while "evaluation" in world.machine.memory.deadlines:
        world.pass_deadline()
    assert world.starters[world.at("evaluator:0")].told_to_stop
    assert world.outcome() is FinalStatus.SUCCEEDED


def test_a_kill_cuts_the_last_evaluation_short_but_success_stays() -> None:
    world = Story(job("worker:1,evaluator:1")).start()
    world.ends("worker:0")
    world.kill()
    assert world.outcome() is FinalStatus.SUCCEEDED


def test_with_servers_only_the_clients_exit_counts() -> None:
    world = Story(job("ps:1,worker:1", servers=True, client=True)).start()
    world.ends("client:0", 0)
    assert world.outcome() is FinalStatus.SUCCEEDED
    world = Story(job("ps:1,worker:1", servers=True, client=True)).start()
    world.ends("client:0", 4)
    assert world.outcome() is FinalStatus.FAILED
    assert "client:0 exited with code 4" in world.text()


def test_with_servers_and_a_client_a_failing_server_does_not_end_the_job() -> None:
    world = Story(job("ps:1,worker:1", servers=True, client=True)).start()
    world.ends("worker:0", 1)
    assert world.machine.memory.final is None
    world.ends("client:0", 0)
    assert world.outcome() is FinalStatus.SUCCEEDED


def test_a_tensorboard_that_lost_its_port_is_restarted_alone() -> None:
    world = Story(job("worker:1,tensorboard:1")).start()
    world.ends("tensorboard:0", 1, port_lost=True)
    world.pass_deadline()
    world.register_all()
    world.run_all()
    assert world.task("tensorboard:0") is TaskState.RUNNING
    assert world.attempt("worker:0") == 1


def test_a_long_last_evaluation_ends_without_complaint() -> None:
    world = Story(job("worker:1,ps:1,evaluator:1")).start()
    world.ends("worker:0")
    world.stop_all()
    while "evaluation" in world.machine.memory.deadlines:
        world.pass_deadline()
    assert world.outcome() is FinalStatus.SUCCEEDED
    assert world.text() == "All tracked tasks succeeded."


def test_a_client_that_vanishes_fails_the_job() -> None:
    world = Story(job("worker:1", client=True)).start()
    world.silent(world.starters[CLIENT_CONTAINER])
    assert world.outcome() is FinalStatus.FAILED
    assert "the client has not been heard of" in world.text()


def test_servers_without_a_client_run_until_killed() -> None:
    world = Story(job("ps:1,worker:1", servers=True)).start()
    assert world.machine.memory.deadlines == {}
    world.kill()
    assert world.outcome() is FinalStatus.KILLED
    assert world.text() == "Killed by alice."


# ---------------------------------------------------------------- policies


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


# ---------------------------------------------------------------- before the programs run


@pytest.mark.parametrize("cause", [e.Cause.PREEMPTED, e.Cause.EXITED])
def test_a_container_lost_before_the_rendezvous_is_replaced_unseen(cause: e.Cause) -> None:
    world = Story(job("worker:2"))
    world.allocate_all()
    world.container_ends("worker:0", cause)
    assert world.machine.memory.final is None
    world.start()
    assert world.machine.state is JobState.RUNNING


def test_a_starter_that_never_comes_up_anywhere_fails_the_job() -> None:
    world = Story(job("worker:1"))
    for _ in range(4):
        world.allocate_all()
        world.container_ends("worker:0", e.Cause.EXITED)
    assert world.outcome() is FinalStatus.FAILED


def test_too_few_containers_in_time_fail_the_job_and_say_how_many_came() -> None:
    world = Story(job("ps:1,worker:3"))
    for request in list(world.wishes)[:2]:
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
    world = Story(JobSpec(groups=groups, command="true"))
    for request in list(world.wishes)[:3]:
        world.allocate(request, NODES[0])
    world.register_all()
    world.pass_deadline()
    assert world.published is not None
    assert len(world.published.members["worker"]) == 2
    assert not world.wishes
    world.run_all()
    world.ends("worker:0")
    world.ends("worker:1")
    assert world.outcome() is FinalStatus.SUCCEEDED


def test_a_job_that_runs_loses_nobody_to_its_min() -> None:
    group = TaskGroupSpec(count=4, min=1, on_failure=OnFailure.RESTART_TASK)
    world = Story(JobSpec(groups={"worker": group}, command="true")).start()
    world.container_ends("worker:1", e.Cause.NODE_LOST, None)
    world.pass_deadline()
    world.pass_deadline()
    assert "got 3 of 4 worker" in world.machine.memory.diagnostics
    assert world.outcome() is FinalStatus.FAILED


def test_a_task_without_an_address_cannot_be_ignored() -> None:
    world = Story(policy(OnFailure.IGNORE, "worker:3"))
    world.refuse(RequestId("worker:1#1"))
    assert world.outcome() is FinalStatus.FAILED
    world = Story(policy(OnFailure.IGNORE, "worker:3"))
    for _ in range(4):
        world.allocate_all()
        world.container_ends("worker:1", e.Cause.EXITED)
    assert world.outcome() is FinalStatus.FAILED
    assert "cannot be left out" in world.text()


def test_containers_that_keep_getting_lost_before_the_start_do_not_go_on_for_ever() -> None:
    world = Story(job("worker:2"))
    for _ in range(200):
        if world.machine.memory.final is not None:
            break
        world.allocate_all()
        world.now += 31
        world.container_ends("worker:0", e.Cause.NODE_LOST, None)
        deadline = world.machine.next_deadline()
        if deadline is not None and deadline[1] <= world.now:
            world.feed(e.DeadlinePassed(deadline=deadline[0]))
    assert "could not start within 900 s" in world.machine.memory.diagnostics
    assert world.outcome() is FinalStatus.FAILED


def test_a_pause_before_a_restart_may_be_longer_than_a_rendezvous() -> None:
    backoff = Backoff(initial_s=600, max_s=600)
    world = Story(policy(OnFailure.RESTART_JOB, "worker:2", backoff=backoff)).start()
    began = world.now
    world.ends("worker:0", 1)
    world.register_all()
    world.pass_deadline()
    assert world.now == began + 600
    world.run_all()
    assert world.machine.state is JobState.RUNNING
    assert world.machine.memory.final is None


def test_a_starter_that_never_registers_ends_the_wait_with_its_name() -> None:
    world = Story(job("worker:2"))
    world.allocate_all()
    world.register(world.starters[world.at("worker:0")])
    world.pass_deadline()
    assert "worker:1 (not registered)" in world.machine.memory.diagnostics
    assert world.outcome() is FinalStatus.FAILED


def test_a_refused_request_fails_the_job_at_once() -> None:
    world = Story(job("worker:1"))
    world.refuse(next(iter(world.wishes)))
    assert world.outcome() is FinalStatus.FAILED
    assert "too big" in world.text()


# ---------------------------------------------------------------- ends


def test_the_job_timeout_ends_it() -> None:
    world = Story(job("worker:1", timeouts=Timeouts(job_s=60))).start()
    world.pass_deadline()
    assert "within its time of 60 s" in world.machine.memory.diagnostics
    assert world.outcome() is FinalStatus.FAILED


def test_a_container_that_does_not_stop_is_taken_away_and_then_given_up() -> None:
    world = Story(job("worker:1,ps:1")).start()
    world.ends("worker:0")
    world.pass_deadline()
    assert world.finished is None
    world.pass_deadline()
    assert world.finished is not None
    assert world.finished.status is FinalStatus.SUCCEEDED
    assert "Nobody said that these containers ended" in world.finished.diagnostics


def test_an_allocation_that_comes_after_the_end_is_given_back() -> None:
    world = Story(job("worker:1"))
    (request,) = world.wishes
    world.kill()
    commands = world.machine.handle(
        e.ContainerAllocated(request=request, container=ContainerId("late"), node=NODES[0]),
        world.now,
    )
    assert commands == [c.ReleaseContainer(container=ContainerId("late"))]


def test_a_backend_that_is_gone_ends_the_job() -> None:
    world = Story(job()).start()
    world.backend_gone()
    assert world.finished is not None
    assert world.finished.status is FinalStatus.FAILED
    assert world.task("worker:0") is TaskState.LOST


# ---------------------------------------------------------------- a new master


def test_a_new_master_takes_over_running_tasks_as_they_are() -> None:
    world = Story(job()).start()
    before = {t: (world.task(t), world.attempt(t)) for t in ("ps:0", "worker:0", "worker:1")}
    world.restart_master()
    assert {t: (world.task(t), world.attempt(t)) for t in before} == before
    assert world.published is not None
    world.ends("worker:0")
    world.ends("worker:1")
    assert world.outcome() is FinalStatus.SUCCEEDED


def test_a_new_master_releases_a_container_that_never_registered_and_asks_again() -> None:
    world = Story(job("worker:1"))
    world.allocate_all()
    world.restart_master()
    assert len(world.wishes) == 1
    world.stop_all()
    world.start()
    world.ends("worker:0")
    assert world.outcome() is FinalStatus.SUCCEEDED


def test_containers_that_turn_up_late_do_not_disturb_the_new_masters_own() -> None:
    world = Story(job("worker:2"))
    world.allocate_all()
    world.restart_master()
    world.stop_all()
    world.allocate_all()
    before = set(world.starters)
    world.feed(e.ContainersRecovered(containers=(ContainerId("c77"),), complete=False))
    assert set(world.starters) == before
    assert not any(s.told_to_stop for s in world.starters.values())
    assert not world.wishes


def test_a_new_master_of_a_finished_job_only_finishes_it() -> None:
    world = Story(job("worker:1")).start()
    world.ends("worker:0")
    world.outcome()
    again = Machine(world.spec)
    for event, at in world.log:
        again.handle(event, at)
    assert world.finished in again.resume()
