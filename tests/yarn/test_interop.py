"""Hadoop's own tools see a job of ours as they see any good application."""

from __future__ import annotations

import re
from typing import Any

from tests.yarn.driver import HERE, HOLD, Yarn

_CLI = "org.apache.hadoop.yarn.client.cli"
FIRST_ENDS = '[ "$DTF_TASK_INDEX" != 0 ] || exit 0; '


def test_hadoops_own_commands_follow_move_and_kill_a_job(yarn: Yarn, gate: str) -> None:
    job = yarn.submit("worker:2", gate + 'echo "I am $YTF_TASK"; ' + HERE + FIRST_ENDS + HOLD)
    yarn.wait_running(["worker:0", "worker:1"])
    # Both programs have run, which is one half, and one of two has ended.
    yarn.wait_until_yarn_knows(job, progress=75.0)

    listed = _java(yarn, "ApplicationCLI", "application", "-list", "-appTypes", "YTF")
    line = next(line.split("\t") for line in listed.splitlines() if job in line)
    found = [word.strip() for word in line]
    assert found[:7] == [job, "TensorFlow", "YTF", _rest(yarn, job)["user"], "root.default",
                         "RUNNING", "UNDEFINED"]  # fmt: skip
    assert found[7] == "75%"

    told = _fields(_java(yarn, "ApplicationCLI", "application", "-status", job))
    assert told["Application-Type"] == "YTF"
    assert told["Progress"] == "75%"
    rest = _rest(yarn, job)
    assert re.fullmatch(r"[^:]+:\d+", rest["amRPCAddress"])
    host, _, port = rest["amRPCAddress"].rpartition(":")
    assert (told["AM Host"], told["RPC Port"]) == (host, port)
    # This one shows where the master itself is, the other the way through the proxy.
    assert told["Tracking-URL"].startswith(f"http://{host}:{port}")
    assert job in rest["trackingUrl"]

    _java(yarn, "ApplicationCLI", "application", "-changeQueue", "ml", "-appId", job)
    assert _rest(yarn, job)["queue"] in ("ml", "root.ml")
    moved = yarn.status(job)
    assert (moved["state"], moved["queue"]) == ("RUNNING", _rest(yarn, job)["queue"])

    _java(yarn, "ApplicationCLI", "application", "-kill", job)
    status = yarn.wait(job, "KILLED")
    assert "killed by user" in status["diagnostics"]
    assert [task["state"] for task in status["tasks"]] == ["SUCCEEDED", "LOST"]
    yarn.nothing_is_left(job)
    assert "worker:1 | I am worker:1" in yarn.run("ytf", "logs", job).stdout.splitlines()
    aggregated = _java(yarn, "LogsCLI", "-applicationId", job)
    assert "LogType:worker-1.1.stdout" in aggregated
    assert "I am worker:1" in aggregated.splitlines()


def _java(yarn: Yarn, program: str, *arguments: str) -> str:
    done = yarn.cluster.java(f"{_CLI}.{program}", *arguments)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def _rest(yarn: Yarn, job: str) -> dict[str, Any]:
    found: dict[str, Any] = yarn.cluster.rm_rest(f"/apps/{job}")["app"]
    return found


def _fields(report: str) -> dict[str, str]:
    """``name : value`` lines of ``yarn application -status``."""
    lines = (line.strip().partition(" : ") for line in report.splitlines())
    return {name.strip(): value.strip() for name, _, value in lines}
