from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import pytest

from tests.web.raw_client import SECRET
from ytf.errors import UnreachableError
from ytf.web.connection import Limits
from ytf.web.messages import HttpError, Request, Response
from ytf.web.request_auth import RequestVerifier
from ytf.web.server import Answer, Handler, HttpServer

HASTY = Limits(request_s=0.5, idle_s=0.8, write_s=0.5, linger_s=0.3, check_s=0.02)
"""Short enough to be seen in a test, long enough for a busy machine."""

LONG = b"0123456789abcdef" * 64 * 1024
"""A megabyte: more than one socket takes at once from a server whose peer does not read."""


@dataclass
class Site:
    """A server with a handler of every kind, and what they saw."""

    server: HttpServer
    port: int = 0
    bodies: list[bytes] = field(default_factory=list)
    waits: list[asyncio.Future[Response]] = field(default_factory=list)
    gate: asyncio.Event = field(default_factory=asyncio.Event)
    worked: int = 0

    def __post_init__(self) -> None:
        self.server.route("POST", "/signed", self.echo)
        self.unsigned: dict[tuple[str, str], Handler] = {
            ("POST", "/echo"): self.echo,
            ("GET", "/hold"): self.hold,
            ("GET", "/work"): self.work,
            ("GET", "/long"): lambda _: Response(LONG),
            ("GET", "/refused"): self.refuse,
            ("GET", "/broken"): self.broken,
            ("GET", "/unwritable"): self.unwritable,
        }
        self.not_found = self.server._fallback
        self.server.set_fallback(self.answer_unsigned)

    def answer_unsigned(self, request: Request) -> Answer:
        handler = self.unsigned.get((request.method, request.path), self.not_found)
        return handler(request)

    def echo(self, request: Request) -> Response:
        self.bodies.append(request.body)
        return Response(request.body)

    def hold(self, request: Request) -> asyncio.Future[Response]:
        self.waits.append(asyncio.get_running_loop().create_future())
        return self.waits[-1]

    async def work(self, request: Request) -> Response:
        await self.gate.wait()
        self.worked += 1
        return Response(b"done")

    def refuse(self, request: Request) -> Response:
        raise HttpError(409, "no longer")

    def broken(self, request: Request) -> Response:
        raise ZeroDivisionError

    async def unwritable(self, request: Request) -> Response:
        raise UnreachableError("the journal cannot be written: disk full")


@asynccontextmanager
async def serving(limits: Limits | None) -> AsyncIterator[Site]:
    server = HttpServer(RequestVerifier(SECRET), limits=limits)
    site = Site(server)
    site.port = await server.listen("127.0.0.1")
    yield site
    site.gate.set()
    for wait in site.waits:
        wait.cancel()
    await server.close()
    assert not server.connections


@pytest.fixture
async def site() -> AsyncIterator[Site]:
    async with serving(None) as site:
        yield site


@pytest.fixture
async def hasty() -> AsyncIterator[Site]:
    """A site with short limits."""
    async with serving(HASTY) as site:
        yield site
