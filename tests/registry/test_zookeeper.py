"""The master's side of the ZooKeeper registry, and what commands do, with a real ZooKeeper.

A plain kazoo client writes what starters would.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Iterator

import pytest
from kazoo.protocol.states import ZnodeStat

from tests.registry.test_rest import ORDER, Sink
from tests.zookeeper_reader import Reader, reading
from ytf.journal.writer import JournalError
from ytf.machine.events import StarterRegistered
from ytf.minicluster import ZooKeeperEnsemble
from ytf.registry import zookeeper as module
from ytf.registry.api import Order
from ytf.registry.rest import RestRegistry
from ytf.registry.zookeeper import ZooKeeperRegistry
from ytf.specs.ids import ContainerId, TaskId
from ytf.specs.status import ClusterSpec
from ytf.testing.waiting import eventually_async
from ytf.web.request_auth import RequestVerifier
from ytf.web.server import HttpServer
from ytf.wire.registry_documents import Component, write_component
from ytf.wire.signing import Signer

SECRET = b"secret"
C1, C2 = ContainerId("container_1"), ContainerId("container_2")
JOB = "/unit/users/u/n/j"
SPEC = ClusterSpec(generation=1, revision=1, members={"worker": ("h:1", "h:2")})


class Notes(Sink):
    """A master that also takes notes."""

    def __init__(self) -> None:
        super().__init__()
        self.notes: list[str] = []
        self.durable.set()

    def note(self, text: str, *, is_warning: bool = False) -> None:
        self.notes.append(text)


@pytest.fixture
def zk(zookeeper: ZooKeeperEnsemble) -> Iterator[Reader]:
    with reading(zookeeper.addresses) as reader:
        yield reader
        assert reader.exists(JOB) is None, "each test removes what it made"


@contextlib.asynccontextmanager
async def registry(zookeeper: ZooKeeperEnsemble) -> AsyncIterator[ZooKeeperRegistry]:
    made = ZooKeeperRegistry(
        RestRegistry(HttpServer(RequestVerifier(SECRET)), attempt=1),
        servers=zookeeper.addresses,
        path=JOB,
        job="j",
        name="n",
        signer=Signer(SECRET),
    )
    try:
        yield made
    finally:
        await made.remove()
        await made.close()


def component(attempt: int = 1, container: str = C1, secret: bytes = SECRET) -> bytes:
    where = Component(group="worker", index=0, attempt=attempt, host="h", port=1, control=None)
    return write_component(where, job="j", container=container, signer=Signer(secret))


async def until(condition: Callable[[], object]) -> None:
    await eventually_async(condition, 60)


def node(container: str) -> str:
    return f"{JOB}/components/{container}"


async def there(zk: Reader) -> None:
    """Until the master has made the nodes of the job."""
    await until(lambda: zk.exists(f"{JOB}/components") is not None)


async def test_a_component_registers_a_task(zookeeper: ZooKeeperEnsemble, zk: Reader) -> None:
    sink = Notes()
    async with registry(zookeeper) as ours:
        ours.order(C1, ORDER)
        await ours.start(sink)
        await there(zk)
        zk.client.create(node(C1), component())
        await until(lambda: sink.events)
        assert sink.events == [
            StarterRegistered(
                task=TaskId("worker:0"), attempt=1, container=C1, host="h", port=1, control=None
            )
        ]
        assert ours._rest._starters[C1].registered == 1
        # Whatever happens to the node now means nothing.
        zk.client.set(node(C1), component(2))
        zk.client.delete(node(C1))
        assert len(sink.events) == 1
        # A second attempt in the same container is waited for anew.
        ours.order(C1, Order(attempt=2, generation=1))
        zk.client.create(node(C1), component(1))
        zk.client.set(node(C1), component(2))
        await until(lambda: len(sink.events) == 2)
        assert ours._rest._starters[C1].registered == 2
        ours.forget(C1)
        await until(lambda: zk.exists(node(C1)) is None)
    assert not sink.notes


async def test_a_component_that_was_there_before_the_master(
    zookeeper: ZooKeeperEnsemble, zk: Reader
) -> None:
    sink = Notes()
    zk.client.create(node(C1), component(), makepath=True)
    zk.client.create(node(C2), component(container=C2))
    async with registry(zookeeper) as ours:
        ours.order(C1, ORDER)
        ours.order(C2, ORDER, is_registered=True)
        await ours.start(sink)
        await until(lambda: ours._rest._starters[C1].registered == 1)
        assert len(sink.events) == 1, "what is in the journal is not reported again"


async def test_what_others_write_registers_nobody(
    zookeeper: ZooKeeperEnsemble, zk: Reader, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_PAUSE_S", 0.01)
    sink = Notes()
    async with registry(zookeeper) as ours:
        ours.order(C1, ORDER)
        await ours.start(sink)
        await there(zk)
        seen = []
        register = ours._register

        async def look(container: ContainerId, attempt: int, stat: ZnodeStat) -> bool:
            taken = await register(container, attempt, stat)
            seen.append(stat.mzxid)
            return taken

        monkeypatch.setattr(ours, "_register", look)
        wrong = [b"", b"x" * 900_000, component(secret=b"no"), component(container=C2)]
        zk.client.create(node(C1), b"{}")
        for data in (*wrong, component(7)):
            last = zk.client.set(node(C1), data).mzxid
            await until(lambda last=last: last in seen)  # type: ignore[misc]
        assert sink.notes
        assert not sink.events
        zk.client.set(node(C1), component())
        await until(lambda: sink.events)
        assert len(sink.notes) == 1, "it is said once"


async def test_a_report_that_cannot_be_journalled_is_made_again(
    zookeeper: ZooKeeperEnsemble, zk: Reader, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_PAUSE_S", 0.01)
    sink = Notes()
    sink.error = JournalError("the disk is full")
    async with registry(zookeeper) as ours:
        ours.order(C1, ORDER)
        await ours.start(sink)
        await there(zk)
        zk.client.create(node(C1), component())
        await until(lambda: len(sink.events) > 2)
        assert ours._rest._starters[C1].registered == 0
        sink.error = None
        await until(lambda: ours._rest._starters[C1].registered == 1)


async def test_the_newest_spec_is_published_and_kept(
    zookeeper: ZooKeeperEnsemble, zk: Reader, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_PAUSE_S", 0.01)
    async with registry(zookeeper) as ours:
        await ours.start(Notes())
        await there(zk)
        assert zk.document(JOB) == {}
        later = ClusterSpec(generation=2, revision=5, members={"worker": ("h:3",)})
        ours.publish(later)
        ours.publish(SPEC)
        await until(lambda: zk.document(JOB).get("DTF_WORKER_HOSTS") == "h:3")
        genuine = zk.document(JOB)
        zk.client.set(JOB, b"forged")
        await until(lambda: zk.get(JOB)[0] != b"forged")
        zk.client.delete(JOB, recursive=True)
        await until(lambda: zk.document(JOB) == genuine)


async def test_a_spec_that_is_too_long_for_a_node_stays_with_the_master(
    zookeeper: ZooKeeperEnsemble, zk: Reader, capfd: pytest.CaptureFixture[str]
) -> None:
    async with registry(zookeeper) as ours:
        await ours.start(Notes())
        hosts = tuple(f"a-host-with-a-long-name-{i}:12345" for i in range(40_000))
        ours.publish(ClusterSpec(generation=1, revision=1, members={"worker": hosts}))
        await there(zk)
        assert zk.document(JOB) == {}
    assert "starters get it from the master" in capfd.readouterr().err


async def test_too_many_nodes_of_others_are_left(
    zookeeper: ZooKeeperEnsemble,
    zk: Reader,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(module, "MOST_CHILDREN", 2)
    async with registry(zookeeper) as ours:
        await ours.start(Notes())
        await there(zk)
        for number in range(3):
            zk.client.create(f"{JOB}/components/theirs-{number}")
        assert not await ours.remove()
        assert "somebody else has put 3 znodes there" in capfd.readouterr().err
        monkeypatch.setattr(module, "MOST_CHILDREN", 3)
        assert await ours.remove()


async def test_a_zookeeper_that_is_away_is_told_and_holds_up_nothing(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(module, "_TELL_AFTER_S", 0.05)
    monkeypatch.setattr(module, "REMOVE_S", 0.05)
    sink = Notes()
    ours = ZooKeeperRegistry(
        RestRegistry(HttpServer(RequestVerifier(SECRET)), attempt=1),
        servers=["127.0.0.1:1"],
        path=JOB,
        job="j",
        name="n",
        signer=Signer(SECRET),
    )
    ours.order(C1, ORDER)
    await ours.start(sink)
    ours.publish(SPEC)
    await until(lambda: sink.notes)
    assert "127.0.0.1:1: Connection refused" in sink.notes[0]
    ours.forget(C1)
    assert not await ours.remove()
    await ours.close()
    assert f"{JOB} is left in ZooKeeper" in capfd.readouterr().err
    assert not [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
