"""Where tasks go on a real YARN, and what of a submission reaches it."""

from __future__ import annotations

from collections import Counter

from tests.yarn.driver import Yarn

ASK = ("--placement", "spread", "--placement", "pack:pack", "--placement", "apart:apart")
ABOUT = (
    *("--priority", "5", "--tags", "Team,demo", "--acl_view", "alice ops", "--lifetime", "600"),
    *("--master_memory", "300", "--max_master_attempts", "2"),
)


def test_each_group_is_placed_as_it_asks(yarn: Yarn) -> None:
    done = yarn.run(
        "ytf-submit", "--backend", "yarn", "--wait", "--framework", "none", "-m", "128",
        *ASK, *ABOUT, "-r", "spread:3,pack:3,apart:2", "true",
    )  # fmt: skip
    job = done.stdout.strip()
    assert "the cluster lowers the job's priority from 5 to 0" in done.stderr
    nodes: dict[str, Counter[str]] = {}
    for task in yarn.status(job)["tasks"]:
        nodes.setdefault(task["group"], Counter())[task["node"]] += 1
    assert sorted(nodes["spread"].values()) == [1, 2]
    assert list(nodes["pack"].values()) == [3]
    assert list(nodes["apart"].values()) == [1, 1]
    assert "spread: 3 tasks share 2 nodes" in yarn.run("ytf", "events", job).stdout

    told = yarn.cluster.rm_rest(f"/apps/{job}")["app"]
    assert set(told["applicationTags"].split(",")) == {"team", "demo"}
    assert told["timeouts"]["timeout"][0]["type"] == "LIFETIME"


UNKNOWN = "worker:0 asks for yarn.io/fpga, which this cluster does not count"
CROWDED = "worker has 3 tasks that are never to share a node, and the cluster has 2"
REFUSED = [
    (("--task_resources", "yarn.io/fpga=1"), UNKNOWN, "it has: memory-mb, vcores, yarn.io/gpu"),
    (("--master_memory", "40000"), "the master asks for 40000 memory-mb", "be: 32768 MB"),
    (("--task_gpus", "worker[2]:3"), "worker:2 asks for 3 yarn.io/gpu", "2 yarn.io/gpu"),
    (("--placement", "apart"), CROWDED, "--placement spread"),
    (("--node_label", "fast"), "can have the label 'fast'", "its labels: none"),
]


def test_what_can_never_be_met_is_refused_at_once(yarn: Yarn) -> None:
    before = yarn.staged()
    for options, message, hint in REFUSED:
        argv = ("--backend", "yarn", *options, "-r", "worker:3", "true")
        done = yarn.run("ytf-submit", *argv, code=1)
        assert message in done.stderr
        assert hint in done.stderr
    assert set(yarn.staged()) <= set(before)
