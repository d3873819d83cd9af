"""A ResourceManager and NodeManagers that say what a test wants them to say."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence

from ytf.hadoop.security.tokens import Token
from ytf.hadoop.yarn.asks import Beat
from ytf.hadoop.yarn.ids import ApplicationId, AttemptId, ContainerId, NodeId
from ytf.hadoop.yarn.launch import LaunchContext
from ytf.hadoop.yarn.master import MasterProtocol
from ytf.hadoop.yarn.node import Done, NodeProtocol
from ytf.hadoop.yarn.records import (
    Allocation,
    Container,
    ContainerFailure,
    ContainerState,
    ContainerStatus,
    FinalStatus,
    NodeReport,
    NodeState,
    NodeToken,
    Registration,
)
from ytf.hadoop.yarn.resources import Resource

ATTEMPT = AttemptId(ApplicationId(1700000000000, 7), 1)
NODE = NodeId("node7", 8041)
TOKEN = NodeToken(NODE, Token(b"i", b"p", "NMToken"))
MAXIMUM = Resource(8192, 8)


def container(number: int, priority: int = 1) -> Container:
    return Container(
        id=ContainerId(ATTEMPT, number),
        node=NODE,
        node_http_address="node7:8042",
        resource=Resource(128, 1),
        priority=priority,
        allocation_request_id=0,
        token=Token(b"c", b"p", "ContainerToken"),
    )


def completed(number: int, status: int = 0, diagnostics: str = "") -> ContainerStatus:
    return ContainerStatus(
        container=ContainerId(ATTEMPT, number),
        state=ContainerState.COMPLETE,
        exit_status=status,
        diagnostics=diagnostics,
    )


def node_report(state: NodeState = NodeState.RUNNING) -> NodeReport:
    return NodeReport(
        node=NODE,
        http_address="node7:8042",
        rack="/rack",
        used=Resource(),
        capability=MAXIMUM,
        containers=0,
        state=state,
        health="",
        labels=(),
        decommissioning_timeout_s=None,
    )


def allocation(
    *allocated: Container,
    ended: Sequence[ContainerStatus] = (),
    late: Sequence[Container] = (),
    nodes: Sequence[NodeReport] = (),
) -> Allocation:
    return Allocation(
        allocated=allocated,
        completed=tuple(ended),
        previous_containers=tuple(late),
        updated_nodes=tuple(nodes),
        node_tokens=(TOKEN,) if allocated else (),
        preempted=(),
        preemptable=(),
        rejected=(),
        headroom=Resource(1024, 4),
        cluster_nodes=1,
        command=None,
        master_token=None,
    )


class FakeRm(MasterProtocol):
    """Answers each beat with the next of ``answers``; an exception is raised."""

    def __init__(self) -> None:
        self.answers: asyncio.Queue[Allocation | Exception] = asyncio.Queue()
        self.beats: list[Beat] = []
        self.beat = asyncio.Event()
        self.registered: list[tuple[str, int, str]] = []
        self.previous: tuple[Container, ...] = ()
        self.finishes: list[tuple[FinalStatus, str]] = []
        self.finish_answers: list[bool | Exception] = [False, True]
        self.closed = False

    async def register(self, host: str, port: int, tracking_url: str) -> Registration:
        self.registered.append((host, port, tracking_url))
        return Registration(
            maximum=MAXIMUM,
            queue="root.default",
            resource_types=(),
            previous_containers=self.previous,
            node_tokens=(TOKEN,) if self.previous else (),
            client_token_key=b"",
        )

    async def allocate(self, beat: Beat) -> Allocation:
        self.beats.append(beat)
        self.beat.set()
        answer = await self.answers.get()
        if isinstance(answer, Exception):
            raise answer
        return answer

    async def next_beat(self) -> Beat:
        """The next beat that carries anything; idle ones are answered."""
        while True:
            await asyncio.wait_for(self.beat.wait(), 5)
            self.beat.clear()
            if self.beats[-1] != Beat():
                return self.beats[-1]
            self.answers.put_nowait(allocation())

    async def finish(self, status: FinalStatus, diagnostics: str, tracking_url: str) -> bool:
        self.finishes.append((status, diagnostics))
        answer = self.finish_answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    async def close(self) -> None:
        self.closed = True


class FakeNode(NodeProtocol):
    """Starts and stops as told; ``failure`` is what it says of every container.

    ``error`` is raised by a start, ``stop_error`` by a stop.
    """

    def __init__(self, token: NodeToken) -> None:
        self.node = token.node
        self.started: list[tuple[ContainerId, LaunchContext]] = []
        self.stopped: list[ContainerId] = []
        self.is_asked = asyncio.Event()
        """Set once there was a start."""
        self.failure = ""
        self.error: Exception | None = None
        self.stop_error: Exception | None = None
        self.renewed: list[Token] = []

    async def start(self, launches: Sequence[tuple[Container, LaunchContext]]) -> Done:
        if self.error is not None:
            raise self.error
        self.is_asked.set()
        self.started += [(each.id, context) for each, context in launches]
        return self._done([each.id for each, _ in launches])

    async def stop(self, containers: Iterable[ContainerId]) -> Done:
        if self.stop_error is not None:
            raise self.stop_error
        wanted = list(containers)
        self.stopped += wanted
        return self._done(wanted)

    def renew(self, token: Token) -> None:
        self.renewed.append(token)

    async def close(self) -> None:
        return

    def _done(self, containers: list[ContainerId]) -> Done:
        if not self.failure:
            return Done(succeeded=tuple(containers), failed=())
        failed = [
            ContainerFailure(container=each, class_name="E", message=self.failure)
            for each in containers
        ]
        return Done(succeeded=(), failed=tuple(failed))
