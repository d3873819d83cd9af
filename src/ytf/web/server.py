"""The master's HTTP server, made for thousands of connections that mostly wait.

Routes are exact paths, and their requests must be signed. A fallback handler
answers all other requests, unsigned. A request is admitted when its head has
come: nothing else of a request without a valid signature is read or parsed, but
for a small body. A handler gets a :class:`Request` and
returns one of these:

* a :class:`Response`: the server sends it at once, without a task;
* a future of one: the client *waits*. If it disconnects, the future is cancelled;
* a coroutine: *work*, which runs to its end even if the client disconnects.

A handler refuses a request by raising :class:`HttpError`. ``UnreachableError``
(for example: the journal cannot be written) becomes a 503. Any other exception
is a bug in ytf: it is logged and answered with a 500.
"""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Callable, Coroutine
from typing import Any

from ytf.errors import UnreachableError
from ytf.log import LimitedLog
from ytf.web.connection import Connection, Limits
from ytf.web.listener import Listener, raise_descriptor_limit
from ytf.web.messages import MAX_BODY, MAX_UNSIGNED_BODY, HttpError, Request, Response
from ytf.web.request_auth import RequestVerifier
from ytf.web.unauthenticated import UnauthenticatedConnections
from ytf.wire.bind import listen

Answer = Response | asyncio.Future[Response] | Coroutine[Any, Any, Response]
Handler = Callable[[Request], Answer]

_MAX_UNSIGNED_WORK = 64
"""Unsigned requests that are worked on at a time; they may wait for DNS, or read logs."""
_logger = logging.getLogger("ytf.web")


class HttpServer:
    """Listens on one port and gives each request to the handler of its route.

    Routes may be added at any time. Use: construct, :meth:`route`,
    :meth:`listen`, :meth:`close`.
    """

    def __init__(self, verifier: RequestVerifier, *, limits: Limits | None = None) -> None:
        self.verifier = verifier
        self.limits = limits or Limits()
        self.closing = False
        self.connections: set[Connection] = set()
        self.unauthenticated = UnauthenticatedConnections(
            self.limits.unauthenticated, self.limits.unauthenticated_bytes
        )
        self._routes: dict[str, dict[str, Handler]] = {}
        self._fallback: Handler = _not_found
        self._work: set[asyncio.Future[Response]] = set()
        self._unsigned_work = 0
        self._refused = LimitedLog()
        self._listener: Listener | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._closed: asyncio.Future[None] | None = None

    def route(self, method: str, path: str, handler: Handler) -> None:
        """Set the handler of a method on a path. Its requests must be signed."""
        self._routes.setdefault(path, {})[method] = handler

    def set_fallback(self, handler: Handler) -> None:
        """Set the handler of all requests that have no route. They need no signature."""
        self._fallback = handler

    async def listen(self, where: str | socket.socket) -> int:
        """Start to listen on a bound socket, or on a free port of an address; returns the port."""
        loop = asyncio.get_running_loop()
        # All connections share one buffer, so an idle connection needs none.
        buffer = memoryview(bytearray(64 * 1024))
        self._listener = Listener(
            listen(where, (where, 1)) if isinstance(where, str) else where,
            lambda: Connection(self, loop, buffer),
            self.unauthenticated,
            raise_descriptor_limit(),
        )
        self._enforce_deadlines(loop)
        return self._listener.port

    async def close(self, grace_s: float = 1.0) -> None:
        """Stop to listen and close all connections.

        Requests in progress get ``grace_s`` to be answered.
        """
        if self._listener is None:
            return
        self.closing = True
        await self._listener.close()
        if self._timer is not None:
            self._timer.cancel()
        for connection in list(self.connections):
            connection.close_when_idle()
        if not await self._all_closed(grace_s):
            for connection in list(self.connections):
                connection.abort()
            await self._all_closed(grace_s)
        work = list(self._work)
        for task in work:
            task.cancel()
        await asyncio.gather(*work, return_exceptions=True)
        self._listener = None

    async def _all_closed(self, within_s: float) -> bool:
        if self.connections:
            self._closed = asyncio.get_running_loop().create_future()
            await asyncio.wait((self._closed,), timeout=within_s)
        return not self.connections

    def _enforce_deadlines(self, loop: asyncio.AbstractEventLoop) -> None:
        # One timer for all: a timer per connection would need more memory than the connection.
        now = loop.time()
        for connection in [c for c in self.connections if c.deadline <= now]:
            connection.abort()
        self._timer = loop.call_later(self.limits.check_s, self._enforce_deadlines, loop)

    # What connections call.

    def admit(self, request: Request) -> None:
        """Find the handler of a request and verify its signature, before its body is read.

        A refused request without a body is answered as any other. One with a body
        is an :class:`HttpError` at once, and ends the connection.
        """
        try:
            self._admit(request)
        except HttpError as error:
            if error.status == 401:
                self._refused.write(f"{request.method} from {request.peer} was refused: {error}")
            if request.length:
                raise
            request.handler = _refusal(error)

    def _admit(self, request: Request) -> None:
        methods = self._routes.get(request.path)
        if methods is None:
            request.handler = self._fallback
            request.max_length = MAX_UNSIGNED_BODY
            return
        handler = methods.get(request.method)
        if handler is None:
            allowed = ", ".join(sorted(methods))
            message = f"{request.path} takes {allowed} only"
            raise HttpError(405, message, (("Allow", allowed),))
        self.verifier.verify(request)
        request.handler = handler
        request.max_length = MAX_BODY

    def answer(self, request: Request) -> Response | asyncio.Future[Response]:
        """Call the handler of an admitted request whose body has come; never raises."""
        try:
            if request.signature:
                self.verifier.verify_body(request)
            elif self._unsigned_work >= _MAX_UNSIGNED_WORK:
                raise HttpError(503, "too many requests at a time; try again")
            result = request.handler(request)
        except Exception as error:
            return self.error_response(error)
        if isinstance(result, (Response, asyncio.Future)):
            return result
        task = asyncio.get_running_loop().create_task(result)
        self._work.add(task)
        task.add_done_callback(self._work.discard)
        if not request.signature:
            self._unsigned_work += 1
            task.add_done_callback(self._unsigned_done)
        return task

    def _unsigned_done(self, _: asyncio.Future[Response]) -> None:
        self._unsigned_work -= 1

    def is_work(self, answer: asyncio.Future[Response]) -> bool:
        """Whether an answer is made to its end even if its client has disconnected."""
        return answer in self._work

    def connection_lost(self, connection: Connection) -> None:
        """Remove a connection that is closed."""
        self.connections.discard(connection)
        self.unauthenticated.discard(connection)
        if self._listener is not None:
            self._listener.lost()
        if not self.connections and self._closed is not None and not self._closed.done():
            self._closed.set_result(None)

    def error_response(self, error: BaseException) -> Response:
        """The response for an exception that a handler raised."""
        if isinstance(error, HttpError):
            return Response.error(error)
        if isinstance(error, UnreachableError):
            return Response.error(HttpError(503, str(error)))
        if isinstance(error, asyncio.CancelledError):
            return Response.error(HttpError(503, "the server is closing; try again"))
        _logger.error("A request could not be answered: a bug in ytf", exc_info=error)
        return Response.error(HttpError(500, "a bug in ytf: see the master's log"))


def _not_found(request: Request) -> Answer:
    raise HttpError(404, f"there is nothing at {request.path}")


def _refusal(error: HttpError) -> Handler:
    def refuse(request: Request) -> Answer:
        raise error

    return refuse
