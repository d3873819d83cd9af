"""What clients read beyond the status: starters, and what the job waits for."""

from __future__ import annotations

from ytf.machine.deadlines import (
    ALLOCATION,
    BACKOFF,
    EVALUATION,
    RENDEZVOUS,
    RESTART,
    TENSORBOARD_STAY,
)
from ytf.machine.machine import Machine
from ytf.machine.state import Container, MachineState, Task
from ytf.machine.status_view import StatusView, waits_for
from ytf.specs.ids import ContainerId, JobId, NodeId, RequestId, TaskId
from ytf.specs.job import JobSpec, TaskGroupSpec
from ytf.specs.status import FinalStatus, JobInfo, StarterAddress, TaskState


async def test_the_starters_that_listen() -> None:
    machine = Machine(JobSpec(groups={"worker": TaskGroupSpec(count=2)}, command="true"))
    info = JobInfo(id=JobId("local_1"), user="alice", submitted_at=1.0, backend="local")
    view = StatusView(info, machine, [], log_url=lambda *_: None)
    assert view.starters() == []
    task, node = TaskId("worker:1"), NodeId("n:1")
    machine.state.containers = {
        ContainerId("registered"): Container(task=task, node=node, control="n:4242"),
        ContainerId("not yet"): Container(task=TaskId("worker:0"), node=node),
        ContainerId("client_0"): Container(task=TaskId("client:0"), node=None, registered=True),
    }
    assert view.starters() == [
        StarterAddress(task=task, container=ContainerId("registered"), node=node, control="n:4242")
    ]


def test_warnings_are_told_of_jobs_that_did_not_fail() -> None:
    machine = Machine(JobSpec(groups={"worker": TaskGroupSpec(count=1)}, command="true"))
    info = JobInfo(id=JobId("local_1"), user="alice", submitted_at=1.0, backend="local")
    view = StatusView(info, machine, [], log_url=lambda *_: None)
    machine.state.warnings = ["ports are open"]
    assert view.status().diagnostics == "note: ports are open"
    machine.state.backend_note = "Waiting."
    assert view.status().diagnostics == "Waiting.\nnote: ports are open"
    machine.state.diagnostics = "All is well."
    machine.state.final = FinalStatus.SUCCEEDED
    assert view.status().diagnostics == "All is well.\nnote: ports are open"
    machine.state.final = FinalStatus.FAILED
    assert view.status().diagnostics == "All is well."


def test_what_a_task_does_without_a_program_is_its_reason() -> None:
    machine = Machine(JobSpec(groups={"worker": TaskGroupSpec(count=2)}, command="true"))
    info = JobInfo(id=JobId("local_1"), user="alice", submitted_at=1.0, backend="local")
    view = StatusView(info, machine, [], log_url=lambda *_: None)
    machine.state.tasks[TaskId("worker:1")].reason = "it failed"
    told = view.status(activity=lambda task: f"{task.id} stages in")
    assert [task.reason for task in told.tasks] == ["worker:0 stages in", "it failed"]
    assert view.status().tasks[0].reason == ""


def machine_state(*states: TaskState, **deadlines: float) -> MachineState:
    tasks = {}
    for index, state in enumerate(states):
        name = TaskId(f"worker:{index}")
        tasks[name] = Task(id=name, state=state)
        if state is TaskState.PENDING:
            tasks[name].request = RequestId(f"{name}#1")
    return MachineState(tasks=tasks, deadlines=deadlines)


def said(job: MachineState, headroom: str = "The queue is full.") -> str:
    return waits_for(job, headroom=headroom, now=1000.0)


def test_containers_and_what_there_is() -> None:
    pending = [TaskState.PENDING] * 7
    job = machine_state(TaskState.STARTING, *pending, **{ALLOCATION: 1540.0})
    assert said(job) == (
        "Waiting for a container for worker:1, worker:2, worker:3, worker:4, worker:5 and 2 more;"
        " the job gives up in 9 min. The queue is full."
    )
    assert said(machine_state(TaskState.PENDING), "") == "Waiting for a container for worker:0."
    job.backend_note = "Waiting for 7 containers. The queue is full."
    assert said(job).endswith("in 9 min."), "it is told already"


def test_starters_and_programs() -> None:
    job = machine_state(TaskState.ALLOCATED, TaskState.STARTING, **{RENDEZVOUS: 1030.0})
    assert said(job) == ("Waiting for the starter of worker:0 to report; the job gives up in 30 s.")
    assert said(machine_state(TaskState.STARTING, TaskState.RUNNING)) == (
        "Waiting for the program of worker:0 to start."
    )


def test_pauses_before_a_restart() -> None:
    job = machine_state(TaskState.FAILED, TaskState.RUNNING, **{f"{BACKOFF}worker:0": 1012.0})
    assert said(job) == "worker:0 starts again in 12 s."
    assert (
        said(machine_state(TaskState.FAILED, **{RESTART: 990.0})) == "The job starts again in 0 s."
    )


def test_the_end() -> None:
    job = machine_state(TaskState.RUNNING, TaskState.SUCCEEDED)
    job.final = FinalStatus.FAILED
    job.tasks[TaskId("worker:0")].container = ContainerId("c1")
    job.containers[ContainerId("c1")] = Container(task=TaskId("worker:0"), node=None)
    assert said(job) == "The job ends as FAILED. Waiting for worker:0 to stop."
    job.deadlines[TENSORBOARD_STAY] = 1240.0
    assert said(job).endswith(
        "TensorBoard stays for a look at the results; it is stopped in 4 min."
    )
    job.deadlines[EVALUATION] = 1060.0
    assert said(job).endswith("may finish its last evaluation; it is stopped in 60 s.")
    job.finished = True
    assert said(job) == ""


def test_a_job_that_runs_waits_for_nothing() -> None:
    assert said(machine_state(TaskState.RUNNING, TaskState.SUCCEEDED)) == ""
