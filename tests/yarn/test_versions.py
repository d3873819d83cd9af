"""The oldest and the newest release of Hadoop; all other tests run on one in between."""

from __future__ import annotations

from pathlib import Path

from tests.yarn.driver import HERE, HOLD, Yarn
from ytf.minicluster import MiniCluster
from ytf.testing.waiting import eventually


def test_the_oldest(hadoop_pair: MiniCluster, yarn_home: Path, tmp_path: Path, gate: str) -> None:
    assert hadoop_pair.options.version == "3.3.6"
    _from_submission_to_logs_and_a_kill(Yarn(hadoop_pair, yarn_home, tmp_path), gate)


def test_the_newest(hadoop_newest: MiniCluster, yarn_home: Path, tmp_path: Path, gate: str) -> None:
    assert hadoop_newest.options.version == "3.5.0"
    _from_submission_to_logs_and_a_kill(Yarn(hadoop_newest, yarn_home, tmp_path), gate)


def test_a_group_runs_on_nodes_with_its_label(
    hadoop_newest: MiniCluster, yarn_home: Path, tmp_path: Path
) -> None:
    yarn = Yarn(hadoop_newest, yarn_home, tmp_path)
    job = yarn.submit("ps:1,worker:2", "true", "--node_label", "worker:fast")
    tasks = yarn.wait(job, "SUCCEEDED")["tasks"]
    nodes = {group: {t["node"] for t in tasks if t["group"] == group} for group in ("ps", "worker")}
    labelled = {
        node["id"] for node in hadoop_newest.rm_rest("/nodes")["nodes"]["node"]
        if node.get("nodeLabels") == ["fast"]
    }  # fmt: skip
    assert nodes["worker"] == labelled
    assert nodes["ps"].isdisjoint(labelled)

    argv = ("--backend", "yarn", "--node_label", "slow", "-r", "worker:1", "true")
    refused = yarn.run("ytf-submit", *argv, code=1).stderr
    assert "'slow'" in refused
    assert "fast" in refused


def _from_submission_to_logs_and_a_kill(yarn: Yarn, gate: str) -> None:
    (yarn.work / "gate").mkdir()
    killed = yarn.submit("ps:1,worker:1", gate + "echo begun; " + HERE + HOLD)
    yarn.wait_running(["ps:0", "worker:0"])
    assert "worker:0 | begun" in yarn.run("ytf", "logs", killed).stdout.splitlines()
    # Beside it, as two jobs are.
    ended = yarn.submit("worker:2", 'echo "hello from $YTF_TASK"')
    yarn.wait(ended, "SUCCEEDED")
    yarn.run("ytf", "kill", killed)
    assert "Killed by" in yarn.wait(killed, "KILLED")["diagnostics"]
    lines = yarn.run("ytf", "logs", ended).stdout.splitlines()
    assert sorted(lines) == [f"worker:{i} | hello from worker:{i}" for i in range(2)]
    for job in (ended, killed):
        yarn.nothing_is_left(job)


SHOW = 'echo "sees ${CUDA_VISIBLE_DEVICES-everything}"; '
"""Its nodes have two GPUs each: an ``nvidia-smi`` shows them, and YARN does not count them."""


def test_gpus_that_only_a_label_tells_of_are_counted_by_us(
    hadoop_newest: MiniCluster, yarn_home: Path, tmp_path: Path, gate: str
) -> None:
    yarn = Yarn(hadoop_newest, yarn_home, tmp_path)
    (yarn.work / "gate").mkdir()
    ask = ("--node_label", "worker:fast", "--task_gpus", "worker:1")
    argv = ("--backend", "yarn", *ask, "-r", "worker:1", "true")
    assert "--gpus_per_node" in yarn.run("ytf-submit", *argv, code=1).stderr

    job = yarn.submit("ps:1,worker:2", gate + SHOW + HERE + HOLD, *ask, "--gpus_per_node", "2")
    yarn.wait_running(["ps:0", "worker:0", "worker:1"])
    lines = yarn.run("ytf", "logs", job).stdout.splitlines()
    assert {line.partition(" | ")[2] for line in lines if line.startswith("ps")} == {"sees "}
    workers = {line.partition(" | ")[2] for line in lines if line.startswith("worker")}
    assert workers == {"sees 0", "sees 1"}
    yarn.open_gate()
    yarn.wait(job, "SUCCEEDED")

    # There is memory for all, and there are GPUs for two.
    crowded = yarn.submit("worker:3", "true", *ask, "--gpus_per_node", "2")
    waiting = "Waiting for 1 of 3 containers"
    eventually(lambda: waiting in yarn.status(crowded)["diagnostics"], 60, lambda: str(
        yarn.status(crowded)))  # fmt: skip
    yarn.run("ytf", "kill", crowded)
    yarn.wait(crowded, "KILLED")
    yarn.nothing_is_left(crowded)
