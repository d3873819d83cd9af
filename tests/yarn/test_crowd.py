"""A hundred containers at once."""

from __future__ import annotations

import json

from tests.yarn.driver import Yarn

TASKS = 100


def test_a_hundred_tasks_meet_and_end(yarn: Yarn) -> None:
    # Everyone counts its peers, which it knows only when all have registered.
    command = 'test "$(echo "$DTF_WORKER_HOSTS" | tr , "\\n" | sort -u | wc -l)" = ' + str(TASKS)
    job = yarn.submit(f"worker:{TASKS}", command)
    status = yarn.wait(job, "SUCCEEDED")
    assert [task["exit_code"] for task in status["tasks"]] == [0] * TASKS
    assert len({task["container"] for task in status["tasks"]}) == TASKS
    events = json.loads(yarn.run("ytf", "events", job, "--json").stdout)
    assert [event["text"] for event in events if event["event"] == "launch-failed"] == []
    yarn.nothing_is_left(job)
