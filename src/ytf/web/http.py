"""The master's HTTP server: thousands of connections that mostly wait, in little memory.

Routes are exact paths; what none of them is for may have a handler of its own.
A handler is given a :class:`Request` and answers in one of three ways:

* a :class:`Response`: sent at once, without a task;
* a future of one: the caller *waits*. When it goes away, the future is cancelled;
* a coroutine: *work*, which is done to its end even if the caller goes away.

It refuses by raising :class:`HttpError`; ``UnreachableError`` (the journal,
say, cannot be written) becomes a 503. Anything else is our bug: logged, and
answered with a 500.
"""

from __future__ import annotations

import asyncio
import logging
import resource
from collections.abc import Callable, Coroutine
from typing import Any

import msgspec

from ytf.errors import UnreachableError
from ytf.web.connection import Connection, Limits
from ytf.web.messages import HttpError, Request, Response
from ytf.web.signing import Gatekeeper

Answer = Response | asyncio.Future[Response] | Coroutine[Any, Any, Response]
Handler = Callable[[Request], Answer]

_BACKLOG = 4096
_logger = logging.getLogger("ytf.web")


class Route(msgspec.Struct, frozen=True):
    """Who answers a method on a path, and whether the request must be signed."""

    handler: Handler
    signed: bool


class HttpServer:
    """Listens on one port and gives each request to its route.

    Routes may be added at any time. Use: construct, :meth:`route`,
    :meth:`listen`, :meth:`close`.
    """

    def __init__(self, gatekeeper: Gatekeeper, *, limits: Limits | None = None) -> None:
        self.gatekeeper = gatekeeper
        self.limits = limits or Limits()
        self.closing = False
        self.connections: set[Connection] = set()
        self._routes: dict[str, dict[str, Route]] = {}
        self._otherwise: Handler = _nothing_there
        self._work: set[asyncio.Future[Response]] = set()
        self._listener: asyncio.Server | None = None
        self._sweeper: asyncio.TimerHandle | None = None
        self._all_gone: asyncio.Future[None] | None = None

    def route(self, method: str, path: str, handler: Handler, *, signed: bool = True) -> None:
        """Let a handler answer a method on a path."""
        self._routes.setdefault(path, {})[method] = Route(handler, signed)

    def otherwise(self, handler: Handler) -> None:
        """Let a handler answer, unsigned, whatever no route is for."""
        self._otherwise = handler

    async def listen(self, host: str, port: int = 0) -> int:
        """Begin to answer; returns the port, a free one where 0 was asked for.

        Lets this process have as many open files as it may: every starter
        keeps two connections, and the usual limit would end at 500 starters.
        """
        loop = asyncio.get_running_loop()
        _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
        # All connections read into one buffer: an idle one has none of its own.
        buffer = memoryview(bytearray(64 * 1024))
        self._listener = await loop.create_server(
            lambda: Connection(self, loop, buffer), host, port, backlog=_BACKLOG
        )
        self._sweep(loop)
        address = self._listener.sockets[0].getsockname()
        return int(address[1])

    async def close(self, grace_s: float = 1.0) -> None:
        """Stop listening; requests in progress get ``grace_s`` to be answered."""
        if self._listener is None:
            return
        self.closing = True
        self._listener.close()
        if self._sweeper is not None:
            self._sweeper.cancel()
        for connection in list(self.connections):
            connection.close_when_idle()
        if not await self._gone(grace_s):
            for connection in list(self.connections):
                connection.abort()
            await self._gone(grace_s)
        work = list(self._work)
        for task in work:
            task.cancel()
        await asyncio.gather(*work, return_exceptions=True)
        await self._listener.wait_closed()
        self._listener = None

    async def _gone(self, within_s: float) -> bool:
        if self.connections:
            self._all_gone = asyncio.get_running_loop().create_future()
            await asyncio.wait((self._all_gone,), timeout=within_s)
        return not self.connections

    def _sweep(self, loop: asyncio.AbstractEventLoop) -> None:
        # One timer for all: a handle per connection would cost more than the connection's state.
        now = loop.time()
        for connection in [c for c in self.connections if c.deadline <= now]:
            connection.abort()
        self._sweeper = loop.call_later(self.limits.sweep_s, self._sweep, loop)

    # What connections call.

    def answer(self, request: Request) -> Response | asyncio.Future[Response]:
        """Give a request to its route; never raises."""
        try:
            result = self._handler(request)(request)
        except Exception as error:
            return self.failure(error)
        if isinstance(result, (Response, asyncio.Future)):
            return result
        task = asyncio.get_running_loop().create_task(result)
        self._work.add(task)
        task.add_done_callback(self._work.discard)
        return task

    def _handler(self, request: Request) -> Handler:
        methods = self._routes.get(request.path)
        if methods is None:
            return self._otherwise
        route = methods.get(request.method)
        if route is None:
            allowed = ", ".join(sorted(methods))
            message = f"{request.path} takes {allowed} only"
            raise HttpError(405, message, (("Allow", allowed),))
        if route.signed:
            self.gatekeeper.admit(request)
        return route.handler

    def is_work(self, answer: asyncio.Future[Response]) -> bool:
        """Whether an answer is to be waited for even if nobody is left to hear it."""
        return answer in self._work

    def lost(self, connection: Connection) -> None:
        """A connection is gone."""
        self.connections.discard(connection)
        if not self.connections and self._all_gone is not None and not self._all_gone.done():
            self._all_gone.set_result(None)

    def failure(self, error: BaseException) -> Response:
        """The answer for what a handler raised."""
        if isinstance(error, HttpError):
            return Response.error(error)
        if isinstance(error, UnreachableError):
            return Response.error(HttpError(503, str(error)))
        if isinstance(error, asyncio.CancelledError):
            return Response.error(HttpError(503, "the server is closing; try again"))
        _logger.error("A request could not be answered: a bug in ytf", exc_info=error)
        return Response.error(HttpError(500, "a bug in ytf: see the master's log"))


def _nothing_there(request: Request) -> Answer:
    raise HttpError(404, f"there is nothing at {request.path}")
