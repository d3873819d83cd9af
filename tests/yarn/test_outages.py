"""A NameNode or a ResourceManager that is dead or hangs: what can be done is, and soon."""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

import pytest

from tests.yarn.driver import HERE, SMALL, Yarn
from ytf.testing.waiting import eventually

TYPED_S = 40
"""The limit is 15 s for a command that somebody has typed; the machine of a test may be busy."""
SUBMIT = ("ytf-submit", "--backend", "yarn", *SMALL, "-r", "worker:1", "true")
FIRST = 'if [ "$YTF_TASK" = worker:0 ]; then until [ -e "$GATE/first" ]; do sleep 0.05; done; fi; '
SECOND = (
    'if [ "$YTF_TASK" = worker:1 ]; then trap \'touch "$GATE/termed"; exit 0\' TERM; '
    "while :; do sleep 0.05; done; fi"
)


@contextmanager
def away(yarn: Yarn, name: str, how: signal.Signals) -> Iterator[None]:
    """A daemon is dead or hangs for a while."""
    yarn.cluster.kill(name, how)
    try:
        yield
    finally:
        if how is signal.SIGSTOP:
            yarn.cluster.kill(name, signal.SIGCONT)
        else:
            yarn.cluster.restart(name)
        if name == "nn":
            yarn.cluster.wait_for_hdfs()


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGSTOP])
def test_a_master_is_asked_told_and_believed_without_hdfs(
    yarn: Yarn, gate: str, how: signal.Signals
) -> None:
    job = yarn.submit("worker:2", gate + HERE + "echo here; " + FIRST + SECOND)
    programs = yarn.wait_running(["worker:0", "worker:1"])
    yarn.wait(job, "RUNNING")

    def told() -> dict[str, str]:
        status = yarn.status(job)
        states = {f"{task['group']}:{task['index']}": task["state"] for task in status["tasks"]}
        return {"diagnostics": status["diagnostics"], **states}

    with away(yarn, "nn", how):
        assert told()["worker:1"] == "RUNNING"
        assert len(json.loads(yarn.run("ytf", "spec", job).stdout)["worker"]) == 2
        assert "task-started" in yarn.run("ytf", "events", job).stdout
        assert "worker:1 | here" in yarn.run("ytf", "logs", job).stdout.splitlines()
        # One ends, and that cannot be written down.
        (yarn.work / "gate" / "first").touch()
        eventually(lambda: told()["worker:0"] == "SUCCEEDED", 60, lambda: str(told()))
        trouble = "The master cannot write its journal"
        eventually(lambda: trouble in told()["diagnostics"], 60, lambda: str(told()))
        # The other one is killed, and has its time for that.
        yarn.run("ytf", "kill", job)
        eventually((yarn.work / "gate" / "termed").exists, 60, "worker:1 to be told to stop")
        eventually(lambda: told()["worker:1"] == "KILLED", 60, lambda: str(told()))
        assert not any((yarn.work / "gate" / f"{task}.2").exists() for task in programs)
    # YARN hears of the end once there is a record.
    with yarn.started("ytf", "logs", "-f", job) as following:
        following.end(0)
    status = yarn.wait(job, "KILLED")
    assert [task["state"] for task in status["tasks"]] == ["SUCCEEDED", "KILLED"]
    assert status["tasks"][0]["exit_code"] == 0
    assert trouble not in status["diagnostics"]
    yarn.nothing_is_left(job)


def test_a_namenode_that_says_nothing_is_told_soon(yarn: Yarn, gate: str) -> None:
    job = yarn.submit("worker:1", gate + HERE + "exec sleep 600")
    yarn.wait_running(["worker:0"])
    yarn.wait(job, "RUNNING")
    yarn.wait_until_yarn_knows(job, progress=50.0)
    # A machine that has never read the job's secret.
    elsewhere = replace(yarn, home=yarn.work / "elsewhere")
    with away(yarn, "nn", signal.SIGSTOP):
        seen = elsewhere.run("ytf", "status", job, timeout_s=TYPED_S).stdout
        assert "RUNNING" in seen
        assert "This is what YARN tells, as HDFS cannot be read" in seen
        for argv in (("ytf", "events", job), SUBMIT):
            said = elsewhere.run(*argv, code=1, timeout_s=TYPED_S).stderr
            assert "no answer within" in said
            assert "hint: check that HDFS runs" in said
        # YARN kills it, without its master.
        elsewhere.run("ytf", "kill", job, timeout_s=TYPED_S)
    yarn.wait(job, "KILLED")
    yarn.nothing_is_left(job)


def test_a_resourcemanager_that_says_nothing_is_told_soon(yarn: Yarn, gate: str) -> None:
    ended = yarn.submit("worker:1", "true")
    yarn.wait(ended, "SUCCEEDED")
    yarn.nothing_is_left(ended)
    # A ResourceManager that was stopped for more than 20 s may count its nodes as lost first.
    survives = ("--on_failure", "restart-task")
    job = yarn.submit("worker:1", gate + HERE + "exec sleep 600", *survives)
    yarn.wait_running(["worker:0"])
    with away(yarn, "rm", signal.SIGSTOP):
        for argv in (("ytf", "status", job), ("ytf", "kill", job), SUBMIT):
            said = yarn.run(*argv, code=1, timeout_s=TYPED_S).stderr
            assert "the ResourceManager" in said
            assert "hint: see whether it runs" in said
        # Of a job that has ended it could tell nothing new.
        assert "SUCCEEDED" in yarn.run("ytf", "status", ended, timeout_s=TYPED_S).stdout
    yarn.run("ytf", "kill", job)
    yarn.wait(job, "KILLED")
    yarn.nothing_is_left(job)
