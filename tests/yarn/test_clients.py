"""Programs at the submitter's terminal that take part in jobs on YARN, and other users' eyes."""

from __future__ import annotations

import json
import signal
from pathlib import Path

from tests.yarn.driver import HERE, HOLD, SMALL, Yarn
from ytf.testing.waiting import eventually

STAY = "exec sleep 600"


def test_the_clients_end_is_the_jobs_also_under_a_second_master(yarn: Yarn, gate: str) -> None:
    client = gate + 'echo "client sees $DTF_WORKER_HOSTS"; ' + HERE + HOLD + "exit 4"
    argv = (*SMALL, "--backend", "yarn", "-r", "worker:1", "--client", "--client_command", client)
    with yarn.started("ytf-submit", *argv, gate + HERE + STAY) as running:
        job = running.job()
        programs = yarn.wait_running(["worker:0", "client:0"])
        [worker] = json.loads(yarn.run("ytf", "spec", job).stdout)["worker"]
        yarn.kill_master(job, tasks=1)
        eventually(lambda: "Master attempt 2" in yarn.run("ytf", "events", job).stdout, 60)
        assert yarn.wait_running(["worker:0", "client:0"]) == programs
        yarn.open_gate()
        said = running.end(1)
    assert f"client sees {worker}\n" in said
    status = yarn.status(job)
    assert status["diagnostics"].startswith("client:0 exited with code 4")
    assert {task["group"]: task["state"] for task in status["tasks"]} == {
        "worker": "KILLED", "client": "FAILED",
    }  # fmt: skip
    yarn.nothing_is_left(job)


def test_a_killed_client_is_missed_and_an_interrupted_one_takes_the_job_along(
    yarn: Yarn, gate: str
) -> None:
    (yarn.work / "job.yaml").write_text(
        json.dumps(
            {
                "groups": {"worker": {"count": 1, "resources": {"memory": 128}}},
                "framework": "none",
                "command": f"sh -c '{STAY}'",
                "client": True,
                "client_command": gate + HERE + STAY,
                "timeouts": {"heartbeat_timeout_s": 7},
            }
        )
    )
    with (
        yarn.started("ytf", "submit", "--backend", "yarn", "job.yaml") as killed,
        yarn.started(
            "ytf-submit", *SMALL, "--backend", "yarn", "-r", "worker:1", "--client",
            "--client_command", "echo ready; sleep 600", STAY,
        ) as interrupted,
    ):  # fmt: skip
        lost, ended = killed.job(), interrupted.job()
        program = yarn.wait_running(["client:0"])["client:0"]
        killed.process.kill()
        eventually(lambda: not Path(f"/proc/{program}").exists(), 10, "its program to end, too")
        eventually(lambda: interrupted.output.readline() == "ready\n", 60, "the client to run")
        interrupted.process.send_signal(signal.SIGINT)
        said = interrupted.end(128 + signal.SIGINT)
    assert f"SIGINT: killing job {ended}" in said
    assert yarn.wait(ended, "KILLED")["final_status"] == "KILLED"
    assert "client:0" in yarn.wait(lost, "FAILED")["diagnostics"]
    eventually(lambda: not {lost, ended} & set(yarn.staged()), 20, "the staging directories to go")
    for job in (lost, ended):
        yarn.nothing_is_left(job)


def test_attached_commands_and_what_other_users_may(yarn: Yarn, gate: str) -> None:
    job = yarn.submit("worker:2", gate + HERE + HOLD, "-i", "/in put")
    bob = yarn.as_user("bob")
    yarn.wait_running(["worker:0", "worker:1"])
    command = 'echo "$DTF_TASK_JOB_NAME:$DTF_TASK_INDEX $DTF_INPUT_PATH $DTF_WORKER_HOSTS"; exit 7'
    done = yarn.run("ytf", "attach", job, "--index", "5", command, code=7)
    hosts = json.loads(yarn.run("ytf", "spec", job).stdout)["worker"]
    assert done.stdout == f"client:5 /in put {','.join(hosts)}\n"

    # What is another user's is told as YARN tells it, or refused.
    assert job in bob.run("ytf", "list", "--backend", "yarn").stdout
    # YARN learns with the master's next heartbeat that all tasks run.
    eventually(lambda: bob.status(job)["state"] == "RUNNING")
    seen = bob.status(job)
    assert (seen["id"], seen["user"]) == (job, yarn.status(job)["user"])
    assert seen["tasks"] == []
    assert f"Only {seen['user']} can see its tasks" in seen["diagnostics"]
    refused = bob.run("ytf", "attach", job, "true", code=1).stderr
    assert f"only {seen['user']}, whose job {job} is, can take part in it" in refused
    for asked in ("events", "logs"):
        assert f"only {seen['user']} may see" in bob.run("ytf", asked, job, code=1).stderr

    with yarn.started("ytf", "attach", job, f"echo ready; {STAY}") as attached:
        assert attached.output.readline() == "ready\n"
        # Without ACLs YARN lets anybody end an application.
        bob.run("ytf", "kill", job)
        # Before its owner's command has recorded it.
        ended = bob.status(job)["diagnostics"]
        said = attached.end(128 + signal.SIGTERM)
    assert f"job {job} has ended KILLED" in said
    assert "Killed by bob" in yarn.wait(job, "KILLED")["diagnostics"]
    assert "Killed by bob" in ended
    assert "can see its tasks" in ended
    assert "has ended" in yarn.run("ytf", "attach", job, "true", code=1).stderr
    yarn.nothing_is_left(job)
