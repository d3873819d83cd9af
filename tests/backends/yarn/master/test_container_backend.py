"""YarnContainerBackend against a fake ResourceManager."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Iterable, Sequence
from pathlib import Path

import msgspec
import pytest

from tests.backends.yarn.fake_cluster import (
    NODE,
    allocation,
    completed,
    container,
    node_report,
)
from tests.backends.yarn.master.backend_world import (
    FIRST,
    PROFILES,
    URL,
    World,
    launch,
    record,
    request,
)
from ytf.backends.yarn.find_master import read_masters
from ytf.errors import OutcomeUnknownError, UnreachableError
from ytf.hadoop.rpc.errors import AttemptNotFoundError, NotRegisteredError
from ytf.hadoop.yarn.container_management_client import ContainersResult
from ytf.hadoop.yarn.contexts import ContainerLaunchContext
from ytf.hadoop.yarn.ids import ContainerId as YarnContainerId
from ytf.hadoop.yarn.ids import NodeId as YarnNodeId
from ytf.hadoop.yarn.records import Container, FinalApplicationStatus, NodeState
from ytf.machine.commands import CancelRequest, ReleaseContainer
from ytf.machine.events import (
    Cause,
    ContainerAllocated,
    ContainerCompleted,
    ContainersRecovered,
    LaunchFailed,
    MessageNoted,
    NodeLost,
    RequestRefused,
)
from ytf.specs.ids import NodeId, RequestId, TaskId
from ytf.specs.status import FinalStatus
from ytf.testing.waiting import eventually


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[World]:
    made = World(tmp_path)
    await made.backend.start(1, URL, PROFILES)
    yield made
    made.rm.finish_answers = [True]
    await made.backend.finish(record(FinalStatus.KILLED))


async def test_from_a_request_to_a_container_that_ends(world: World) -> None:
    assert world.rm.registered == [("node7", 4711, URL)]
    world.backend.request(request("a"))
    world.backend.request(request("b"))
    beat = await world.rm.next_beat()
    assert {ask.place: ask.count for ask in beat.asks} == {"node7": 2, "/rack": 2, "*": 2}
    world.rm.answers.put_nowait(allocation(container(2), container(3), container(4)))
    first, second = await world.next(), await world.next()
    assert isinstance(first, ContainerAllocated)
    assert isinstance(second, ContainerAllocated)
    assert (first.request, first.container, first.node) == ("a", FIRST, str(NODE))
    assert second.request == "b"
    # Two were requested: the third goes back.
    assert (await world.rm.next_beat()).releases == (container(4).id,)
    world.backend.launch(launch())
    world.backend.launch(launch())
    world.rm.answers.put_nowait(allocation(ended=[completed(2, 3)]))
    ended = await world.next()
    assert isinstance(ended, ContainerCompleted)
    assert (ended.container, ended.exit_code) == (FIRST, 3)
    assert [each for each, _ in world.node.started] == [container(2).id]
    assert world.backend.log_url(TaskId("worker:0"), 1, FIRST) == (
        f"http://node7:8042/node/containerlogs/{FIRST}/alice"
    )
    assert "1024 MB" in world.backend.headroom_text()


async def test_what_no_container_can_have_is_refused(world: World) -> None:
    world.backend.request(request("a", memory_mb=10**6))
    refused = await world.next()
    assert isinstance(refused, RequestRefused)
    assert "1000000 memory-mb (at most 8192)" in refused.reason


async def test_tasks_that_were_to_be_spread_and_share_a_node_are_told_of(world: World) -> None:
    for name in "ab":
        world.backend.request(request(name, group="spread"))
    beat = await world.rm.next_beat()
    assert {ask.place: ask.count for ask in beat.asks} == {"node7": 2, "/rack": 2, "*": 2}
    world.rm.answers.put_nowait(allocation(container(2, 3), container(3, 3)))
    assert isinstance(await world.next(), ContainerAllocated)
    assert isinstance(await world.next(), ContainerAllocated)
    told = "spread: 2 tasks share 1 node, though they are to be spread"
    assert await world.next() == MessageNoted(text=told)


async def test_a_node_that_comes_later_is_asked_for(world: World) -> None:
    world.backend.request(request("a", group="apart"))
    beat = await world.rm.next_beat()
    # The node there is has not the label: nowhere is a place for it.
    assert {ask.place: ask.count for ask in beat.asks} == {"*": 1}
    assert [(ask.relax_locality, ask.node_label) for ask in beat.asks] == [(False, "gpu")]
    new = msgspec.structs.replace(node_report(), node=YarnNodeId("node8", 8041), labels=("gpu",))
    world.rm.answers.put_nowait(allocation(nodes=[new]))
    beat = await world.rm.next_beat()
    assert {ask.place: ask.count for ask in beat.asks} == {"node8": 1, "/rack": 1}


async def test_tasks_that_are_kept_apart_wait_where_all_nodes_are_away(world: World) -> None:
    await world.rm.beat.wait()
    world.rm.answers.put_nowait(allocation(nodes=[node_report(NodeState.LOST)]))
    assert isinstance(await world.next(), NodeLost)
    world.backend.request(request("a", group="apart"))
    beat = await world.rm.next_beat()
    assert [(ask.place, ask.relax_locality) for ask in beat.asks] == [("*", False)]
    back = msgspec.structs.replace(node_report(), labels=("gpu",))
    world.rm.answers.put_nowait(allocation(nodes=[back]))
    beat = await world.rm.next_beat()
    assert {ask.place: ask.count for ask in beat.asks} == {"node7": 1, "/rack": 1}


async def test_full_hosts_are_not_waited_for_whatever_comes(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ytf.backends.yarn.master.container_backend.RELAX_AFTER_HEARTBEATS", 2)
    world.backend.request(request("a", group="spread"))
    beat = await world.rm.next_beat()
    assert not any(ask.relax_locality for ask in beat.asks if ask.place == "*")
    world.rm.answers.put_nowait(allocation())
    beat = await world.rm.next_beat()
    assert {ask.place: ask.count for ask in beat.asks} == {"node7": 0, "/rack": 0, "*": 1}
    assert all(ask.relax_locality for ask in beat.asks)
    # A node that comes, or another request, makes a new plan: it is a request, not a condition.
    new = msgspec.structs.replace(node_report(), node=YarnNodeId("node8", 8041))
    world.rm.answers.put_nowait(allocation(nodes=[new]))
    world.backend.request(request("b", group="spread"))
    beat = await world.rm.next_beat()
    assert {ask.place: ask.count for ask in beat.asks} == {
        "node7": 1, "node8": 1, "/rack": 2, "*": 2,
    }  # fmt: skip
    assert all(ask.relax_locality for ask in beat.asks)
    world.rm.answers.put_nowait(allocation())
    beat = await world.rm.next_beat()
    assert {ask.place: ask.count for ask in beat.asks} == {"node7": 0, "node8": 0, "/rack": 0}


async def test_too_long_a_list_of_nodes_to_avoid_is_left_out(world: World) -> None:
    others = [
        msgspec.structs.replace(node_report(), node=YarnNodeId(f"node{number}", 8041))
        for number in (8, 9)
    ]
    await world.rm.beat.wait()
    world.backend.request(request("a"))
    world.rm.answers.put_nowait(allocation(nodes=others))
    await world.rm.next_beat()
    bad = (NodeId("node8:8041"), NodeId("node9:8041"))
    world.backend.request(msgspec.structs.replace(request("b"), avoid=bad[:1]))
    world.rm.answers.put_nowait(allocation())
    beat = await world.rm.next_beat()
    assert (beat.blacklist_additions, beat.blacklist_removals) == (("node8",), ())
    world.backend.request(msgspec.structs.replace(request("c"), avoid=bad))
    world.rm.answers.put_nowait(allocation())
    beat = await world.rm.next_beat()
    assert (beat.blacklist_additions, beat.blacklist_removals) == ((), ("node8",))


async def test_a_page_of_logs_is_where_the_node_has_it(tmp_path: Path) -> None:
    world = World(tmp_path, user="a b/c", scheme="https")
    world.rm.previous = (container(2),)
    world.rm.answers.put_nowait(allocation())
    await world.backend.start(2, URL, PROFILES)
    assert world.backend.log_url(TaskId("worker:0"), 1, FIRST) == (
        f"https://node7:8042/node/containerlogs/{FIRST}/a%20b%2Fc"
    )
    await world.backend.finish(record(FinalStatus.SUCCEEDED))


async def test_a_wait_is_told_with_what_is_missing(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ytf.backends.yarn.master.request_table.FIRST_MESSAGE_S", 0.0)
    world.backend.request(request("a"))
    await world.rm.next_beat()
    world.rm.answers.put_nowait(allocation())
    world.rm.answers.put_nowait(allocation())
    told = await world.next()
    assert isinstance(told, MessageNoted)
    assert told.is_waiting
    assert told.text.startswith("Waiting for 1 of 1 containers: 1 × worker (128 MB, 1 vcores). ")
    assert "has 1024 MB, 4 vcores left" in told.text


async def test_a_container_given_back_while_its_launch_waits_is_never_started(
    world: World,
) -> None:
    await world.allocated()
    world.backend.launch(launch())
    world.backend.release(ReleaseContainer(container=FIRST))
    assert await world.next() == ContainerCompleted(container=FIRST, cause=Cause.RELEASED)
    assert (await world.rm.next_beat()).releases == (container(2).id,)
    assert (world.node.started, world.node.stopped) == ([], [])


async def test_a_stop_does_not_overtake_the_start(world: World) -> None:
    answer = asyncio.Event()
    order: list[str] = []
    start, stop = world.node.start, world.node.stop

    async def slow_start(
        launches: Sequence[tuple[Container, ContainerLaunchContext]],
    ) -> ContainersResult:
        done = await start(launches)
        await answer.wait()
        order.append("started")
        return done

    async def noted_stop(containers: Iterable[YarnContainerId]) -> ContainersResult:
        order.append("stopped")
        return await stop(containers)

    world.node.start, world.node.stop = slow_start, noted_stop  # type: ignore[method-assign]  # a fake's
    await world.allocated()
    world.backend.launch(launch())
    await asyncio.wait_for(world.node.is_asked.wait(), 5)
    world.backend.release(ReleaseContainer(container=FIRST))
    assert (await world.rm.next_beat()).releases == (container(2).id,)
    answer.set()
    await asyncio.to_thread(eventually, lambda: order == ["started", "stopped"])


async def test_a_cancelled_request(world: World) -> None:
    world.backend.request(request("a"))
    await world.rm.next_beat()
    world.rm.answers.put_nowait(allocation())
    world.backend.cancel(CancelRequest(request=RequestId("a")))
    beat = await world.rm.next_beat()
    assert {ask.count for ask in beat.asks} == {0}


async def test_a_beat_without_an_answer_is_repeated(world: World) -> None:
    world.backend.request(request("a"))
    beat = await world.rm.next_beat()
    world.rm.answers.put_nowait(OutcomeUnknownError("no answer"))
    assert await world.rm.next_beat() == beat


async def test_a_resourcemanager_that_has_forgotten_hears_everything_again(world: World) -> None:
    await world.allocated()
    world.backend.request(request("b"))
    beat = await world.rm.next_beat()
    world.rm.previous = (container(2),)
    world.rm.answers.put_nowait(NotRegisteredError("who are you?"))
    again = await world.rm.next_beat()
    assert len(world.rm.registered) == 2
    assert {a.place: a.count for a in again.asks} == {a.place: a.count for a in beat.asks}
    assert await world.next() == ContainersRecovered(containers=(FIRST,), complete=False)


async def test_a_node_that_refuses(world: World) -> None:
    await world.allocated()
    world.node.failure = "no room"
    world.backend.launch(launch())
    failed = await world.next()
    assert failed == LaunchFailed(container=FIRST, reason=f"{NODE} refused: no room")
    assert (await world.rm.next_beat()).releases == (container(2).id,)


async def test_a_node_that_cannot_be_reached(world: World) -> None:
    await world.allocated()
    world.node.error = UnreachableError("no route")
    world.backend.launch(launch())
    failed = await world.next()
    assert isinstance(failed, LaunchFailed)
    assert "no route" in failed.reason


async def test_a_start_without_an_answer_is_stopped_first(world: World) -> None:
    await world.allocated()
    world.node.error = OutcomeUnknownError("no answer")
    world.backend.launch(launch())
    assert isinstance(await world.next(), LaunchFailed)
    assert world.node.stopped == [container(2).id]


async def test_a_container_given_back(world: World) -> None:
    await world.allocated()
    world.backend.launch(launch())
    await asyncio.wait_for(world.node.is_asked.wait(), 5)
    world.backend.release(ReleaseContainer(container=FIRST))
    assert (await world.rm.next_beat()).releases == (container(2).id,)
    world.rm.answers.put_nowait(allocation(ended=[completed(2, -105)]))
    ended = await world.next()
    assert isinstance(ended, ContainerCompleted)
    assert ended.cause is Cause.RELEASED
    assert world.node.stopped == [container(2).id]


async def test_a_lost_node_is_told(world: World) -> None:
    await world.rm.beat.wait()
    world.rm.answers.put_nowait(allocation(nodes=[node_report(NodeState.LOST)]))
    assert await world.next() == NodeLost(node=NodeId(str(NODE)))


async def test_the_end_of_the_heartbeats_ends_the_attempt(world: World) -> None:
    world.rm.answers.put_nowait(AttemptNotFoundError("you are dead"))
    with pytest.raises(AttemptNotFoundError):
        await world.next()


async def test_a_later_attempt_hears_of_what_lives_and_of_what_was_lost(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.rm.previous = (container(2),)
    lost = completed(3, -100, "Container of a completed application")
    world.rm.answers.put_nowait(allocation(ended=[lost]))
    await world.backend.start(2, URL, PROFILES)
    assert len(world.rm.beats) >= 1, "the job learns both before it hears from any starter"
    assert await world.next() == ContainersRecovered(containers=(FIRST,), complete=False)
    gone = await world.next()
    assert isinstance(gone, ContainerCompleted)
    assert (gone.container, gone.cause) == (str(container(3).id), Cause.NOT_KEPT)
    # It writes where it is, for starters that it cannot reach.
    texts = await wait_for_masters(world)
    assert [json.loads(text) for text in texts] == [
        {"url": URL, "attempt": 2, "signature": "signed 2"}
    ]
    # It was started by an earlier attempt.
    world.backend.launch(launch())
    assert world.node.started == []
    await world.backend.finish(record(FinalStatus.SUCCEEDED))


async def wait_for_masters(world: World) -> list[str]:
    def read() -> list[str]:
        try:
            return list(read_masters(world.home.files, world.home.masters))
        except FileNotFoundError:
            return []

    return await asyncio.to_thread(eventually, read)


@pytest.mark.parametrize("is_emptied", [True, False])
async def test_the_end_is_settled_before_the_registry_is_emptied(
    tmp_path: Path, is_emptied: bool
) -> None:
    """A master that dies of what others put there has ended its job as it did."""
    world = World(tmp_path)
    await world.backend.start(1, URL, PROFILES)
    world.rm.finish_answers = [True]
    seen = []

    async def empty() -> bool:
        assert world.home.record() == record(FinalStatus.SUCCEEDED)
        assert [status for status, _ in world.rm.finishes] == [FinalApplicationStatus.SUCCEEDED]
        assert world.home.files.stat(world.home.staging).is_directory, "a later gc would find it"
        seen.append(is_emptied)
        return is_emptied

    assert await world.backend.finish(record(FinalStatus.SUCCEEDED), empty)
    assert seen == [is_emptied]
    with contextlib.nullcontext() if not is_emptied else pytest.raises(FileNotFoundError):
        world.home.files.stat(world.home.staging)


async def test_the_end_leaves_a_record_and_nothing_else(tmp_path: Path) -> None:
    world = World(tmp_path)
    await world.backend.start(1, URL, PROFILES)
    world.rm.finish_answers = [NotRegisteredError("again?"), False, True]
    await world.backend.finish(record(FinalStatus.SUCCEEDED))
    assert {status for status, _ in world.rm.finishes} == {FinalApplicationStatus.SUCCEEDED}
    assert [text.splitlines()[0] for _, text in world.rm.finishes] == ["that was it"] * 3
    assert len(world.rm.registered) == 2
    assert world.rm.closed
    with pytest.raises(FileNotFoundError):
        world.home.files.stat(world.home.staging)
    assert world.home.record() == record(FinalStatus.SUCCEEDED)
    world.home.write_record(record(FinalStatus.FAILED))
    assert world.home.record() == record(FinalStatus.SUCCEEDED)
