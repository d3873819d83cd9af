from __future__ import annotations

from ytf.master.deadlines import ALLOCATION, BACKOFF, EVALUATION, RENDEZVOUS, RESTART
from ytf.master.state import Container, JobMemory, Task
from ytf.master.waiting import waits_for
from ytf.specs.names import ContainerId, RequestId, TaskId
from ytf.specs.status import FinalStatus, TaskState


def memory(*states: TaskState, **deadlines: float) -> JobMemory:
    tasks = {}
    for index, state in enumerate(states):
        name = TaskId(f"worker:{index}")
        tasks[name] = Task(id=name, state=state)
        if state is TaskState.PENDING:
            tasks[name].request = RequestId(f"{name}#1")
    return JobMemory(tasks=tasks, deadlines=deadlines)


def said(job: JobMemory, supply: str = "The queue is full.") -> str:
    return waits_for(job, supply=supply, now=1000.0)


def test_containers_and_what_there_is() -> None:
    pending = [TaskState.PENDING] * 7
    job = memory(TaskState.STARTING, *pending, **{ALLOCATION: 1540.0})
    assert said(job) == (
        "Waiting for a container for worker:1, worker:2, worker:3, worker:4, worker:5 and 2 more;"
        " the job gives up in 9 min. The queue is full."
    )
    assert said(memory(TaskState.PENDING), "") == "Waiting for a container for worker:0."
    job.waiting = "Waiting for 7 containers. The queue is full."
    assert said(job).endswith("in 9 min."), "it is told already"


def test_starters_and_programs() -> None:
    job = memory(TaskState.ALLOCATED, TaskState.STARTING, **{RENDEZVOUS: 1030.0})
    assert said(job) == ("Waiting for the starter of worker:0 to report; the job gives up in 30 s.")
    assert said(memory(TaskState.STARTING, TaskState.RUNNING)) == (
        "Waiting for the program of worker:0 to start."
    )


def test_pauses_before_a_restart() -> None:
    job = memory(TaskState.FAILED, TaskState.RUNNING, **{f"{BACKOFF}worker:0": 1012.0})
    assert said(job) == "worker:0 starts again in 12 s."
    assert said(memory(TaskState.FAILED, **{RESTART: 990.0})) == "The job starts again in 0 s."


def test_the_end() -> None:
    job = memory(TaskState.RUNNING, TaskState.SUCCEEDED)
    job.final = FinalStatus.FAILED
    job.tasks[TaskId("worker:0")].container = ContainerId("c1")
    job.containers[ContainerId("c1")] = Container(task=TaskId("worker:0"), node=None)
    assert said(job) == "The job ends as FAILED. Waiting for worker:0 to stop."
    job.deadlines[EVALUATION] = 1060.0
    assert said(job).endswith("may finish its last evaluation; it is stopped in 60 s.")
    job.finished = True
    assert said(job) == ""


def test_a_job_that_runs_waits_for_nothing() -> None:
    assert said(memory(TaskState.RUNNING, TaskState.SUCCEEDED)) == ""
