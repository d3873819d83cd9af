"""What a real ResourceManager or NodeManager says so rarely that only a made-up one does."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import msgspec
import pytest

from tests.backends.yarn.fakes import NODE, allocation, container
from tests.backends.yarn.test_containers import FIRST, World, launch, record, wish
from ytf.hadoop.rpc.errors import (
    AttemptNotFoundError,
    InvalidMasterRequestError,
    InvalidTokenError,
)
from ytf.hadoop.yarn.records import MasterCommand
from ytf.master.events import ContainersRecovered, LaunchFailed
from ytf.specs.status import FinalStatus


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[World]:
    """A started backend of a first attempt."""
    world = World(tmp_path)
    await world.backend.start(1, "http://node7:4711")
    yield world
    world.rm.finish_answers = [True]
    await world.backend.finish(record(FinalStatus.KILLED))


async def test_an_order_to_register_again_is_as_good_as_being_forgotten(world: World) -> None:
    await world.allocated()
    world.backend.request(wish("b"))
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
        await asyncio.wait_for(world.next(), 5)
    assert not world.rm.finishes


async def test_a_beat_whose_number_is_too_old_ends_the_attempt(world: World) -> None:
    world.rm.answers.put_nowait(InvalidMasterRequestError("Invalid responseId"))
    with pytest.raises(InvalidMasterRequestError):
        await asyncio.wait_for(world.next(), 5)


async def test_a_node_that_no_longer_takes_our_token(world: World) -> None:
    await world.allocated()
    world.node.error = InvalidTokenError("the token has expired")
    world.backend.launch(launch())
    assert await world.next() == LaunchFailed(
        container=FIRST, reason=f"{NODE} refused: the token has expired"
    )
    assert (await world.rm.next_beat()).releases == (container(2).id,)
