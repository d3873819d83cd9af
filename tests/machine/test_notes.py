"""Notes about a job in which every program is idle, and about output that was lost."""

from __future__ import annotations

import msgspec

from tests.machine.scenario import Scenario, job
from ytf.machine import events as e
from ytf.machine.notes import notes
from ytf.machine.projection import Projection
from ytf.machine.status_view import StatusView
from ytf.specs.ids import ContainerId, JobId, TaskId
from ytf.specs.job import JobSpec, TaskGroupSpec
from ytf.specs.status import JobInfo

SINCE = 50400.0  # 14:00:00 UTC


def told(world: Scenario) -> str:
    return "\n".join(notes(world.spec, world.machine.state))


def idle(world: Scenario) -> str:
    world.feed(e.JobBecameIdle(since=SINCE))
    return told(world)


def test_a_worker_that_waits_for_a_finished_peer() -> None:
    world = Scenario(job("ps:1,worker:2")).start()
    world.ends("worker:0")
    text = idle(world)
    assert "since 1970-01-01 14:00:00 UTC. Running: worker:1. Ended successfully: worker:0." in text
    assert "-r chief:1" in text
    world.feed(e.JobIdleEnded())
    assert told(world) == ""


def test_a_group_that_never_ends() -> None:
    world = Scenario(job("driver:1,worker:2")).start()
    world.ends("driver:0")
    assert "--untracked worker" in idle(world)


def test_programs_that_wait_for_each_other() -> None:
    world = Scenario(job("ps:1,worker:2")).start()
    assert "Running: worker:0, worker:1. `ytf logs`" in idle(world)
    world.ends("worker:0")
    assert "Ended successfully: worker:0" in told(world)
    world.ends("worker:1")
    assert told(world) == ""


def test_which_programs_the_job_waits_for() -> None:
    world = Scenario(job("ps:1,worker:2"))
    world.allocate_all()
    world.register_all()
    assert world.machine.running_programs() == []
    assert idle(world) == "", "a job that starts waits for other things"
    world.run_all()
    assert len(world.machine.running_programs()) == 3
    world.ends("worker:0")
    assert world.machine.running_programs() == [world.at("ps:0"), world.at("worker:1")]
    world.ends("worker:1")
    assert world.machine.running_programs() == []


def test_servers_and_terminals_may_wait() -> None:
    assert idle(Scenario(job("ps:1,worker:1", servers=True)).start()) == ""
    assert idle(Scenario(job("worker:1", client=True)).start()) == ""


def test_lost_output_is_told_while_the_job_runs_and_after() -> None:
    world = Scenario(job("worker:2")).start()
    container = world.at("worker:0")
    lost = e.OutputLost(task=TaskId("worker:0"), attempt=1, container=container, at=SINCE)
    world.feed(lost)
    world.feed(msgspec.structs.replace(lost, at=SINCE + 1))
    assert "full at 1970-01-01 14:00:00 UTC" in told(world)
    assert "worker:0." in told(world)
    world.ends("worker:0")
    world.feed(
        e.TaskExited(
            task=TaskId("worker:1"),
            attempt=1,
            container=world.at("worker:1"),
            exit_code=0,
            signal=None,
            ended_at=0,
            output_lost_at=SINCE + 2,
        )
    )
    world.outcome()
    assert "worker:0, worker:1." in told(world)


def test_a_task_that_the_job_does_not_have_loses_nothing() -> None:
    world = Scenario(job("worker:1")).start()
    world.feed(
        e.OutputLost(task=TaskId("worker:7"), attempt=1, container=ContainerId("c1"), at=SINCE)
    )
    assert told(world) == ""


def test_notes_are_lines_of_the_diagnostics() -> None:
    spec = JobSpec(groups={"worker": TaskGroupSpec(count=1)}, command="true")
    projection = Projection(spec)
    projection.machine.state.output_lost[TaskId("worker:0")] = SINCE
    info = JobInfo(id=JobId("local_1_2"), user="me", submitted_at=1.0, backend="local")
    view = StatusView(info, projection.machine, [], log_url=lambda *_: None)
    status = view.status("of the\nmaster")
    assert [line.partition(": ")[2][:8] for line in status.notes] == ["the disk", "of the m"]
    assert status.notes[1] == "note: of the master"
    assert status.diagnostics == "\n".join(status.notes)
