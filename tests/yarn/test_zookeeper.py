"""Jobs on YARN with a real ZooKeeper as their registry."""

from __future__ import annotations

import getpass
import os

import pytest

from tests.yarn.driver import HERE, HOLD, Yarn
from tests.zookeeper_reader import reading
from ytf.minicluster import ZooKeeperEnsemble
from ytf.testing.waiting import eventually

TASKS = ["ps:0", "worker:0", "worker:1"]
HOSTS = (
    'echo "$DTF_PS_HOSTS $DTF_WORKER_HOSTS" >"$GATE/.hosts.$YTF_TASK"; '
    'mv "$GATE/.hosts.$YTF_TASK" "$GATE/hosts.$YTF_TASK"; '
)


@pytest.mark.timeout(600)
def test_tasks_meet_in_zookeeper_and_a_new_master_takes_it_over(
    yarn: Yarn, gate: str, zookeeper: ZooKeeperEnsemble
) -> None:
    registry = "zk://" + ",".join(zookeeper.addresses)
    with reading(zookeeper.addresses) as zk:
        job = yarn.submit(
            "ps:1,worker:2", gate + HOSTS + HERE + HOLD, "--registry", registry, "-n", "my job"
        )
        programs = yarn.wait_running(TASKS)
        instance = f"/registry/users/{getpass.getuser()}/my job/{job}"
        spec = zk.document(instance)
        ps, workers = (yarn.work / "gate" / "hosts.worker:0").read_text().split()
        assert (spec["DTF_PS_HOSTS"], spec["DTF_WORKER_HOSTS"]) == (ps, workers)
        components = zk.components(instance)
        assert set(components) == set(TASKS)
        assert components["ps:0"]["task_port"] == ps.rpartition(":")[2]
        containers = {
            f"{t['group']}:{t['index']}": t["container"] for t in yarn.status(job)["tasks"]
        }
        assert {task: each["container"] for task, each in components.items()} == containers
        for container in containers.values():
            assert container.startswith("container_")
            assert zk.exists(f"{instance}/components/{container}").ephemeralOwner != 0

        yarn.kill_master(job, tasks=3)
        eventually(
            lambda: any("Master attempt 2" in line for line in _events(yarn, job)),
            100,
            lambda: f"another master takes over: {_events(yarn, job)}",
        )
        # It writes the same again if somebody has removed it meanwhile.
        zk.client.set(instance, b"")
        eventually(lambda: zk.document(instance) == spec, 60, "the new master keeps the spec")
        assert set(zk.components(instance)) == set(TASKS)
        for pid in programs.values():
            os.kill(pid, 0)
        yarn.open_gate()
        yarn.wait(job, "SUCCEEDED")
        log = yarn.run("ytf", "events", job).stdout
        assert log.count("registered at") == 3, "each registered once, and by ZooKeeper"
        zk.wait_empty()
    yarn.nothing_is_left(job)


def _events(yarn: Yarn, job: str) -> list[str]:
    return yarn.run("ytf", "events", job).stdout.splitlines()


def test_what_yarn_killed_is_removed_by_the_next_command(
    yarn: Yarn, gate: str, zookeeper: ZooKeeperEnsemble
) -> None:
    registry = "zk://" + ",".join(zookeeper.addresses)
    with reading(zookeeper.addresses) as zk:
        job = yarn.submit("worker:1", gate + HERE + HOLD, "--registry", registry)
        yarn.wait_running(["worker:0"])
        assert zk.document(zk.instance(job)) != {}
        yarn.cluster.rm_rest(f"/apps/{job}/state", "PUT", {"state": "KILLED"})
        yarn.wait(job, "KILLED")
        zk.wait_empty()
    yarn.nothing_is_left(job)
