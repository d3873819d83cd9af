"""Rare answers of the ResourceManager and of NodeManagers, which only fakes can give."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from pathlib import Path

import msgspec
import pytest

from tests.backends.yarn.fake_cluster import NODE, TOKEN, allocation, completed, container
from tests.backends.yarn.master.backend_world import FIRST, PROFILES, World, launch, record, request
from ytf.backends.api import StarterLaunch
from ytf.backends.yarn.master.node_manager_client import connect_to_node
from ytf.errors import OutcomeUnknownError, UnreachableError
from ytf.hadoop.rpc.connection import RpcSettings
from ytf.hadoop.rpc.errors import (
    AttemptNotFoundError,
    InvalidMasterRequestError,
    InvalidTokenError,
)
from ytf.hadoop.yarn.contexts import ContainerLaunchContext
from ytf.hadoop.yarn.ids import NodeId
from ytf.hadoop.yarn.records import MasterCommand
from ytf.machine.commands import ReleaseContainer
from ytf.machine.events import Cause, ContainerCompleted, ContainersRecovered, LaunchFailed
from ytf.specs.status import FinalStatus


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[World]:
    """A started backend of a first attempt."""
    world = World(tmp_path)
    await world.backend.start(1, "http://node7:4711", PROFILES)
    yield world
    world.rm.finish_answers = [True]
    await world.backend.finish(record(FinalStatus.KILLED))


async def test_an_order_to_register_again_is_as_good_as_being_forgotten(world: World) -> None:
    await world.allocated()
    world.backend.request(request("b"))
    beat = await world.rm.next_beat()
    world.rm.previous = (container(2),)
    order = msgspec.structs.replace(allocation(), command=MasterCommand.RESYNC)
    world.rm.answers.put_nowait(order)
    again = await world.rm.next_beat()
    assert len(world.rm.registered) == 2
    assert {a.place: a.count for a in again.asks} == {a.place: a.count for a in beat.asks}
    assert await world.next() == ContainersRecovered(containers=(FIRST,), complete=False)


async def test_an_order_to_shut_down_ends_the_attempt(world: World) -> None:
    order = msgspec.structs.replace(allocation(), command=MasterCommand.SHUTDOWN)
    world.rm.answers.put_nowait(order)
    with pytest.raises(AttemptNotFoundError, match="has ended this attempt"):
        await asyncio.wait_for(world.next(), 60)
    assert not world.rm.finishes


async def test_a_beat_whose_number_is_too_old_ends_the_attempt(world: World) -> None:
    world.rm.answers.put_nowait(InvalidMasterRequestError("Invalid responseId"))
    with pytest.raises(InvalidMasterRequestError):
        await asyncio.wait_for(world.next(), 60)


async def test_a_node_that_no_longer_takes_our_token(world: World) -> None:
    await world.allocated()
    world.node.error = InvalidTokenError("the token has expired")
    world.backend.launch(launch())
    assert await world.next() == LaunchFailed(
        container=FIRST, reason=f"{NODE} refused: the token has expired"
    )
    assert (await world.rm.next_beat()).releases == (container(2).id,)


async def test_a_node_that_answers_neither_a_start_nor_a_stop(world: World) -> None:
    await world.allocated()
    world.node.error = OutcomeUnknownError("no answer")
    world.node.status_error = world.node.stop_error = UnreachableError("no route")
    world.backend.launch(launch())
    failed = await world.next()
    assert failed == LaunchFailed(container=FIRST, reason=f"{NODE} did not answer: no route")
    # It may run: the ResourceManager is asked to see to its end.
    assert (await world.rm.next_beat()).releases == (container(2).id,)


async def test_a_node_that_knows_nothing_of_what_it_is_to_stop(world: World) -> None:
    await world.allocated()
    world.backend.launch(launch())
    await asyncio.wait_for(world.node.is_asked.wait(), 60)
    world.node.failure = f"Container {FIRST} is not handled by this NodeManager"
    world.backend.release(ReleaseContainer(container=FIRST))
    assert await world.next() == ContainerCompleted(container=FIRST, cause=Cause.RELEASED)


async def test_a_node_that_cannot_stop_it_yet_leaves_it_to_the_resourcemanager(
    world: World,
) -> None:
    await world.allocated()
    world.backend.launch(launch())
    await asyncio.wait_for(world.node.is_asked.wait(), 60)
    world.node.failure = f"Container {FIRST} is recovering, try later"
    world.backend.release(ReleaseContainer(container=FIRST))
    assert (await world.rm.next_beat()).releases == (container(2).id,)
    world.rm.answers.put_nowait(allocation(ended=[completed(2, -105, "by the RM")]))
    ended = await world.next()
    assert isinstance(ended, ContainerCompleted)
    assert "by the RM" in ended.detail


async def test_a_bug_in_a_launch_ends_the_attempt(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(launch: StarterLaunch) -> ContainerLaunchContext:
        raise KeyError(launch.task)

    await world.allocated()
    monkeypatch.setattr(world, "make_context", broken)
    world.backend.launch(launch())
    with pytest.raises(KeyError, match="worker:0"):
        await world.next()


async def test_a_node_that_hangs_is_not_waited_for_as_long_as_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    soon = RpcSettings(connect_timeout_s=0.1, call_timeout_s=0.1)
    monkeypatch.setattr("ytf.backends.yarn.master.node_manager_client._SETTINGS", soon)
    with socket.create_server(("127.0.0.1", 0)) as hung:
        node = NodeId("127.0.0.1", hung.getsockname()[1])
        async with connect_to_node(msgspec.structs.replace(TOKEN, node=node)) as line:
            with pytest.raises(UnreachableError):
                await asyncio.wait_for(line.stop([container(2).id]), 60)
