"""SIGKILL of the master, the node, or both: tasks go on, or the record says why they ended."""

from __future__ import annotations

import errno
import getpass
import json
import os
import signal
from pathlib import Path

import pytest

from tests.e2e.harness import (
    FOREVER,
    HERE,
    HOLD,
    Job,
    Ytf,
    is_alive,
    kill,
    states,
    task,
    wait_dead,
)
from ytf.backends.local import job_processes
from ytf.backends.local.directories import JobDirectories
from ytf.backends.local.job_handle import LocalJobHandle
from ytf.errors import UnreachableError
from ytf.specs.ids import JobId
from ytf.testing.waiting import eventually

TASKS = ("ps:0", "worker:0", "worker:1")


@pytest.fixture
def job(ytf: Ytf) -> Job:
    """A ps that serves for ever and two workers that hold, all running."""
    command = HERE + f"[ $DTF_TASK_JOB_NAME = ps ] && {FOREVER}; echo held >&2; {HOLD}"
    job = ytf.submit("ps:1,worker:2", command)
    job.wait_running(*TASKS)
    return job


def next_master(job: Job, old: int) -> int:
    """Kill a master; the one that comes after it."""
    kill(old)
    wait_dead(old)
    return job.master()


def release(fifo: Path) -> None:
    """Let those that wait for a writer go on, and keep others from waiting."""
    gone = fifo.rename(fifo.with_name("gone"))

    def opened() -> int | None:
        try:
            return os.open(gone, os.O_WRONLY | os.O_NONBLOCK)
        except OSError as exc:
            if exc.errno != errno.ENXIO:
                raise
            return None  # nobody waits there yet

    os.close(eventually(opened) or 0)


def masters(job: Job) -> list[str]:
    return [e.text for e in job.events() if e.event == "master-started"]


def test_training_does_not_notice_that_the_master_died_twice(ytf: Ytf, job: Job) -> None:
    programs = [job.program(each) for each in TASKS]
    second = next_master(job, job.master())
    status = job.status()
    assert status.state.value == "RUNNING"
    assert set(states(status).values()) == {"RUNNING"}
    next_master(job, second)
    assert [job.program(each) for each in TASKS] == programs
    ytf.open_gate()
    status = job.end("SUCCEEDED")
    assert [t.attempt for t in status.tasks] == [1, 1, 1]
    assert masters(job) == [f"Master attempt {n} started" for n in (1, 2, 3)]


def test_an_exit_while_there_is_no_master_is_told_late_but_rightly(ytf: Ytf, job: Job) -> None:
    master, program = job.master(), job.program("worker:1")
    # Stopped, it cannot take the report; dead, it never will.
    kill(master, signum=signal.SIGSTOP)
    kill(program)
    wait_dead(program)
    kill(master)
    status = job.end("FAILED")
    assert status.diagnostics.startswith("worker:1 was ended by SIGKILL")
    assert "  | held" in status.diagnostics
    assert states(status) == {"ps:0": "KILLED", "worker:0": "KILLED", "worker:1": "FAILED"}


def test_success_while_there_is_no_master_is_success(ytf: Ytf, job: Job) -> None:
    master, programs = job.master(), [job.program(each) for each in TASKS[1:]]
    kill(master, signum=signal.SIGSTOP)
    ytf.open_gate()
    wait_dead(*programs)
    kill(master)
    job.end("SUCCEEDED")


def test_a_container_that_dies_with_the_master_is_named(ytf: Ytf, job: Job) -> None:
    container = job.container("worker:0")
    kill(job.master(), *container[:3])
    status = job.end("FAILED")
    wait_dead(*container)
    assert status.diagnostics.startswith("worker:0 ")
    assert "SIGKILL" in status.diagnostics
    assert states(status)["worker:0"] == "FAILED"


def test_a_master_that_dies_during_the_rendezvous(ytf: Ytf, tmp_path: Path) -> None:
    # The dynamic linker opens this before it runs a program, and waits there for a writer.
    late = tmp_path / "late"
    os.mkfifo(late)
    job = ytf.submit_spec(
        groups={
            "worker": {"count": 2},
            "late": {"count": 1, "task_env": {"LD_PRELOAD": str(late)}},
        },
        command=HERE + HOLD,
    )
    job.wait_events("starter-registered", count=2)
    job.starter("late:0")
    starters = [job.starter("worker:0"), job.starter("worker:1")]
    next_master(job, job.master())
    job.wait_events("containers-recovered")
    release(late)
    ytf.told("late:0.2")
    job.wait_running("worker:0", "worker:1")
    assert [job.starter("worker:0"), job.starter("worker:1")] == starters
    ytf.open_gate()
    status = job.end("SUCCEEDED")
    assert [task(status, f"worker:{i}").attempt for i in (0, 1)] == [1, 1]
    order = [
        e.event for e in job.events() if e.event in ("master-started", "cluster-spec-published")
    ]
    assert order == ["master-started", "master-started", "cluster-spec-published"]


def test_a_master_that_dies_too_often_fails_the_job_with_a_reason(ytf: Ytf) -> None:
    job = ytf.submit_spec(
        groups={"worker": {"count": 1}},
        command=HERE + FOREVER,
        master={"max_attempts": 2},
    )
    job.wait_running("worker:0")
    program = job.program("worker:0")
    second = next_master(job, job.master())
    kill(second)
    status = job.end("FAILED")
    assert "the master died too often" in status.diagnostics
    assert "signal 9" in status.diagnostics
    assert "master.log" in status.diagnostics
    wait_dead(program)


def test_without_its_node_everything_goes_and_the_job_says_why(ytf: Ytf, job: Job) -> None:
    everyone = job.pids()
    assert len(everyone) >= 2 + 3 * 3
    kill(job.node())
    status = job.end("FAILED")
    assert "the process that runs the job on this machine died" in status.diagnostics
    assert set(states(status).values()) == {"LOST"}
    wait_dead(*everyone)


def test_without_node_and_master_the_next_command_buries_the_job(ytf: Ytf, job: Job) -> None:
    everyone, node, master = job.pids(), job.node(), job.master()
    # Stopped, the node cannot start another master in between.
    kill(node, signum=signal.SIGSTOP)
    kill(master, node)
    wait_dead(*everyone)
    assert not job.record.exists()
    status = job.status()
    assert status.state.value == "FAILED"
    assert "and the job's master died" in status.diagnostics
    assert states(status) == dict.fromkeys(TASKS, "LOST")
    assert job.logs("worker:0") == ["worker:0 ! held"], "what it wrote is still there"


def test_everything_killed_at_once(ytf: Ytf, job: Job) -> None:
    everyone, node, master = job.pids(), job.node(), job.master()
    kill(node, master, signum=signal.SIGSTOP)
    kill(node, *everyone)
    wait_dead(*everyone)
    listed = ytf.run("ytf", "list", "--json")
    assert [(e["id"], e["state"]) for e in json.loads(listed.stdout)] == [(job.id, "FAILED")]
    assert job.id in listed.stderr, "it is told that the job was found dead"
    assert not job.staging.exists()


@pytest.mark.parametrize("also", ["only the master", "the node as well"])
def test_a_kill_needs_no_master_that_answers(
    ytf: Ytf, job: Job, also: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    everyone, node, master = job.pids(), job.node(), job.master()
    kill(master, signum=signal.SIGSTOP)
    if also == "the node as well":
        kill(node, signum=signal.SIGSTOP)
        monkeypatch.setattr(job_processes, "_NODE_TIMEOUT_S", 1.0)
    # In this process, because the timeout of the command is too long for a test.
    handle = LocalJobHandle(JobDirectories(ytf.home), JobId(job.id), master_timeout_s=0.5)
    with pytest.raises(UnreachableError):
        handle.status()
    handle.kill("asked for")
    status = job.end("KILLED")
    assert status.diagnostics.startswith(f"Killed by {getpass.getuser()}: asked for")
    assert "its master did not answer" in status.diagnostics
    assert set(states(status).values()) == {"LOST"}
    wait_dead(*everyone)


def test_a_node_told_to_go_goes_in_order(ytf: Ytf, job: Job) -> None:
    everyone = job.pids()
    kill(job.node(), signum=signal.SIGTERM)
    status = job.end("FAILED")
    assert "the process that runs the job on this machine died" in status.diagnostics
    wait_dead(*everyone)
    assert not any(map(is_alive, everyone))
