"""What a master says to a NodeManager (``ContainerManagementProtocol``)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from enum import IntEnum
from typing import TYPE_CHECKING

import msgspec

from ytf.hadoop.address import Address
from ytf.hadoop.proto import master_pb2 as pb
from ytf.hadoop.rpc.failover import Service
from ytf.hadoop.rpc.method import Method
from ytf.hadoop.rpc.settings import Patience, RpcSettings
from ytf.hadoop.security import tokens
from ytf.hadoop.security.login import Login
from ytf.hadoop.security.tokens import Token
from ytf.hadoop.yarn import decode
from ytf.hadoop.yarn.ids import ContainerId
from ytf.hadoop.yarn.launch import LaunchContext
from ytf.hadoop.yarn.records import Container, ContainerFailure, ContainerStatus, NodeToken

if TYPE_CHECKING:
    from typing_extensions import Self

PROTOCOL = "org.apache.hadoop.yarn.api.ContainerManagementProtocolPB"

# A container starts once: the second try fails, although the first may have
# succeeded, so a start without an answer is for the caller to find out about.
_START = Method("startContainers", pb.StartContainersRequest, pb.StartContainersResponse, False)
_STOP = Method("stopContainers", pb.StopContainersRequest, pb.StopContainersResponse, True)
_STATUSES = Method(
    "getContainerStatuses", pb.GetContainerStatusesRequest, pb.GetContainerStatusesResponse, True
)
_SIGNAL = Method("signalToContainer", pb.SignalContainerRequest, pb.SignalContainerResponse, False)


class ContainerSignal(IntEnum):
    """What can be sent to a container's process."""

    QUIT = 1
    TERMINATE = 2
    KILL = 3


class Done(msgspec.Struct, frozen=True, kw_only=True):
    """A call about several containers fails or succeeds for each of them."""

    succeeded: tuple[ContainerId, ...]
    failed: tuple[ContainerFailure, ...]


class NodeProtocol:
    """A master's line to one NodeManager. Connects when first used.

    The node's token is its key; :meth:`renew` takes a later one. Errors are
    those of :mod:`ytf.hadoop.rpc.errors`; ``NodeNotReadyError`` passes by
    itself.
    """

    def __init__(
        self,
        node_token: NodeToken,
        *,
        settings: RpcSettings | None = None,
        patience: Patience | None = None,
    ) -> None:
        self.node = node_token.node
        self._token = node_token.token
        self._service = Service(
            [Address(self.node.host, self.node.port)],
            PROTOCOL,
            _login(node_token.token),
            settings=settings,
            patience=patience,
        )

    async def start(self, launches: Sequence[tuple[Container, LaunchContext]]) -> Done:
        """Start containers of this node. Not idempotent.

        Each starts once in its life: after ``OutcomeUnknownError`` ask
        :meth:`statuses`, or stop it.
        """
        request = pb.StartContainersRequest(
            requests=[
                pb.StartContainerRequest(
                    launch=launch.to_message(), container_token=tokens.to_message(container.token)
                )
                for container, launch in launches
            ]
        )
        answer = await self._service.call(_START, request)
        return _done(answer)

    async def stop(self, containers: Iterable[ContainerId]) -> Done:
        """Kill containers. Idempotent; the scheduler then reports -105 for each."""
        request = pb.StopContainersRequest(containers=[each.to_message() for each in containers])
        answer = await self._service.call(_STOP, request)
        return _done(answer)

    async def statuses(
        self, containers: Iterable[ContainerId]
    ) -> tuple[Mapping[ContainerId, ContainerStatus], tuple[ContainerFailure, ...]]:
        """How containers are, and those of which the node knows nothing (any more)."""
        request = pb.GetContainerStatusesRequest(
            containers=[each.to_message() for each in containers]
        )
        answer = await self._service.call(_STATUSES, request)
        found = map(decode.container_status, answer.statuses)
        failed = tuple(map(decode.container_failure, answer.failed))
        return {status.container: status for status in found}, failed

    async def signal(self, container: ContainerId, signal: ContainerSignal) -> None:
        """Send a signal to a container's process. Not idempotent."""
        await self._service.call(
            _SIGNAL, pb.SignalContainerRequest(container=container.to_message(), command=signal)
        )

    def renew(self, token: Token) -> None:
        """Go on with a later token for this node."""
        if token != self._token:
            self._token = token
            self._service.relogin(_login(token))

    async def close(self) -> None:
        """Close the connection."""
        await self._service.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        await self.close()


def _login(token: Token) -> Login:
    # Node ports take tokens only, on secure clusters and others.
    return Login(user="", token=token, secure=True)


def _done(answer: pb.StartContainersResponse | pb.StopContainersResponse) -> Done:
    return Done(
        succeeded=decode.container_ids(answer.succeeded),
        failed=tuple(map(decode.container_failure, answer.failed)),
    )
