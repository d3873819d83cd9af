"""Starts and stops containers at NodeManagers, for a job's master.

A busy node starts a few containers in a second, and calls that it cannot serve yet
wait in its queue. So each node gets only a few calls at a time, the others wait here,
and the time limit of a call counts from when it is really sent.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from ytf.errors import OutcomeUnknownError, UnreachableError, YtfError
from ytf.hadoop.rpc.connection import RpcSettings
from ytf.hadoop.rpc.errors import NodeNotReadyError
from ytf.hadoop.yarn.container_management_client import ContainerManagementClient
from ytf.hadoop.yarn.contexts import ContainerLaunchContext
from ytf.hadoop.yarn.ids import NodeId
from ytf.hadoop.yarn.records import Container, ContainerFailure, NodeToken

_SETTINGS = RpcSettings(connect_timeout_s=20.0, call_timeout_s=30.0)
"""A node that takes longer to start or stop a container hangs, and a task waits for it."""
AT_ONCE = 8
"""Calls in flight at one node. It serves 20 at a time, those of all jobs together
(``yarn.nodemanager.container-manager.thread-count``)."""
_SENDS = 4
"""How often a start is sent, if the node answers other calls but not this one."""
NOT_READY_PAUSE_S = 1.0
_UNKNOWN_CONTAINER = "is not handled by this NodeManager"
"""A node's message for a container that it does not know (``ContainerManagerImpl``)."""
_STARTED_BEFORE = ("already is running on this node", "was recently stopped on node manager")
"""A node's messages for a start that it has executed before."""

Connect = Callable[[NodeToken], ContainerManagementClient]


def connect_to_node(token: NodeToken) -> ContainerManagementClient:
    """A connection to a node, with time limits for nodes that hang."""
    return ContainerManagementClient(token, settings=_SETTINGS)


class NodeManagerClient:
    """Starts and stops containers. Keeps one connection and the newest token of each node."""

    def __init__(self, connect: Connect = connect_to_node) -> None:
        self._connect = connect
        self._tokens: dict[NodeId, NodeToken] = {}
        self._connections: dict[NodeId, ContainerManagementClient] = {}
        self._slots: dict[NodeId, asyncio.Semaphore] = {}

    def use_tokens(self, tokens: Sequence[NodeToken]) -> None:
        """Use these tokens from now on, also on open connections."""
        for token in tokens:
            self._tokens[token.node] = token
            connection = self._connections.get(token.node)
            if connection is not None:
                connection.renew(token.token)

    async def start(
        self, container: Container, context: ContainerLaunchContext, on_send: Callable[[], None]
    ) -> str:
        """Start a container. Returns why it was not started, empty if it was.

        ``on_send`` is called before anything is sent; until then the call may be
        cancelled, and nothing runs. If no answer comes, the node is asked whether it
        has the container. One that does not answer that either is told to stop it, so
        that it does not run unnoticed.
        """
        async with self._slot(container.node):
            on_send()
            try:
                return await self._start(container, context)
            except OutcomeUnknownError as error:
                await self._stop(container)
                return f"{container.node} did not answer: {error}"
            except YtfError as error:
                return f"{container.node} refused: {error}"

    async def _start(
        self, container: Container, context: ContainerLaunchContext, sends: int = _SENDS
    ) -> str:
        try:
            done = await self._connection(container.node).start([(container, context)])
        except NodeNotReadyError:
            if sends == 1:
                raise
            await asyncio.sleep(NOT_READY_PAUSE_S)
        except OutcomeUnknownError:
            if await self._has(container):
                return ""
            if sends == 1:
                raise
        else:
            failed = [each for each in done.failed if not _says(each, *_STARTED_BEFORE)]
            return "".join(f"{container.node} refused: {each.message}" for each in failed)
        return await self._start(container, context, sends - 1)

    async def _has(self, container: Container) -> bool:
        """Whether a node has a container; raises ``OutcomeUnknownError`` if it does not answer."""
        try:
            found, _ = await self._connection(container.node).statuses([container.id])
        except UnreachableError as error:
            raise OutcomeUnknownError(str(error)) from error
        return container.id in found

    async def stop(self, container: Container) -> bool:
        """Kill a container. Returns whether its node does not know it, so that nothing runs.

        A node that does not answer hears of the stop from the ResourceManager, more
        slowly.
        """
        async with self._slot(container.node):
            return await self._stop(container)

    async def _stop(self, container: Container) -> bool:
        try:
            done = await self._connection(container.node).stop([container.id])
        except YtfError:
            return False
        return any(_says(failure, _UNKNOWN_CONTAINER) for failure in done.failed)

    async def close(self) -> None:
        """Close all connections."""
        await asyncio.gather(*(each.close() for each in self._connections.values()))

    def _slot(self, node: NodeId) -> asyncio.Semaphore:
        return self._slots.setdefault(node, asyncio.Semaphore(AT_ONCE))

    def _connection(self, node: NodeId) -> ContainerManagementClient:
        connection = self._connections.get(node)
        if connection is None:
            token = self._tokens.get(node)
            if token is None:
                raise YtfError(f"the ResourceManager has given us no token for {node}")
            connection = self._connections[node] = self._connect(token)
        return connection


def _says(failure: ContainerFailure, *messages: str) -> bool:
    return any(message in failure.message for message in messages)
