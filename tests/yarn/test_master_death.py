"""Masters that die on a real YARN, at the worst moments."""

from __future__ import annotations

import os
import shutil
import signal
import time
from pathlib import Path

import pytest

import ytf
from tests.yarn.driver import HERE, HOLD, SMALL, Yarn
from ytf.minicluster import MiniCluster
from ytf.testing.waiting import eventually


@pytest.fixture
def slow(hadoop_slow: MiniCluster, yarn_home: Path, tmp_path: Path) -> Yarn:
    """The commands, on a cluster that hears late of what its nodes run."""
    (tmp_path / "gate").mkdir()
    return Yarn(hadoop_slow, yarn_home, tmp_path)


@pytest.mark.parametrize("after_s", [0.0, 0.2, 0.5, 1.0, 2.0])
def test_a_master_that_dies_just_after_the_start_of_its_tasks(
    slow: Yarn, gate: str, after_s: float
) -> None:
    # YARN keeps the containers of which it has heard from their nodes that they run, and kills the
    # others. So it depends on the delay which ones these are: none, some or all.
    job = slow.submit("ps:1,worker:3", gate + HERE + HOLD)
    eventually(lambda: any((slow.work / "gate").iterdir()), 100, "the first program")
    time.sleep(after_s)  # what is tested: how young a container may be that loses its master
    os.kill(slow.master(job), signal.SIGKILL)
    eventually(lambda: "Master attempt 2 started" in _events(slow, job), 100, "a new master")
    slow.open_gate()
    status = slow.wait(job, "SUCCEEDED")
    ended = {f"{task['group']}:{task['index']}": task["state"] for task in status["tasks"]}
    assert {ended[f"worker:{index}"] for index in range(3)} == {"SUCCEEDED"}
    slow.nothing_is_left(job)


def test_starters_find_a_master_that_cannot_reach_them(yarn: Yarn, gate: str) -> None:
    # The job travels with a ytf whose masters lose every call to a starter.
    package = yarn.work / "deaf" / "ytf"
    shutil.copytree(Path(ytf.__file__).parent, package)
    with (package / "master" / "starter_client.py").open("a") as file:
        file.write("\n\ndef _post(*_: object) -> None:\n    return\n")
    done = yarn.run(
        "ytf-submit", "--backend", "yarn", *SMALL, "-r", "worker:2", gate + HERE + HOLD,
        PYTHONPATH=str(package.parent),
    )  # fmt: skip
    job = done.stdout.strip()
    programs = yarn.wait_running(["worker:0", "worker:1"])
    yarn.wait(job, "RUNNING")
    yarn.kill_master(job, tasks=2)
    eventually(lambda: "Master attempt 2 started" in _events(yarn, job), 100, "a new master")
    yarn.open_gate()
    status = yarn.wait(job, "SUCCEEDED")
    assert [task["attempt"] for task in status["tasks"]] == [1, 1]
    assert yarn.wait_running(["worker:0", "worker:1"]) == programs
    yarn.nothing_is_left(job)


def test_a_master_may_die_more_often_than_hadoops_default(yarn: Yarn, gate: str) -> None:
    job = yarn.submit("worker:2", gate + HERE + HOLD)
    programs = yarn.wait_running(["worker:0", "worker:1"])
    yarn.wait(job, "RUNNING")
    yarn.kill_master(job, tasks=2)
    _kill_second_master(yarn, job)
    eventually(lambda: "Master attempt 3 started" in _events(yarn, job), 100, "a third master")
    yarn.open_gate()
    status = yarn.wait(job, "SUCCEEDED")
    assert [task["attempt"] for task in status["tasks"]] == [1, 1]
    assert yarn.wait_running(["worker:0", "worker:1"]) == programs
    yarn.nothing_is_left(job)


def test_a_cluster_that_allows_fewer_deaths_is_named_before_and_after(
    slow: Yarn, gate: str
) -> None:
    argv = ("--backend", "yarn", *SMALL, "--max_master_attempts", "3", "-r", "worker:1")
    done = slow.run("ytf-submit", *argv, gate + HERE + HOLD)
    key = "yarn.resourcemanager.am.global.max-attempts"
    assert f"a job's master at most 2 times, not 3 times as asked: see {key}" in done.stderr
    job = done.stdout.strip()
    slow.wait_running(["worker:0"])
    slow.kill_master(job, tasks=1)
    _kill_second_master(slow, job)
    status = slow.wait(job, "FAILED")
    assert f"at most 2 times: its administrator can raise {key}" in status["diagnostics"]


def test_a_node_manager_that_crashes_takes_its_containers_over(slow: Yarn, gate: str) -> None:
    job = slow.submit("worker:4", gate + HERE + HOLD)
    tasks = [f"worker:{index}" for index in range(4)]
    programs = slow.wait_running(tasks)
    slow.wait(job, "RUNNING")
    for name in ("nm1", "nm2"):
        slow.cluster.kill(name)
        slow.cluster.restart(name)
    slow.open_gate()
    status = slow.wait(job, "SUCCEEDED")
    assert [task["attempt"] for task in status["tasks"]] == [1] * 4
    assert slow.wait_running(tasks) == programs
    slow.nothing_is_left(job)


def _kill_second_master(yarn: Yarn, job: str) -> None:
    eventually(lambda: "Master attempt 2 started" in _events(yarn, job), 100, "a new master")
    os.kill(yarn.master(job), signal.SIGKILL)


def _events(yarn: Yarn, job: str) -> str:
    return yarn.run("ytf", "events", job).stdout
