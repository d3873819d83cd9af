"""The master's lines to the nodes: one each, with the token that opens it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from ytf.errors import OutcomeUnknownError, YtfError
from ytf.hadoop.rpc.settings import RpcSettings
from ytf.hadoop.yarn.ids import NodeId
from ytf.hadoop.yarn.launch import LaunchContext
from ytf.hadoop.yarn.node import NodeProtocol
from ytf.hadoop.yarn.records import Container, NodeToken

_SETTINGS = RpcSettings(connect_timeout_s=10.0, call_timeout_s=30.0)
"""A node that takes longer over a start or a stop hangs, and its task waits meanwhile."""
_UNKNOWN = "is not handled by this NodeManager"
"""What a node says of a container it knows nothing of (``ContainerManagerImpl``)."""

Connect = Callable[[NodeToken], NodeProtocol]


def node_line(token: NodeToken) -> NodeProtocol:
    """A line to a node that does not wait for one that hangs."""
    return NodeProtocol(token, settings=_SETTINGS)


class NodeLines:
    """Has nodes start and stop containers."""

    def __init__(self, connect: Connect = node_line) -> None:
        self._connect = connect
        self._tokens: dict[NodeId, NodeToken] = {}
        self._lines: dict[NodeId, NodeProtocol] = {}

    def keep(self, tokens: Sequence[NodeToken]) -> None:
        """Use these tokens from now on, also on lines that are open."""
        for token in tokens:
            self._tokens[token.node] = token
            line = self._lines.get(token.node)
            if line is not None:
                line.renew(token.token)

    async def start(self, container: Container, context: LaunchContext) -> str:
        """Have a container started; why it was not, empty if it was.

        One whose start has an unknown outcome is stopped first, so that it is
        surely the one thing and not the other; as far as its node hears of it.
        """
        try:
            done = await self._to(container.node).start([(container, context)])
        except OutcomeUnknownError as error:
            await self.stop(container)
            return f"{container.node} did not answer: {error}"
        except YtfError as error:
            return f"{container.node} refused: {error}"
        return "".join(f"{container.node} refused: {each.message}" for each in done.failed)

    async def stop(self, container: Container) -> bool:
        """Have a container killed; whether its node knows nothing of it, so that nothing runs.

        A node that does not answer, or cannot yet, hears of its end from the
        ResourceManager, if more slowly.
        """
        try:
            done = await self._to(container.node).stop([container.id])
        except YtfError:
            return False
        return any(_UNKNOWN in failure.message for failure in done.failed)

    async def close(self) -> None:
        """Close them all."""
        await asyncio.gather(*(line.close() for line in self._lines.values()))

    def _to(self, node: NodeId) -> NodeProtocol:
        line = self._lines.get(node)
        if line is None:
            token = self._tokens.get(node)
            if token is None:
                raise YtfError(f"the ResourceManager has given us no token for {node}")
            line = self._lines[node] = self._connect(token)
        return line
