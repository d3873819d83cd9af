"""Two ResourceManagers and two NameNodes, of which the active one dies."""

from __future__ import annotations

import shlex
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from tests.yarn.driver import HERE, HOLD, Yarn
from ytf.minicluster import MiniCluster
from ytf.testing.waiting import eventually

READ = (
    "import os, hdfs_native as h; at = os.environ['DTF_INPUT_PATH']; "
    "print(bytes(h.Client(at).read(at.removeprefix('hdfs://ytf')).read()).decode())"
)


@pytest.fixture
def yarn(hadoop_pair: MiniCluster, yarn_home: Path, tmp_path: Path) -> Yarn:
    """The commands, on the cluster with two of each."""
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
    assert "Master attempt 2" not in yarn.run("ytf", "events", job).stdout
    assert "worker:1 | survived" in yarn.run("ytf", "logs", job).stdout.splitlines()
    yarn.nothing_is_left(job)
    yarn.cluster.restart(active)


def test_a_job_outlives_the_namenode(yarn: Yarn, gate: str) -> None:
    """With every path of it in the nameservice, and the journal's disk away for a while."""
    yarn.files.mkdir("/ha")
    texts = {"train.sh": "echo script; cat words\n", "words": "by --files\n", "in put": "by -i\n"}
    for name, text in texts.items():
        yarn.files.write(f"/ha/{name}", [text.encode()])
    read = f"{shlex.quote(sys.executable)} -c {shlex.quote(READ)}; "
    first = 'until [ -e "$GATE/first" ] || [ "$YTF_TASK" = worker:1 ]; do sleep 0.05; done; '
    last = f'[ "$YTF_TASK" = worker:0 ] || {{ {HOLD} }}; '
    says = 'sh "$DTF_TASK_SCRIPT"; echo "$DTF_INPUT_PATH to $DTF_OUTPUT_PATH"'
    job = yarn.submit(
        "worker:2", gate + read + HERE + first + last + says,
        "-s", "hdfs://ytf/ha/train.sh", "--files", "hdfs:///ha/words",
        "-i", "hdfs://ytf/ha/in put", "-o", "hdfs://ytf/ha/out",
    )  # fmt: skip
    programs = yarn.wait_running(["worker:0", "worker:1"])
    dead = yarn.cluster.active_nn().name
    yarn.cluster.kill(dead)
    # Its end is for the journal, which has to wait.
    (yarn.work / "gate" / "first").touch()
    eventually(lambda: not Path(f"/proc/{programs['worker:0']}").exists(), 60, "worker:0 to end")
    # A command that comes meanwhile waits for the one that will be active, if it needs HDFS:
    # this one does not know the job's secret.
    elsewhere = replace(yarn, home=yarn.work / "elsewhere")
    with elsewhere.started("ytf", "status", job) as command:
        alive = yarn.cluster.fail_over_hdfs()
        said = command.end(0)
    assert "RUNNING" in said
    assert "worker:1" in said
    assert alive != dead
    yarn.open_gate()
    status = yarn.wait(job, "SUCCEEDED")
    assert [task["attempt"] for task in status["tasks"]] == [1, 1]
    assert yarn.wait_running(["worker:0", "worker:1"]) == programs
    assert "Master attempt 2" not in yarn.run("ytf", "events", job).stdout
    lines = [f"worker:1 | {line}" for line in (
        "by -i", "", "script", "by --files", "hdfs://ytf/ha/in put to hdfs://ytf/ha/out",
    )]  # fmt: skip
    assert yarn.run("ytf", "logs", job, "worker:1").stdout.splitlines() == lines
    yarn.nothing_is_left(job)

    # The first of the configuration's two is dead, or the last: both are tried.
    another = yarn.submit("worker:1", "true")
    yarn.wait(another, "SUCCEEDED")
    yarn.nothing_is_left(another)
    yarn.cluster.restart(dead)
    roles = {one.name: one.role for one in yarn.cluster.status() if one.kind == "NameNode"}
    assert roles == {alive: "ACTIVE", dead: "STANDBY"}
