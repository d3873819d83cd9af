"""The least master there can be: the registry, and a sink that publishes when all are there."""

from __future__ import annotations

import asyncio
import sys

from ytf.machine.events import StarterRegistered, TaskExited, TaskStarted
from ytf.registry.api import Order
from ytf.registry.rest import RestRegistry
from ytf.specs.status import ClusterSpec
from ytf.web.request_auth import RequestVerifier
from ytf.web.server import HttpServer

ORDER = Order(attempt=1, generation=1)


class Rendezvous:
    """Collects registrations; the last one publishes the cluster spec."""

    def __init__(self, registry: RestRegistry, expected: int) -> None:
        self._registry = registry
        self._expected = expected
        self._members: dict[int, str] = {}

    async def report(self, event: StarterRegistered | TaskStarted | TaskExited) -> Order:
        """Take a report in."""
        if isinstance(event, StarterRegistered):
            index = int(event.task.rpartition(":")[2])
            self._members[index] = f"{event.host}:{event.port}"
            if len(self._members) == self._expected:
                everyone = tuple(self._members[i] for i in sorted(self._members))
                members = {"worker": everyone}
                self._registry.publish(ClusterSpec(generation=1, revision=1, members=members))
        return ORDER

    def note(self, text: str, *, is_warning: bool = False) -> None:
        """Ignore it."""


async def serve(expected: int) -> None:
    """Serve until stdin ends."""
    loop = asyncio.get_running_loop()
    secret = await loop.run_in_executor(None, sys.stdin.readline)
    server = HttpServer(RequestVerifier(bytes.fromhex(secret)))
    registry = RestRegistry(server, attempt=1)
    await registry.start(Rendezvous(registry, expected))
    print(await server.listen("127.0.0.1"), flush=True)
    await loop.run_in_executor(None, sys.stdin.read)
    await registry.close()
    await server.close()


if __name__ == "__main__":
    asyncio.run(serve(int(sys.argv[1])))
