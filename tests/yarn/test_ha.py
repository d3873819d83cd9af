"""Two ResourceManagers, of which the active one dies."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.yarn.driver import HERE, HOLD, Yarn
from ytf.testing.hadoop import Cluster


@pytest.fixture
def yarn(hadoop_pair: Cluster, yarn_home: Path, tmp_path: Path) -> Yarn:
    """The commands, on the cluster with two ResourceManagers."""
    (tmp_path / "gate").mkdir()
    return Yarn(hadoop_pair, yarn_home, tmp_path)


def test_a_job_and_its_clients_outlive_the_resourcemanager(yarn: Yarn, gate: str) -> None:
    job = yarn.submit("worker:2", gate + HERE + HOLD + "echo survived")
    programs = yarn.wait_running(["worker:0", "worker:1"])
    yarn.wait(job, "RUNNING")
    active = yarn.cluster.active_rm().name
    yarn.cluster.kill(active)
    # At once, while neither is active: a command waits for the one that will be.
    assert yarn.status(job)["state"] == "RUNNING"
    assert job in yarn.run("ytf", "list", "--backend", "yarn").stdout
    yarn.open_gate()
    yarn.wait(job, "SUCCEEDED")
    assert yarn.wait_running(["worker:0", "worker:1"]) == programs
    assert "master attempt 2" not in yarn.run("ytf", "events", job).stdout
    assert "worker:1 | survived" in yarn.run("ytf", "logs", job).stdout.splitlines()
    yarn.nothing_is_left(job)
    yarn.cluster.restart(active)
