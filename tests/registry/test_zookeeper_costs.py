"""What others who write to a job's nodes in ZooKeeper can do to its master."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator

import pytest
from kazoo.exceptions import ConnectionLoss, NoAuthError, NoNodeError, NotEmptyError

from tests.registry.memory_zookeeper import MemoryZooKeeper
from tests.registry.test_rest import ORDER
from tests.registry.test_zookeeper import C1, C2, JOB, SECRET, SPEC, Notes, component, node, until
from ytf.registry import zookeeper as module
from ytf.registry.rest import RestRegistry
from ytf.registry.zookeeper import ZooKeeperRegistry
from ytf.specs.ids import ContainerId
from ytf.web.request_auth import RequestVerifier
from ytf.web.server import HttpServer
from ytf.wire.signing import Signer


@pytest.fixture
def zk(monkeypatch: pytest.MonkeyPatch) -> MemoryZooKeeper:
    made = MemoryZooKeeper()
    monkeypatch.setattr(module, "_Connection", made.connection_to)
    monkeypatch.setattr(module, "explain_unreachable", lambda servers: "why not")
    return made


@contextlib.asynccontextmanager
async def registry(zk: MemoryZooKeeper) -> AsyncIterator[ZooKeeperRegistry]:
    """A registry of a job that has its nodes."""
    made = ZooKeeperRegistry(
        RestRegistry(HttpServer(RequestVerifier(SECRET)), attempt=1),
        servers=zk.servers,
        path=JOB,
        job="j",
        name="n",
        signer=Signer(SECRET),
    )
    await made.start(Notes())
    await until(lambda: f"{JOB}/components" in zk.nodes)
    try:
        yield made
    finally:
        await made.close()


async def idle() -> None:
    """Let everybody do what can be done without waiting for a clock."""
    for _ in range(100):
        await asyncio.sleep(0)


async def test_all_nodes_of_others_share_one_allowance(zk: MemoryZooKeeper) -> None:
    containers = [ContainerId(f"container_{number}") for number in range(200)]
    async with registry(zk) as ours:
        for container in containers:
            ours.order(container, ORDER)
        await until(lambda: zk.called("exists", f"{JOB}/components/") == 200)
        began = time.monotonic()
        for number in range(8):
            for container in containers:
                zk.write(node(container), b"[%d]" % number)
            await idle()
        # The first change of each is looked at: it might have been the starter's.
        most = 200 + 8 + (time.monotonic() - began) + 1
        assert 200 <= zk.called("get", f"{JOB}/components/") <= most


async def test_a_starter_is_registered_though_others_have_used_the_allowance_up(
    zk: MemoryZooKeeper,
) -> None:
    async with registry(zk) as ours:
        sink = ours._sink
        assert isinstance(sink, Notes)
        ours._looks._left = -1e9
        ours.order(C1, ORDER)
        await idle()  # until it watches the node
        zk.write(node(C1), component())
        await until(lambda: sink.events)


async def test_a_lost_connection_uses_nothing_up(zk: MemoryZooKeeper) -> None:
    async with registry(zk) as ours:
        sink = ours._sink
        assert isinstance(sink, Notes)
        ours._looks._left = -1e9
        ours.order(C1, ORDER)
        for looks in range(1, 5):
            await until(lambda looks=looks: zk.called("exists", node(C1)) == looks)  # type: ignore[misc]
            zk.losses += 1
            zk._tell(node(C1))
        await idle()
        zk.write(node(C1), component())
        await until(lambda: sink.events)


async def test_data_of_others_are_replaced_without_being_read(zk: MemoryZooKeeper) -> None:
    async with registry(zk) as ours:
        ours.publish(SPEC)
        await until(lambda: zk.nodes[JOB])
        ours_is = zk.nodes[JOB]
        await idle()
        zk.write(JOB, b"x" * 900_000)
        await until(lambda: zk.nodes[JOB] == ours_is)
        assert zk.longest_read == len(ours_is)


async def test_what_containers_left_is_removed_without_a_list(zk: MemoryZooKeeper) -> None:
    async with registry(zk) as ours:
        for container in (C1, C2):
            ours.order(container, ORDER)
            zk.write(node(container), component(container=container))
        assert await ours.remove()
    assert list(zk.nodes) == ["/", "/unit", "/unit/users", "/unit/users/u"]
    assert not zk.called("get_children")


async def test_a_list_that_is_too_long_to_be_read_is_asked_for_once(
    zk: MemoryZooKeeper, capfd: pytest.CaptureFixture[str]
) -> None:
    async with registry(zk) as ours:
        ours.order(C1, ORDER)
        zk.write(node(C1), component())
        zk.write(node("x" * 900_000), b"")
        zk.failing["get_children"] = ConnectionLoss()
        assert not await ours.remove()
        assert zk.called("get_children") == 1
        assert node(C1) not in zk.nodes, "what is ours is gone"
        said = capfd.readouterr().err
        assert "somebody else has put 1 znodes there" in said
        assert "`ytf gc` removes it" in said


@pytest.mark.parametrize("error", [NotEmptyError(), ValueError("nonsense"), RuntimeError("xids")])
async def test_whatever_a_removal_meets_the_job_ends(
    zk: MemoryZooKeeper, error: Exception, capfd: pytest.CaptureFixture[str]
) -> None:
    async with registry(zk) as ours:
        zk.failing["delete"] = error
        assert not await ours.remove()
    assert "is left in ZooKeeper" in capfd.readouterr().err


@pytest.mark.timeout(60)
async def test_a_job_that_ends_while_it_connects_does_not_hang(
    zk: MemoryZooKeeper, monkeypatch: pytest.MonkeyPatch
) -> None:
    for rounds in range(10):
        connected = asyncio.Event()
        monkeypatch.setattr(zk, "connection", connected.wait)
        async with registry(zk) as ours:
            await idle()
            connected.set()
            for _ in range(rounds):
                await asyncio.sleep(0)
            assert await ours.remove()


async def test_a_node_that_the_master_may_not_write_is_told_once(
    zk: MemoryZooKeeper, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_PAUSE_S", 0.0)
    async with registry(zk) as ours:
        sink = ours._sink
        assert isinstance(sink, Notes)
        zk.failing["create"] = NoNodeError()
        ours.publish(SPEC)
        await until(lambda: zk.called("create") > 5)
        assert not sink.notes, "that may pass"
        zk.failing["create"] = NoAuthError()
        before = zk.called("create")
        await until(lambda: zk.called("create") > before + 5)
        assert len(sink.notes) == 1
        assert f"ZooKeeper refuses what the master writes to {JOB} (NoAuthError)" in sink.notes[0]
