"""When a starter looks at the node of its job, which anybody may be able to write."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.starter.fake_master import FakeMaster
from tests.starter.memory_zookeeper import MemoryZooKeeper
from tests.starter.test_zookeeper_registry import JOB, PATIENCE_S, SIGNER, TASK, client_of, instance
from ytf.starter import zookeeper_component, zookeeper_registry
from ytf.starter.desired_state import ReceivedClusterSpec
from ytf.testing.waiting import eventually
from ytf.wire.registry_documents import read_component


@pytest.fixture
def zk(monkeypatch: pytest.MonkeyPatch) -> MemoryZooKeeper:
    """The job's nodes, as its master makes them."""
    made = MemoryZooKeeper(JOB, f"{JOB}/components")
    monkeypatch.setattr(zookeeper_component, "ZooKeeperSession", made.session)
    return made


def is_published(zk: MemoryZooKeeper, attempt: int) -> Callable[[], bool]:
    """Whether the task's node tells of this attempt."""

    def look() -> bool:
        data, _, _ = zk.nodes.get(TASK, (b"", 0, 0))
        found = read_component(data, job="j", container="c1", signer=SIGNER)
        return found is not None and found.attempt == attempt

    return look


def test_the_jobs_node_is_read_only_while_a_cluster_spec_is_awaited(
    master: FakeMaster, zk: MemoryZooKeeper
) -> None:
    with client_of(master, ["memory"]) as client:
        client.register()
        eventually(is_published(zk, 1), PATIENCE_S)
        for number in range(20):
            zk.set(JOB, b"[%d]" % number)
        client.register(2)
        eventually(is_published(zk, 2), PATIENCE_S)
        assert zk.looks_at(JOB) == 0, "nobody has told of a cluster spec"
        zk.set(JOB, instance(1))
        master.publish(1, {"worker": ["rest:1"]})
        assert client.received(ReceivedClusterSpec).members == {"worker": ["h:1"]}
        looks = zk.looks_at(JOB)
        for number in range(20):
            zk.set(JOB, b"[%d]" % number)
        # Each is published after what there was to do before.
        for attempt in (3, 4):
            client.register(attempt)
            eventually(is_published(zk, attempt), PATIENCE_S)
        assert zk.looks_at(JOB) == looks, "nobody needs what is in it"
        zk.set(JOB, instance(2, "h:2"))
        master.publish(1, {"worker": ["rest:2"]})
        assert client.received(ReceivedClusterSpec).members == {"worker": ["h:2"]}


def test_a_spec_that_comes_after_it_was_told_of_is_taken_from_zookeeper(
    master: FakeMaster, zk: MemoryZooKeeper, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(zookeeper_registry, "REST_FALLBACK_S", PATIENCE_S)
    with client_of(master, ["memory"]) as client:
        client.register()
        master.publish(1, {"worker": ["rest:1"]})
        eventually(lambda: zk.looks_at(JOB), PATIENCE_S)
        zk.set(JOB, b"somebody else's")
        eventually(lambda: ("get", JOB) in zk.looks, PATIENCE_S)
        zk.set(JOB, instance(1))
        assert client.received(ReceivedClusterSpec).members == {"worker": ["h:1"]}


def test_the_master_is_asked_in_time_whatever_others_write_meanwhile(
    master: FakeMaster, zk: MemoryZooKeeper
) -> None:
    zk.set(JOB, b"[0]")
    zk.on_get = lambda path: zk.set(JOB, b"[%d]" % len(zk.looks))
    with client_of(master, ["memory"], heartbeat_timeout_s=0.4) as client:
        client.register()
        master.publish(1, {"worker": ["rest:1"]})
        assert client.received(ReceivedClusterSpec).members == {"worker": ["rest:1"]}
