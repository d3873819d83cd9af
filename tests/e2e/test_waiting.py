"""Jobs whose tasks wait for a task that has ended: they end, or say what they wait for."""

from __future__ import annotations

import re

from tests.e2e.harness import HERE, HOLD, Job, Ytf, kill, states, wait_dead
from ytf.testing.waiting import eventually

SLEEP = "exec sleep 1000"
"""Waits without using the processor."""


def test_workers_that_never_end_are_stopped_after_the_chiefs_success(ytf: Ytf) -> None:
    job = ytf.submit_spec(
        groups={
            "chief": {"count": 1, "command": HERE + HOLD},
            "ps": {"count": 1, "command": HERE + SLEEP},
            "worker": {"count": 2, "command": HERE + SLEEP},
        },
        timeouts={"after_chief_s": 0.5},
    )
    job.wait_running("chief:0", "ps:0", "worker:0", "worker:1")
    everyone = job.pids()
    ytf.open_gate()
    status = job.end("SUCCEEDED", timeout_s=60)
    wait_dead(*everyone, timeout_s=60)
    assert states(status) == {
        "chief:0": "SUCCEEDED",
        "ps:0": "KILLED",
        "worker:0": "KILLED",
        "worker:1": "KILLED",
    }
    assert status.diagnostics.startswith("chief:0 succeeded, which decides the job.\n")
    (note,) = status.notes
    assert "worker:0, worker:1" in note
    assert "--untracked worker" in note


def test_workers_have_time_to_finish_after_the_chiefs_success(ytf: Ytf) -> None:
    job = ytf.submit_spec(
        groups={
            "chief": {"count": 1, "command": HERE},
            "worker": {"count": 1, "command": HERE + HOLD + "echo the last line"},
        },
        timeouts={"after_chief_s": 300},
    )
    job.wait_running("worker:0")
    job.wait_events("task-exited", task="chief:0")
    status = job.status()
    assert status.state.value == "RUNNING"
    assert "it waits for worker:0 to end" in "".join(status.notes)
    ytf.open_gate()
    assert states(job.end("SUCCEEDED", timeout_s=60)) == {
        "chief:0": "SUCCEEDED",
        "worker:0": "SUCCEEDED",
    }
    assert "worker:0 | the last line" in job.logs()


def look(ytf: Ytf, stays_s: float) -> Job:
    """A job that has succeeded, and whose TensorBoard stays."""
    job = ytf.submit_spec(
        groups={
            "worker": {"count": 1, "command": HERE + HOLD},
            "ps": {"count": 1, "command": HERE + SLEEP},
            "tensorboard": {"count": 1, "command": HERE + SLEEP},
        },
        timeouts={"tensorboard_s": stays_s},
    )
    job.wait_running("worker:0", "ps:0", "tensorboard:0")
    ytf.open_gate()
    return job


STAYING = {"worker:0": "SUCCEEDED", "ps:0": "KILLED", "tensorboard:0": "RUNNING"}


def test_tensorboard_stays_though_its_master_dies_until_it_is_killed(ytf: Ytf) -> None:
    job = look(ytf, 3000)
    (note,) = eventually(lambda: job.status().notes, 60, "a note") or []
    assert re.search(r"TensorBoard stays until \d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC", note)
    status = job.status()
    assert (states(status), status.state.value) == (STAYING, "RUNNING")
    assert status.tensorboard_url is not None
    first, board = job.master(), job.program("tensorboard:0")
    kill(first)
    wait_dead(first)
    job.wait_events("containers-recovered")
    status = job.status()
    assert (states(status), status.notes) == (STAYING, [note])
    assert job.program("tensorboard:0") == board
    ytf.run("ytf", "kill", job.id)
    status = job.end("SUCCEEDED")
    wait_dead(board)
    assert (states(status)["tensorboard:0"], status.notes) == ("KILLED", [])


def test_a_job_ends_when_the_time_of_its_tensorboard_is_over(ytf: Ytf) -> None:
    job = look(ytf, 0.5)
    board = job.program("tensorboard:0")
    status = job.end("SUCCEEDED")
    wait_dead(board)
    assert states(status) == {**STAYING, "tensorboard:0": "KILLED"}
    passed = [event.text for event in job.events() if event.event == "deadline-passed"]
    assert passed == ["The time for a look at TensorBoard is over"]


def test_a_worker_that_waits_for_a_finished_peer_is_told_of(ytf: Ytf) -> None:
    """Between-graph training without a chief: the job goes on, and says why it does not end."""
    wait = "while :; do echo still waiting for response from worker; sleep 5; done"
    first_ends = f'{HERE}[ "$DTF_TASK_INDEX" = 0 ] && exit 0; {wait}'
    job = ytf.submit_spec(
        groups={"worker": {"count": 2, "command": first_ends}}, timeouts={"idle_s": 1}
    )
    job.wait_running("worker:0", "worker:1")
    (note,) = eventually(lambda: job.status().notes, 60, "a note") or []
    assert "Running: worker:1. Ended successfully: worker:0" in note
    assert "-r chief:1" in note
    assert "job-became-idle" in {event.event for event in job.events()}
    assert job.status().state.value == "RUNNING"
    ytf.run("ytf", "kill", job.id)
    job.end("KILLED")


def test_an_idle_job_says_so_to_who_waits_for_it(ytf: Ytf) -> None:
    file = ytf.work / "job.yaml"
    file.write_text(
        "framework: none\n"
        f"groups: {{worker: {{count: 1, command: {SLEEP}}}}}\n"
        "timeouts: {idle_s: 1}\n"
    )
    waiting = ytf.start("ytf", "submit", "--wait", str(file))
    assert waiting.stderr is not None
    told = next(line for line in waiting.stderr if line.startswith("note: "))
    assert "all programs are idle" in told
    assert "Running: worker:0" in told
    assert waiting.stdout is not None
    ytf.run("ytf", "kill", waiting.stdout.readline().strip())
    waiting.communicate(timeout=60)
    assert waiting.returncode == 1
