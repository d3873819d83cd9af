"""Starts and stops at NodeManagers that are slow, restarted or gone."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from tests.backends.yarn.fake_cluster import NODE, TOKEN, FakeNode, container
from ytf.backends.yarn.master import node_manager_client
from ytf.backends.yarn.master.node_manager_client import AT_ONCE, NodeManagerClient
from ytf.errors import OutcomeUnknownError, UnreachableError
from ytf.hadoop.rpc.errors import NodeNotReadyError
from ytf.hadoop.yarn.container_management_client import ContainersResult
from ytf.hadoop.yarn.contexts import ContainerLaunchContext
from ytf.hadoop.yarn.records import Container

CONTEXT = ContainerLaunchContext(command="true")
UNANSWERED = OutcomeUnknownError("no answer came within 30 s")


class BusyNode(FakeNode):
    """A node that serves a few calls at a time. Of more than that, the rest runs out of time.

    ``troubles`` are raised by the first starts; None: it starts the container.
    ``does_late`` says that it starts the container all the same.
    """

    def __init__(self) -> None:
        super().__init__(TOKEN)
        self.in_flight = self.most = 0
        self.troubles: list[Exception | None] = []
        self.does_late = False

    async def start(
        self, launches: Sequence[tuple[Container, ContainerLaunchContext]]
    ) -> ContainersResult:
        self.in_flight += 1
        self.most = max(self.most, self.in_flight)
        try:
            await asyncio.sleep(0)
            if self.in_flight > AT_ONCE:
                raise UNANSWERED
            trouble = self.troubles.pop(0) if self.troubles else None
            if trouble is not None and not self.does_late:
                raise trouble
            done = await super().start(launches)
            self.has.update(done.succeeded)
            if trouble is not None:
                raise trouble
            return done
        finally:
            self.in_flight -= 1


def client(node: FakeNode) -> NodeManagerClient:
    made = NodeManagerClient(lambda token: node)
    made.use_tokens([TOKEN])
    return made


async def start(node: FakeNode, number: int = 2) -> str:
    return await client(node).start(container(number), CONTEXT, lambda: None)


async def test_a_node_gets_no_more_calls_than_it_serves() -> None:
    node = BusyNode()
    nodes = client(node)
    starts = [nodes.start(container(n), CONTEXT, lambda: None) for n in range(2, 302)]
    assert set(await asyncio.gather(*starts)) == {""}
    assert len(node.started) == 300
    assert node.most == AT_ONCE


@pytest.mark.parametrize("does_late", [True, False])
async def test_a_node_that_does_not_answer_is_asked_before_it_is_given_up(does_late: bool) -> None:
    node = BusyNode()
    node.troubles, node.does_late = [UNANSWERED, UNANSWERED], does_late
    assert await start(node) == ""
    assert [each for each, _ in node.started] == [container(2).id]
    assert node.stopped == []


@pytest.mark.parametrize(
    "said",
    ["Container X already is running on this node!!", "X was recently stopped on node manager."],
)
async def test_a_start_that_was_executed_after_all(said: str) -> None:
    node = BusyNode()
    node.troubles, node.failure = [UNANSWERED], said
    assert await start(node) == ""


async def test_a_node_that_never_answers_a_start_is_told_to_stop_it() -> None:
    node = BusyNode()
    node.troubles = [UNANSWERED] * 100
    assert await start(node) == f"{NODE} did not answer: {UNANSWERED}"
    assert node.stopped == [container(2).id]
    assert len(node.troubles) == 96


async def test_a_node_that_is_just_starting_is_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(node_manager_client, "NOT_READY_PAUSE_S", 0.0)
    node = BusyNode()
    node.troubles = [NodeNotReadyError("wait"), NodeNotReadyError("wait")]
    assert await start(node) == ""
    node.troubles = [NodeNotReadyError("wait")] * 100
    assert "refused: wait" in await start(node, 3)


async def test_a_node_that_cannot_be_reached_is_given_up_at_once() -> None:
    node = BusyNode()
    node.troubles = [UnreachableError("no route"), None]
    assert await start(node) == f"{NODE} refused: no route"
    assert node.troubles == [None]
