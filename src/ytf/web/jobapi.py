"""What clients ask a running job: the master's side of ``ytf status``, ``spec``, ``kill`` …

docs/protocols.md §1 has the surface. Everything is read from a :class:`JobView`.
"""

from __future__ import annotations

import asyncio
from typing import Protocol

import msgspec

from ytf.specs.cluster import ClusterSpec
from ytf.specs.status import JobEvent, JobStatus, StarterPlace
from ytf.web.http import HttpServer
from ytf.web.messages import HttpError, Request, Response
from ytf.web.signing import require_client


class JobView(Protocol):
    """The job as its master shows it."""

    @property
    def version(self) -> int:
        """Grows whenever the status changes."""
        ...

    def status(self) -> JobStatus:
        """How the job and its tasks are now."""
        ...

    async def changed(self, version: int) -> None:
        """Return once the version is not this one; may be cancelled."""
        ...

    def cluster_spec(self) -> ClusterSpec | None:
        """Who is where, once everyone is known."""
        ...

    def events(self) -> list[JobEvent]:
        """The job's story so far."""
        ...

    def starters(self) -> list[StarterPlace]:
        """Where the starters listen that have registered and not ended."""
        ...

    async def kill(self, by: str, reason: str) -> None:
        """Take a wish to end the job in; returns once it is durable."""
        ...


class _Kill(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    by: str
    reason: str = ""


_KILL = msgspec.json.Decoder(_Kill)


class JobApi:
    """Serves a job's view to clients."""

    def __init__(self, server: HttpServer, view: JobView, *, hold_s: float = 20.0) -> None:
        self._view = view
        self._hold_s = hold_s
        self._closing = asyncio.Event()
        server.route("GET", "/client/v1/status", self._on_status)
        server.route("GET", "/client/v1/wait", self._on_wait)
        server.route("GET", "/client/v1/cluster", self._on_cluster)
        server.route("GET", "/client/v1/events", self._on_events)
        server.route("GET", "/client/v1/starters", self._on_starters)
        server.route("POST", "/client/v1/kill", self._on_kill)

    def close(self) -> None:
        """Answer those who wait with the newest status, from now on at once."""
        self._closing.set()

    def _on_status(self, request: Request) -> Response:
        require_client(request)
        return Response.json(self._view.status())

    def _on_wait(self, request: Request) -> Response | asyncio.Future[Response]:
        require_client(request)
        known = request.parameter("version") or ""
        if not (known.isdecimal() and known.isascii() and len(known) <= 18):
            raise HttpError(400, "wait needs the version that is known: /client/v1/wait?version=N")
        # Not "above": a new master may count from anew, and the client must hear of it.
        if self._view.version != int(known) or self._closing.is_set():
            return self._versioned()
        return asyncio.get_running_loop().create_task(self._wait(int(known)))

    async def _wait(self, known: int) -> Response:
        waits = {
            asyncio.create_task(self._view.changed(known)),
            asyncio.create_task(self._closing.wait()),
        }
        try:
            done, _ = await asyncio.wait(
                waits, timeout=self._hold_s, return_when=asyncio.FIRST_COMPLETED
            )
        finally:
            for wait in waits:
                wait.cancel()
        for wait in done:
            wait.result()
        return self._versioned()

    def _versioned(self) -> Response:
        return Response.json({"version": self._view.version, "status": self._view.status()})

    def _on_cluster(self, request: Request) -> Response:
        require_client(request)
        spec = self._view.cluster_spec()
        if spec is None:
            raise HttpError(404, "there is no cluster spec yet: not everyone has registered")
        return Response.json(spec)

    def _on_events(self, request: Request) -> Response:
        require_client(request)
        return Response.json(self._view.events())

    def _on_starters(self, request: Request) -> Response:
        require_client(request)
        return Response.json(self._view.starters())

    async def _on_kill(self, request: Request) -> Response:
        require_client(request)
        try:
            wish = _KILL.decode(request.body)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise HttpError(400, f"the body of a kill is not understood: {error}") from error
        await self._view.kill(wish.by, wish.reason)
        return Response.json({})
