"""A whole master for the rendezvous benchmark: machine, journal on disk, registry, client API.

Only the backend is made up: it grants every request at once, and what it is to
launch is played by the benchmark.
"""

from __future__ import annotations

import asyncio
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

from ytf.backends.api import EmptyRegistry, StarterLaunch, nothing_published
from ytf.journal.writer import Journal
from ytf.machine.commands import CancelRequest, ContainerProfile, ReleaseContainer, RequestContainer
from ytf.machine.events import BackendEvent, ContainerAllocated
from ytf.master.service import Master
from ytf.registry.rest import RestRegistry
from ytf.specs.ids import ContainerId, JobId, NodeId, TaskId
from ytf.specs.job import JobSpec, TaskGroupSpec
from ytf.specs.status import JobInfo, JobRecord
from ytf.storage.blobs import LocalBlobs
from ytf.web.client_api import ClientApi
from ytf.web.request_auth import RequestVerifier
from ytf.web.server import HttpServer


class Generous:
    """Grants every request; launches nothing."""

    def __init__(self) -> None:
        self._events: asyncio.Queue[BackendEvent | None] = asyncio.Queue()
        self.launched = 0

    async def start(
        self, attempt: int, tracking_url: str, profiles: Sequence[ContainerProfile]
    ) -> None:
        """There is nothing to register with."""

    async def events(self) -> AsyncIterator[BackendEvent]:
        """Allocations."""
        while (event := await self._events.get()) is not None:
            yield event

    def acknowledge(self, container: ContainerId) -> None:
        """Nothing is repeated here."""

    def request(self, command: RequestContainer) -> None:
        """Granted. The containers' names are those the benchmark's starters use."""
        index = int(command.request.partition(":")[2].partition("#")[0])
        container = ContainerId(f"container_1700000000000_0001_01_{index:06d}")
        self._events.put_nowait(
            ContainerAllocated(request=command.request, container=container, node=NodeId("node"))
        )

    def cancel(self, command: CancelRequest) -> None:
        """Nothing waits."""

    def launch(self, launch: StarterLaunch) -> None:
        """The benchmark plays the starters."""
        self.launched += 1

    def release(self, command: ReleaseContainer) -> None:
        """Nothing runs."""

    def log_url(self, task: TaskId, attempt: int, container: ContainerId) -> str | None:
        """Nothing is written."""

    def report_progress(self, share: float) -> None:
        """Nobody looks."""

    def headroom_text(self) -> str:
        """Whatever is asked for."""
        return "everything"

    async def finish(
        self, record: JobRecord, empty_registry: EmptyRegistry = nothing_published
    ) -> bool:
        """The benchmark ends the process."""
        return True


async def serve(expected: int, directory: Path) -> None:
    """Serve until stdin ends."""
    loop = asyncio.get_running_loop()
    secret = bytes.fromhex(await loop.run_in_executor(None, sys.stdin.readline))
    spec = JobSpec(groups={"worker": TaskGroupSpec(count=expected)}, command="true")
    server = HttpServer(RequestVerifier(secret))
    port = await server.listen("127.0.0.1")
    journal = await Journal.open(LocalBlobs(directory), 1)
    backend = Generous()
    registry = RestRegistry(server, attempt=1)
    master = Master(
        spec=spec,
        info=JobInfo(
            id=JobId("local_benchmark"), user="nobody", submitted_at=time.time(), backend="none"
        ),
        url=f"http://127.0.0.1:{port}",
        journal=journal,
        backend=backend,
        registry=registry,
    )
    ClientApi(server, master.view)
    await master.recover()
    running = asyncio.create_task(master.run())
    while backend.launched < expected:
        await master.view.changed(master.view.version)
    print(port, flush=True)
    await loop.run_in_executor(None, sys.stdin.read)
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    await server.close()
    await journal.close()


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as place:
        asyncio.run(serve(int(sys.argv[1]), Path(place)))
