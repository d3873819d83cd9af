"""The REST API of the master for clients: ``ytf status``, ``spec``, ``events``, ``kill`` …

docs/protocols.md §1 lists its paths. It reads everything from a :class:`JobView`.
"""

from __future__ import annotations

import asyncio
from typing import Annotated, Protocol

import msgspec

from ytf.specs.ids import ContainerId, TaskId
from ytf.specs.status import ClusterSpec, JobEvent, JobStatus, StarterAddress
from ytf.web.messages import HttpError, Request, Response
from ytf.web.request_auth import require_client
from ytf.web.server import HttpServer


class JobView(Protocol):
    """The job as its master shows it to clients."""

    @property
    def version(self) -> int:
        """A number that grows whenever the status changes."""
        ...

    def status(self) -> JobStatus:
        """The current status of the job and its tasks. It changes with the version only."""
        ...

    def status_with_usage(self) -> JobStatus:
        """The current status, and what each running program uses."""
        ...

    async def changed(self, version: int) -> None:
        """Return once the version is not this one; may be cancelled."""
        ...

    def cluster_spec(self) -> ClusterSpec | None:
        """The addresses of all tasks; None before all are known."""
        ...

    def events(self) -> list[JobEvent]:
        """All events so far."""
        ...

    def starters(self) -> list[StarterAddress]:
        """The addresses of all starters that have registered and not ended."""
        ...

    def note_shell(self, task: TaskId, by: str) -> None:
        """Note as an event that a user asked for a shell in a task's container."""
        ...

    async def kill(self, by: str, reason: str) -> None:
        """Kill the job. Returns once the request is in the journal."""
        ...


class _Kill(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    by: Annotated[str, msgspec.Meta(max_length=1024)]
    reason: Annotated[str, msgspec.Meta(max_length=16 * 1024)] = ""


class _Shell(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    container: ContainerId
    by: Annotated[str, msgspec.Meta(max_length=1024)]


_SHELL = msgspec.json.Decoder(_Shell)
_KILL = msgspec.json.Decoder(_Kill)


class ClientApi:
    """Serves a :class:`JobView` to clients. A wait is answered after ``hold_s`` at the latest."""

    def __init__(self, server: HttpServer, view: JobView, *, hold_s: float = 20.0) -> None:
        self._view = view
        self._hold_s = hold_s
        self._closing = asyncio.Event()
        server.route("GET", "/client/v1/status", self._on_status)
        server.route("GET", "/client/v1/wait", self._on_wait)
        server.route("GET", "/client/v1/cluster", self._on_cluster)
        server.route("GET", "/client/v1/events", self._on_events)
        server.route("GET", "/client/v1/starters", self._on_starters)
        server.route("POST", "/client/v1/shell", self._on_shell)
        server.route("POST", "/client/v1/kill", self._on_kill)

    def close(self) -> None:
        """Answer all waits with the current status, from now on at once."""
        self._closing.set()

    def _on_status(self, request: Request) -> Response:
        require_client(request)
        return Response.json(self._view.status_with_usage())

    def _on_wait(self, request: Request) -> Response | asyncio.Future[Response]:
        require_client(request)
        known = request.parameter("version") or ""
        if not (known.isdecimal() and known.isascii() and len(known) <= 18):
            raise HttpError(400, "wait needs the version that is known: /client/v1/wait?version=N")
        # Not "greater": a new master counts from 0 again, and the client must get its status.
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
            raise HttpError(404, "there is no cluster spec yet: not every task has registered")
        return Response.json(spec)

    def _on_events(self, request: Request) -> Response:
        require_client(request)
        return Response.json(self._view.events())

    def _on_starters(self, request: Request) -> Response:
        require_client(request)
        return Response.json(self._view.starters())

    def _on_shell(self, request: Request) -> Response:
        require_client(request)
        try:
            wanted = _SHELL.decode(request.body)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise HttpError(400, f"the body is not understood: {error}") from error
        for starter in self._view.starters():
            if starter.container == wanted.container:
                self._view.note_shell(starter.task, wanted.by)
                return Response.json(starter)
        raise HttpError(404, f"no starter is registered in {wanted.container} now")

    async def _on_kill(self, request: Request) -> Response:
        require_client(request)
        try:
            kill = _KILL.decode(request.body)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise HttpError(400, f"the body of a kill is not understood: {error}") from error
        await self._view.kill(kill.by, kill.reason)
        return Response.json({})
