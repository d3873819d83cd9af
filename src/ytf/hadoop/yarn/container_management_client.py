"""``ContainerManagementClient``: starts and stops containers on a NodeManager.

For an application's master. The protocol is ``ContainerManagementProtocol``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

import msgspec

from ytf.hadoop.conf import Address
from ytf.hadoop.proto import master_pb2 as pb
from ytf.hadoop.rpc.client import RetryPolicy, RpcClient
from ytf.hadoop.rpc.connection import Method, RpcSettings
from ytf.hadoop.security.credentials import Token
from ytf.hadoop.security.login import Login
from ytf.hadoop.yarn import decode
from ytf.hadoop.yarn.contexts import ContainerLaunchContext
from ytf.hadoop.yarn.ids import ContainerId
from ytf.hadoop.yarn.records import Container, ContainerFailure, ContainerStatus, NodeToken

if TYPE_CHECKING:
    from typing_extensions import Self

PROTOCOL = "org.apache.hadoop.yarn.api.ContainerManagementProtocolPB"

# A container starts only once. A second call fails even if the first one succeeded, so
# after a start without an answer the caller has to find out what happened.
_START = Method("startContainers", pb.StartContainersRequest, pb.StartContainersResponse, False)
_STOP = Method("stopContainers", pb.StopContainersRequest, pb.StopContainersResponse, True)
_STATUSES = Method(
    "getContainerStatuses", pb.GetContainerStatusesRequest, pb.GetContainerStatusesResponse, True
)


class ContainersResult(msgspec.Struct, frozen=True, kw_only=True):
    """The result of a call for several containers: each succeeds or fails by itself."""

    succeeded: tuple[ContainerId, ...]
    failed: tuple[ContainerFailure, ...]


class ContainerManagementClient:
    """A master's client of one NodeManager. Connects at the first call.

    It authenticates with the node's token; :meth:`renew` replaces that. It
    raises the errors of :mod:`ytf.hadoop.rpc.errors`. After ``NodeNotReadyError``
    try again later.
    """

    def __init__(
        self,
        node_token: NodeToken,
        *,
        settings: RpcSettings | None = None,
        retry_policy: RetryPolicy | None = None,
    ) -> None:
        self.node = node_token.node
        self._token = node_token.token
        self._rpc = RpcClient(
            [Address(self.node.host, self.node.port)],
            PROTOCOL,
            _login(node_token.token),
            settings=settings,
            retry_policy=retry_policy,
        )

    async def start(
        self, launches: Sequence[tuple[Container, ContainerLaunchContext]]
    ) -> ContainersResult:
        """Start containers of this node. Not idempotent.

        A container starts only once: after ``OutcomeUnknownError`` call
        :meth:`statuses`, or stop it.
        """
        request = pb.StartContainersRequest(
            requests=[
                pb.StartContainerRequest(
                    launch=launch.to_message(), container_token=container.token.to_message()
                )
                for container, launch in launches
            ]
        )
        answer = await self._rpc.call(_START, request)
        return _done(answer)

    async def stop(self, containers: Iterable[ContainerId]) -> ContainersResult:
        """Kill containers. Idempotent. The scheduler then reports -105 for each."""
        request = pb.StopContainersRequest(containers=[each.to_message() for each in containers])
        answer = await self._rpc.call(_STOP, request)
        return _done(answer)

    async def statuses(
        self, containers: Iterable[ContainerId]
    ) -> tuple[Mapping[ContainerId, ContainerStatus], tuple[ContainerFailure, ...]]:
        """The statuses of containers, and failures for those that the node does not know."""
        request = pb.GetContainerStatusesRequest(
            containers=[each.to_message() for each in containers]
        )
        answer = await self._rpc.call(_STATUSES, request)
        found = map(decode.container_status, answer.statuses)
        failed = tuple(map(decode.container_failure, answer.failed))
        return {status.container: status for status in found}, failed

    def renew(self, token: Token) -> None:
        """Use a newer token of this node for further calls."""
        if token != self._token:
            self._token = token
            self._rpc.relogin(_login(token))

    async def close(self) -> None:
        """Close the connection."""
        await self._rpc.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        await self.close()


def _login(token: Token) -> Login:
    # A NodeManager's port accepts only tokens, also on clusters without security.
    return Login(user="", token=token, secure=True)


def _done(answer: pb.StartContainersResponse | pb.StopContainersResponse) -> ContainersResult:
    return ContainersResult(
        succeeded=decode.container_ids(answer.succeeded),
        failed=tuple(map(decode.container_failure, answer.failed)),
    )
