"""What ``on_failure`` does: tasks restart in the containers that the job has."""

from __future__ import annotations

from tests.e2e.harness import FOREVER, HERE, HOLD, Ytf, kill, states, task

QUICK = {"initial_s": 0.05}


def test_restart_task_restarts_it_alone_where_it_is(ytf: Ytf) -> None:
    job = ytf.submit_spec(
        groups={"worker": {"count": 2, "on_failure": "restart-task", "backoff": QUICK}},
        command=HERE
        + 'if [ "$YTF_TASK.$YTF_ATTEMPT" = worker:1.1 ]; then '
        + 'until [ -e "$GATE/fail" ]; do sleep 0.02; done; exit 5; fi; '
        + HOLD,
    )
    job.wait_running("worker:0", "worker:1")
    starter, peer = job.starter("worker:1"), job.program("worker:0")
    ytf.tell("fail")
    job.wait_running("worker:1", attempt=2)
    assert job.starter("worker:1") == starter
    assert job.program("worker:0") == peer
    ytf.open_gate()
    status = job.end("SUCCEEDED")
    assert [t.attempt for t in status.tasks] == [1, 2]
    assert task(status, "worker:1").exit_code == 0


def test_restart_job_gives_everyone_a_new_generation_in_the_same_containers(ytf: Ytf) -> None:
    tasks = ("ps:0", "worker:0", "worker:1")
    job = ytf.submit_spec(
        groups={
            "ps": {"count": 1},
            "worker": {"count": 2, "on_failure": "restart-job", "backoff": QUICK},
        },
        command=HERE
        + 'touch "$GATE/$YTF_TASK.generation.$YTF_GENERATION"; '
        + 'if [ "$YTF_GENERATION.$YTF_TASK" = 1.worker:0 ]; then exit 0; fi; '
        + 'if [ "$YTF_GENERATION.$YTF_TASK" = 1.worker:1 ]; then '
        + 'until [ -e "$GATE/fail" ]; do sleep 0.02; done; exit 5; fi; '
        + HOLD,
    )
    job.wait_running(*tasks)
    job.wait_events("task-exited", task="worker:0")
    starters = [job.starter(each) for each in tasks]
    ytf.tell("fail")
    for each in tasks:
        ytf.told(f"{each}.generation.2")
    assert [job.starter(each) for each in tasks] == starters
    ytf.open_gate()
    status = job.end("SUCCEEDED")
    assert [t.attempt for t in status.tasks] == [2, 2, 2]
    assert "worker:1#2" not in "\n".join(job.logs("worker:0"))


def test_a_failure_may_be_ignored(ytf: Ytf) -> None:
    command = HERE + "[ $DTF_TASK_INDEX = 1 ] && exit 6; " + HOLD
    job = ytf.submit("worker:2", command, "--on_failure", "worker:ignore")
    job.wait_events("task-exited", task="worker:1")
    ytf.open_gate()
    status = job.end("SUCCEEDED")
    assert status.diagnostics == "1 of 2 tracked tasks succeeded; ignored: worker:1."
    assert states(status) == {"worker:0": "SUCCEEDED", "worker:1": "FAILED"}


def test_restarts_are_counted(ytf: Ytf) -> None:
    job = ytf.submit_spec(
        groups={
            "worker": {
                "count": 1,
                "on_failure": "restart-task",
                "max_restarts": 2,
                "backoff": QUICK,
            },
            "other": {"count": 1, "command": FOREVER},
        },
        command=HERE + "echo attempt $YTF_ATTEMPT; exit 5",
    )
    status = job.end("FAILED")
    first, *_, last = status.diagnostics.splitlines()
    assert first.startswith("worker:0, attempt 3, exited with code 5")
    assert last == "The task had been restarted 2 times, as allowed."
    assert job.logs("worker") == [
        "worker:0 | attempt 1",
        "worker:0#2 | attempt 2",
        "worker:0#3 | attempt 3",
    ]


def test_a_killed_container_is_replaced_by_restart_job(ytf: Ytf) -> None:
    job = ytf.submit_spec(
        groups={"worker": {"count": 2, "on_failure": "restart-job", "backoff": QUICK}},
        command=HERE + 'touch "$GATE/$YTF_TASK.generation.$YTF_GENERATION"; ' + HOLD,
    )
    job.wait_running("worker:0", "worker:1")
    killed, kept = job.container("worker:1"), job.starter("worker:0")
    kill(*killed[:3])
    for each in ("worker:0", "worker:1"):
        ytf.told(f"{each}.generation.2")
    assert job.starter("worker:0") == kept
    assert job.starter("worker:1") not in killed
    ytf.open_gate()
    job.end("SUCCEEDED")
