"""What is known of a job on a real YARN when its master is not there, and when it never will be."""

from __future__ import annotations

import json
import os
import signal
import time
from typing import Any

from tests.yarn.driver import HERE, HOLD, Yarn
from ytf.testing.waiting import eventually

TASKS = ["ps:0", "worker:0"]
WAITS = 'touch "$GATE/other"; until [ -e "$GATE/done" ]; do sleep 0.05; done'
SOON_S = 25.0
"""Within which a command answers without a master: it takes three seconds, on a machine that
does nothing else."""


def test_a_job_that_yarn_ends_is_recorded_with_all_that_was_known(yarn: Yarn, gate: str) -> None:
    killed = yarn.submit("ps:1,worker:1", gate + HERE + HOLD)
    failed = yarn.submit("chief:1", gate + HERE + HOLD, "--max_master_attempts", "1")
    yarn.wait_running([*TASKS, "chief:0"])
    before = {job: yarn.wait(job, "RUNNING") for job in (killed, failed)}
    spec = _spec(yarn, killed)

    state = f"/apps/{killed}/state?user.name={yarn.home.owner()}"
    yarn.cluster.rm_rest(state, "PUT", {"state": "KILLED"})
    os.kill(yarn.master(failed), signal.SIGKILL)
    status = yarn.wait(killed, "KILLED")
    assert "killed by user" in status["diagnostics"]
    _is_recorded(yarn, killed, before[killed], status)
    assert _spec(yarn, killed) == spec
    status = yarn.wait(failed, "FAILED")
    assert "failed 1 times" in status["diagnostics"] or "failed once" in status["diagnostics"]
    _is_recorded(yarn, failed, before[failed], status)

    listed = json.loads(yarn.run("ytf", "list", "--backend", "yarn", "--json").stdout)
    for job in (killed, failed):
        [line] = [each for each in listed if each["id"] == job]
        now = yarn.status(job)
        assert line == {name: now[name] for name in line}
        yarn.nothing_is_left(job)


def test_while_there_is_no_room_for_the_next_master_the_last_that_was_known_is_told(
    yarn: Yarn, gate: str
) -> None:
    # Two nodes of 32 GB: the master fills one, its worker most of the other.
    job = yarn.submit(
        "worker:1", gate + HERE + HOLD, "--master_memory", "30000", "-m", "worker:20000"
    )
    program = yarn.wait_running(["worker:0"])
    before = yarn.wait(job, "RUNNING")
    spec = _spec(yarn, job)
    other = yarn.submit("worker:1", gate + WAITS, "-m", "worker:25000")
    eventually(lambda: "Waiting for 1 of 1" in yarn.status(other)["diagnostics"], 60)

    # At once: nobody has noticed yet.
    master = yarn.master(job)
    os.kill(master, signal.SIGSTOP)
    told = _soon(yarn, job)
    assert told["diagnostics"].startswith("Master attempt 1 does not answer right now: ")
    assert _lasting(told) == _lasting(before)
    os.kill(master, signal.SIGCONT)

    yarn.kill_master(job, tasks=1)
    # What its master had is given to whoever waits, before another asks for it.
    eventually((yarn.work / "gate" / "other").exists, 60, "the other job to run")
    eventually(lambda: "Master attempt 2" in yarn.status(job)["diagnostics"], 60)
    told = _soon(yarn, job)
    said = told["diagnostics"]
    assert said.startswith("Master attempt 2 does not answer right now: it has not begun yet")
    assert "Waiting for its master" in said
    assert _lasting(told | {"tracking_url": ""}) == _lasting(before | {"tracking_url": ""})
    assert _spec(yarn, job) == spec
    events = yarn.run("ytf", "events", job).stdout.splitlines()
    assert any("task-started" in line for line in events)
    assert "master-unreachable" in events[-1]

    (yarn.work / "gate" / "done").touch()
    yarn.wait(other, "SUCCEEDED")
    eventually(lambda: "Master attempt 2 started" in yarn.run("ytf", "events", job).stdout, 60)
    assert yarn.wait_running(["worker:0"]) == program
    yarn.open_gate()
    yarn.wait(job, "SUCCEEDED")
    for each in (job, other):
        yarn.nothing_is_left(each)


def _lasting(status: dict[str, Any]) -> dict[str, Any]:
    """A status without what changes while nothing happens: what tasks use is measured anew."""
    tasks = [task | {"usage": None} for task in status["tasks"]]
    return status | {"diagnostics": "", "tasks": tasks}


def _soon(yarn: Yarn, job: str) -> dict[str, Any]:
    began = time.monotonic()
    told = yarn.status(job)
    assert time.monotonic() - began < SOON_S
    return told


def _spec(yarn: Yarn, job: str) -> object:
    return json.loads(yarn.run("ytf", "spec", job).stdout)


def _is_recorded(yarn: Yarn, job: str, before: dict[str, Any], status: dict[str, Any]) -> None:
    """Every task is told as it was, but for its end; and so are its events."""
    known = ("group", "index", "attempt", "host", "port", "container", "node", "log_url")
    for was, now in zip(before["tasks"], status["tasks"], strict=True):
        assert {name: now[name] for name in known} == {name: was[name] for name in known}
        assert (now["state"], now["reason"]) == ("LOST", "the job was ended without its master")
    assert status["started"] == before["started"]
    assert status["finished"] is not None
    assert yarn.status(job) == status
    events = yarn.run("ytf", "events", job).stdout
    for event in ("master-started", "container-allocated", "task-started", "job-finished"):
        assert event in events, events
