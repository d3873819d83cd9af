"""``ytf doctor`` on this machine: a real job, and nothing of it is left."""

from __future__ import annotations

import json

from tests.e2e.harness import Ytf


def test_a_small_job_runs_and_leaves_nothing(ytf: Ytf) -> None:
    done = ytf.run("ytf", "doctor", "--json")
    found = {each["name"]: each for each in json.loads(done.stdout)}
    assert list(found) == [
        *("ytf", "YTF_HOME", "settings", "backend"),
        *("loopback", "container engine", "test job"),
    ]
    assert {each["state"] for each in found.values()} <= {"ok", "note"}
    assert found["backend"]["text"] == "local (from the variable YTF_BACKEND)"
    assert found["test job"]["text"].startswith("a job of one task ran")
    assert "is SUCCEEDED\n" in done.stderr
    for place in ("jobs", "history", "last"):
        assert not list(ytf.home.glob(f"{place}/*"))


def test_a_job_that_cannot_run_fails_the_check(ytf: Ytf) -> None:
    # More memory than the backend may give to all tasks together.
    ytf.env["YTF_LOCAL_MEMORY_MB"] = "100"
    ytf.env["NO_COLOR"] = "1"
    done = ytf.run("ytf", "doctor", code=1)
    assert "FAIL  test job" in done.stdout
    assert done.stdout.rstrip().rpartition("\n")[2].endswith("1 failed")
