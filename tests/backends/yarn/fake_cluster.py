"""Fakes of the ResourceManager and of NodeManagers that answer what a test wants."""

from __future__ import annotations

import asyncio
import getpass
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from ytf.backends.yarn.rm_client import RmClient
from ytf.hadoop.conf import Configuration
from ytf.hadoop.confxml import Property
from ytf.hadoop.rpc.errors import ApplicationNotFoundError
from ytf.hadoop.security.credentials import Token
from ytf.hadoop.yarn.allocate_request import AllocateRequest
from ytf.hadoop.yarn.application_client import ApplicationClient
from ytf.hadoop.yarn.application_master_client import ApplicationMasterClient
from ytf.hadoop.yarn.container_management_client import ContainerManagementClient, ContainersResult
from ytf.hadoop.yarn.contexts import ContainerLaunchContext
from ytf.hadoop.yarn.ids import ApplicationId, AttemptId, ContainerId, NodeId
from ytf.hadoop.yarn.records import (
    AllocateResponse,
    ApplicationReport,
    ApplicationState,
    Container,
    ContainerFailure,
    ContainerState,
    ContainerStatus,
    FinalApplicationStatus,
    LogStatus,
    NodeReport,
    NodeState,
    NodeToken,
    RegisterResponse,
    Resource,
)
from ytf.specs.ids import JobId

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
) -> AllocateResponse:
    return AllocateResponse(
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


class FakeMasterProtocol(ApplicationMasterClient):
    """Answers each beat with the next of ``answers``; an exception is raised."""

    def __init__(self) -> None:
        self.answers: asyncio.Queue[AllocateResponse | Exception] = asyncio.Queue()
        self.beats: list[AllocateRequest] = []
        self.beat = asyncio.Event()
        self.registered: list[tuple[str, int, str]] = []
        self.previous: tuple[Container, ...] = ()
        self.finishes: list[tuple[FinalApplicationStatus, str]] = []
        self.finish_answers: list[bool | Exception] = [False, True]
        self.closed = False

    async def register(self, host: str, port: int, tracking_url: str) -> RegisterResponse:
        self.registered.append((host, port, tracking_url))
        return RegisterResponse(
            maximum=MAXIMUM,
            queue="root.default",
            resource_types=(),
            previous_containers=self.previous,
            node_tokens=(TOKEN,) if self.previous else (),
            client_token_key=b"",
        )

    async def allocate(self, beat: AllocateRequest) -> AllocateResponse:
        self.beats.append(beat)
        self.beat.set()
        answer = await self.answers.get()
        if isinstance(answer, Exception):
            raise answer
        return answer

    async def next_beat(self) -> AllocateRequest:
        """The next beat that carries anything; idle ones are answered."""
        while True:
            await asyncio.wait_for(self.beat.wait(), 60)
            self.beat.clear()
            if self.beats[-1] != AllocateRequest():
                return self.beats[-1]
            self.answers.put_nowait(allocation())

    async def finish(
        self, status: FinalApplicationStatus, diagnostics: str, tracking_url: str
    ) -> bool:
        self.finishes.append((status, diagnostics))
        answer = self.finish_answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    async def close(self) -> None:
        self.closed = True


class FakeNode(ContainerManagementClient):
    """Starts and stops as told; ``failure`` is what it says of every container.

    ``error`` is raised by a start, ``stop_error`` by a stop, ``status_error`` by a
    question for statuses.
    """

    def __init__(self, token: NodeToken) -> None:
        self.node = token.node
        self.started: list[tuple[ContainerId, ContainerLaunchContext]] = []
        self.stopped: list[ContainerId] = []
        self.is_asked = asyncio.Event()
        """Set once there was a start."""
        self.failure = ""
        self.error: Exception | None = None
        self.stop_error: Exception | None = None
        self.status_error: Exception | None = None
        self.has: set[ContainerId] = set()
        """The containers whose status it tells."""
        self.renewed: list[Token] = []

    async def start(
        self, launches: Sequence[tuple[Container, ContainerLaunchContext]]
    ) -> ContainersResult:
        if self.error is not None:
            raise self.error
        self.is_asked.set()
        self.started += [(each.id, context) for each, context in launches]
        return self._done([each.id for each, _ in launches])

    async def stop(self, containers: Iterable[ContainerId]) -> ContainersResult:
        if self.stop_error is not None:
            raise self.stop_error
        wanted = list(containers)
        self.stopped += wanted
        return self._done(wanted)

    async def statuses(
        self, containers: Iterable[ContainerId]
    ) -> tuple[Mapping[ContainerId, ContainerStatus], tuple[ContainerFailure, ...]]:
        if self.status_error is not None:
            raise self.status_error
        known = {each: completed(each.number) for each in containers if each in self.has}
        return known, ()

    def renew(self, token: Token) -> None:
        self.renewed.append(token)

    async def close(self) -> None:
        return

    def _done(self, containers: list[ContainerId]) -> ContainersResult:
        if not self.failure:
            return ContainersResult(succeeded=tuple(containers), failed=())
        failed = [
            ContainerFailure(container=each, class_name="E", message=self.failure)
            for each in containers
        ]
        return ContainersResult(succeeded=(), failed=tuple(failed))


APP = ApplicationId(1700000000000, 7)


def report(
    state: ApplicationState,
    final: FinalApplicationStatus = FinalApplicationStatus.UNDEFINED,
    *,
    attempt: int = 1,
    port: int = -1,
) -> ApplicationReport:
    return ApplicationReport(
        id=APP, name="n", type="YTF", user="alice", queue="default", state=state,
        final_status=final, diagnostics=" said \n", progress=0.0, host="node7", rpc_port=port,
        tracking_url="N/A", original_tracking_url="", attempt=AttemptId(APP, attempt), tags=(),
        priority=0, submitted_ms=0, started_ms=1500, launched_ms=0, finished_ms=0, usage=None,
        log_status=LogStatus.NOT_STARTED, node_label_expression="", unmanaged=False,
        client_token=None, master_token=None,
    )  # fmt: skip


T = TypeVar("T")


ME = getpass.getuser()


JOB = JobId("application_1700000000000_0007")


class FakeClientProtocol(ApplicationClient):
    """What a ResourceManager says, in a list and then of single applications."""

    def __init__(self) -> None:
        self.listed: list[ApplicationReport] = []
        self.known: dict[str, ApplicationReport] = {}

    async def applications(
        self,
        *,
        types: Sequence[str] = (),
        states: Sequence[ApplicationState] = (),
        users: Sequence[str] = (),
        tags: Sequence[str] = (),
        limit: int | None = None,
    ) -> list[ApplicationReport]:
        assert (types, users) == (["YTF"], [ME])
        return self.listed

    async def report(self, application: ApplicationId) -> ApplicationReport:
        try:
            return self.known[str(application)]
        except KeyError:
            raise ApplicationNotFoundError("who?") from None

    async def nodes(self, *states: NodeState) -> list[NodeReport]:
        return [node_report()]


@dataclass(frozen=True)
class FakeRmClient(RmClient):
    answers: FakeClientProtocol = field(default_factory=FakeClientProtocol)

    def call(self, request: Callable[[ApplicationClient], Awaitable[T]]) -> T:
        async def answer() -> T:
            return await request(self.answers)

        return asyncio.run(answer())


def cluster(address: str) -> Configuration:
    name = "yarn.resourcemanager.address"
    return Configuration(
        [Property(name=name, value=address, final=False, file=Path("yarn-site.xml"), line=1)]
    )


RUNNING = report(ApplicationState.RUNNING, port=4711)


class FlakyClientProtocol(FakeClientProtocol):
    """FakeClientProtocol about one job; ``moods`` are raised first, one for each call."""

    def __init__(self, told: ApplicationReport = RUNNING) -> None:
        super().__init__()
        self.known[JOB] = told
        self.moods: list[Exception] = []
        self.kills: list[str] = []
        self.killed_is: ApplicationReport | None = None
        self.running: list[NodeReport] = [node_report()]

    async def nodes(self, *states: NodeState) -> list[NodeReport]:
        return self.running

    async def report(self, application: ApplicationId) -> ApplicationReport:
        if self.moods:
            raise self.moods.pop(0)
        return await super().report(application)

    async def kill(self, application: ApplicationId, reason: str = "") -> bool:
        if self.moods:
            raise self.moods.pop(0)
        self.kills.append(reason)
        if self.killed_is is not None:
            self.known[JOB] = self.killed_is
        return True


def node(
    port: int,
    free_mb: int = 8192,
    state: NodeState = NodeState.RUNNING,
    labels: tuple[str, ...] = (),
) -> NodeReport:
    return NodeReport(
        node=NodeId("host", port),
        http_address="host:1",
        rack="/rack",
        used=Resource(0, 0),
        capability=Resource(free_mb, 64),
        containers=0,
        state=state,
        health="",
        labels=labels,
        decommissioning_timeout_s=None,
    )
