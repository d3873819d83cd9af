"""A starter's side of the ZooKeeper registry, with a real ZooKeeper and a fake master."""

from __future__ import annotations

import random
import socket
import struct
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from queue import Empty, SimpleQueue
from typing import Any

import pytest
from kazoo.exceptions import NoNodeError

from tests.starter.fake_master import SECRET, FakeMaster
from tests.starter.zookeeper_servers import framed, granting, received, server
from tests.zookeeper_reader import Reader, reading
from ytf.minicluster import ZooKeeperEnsemble
from ytf.minicluster.daemons import free_ports
from ytf.starter import zookeeper_component
from ytf.starter.desired_state import ReceivedClusterSpec, Registered, Shutdown
from ytf.starter.master_locator import MasterLocator
from ytf.starter.zookeeper_registry import ZooKeeperRegistryClient
from ytf.starter.zookeeper_session import ZooKeeperSession
from ytf.testing.waiting import eventually
from ytf.wire.registry_documents import Instance, read_component, write_instance
from ytf.wire.signing import Signer

PATIENCE_S = 60.0
SIGNER = Signer(SECRET)
JOB = "/j"
TASK = "/j/components/c1"


@pytest.fixture
def zk(zookeeper: ZooKeeperEnsemble) -> Iterator[Reader]:
    """The job's znodes, as its master makes them."""
    with reading(zookeeper.addresses) as reader:
        reader.client.create("/j/components", b"", makepath=True)
        yield reader
        reader.client.delete(JOB, recursive=True)


class Client:
    """A registry client, and what it puts into the inbox."""

    def __init__(self, master: FakeMaster, servers: list[str], heartbeat_timeout_s: float) -> None:
        self._inbox: SimpleQueue[Any] = SimpleQueue()
        self.registry = ZooKeeperRegistryClient(
            MasterLocator(master.url, None),
            SIGNER,
            self._inbox,
            job="j",
            task="worker:0",
            container="c1",
            heartbeat_timeout_s=heartbeat_timeout_s,
            servers=servers,
            job_path=JOB,
        )

    def received(self, kind: type[Any]) -> Any:
        """The next message of a kind."""
        deadline = time.monotonic() + PATIENCE_S
        while True:
            try:
                message = self._inbox.get(timeout=max(0.0, deadline - time.monotonic()))
            except Empty:
                raise AssertionError(f"no {kind.__name__} came") from None
            if isinstance(message, kind):
                return message

    def taken(self, kind: type[Any]) -> list[Any]:
        """All messages of a kind that are there now."""
        found = []
        while not self._inbox.empty():
            found.append(self._inbox.get())
        return [message for message in found if isinstance(message, kind)]

    def register(self, attempt: int = 1) -> None:
        self.registry.register(attempt, host="h", port=2222, control="h:3")


@contextmanager
def client_of(
    master: FakeMaster, servers: list[str], heartbeat_timeout_s: float = 400.0
) -> Iterator[Client]:
    """A client that is patient, unless its heartbeats are short."""
    client = Client(master, servers, heartbeat_timeout_s)
    client.registry.start()
    try:
        yield client
    finally:
        client.registry.close()
        end_threads(client.registry)


def end_threads(registry: ZooKeeperRegistryClient) -> None:
    """Let a client's threads call nobody any more: its master's port may be another test's soon."""
    registry._note_registration(1 << 30)
    with closing(FakeMaster(SECRET)) as last:
        last.revoked = True
        registry.set_master(last.url, 1 << 30)
        eventually(
            lambda: all(thread.name != "poll" for thread in threading.enumerate()),
            PATIENCE_S,
            "the end of the thread that polls",
        )


def instance(revision: int, host: str = "h:1", signer: Signer = SIGNER) -> bytes:
    return write_instance(
        Instance(1, revision, {"worker": [host]}), job="j", name="n", signer=signer
    )


def published_attempt(zk: Reader) -> int | None:
    """Which attempt of the task its node tells of; None if it is not the task's own."""
    try:
        data, _ = zk.get(TASK)
    except NoNodeError:
        return None
    found = read_component(data, job="j", container="c1", signer=SIGNER)
    return None if found is None else found.attempt


def owner_of(zk: Reader) -> int | None:
    stat = zk.exists(TASK)
    return None if stat is None else int(stat.ephemeralOwner)


def test_it_publishes_a_signed_component_and_hears_of_it_by_polls(
    master: FakeMaster, zookeeper: ZooKeeperEnsemble, zk: Reader
) -> None:
    with client_of(master, zookeeper.addresses) as client:
        client.register()
        eventually(lambda: published_attempt(zk) == 1, PATIENCE_S)
        component = read_component(zk.get(TASK)[0], job="j", container="c1", signer=SIGNER)
        assert component is not None
        assert (component.group, component.port) == ("worker", 2222)
        assert zk.exists(TASK).ephemeralOwner != 0
        master.note_registered(1)
        assert client.received(Registered).attempt == 0
        assert client.received(Registered).attempt == 1
        assert client.registry.flush(PATIENCE_S)
        assert not [r for r in master.reports if r.kind == "register"], "not by REST"
        client.register(2)
        eventually(lambda: published_attempt(zk) == 2, PATIENCE_S)
    assert zk.exists(TASK) is None


def test_it_takes_the_cluster_spec_that_the_master_tells_of_from_zookeeper(
    master: FakeMaster, zookeeper: ZooKeeperEnsemble, zk: Reader
) -> None:
    zk.client.set(JOB, instance(1, "old:1"))
    with client_of(master, zookeeper.addresses) as client:
        client.register()
        eventually(lambda: published_attempt(zk) == 1, PATIENCE_S)
        # What others have written in between.
        for text in (instance(9, "evil:1", Signer(b"another")), b'{"instance": 7}', b"{", b"[]"):
            zk.client.set(JOB, text)
        zk.client.set(JOB, instance(2))
        master.publish(1, {"worker": ["rest:1"]})
        master.publish(1, {"worker": ["rest:2"]})
        found = client.received(ReceivedClusterSpec)
        assert (found.revision, found.members) == (2, {"worker": ["h:1"]})


def test_a_spec_that_the_master_has_replaced_is_not_taken(
    master: FakeMaster, zookeeper: ZooKeeperEnsemble, zk: Reader
) -> None:
    zk.client.set(JOB, instance(1, "old:1"))
    with client_of(master, zookeeper.addresses, heartbeat_timeout_s=0.4) as client:
        master.publish(1, {"worker": ["rest:1"]})
        master.publish(1, {"worker": ["rest:2"]})
        client.register()
        found = client.received(ReceivedClusterSpec)
        assert (found.revision, found.members) == (2, {"worker": ["rest:2"]})


def test_without_zookeeper_it_registers_with_the_master(
    master: FakeMaster, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(zookeeper_component, "_TROUBLE_AFTER_S", 0.0)
    servers = [f"127.0.0.1:{free_ports(1)[0]}"]
    with client_of(master, servers, heartbeat_timeout_s=0.4) as client:
        client.register()
        assert master.expect("register", 1)["port"] == 2222
        while client.received(Registered).attempt != 1:
            pass
        master.publish(1, {"worker": ["h:2222"]})
        assert client.received(ReceivedClusterSpec).members == {"worker": ["h:2222"]}
        said = ""

        def told() -> bool:
            nonlocal said
            said += capfd.readouterr().err
            return f"ZooKeeper: no connection: {servers[0]}: Connection refused" in said

        eventually(told, PATIENCE_S)


def test_what_others_do_to_its_node_is_undone(
    master: FakeMaster, zookeeper: ZooKeeperEnsemble, zk: Reader
) -> None:
    with client_of(master, zookeeper.addresses) as client:
        client.register()
        eventually(lambda: published_attempt(zk) == 1, PATIENCE_S)
        owner = zk.exists(TASK).ephemeralOwner
        zk.client.delete(TASK)
        eventually(lambda: published_attempt(zk) == 1, PATIENCE_S)
        zk.client.set(TASK, b"x" * 500_000)
        eventually(lambda: published_attempt(zk) == 1, PATIENCE_S)
        theirs = zk.client.transaction()
        theirs.delete(TASK)
        theirs.create(TASK, zk.get(TASK)[0])
        assert all(isinstance(made, (bool, str)) for made in theirs.commit())
        eventually(lambda: owner_of(zk) == owner, PATIENCE_S)


def test_a_session_that_expires_is_replaced(
    master: FakeMaster, zookeeper: ZooKeeperEnsemble, zk: Reader
) -> None:
    with client_of(master, zookeeper.addresses) as client:
        client.register()
        eventually(lambda: published_attempt(zk) == 1, PATIENCE_S)
        first = owner_of(zk)
        # Whoever knows a session's password can end it, as its expiry does.
        mine = client.registry._node._session
        other = ZooKeeperSession(zookeeper.addresses, zookeeper_component.SESSION_S)
        other.id, other._password = mine.id, mine._password
        other.connect()
        other.close()
        eventually(lambda: published_attempt(zk) == 1 and owner_of(zk) != first, PATIENCE_S)


def test_what_it_may_not_change_is_told_and_tried_again(
    master: FakeMaster,
    zookeeper: ZooKeeperEnsemble,
    zk: Reader,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(zookeeper_component, "_RETRY_S", 0.1)
    zk.client.create(f"{TASK}/theirs", b"", makepath=True)
    with client_of(master, zookeeper.addresses) as client:
        client.register()
        said = ""

        def told(words: str) -> bool:
            nonlocal said
            said += capfd.readouterr().err
            return words in said

        eventually(
            lambda: told(f"{TASK}: ZooKeeper refuses it: there are znodes below it"), PATIENCE_S
        )
        zk.client.delete(f"{TASK}/theirs")
        eventually(lambda: published_attempt(zk) == 1, PATIENCE_S)
        eventually(lambda: told("ZooKeeper: there again"), PATIENCE_S)


def test_a_job_whose_nodes_are_removed_does_not_come_back(
    master: FakeMaster, zookeeper: ZooKeeperEnsemble, zk: Reader
) -> None:
    with client_of(master, zookeeper.addresses) as client:
        client.register()
        eventually(lambda: published_attempt(zk) == 1, PATIENCE_S)
        removed = zk.client.transaction()
        for path in (TASK, f"{JOB}/components", JOB):
            removed.delete(path)
        assert all(made is True for made in removed.commit())
        client.register(2)
        # Once the master's nodes are there again, so is the task's.
        zk.client.create("/j/components", b"", makepath=True)
        eventually(lambda: published_attempt(zk) == 2, PATIENCE_S)


def test_the_end_does_not_wait_for_a_zookeeper_that_hangs(
    master: FakeMaster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(zookeeper_component, "CLOSE_S", 0.1)
    with socket.create_server(("127.0.0.1", 0)) as hung:
        client = Client(master, [f"127.0.0.1:{hung.getsockname()[1]}"], 400.0)
        client.registry.start()
        client.registry.close()
        names = {thread.name for thread in threading.enumerate()}
    assert "zookeeper" in names, "it waits alone"
    eventually(lambda: "zookeeper" not in {t.name for t in threading.enumerate()}, PATIENCE_S)


def test_no_server_ends_a_starter(master: FakeMaster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(zookeeper_component, "_FIRST_WAIT_S", 0.001)
    monkeypatch.setattr(zookeeper_component, "_LONGEST_WAIT_S", 0.001)
    monkeypatch.setattr(zookeeper_component, "_LOOKS_AT_ONCE", 1e6)
    chance = random.Random(7)
    connections = 0

    def behave(connection: socket.socket) -> None:
        nonlocal connections
        connections += 1
        xid = received(connection)[:4]
        # The call is refused. What follows was not asked for: an answer, an event, anything.
        connection.sendall(framed(xid + struct.pack(">qi", 1, -102)))
        data = chance.randbytes(chance.choice([12, 16, 40, 100]))
        if chance.random() < 0.5:
            first = chance.choice([xid, struct.pack(">i", -1), struct.pack(">i", -2)])
            data = first + struct.pack(">qi", 1, -101) + data
        connection.sendall(framed(data))

    with server(granting(behave)) as address, client_of(master, [address]) as client:
        client.register()
        eventually(lambda: connections > 200, PATIENCE_S)
        assert any(thread.name == "zookeeper" for thread in threading.enumerate())
        assert client.taken(Shutdown) == []


def test_threads_are_not_left(master: FakeMaster, zookeeper: ZooKeeperEnsemble, zk: Reader) -> None:
    with client_of(master, zookeeper.addresses) as client:
        client.register()
        eventually(lambda: published_attempt(zk) == 1, PATIENCE_S)
    # It may still be on its last line.
    eventually(lambda: "zookeeper" not in {t.name for t in threading.enumerate()}, PATIENCE_S)
