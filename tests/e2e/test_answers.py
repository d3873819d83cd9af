"""``status``, ``list``, ``logs``, ``spec`` and ``events``: a contract, also after the end."""

from __future__ import annotations

import json
from typing import Any

from tests.e2e.harness import HERE, HOLD, Ytf, states, task
from ytf.testing.waiting import eventually

STATUS = [
    *("id", "name", "user", "queue", "backend", "state", "final_status", "diagnostics"),
    *("started", "finished", "tracking_url", "tensorboard_url", "tasks"),
]
TASK = [
    *("group", "index", "state", "attempt", "exit_code", "signal", "host", "port"),
    *("container", "node", "log_url", "reason", "memory_mb", "vcores", "usage"),
]
SUMMARY = ["id", "name", "user", "queue", "backend", "state", "started", "finished"]


def answer(ytf: Ytf, *words: str) -> Any:
    return json.loads(ytf.run("ytf", *words).stdout)


def test_the_answers_stay_the_same_after_the_end(ytf: Ytf) -> None:
    command = HERE + 'echo "out of $YTF_TASK"; [ $DTF_TASK_INDEX = 0 ] && exit 0; ' + HOLD
    job = ytf.submit("worker:2", command, "-n", "two", "-q", "q1")
    job.wait_running("worker:0", "worker:1")
    eventually(lambda: states(job.status())["worker:0"] == "SUCCEEDED")

    running = answer(ytf, "status", job.id, "--json")
    assert list(running) == STATUS
    assert [list(each) for each in running["tasks"]] == [TASK, TASK]
    assert (running["state"], running["final_status"]) == ("RUNNING", None)
    assert (running["name"], running["queue"], running["backend"]) == ("two", "q1", "local")
    assert running["tracking_url"].startswith("http://127.0.0.1:")
    assert running["finished"] is None
    spec = answer(ytf, "spec", job.id)
    assert spec == {"worker": [f"127.0.0.1:{t['port']}" for t in running["tasks"]]}
    told = answer(ytf, "events", job.id, "--json")
    listed = answer(ytf, "list", "--json")
    assert [(each["id"], each["state"]) for each in listed] == [(job.id, "RUNNING")]
    logs = job.logs()
    assert sorted(logs) == ["worker:0 | out of worker:0", "worker:1 | out of worker:1"]

    ytf.open_gate()
    job.end("SUCCEEDED")
    ended = answer(ytf, "status", job.id, "--json")
    assert list(ended) == STATUS
    assert ended["tasks"][0] == running["tasks"][0]
    assert ended["tasks"][0]["exit_code"] == 0
    changed = {"state": "SUCCEEDED", "exit_code": 0, "usage": ended["tasks"][1]["usage"]}
    assert ended["tasks"][1] == {**running["tasks"][1], **changed}
    assert ended["tasks"][1]["usage"]["peak_memory_bytes"] > 0
    assert (ended["state"], ended["final_status"]) == ("SUCCEEDED", "SUCCEEDED")
    assert ended["started"] == running["started"] < ended["finished"]
    assert ended["tracking_url"] is None
    assert answer(ytf, "spec", job.id) == spec
    assert answer(ytf, "events", job.id, "--json")[: len(told)] == told
    assert list(told[0]) == ["at", "event", "task", "text"]
    assert [e["state"] for e in answer(ytf, "list", "--json")] == ["SUCCEEDED"]
    assert list(listed[0]) == SUMMARY
    assert sorted(job.logs()) == sorted(logs)
    assert job.logs("worker:1") == ["worker:1 | out of worker:1"]


def test_logs_are_followed_live_until_the_job_ends(ytf: Ytf) -> None:
    command = HERE + "echo first; echo problem >&2; " + HOLD + 'printf "last ✓"'
    job = ytf.submit("worker:2", command)
    following = ytf.start("ytf", "logs", job.id, "-f")
    assert following.stdout is not None
    early = {following.stdout.readline().rstrip("\n") for _ in range(4)}
    assert early == {f"worker:{i} {text}" for i in (0, 1) for text in ("| first", "! problem")}
    ytf.open_gate()
    rest, errors = following.communicate(timeout=60)
    assert following.returncode == 0, errors
    assert sorted(rest.splitlines()) == ["worker:0 | last ✓", "worker:1 | last ✓"]
    job.end("SUCCEEDED")


def test_people_are_told_in_words(ytf: Ytf) -> None:
    job = ytf.submit("ps:1,worker:1", HERE + HOLD)
    job.wait_running("worker:0")
    ytf.open_gate()
    job.end("SUCCEEDED")
    table = ytf.run("ytf", "status", job.id).stdout
    assert job.id in table
    assert "worker:0" in table
    assert "SUCCEEDED" in table
    events = ytf.run("ytf", "events", job.id).stdout
    assert "task-exited" in events
    assert job.id in ytf.run("ytf", "list").stdout


def test_an_unknown_job_or_task_is_told_apart_from_a_bug(ytf: Ytf) -> None:
    job = ytf.submit("worker:1", "true")
    job.end("SUCCEEDED")
    near = job.id[:-1] + ("0" if job.id[-1] != "0" else "1")
    for words in (("status", near), ("kill", near), ("logs", near), ("spec", near)):
        done = ytf.run("ytf", *words, code=1)
        assert near in done.stderr
        assert job.id in done.stderr, "the near miss is named"
    assert "worker" in ytf.run("ytf", "logs", job.id, "workers", code=1).stderr
    assert "already ended" in ytf.run("ytf", "kill", job.id).stderr


def test_two_jobs_of_one_name_live_side_by_side(ytf: Ytf) -> None:
    first = ytf.submit("worker:1", HERE + HOLD, "-n", "same")
    second = ytf.submit("worker:1", HERE + "exit 4", "-n", "same")
    assert second.end("FAILED").name == "same"
    assert first.status().state.value == "RUNNING"
    ytf.open_gate()
    assert first.end("SUCCEEDED").name == "same"
    assert task(second.status(), "worker:0").exit_code == 4
    assert [each["id"] for each in answer(ytf, "list", "--json")] == [second.id, first.id]


def test_a_job_is_named_by_a_part_of_its_id_its_name_or_as_the_last(ytf: Ytf) -> None:
    program = HERE + 'echo "attempt $YTF_ATTEMPT"; [ "$YTF_ATTEMPT" = 1 ] && exit 1; ' + HOLD
    older = ytf.submit("worker:1", HOLD, "-n", "older")
    job = ytf.submit("worker:1", program, "-n", "newer", "--on_failure", "restart-task")
    eventually(lambda: "attempt 2" in ytf.run("ytf", "logs", "newer").stdout)
    for text in ("@last", "newer", job.id.rpartition("_")[2], job.id.partition("_")[2]):
        assert answer(ytf, "status", text, "--json")["id"] == job.id
    assert answer(ytf, "status", "older", "--json")["id"] == older.id
    assert ytf.run("ytf", "logs", "@last", "worker:0#2").stdout == "worker:0#2 | attempt 2\n"

    unclear = ytf.run("ytf", "kill", "local_", code=1).stderr
    assert older.id in unclear
    assert job.id in unclear
    assert [each["id"] for each in answer(ytf, "list", "--json", "--name", "old*")] == [older.id]
    assert len(answer(ytf, "list", "--json", "--running")) == 2

    ended = ytf.run("ytf", "kill", "--wait", "older", "@last").stderr
    assert ended.endswith(
        f"ytf: job {older.id} has ended: KILLED\nytf: job {job.id} has ended: KILLED\n"
    )
    assert answer(ytf, "list", "--json", "--running") == []
    # Both have ended, and the name still means the same job.
    assert answer(ytf, "status", "newer", "--json")["id"] == job.id


def test_lines_are_shown_while_the_job_is_waited_for(ytf: Ytf) -> None:
    waiting = ytf.start(
        *("ytf-submit", "--wait", "--logs", "--framework", "none", "-r", "worker:1"),
        "echo early; " + HOLD + "echo late >&2",
    )
    assert waiting.stderr is not None
    for line in waiting.stderr:
        if line == "worker:0 | early\n":
            break
    ytf.open_gate()
    rest = waiting.stderr.read().splitlines()
    assert waiting.wait(60) == 0
    assert "worker:0 ! late" in rest
    assert rest.index("worker:0 ! late") < len(rest) - 1
    assert waiting.stdout is not None
    assert waiting.stdout.read().startswith("local_")
