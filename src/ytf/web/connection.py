"""One connection of the HTTP server: reads requests one by one and writes their responses.

::

                 whole request               answer written
    READING ─────────────────▶ ANSWERING ─────────────────▶ READING
       │ not HTTP, or its body is not wanted      └─ no keep-alive ─▶ closed
       └──────────▶ LINGERING ──▶ closed

The head of a request is admitted (route, signature) before its body is read. A
connection is *authenticated* from its first signed request on; until then it is
one of ``server.unauthenticated``, which limits their number and their bytes, and
it is closed after one answer.

Bytes that come while a request is answered are buffered; reading stops when the
buffer is too large. Each state except ANSWERING has a deadline, which the
server checks, so that a slow peer cannot keep a connection open.
"""

from __future__ import annotations

import asyncio
import math
from typing import TYPE_CHECKING

import msgspec

from ytf.web.messages import HttpError, Request, Response, parse_head
from ytf.wire.http_reader import END_OF_HEAD, HEAD_LIMIT

if TYPE_CHECKING:
    from ytf.web.server import HttpServer

_PIECE = 64 * 1024
"""The size of the pieces of a long answer: the transport copies one at a time."""


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """How long a peer may take, in seconds, and what all unauthenticated peers may take."""

    request_s: float = 15.0
    """From connecting, or the first byte of a request, to its last byte."""
    idle_s: float = 60.0
    """Between an answer and the next request."""
    write_s: float = 30.0
    """To receive the next piece of an answer."""
    linger_s: float = 2.0
    """To read why its request was refused."""
    check_s: float = 1.0
    """How often the server checks the limits."""
    unauthenticated: int = 1024
    """Connections of peers that have not shown the secret, all together."""
    unauthenticated_bytes: int = 4 * 1024 * 1024
    """What is buffered for them, all together."""


class Connection(asyncio.BufferedProtocol):
    """The server's side of one connection. The server aborts it at ``deadline``."""

    __slots__ = (
        "_answer",
        "_authenticated",
        "_buffer",
        "_keep_alive",
        "_lingering",
        "_loop",
        "_mid_request",
        "_peer",
        "_request",
        "_rest",
        "_server",
        "_shared",
        "_signature",
        "_transport",
        "_writable",
        "deadline",
    )

    _transport: asyncio.Transport

    def __init__(
        self, server: HttpServer, loop: asyncio.AbstractEventLoop, shared: memoryview
    ) -> None:
        self._server = server
        self._loop = loop
        self._shared = shared
        self._buffer = b""
        self._request: Request | None = None
        self._authenticated = False
        self._mid_request = True
        self._answer: asyncio.Future[Response] | None = None
        self._signature = ""
        self._keep_alive = True
        self._rest: memoryview | None = None
        self._writable = True
        self._lingering = False
        self.deadline = math.inf

    # What the event loop calls.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self._peer: str = (transport.get_extra_info("peername") or ("",))[0]
        # Call pause_writing as soon as the peer does not read fast enough.
        transport.set_write_buffer_limits(high=0)
        self.deadline = self._loop.time() + self._server.limits.request_s
        self._server.connections.add(self)
        self._server.unauthenticated.add(self)
        if self._server.closing:
            transport.close()

    def connection_lost(self, exc: Exception | None) -> None:
        self._server.connection_lost(self)
        self._rest = None
        if self._answer is not None and not self._server.is_work(self._answer):
            self._answer.cancel()

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._shared

    def buffer_updated(self, nbytes: int) -> None:
        if self._lingering:
            return
        new = bytes(self._shared[:nbytes])
        self._buffer = self._buffer + new if self._buffer else new
        if self._answer is None and self._writable:
            self._advance()
        elif len(self._buffer) > HEAD_LIMIT:
            self._transport.pause_reading()
        self._note_buffered()

    def eof_received(self) -> bool:
        # Half-closed: the peer may still read an answer that is being made or sent. A waiting
        # request is given up, because a dead peer looks the same.
        self._keep_alive = False
        if self._answer is not None:
            return self._server.is_work(self._answer)
        return self._rest is not None

    def pause_writing(self) -> None:
        self._writable = False
        if not self._lingering:
            self.deadline = self._loop.time() + self._server.limits.write_s

    def resume_writing(self) -> None:
        self._writable = True
        if self._lingering:
            return
        self._write_rest()
        if self._rest is None and self._answer is None:
            self._advance()
            self._note_buffered()

    # What the server calls.

    def close_when_idle(self) -> None:
        """Close now, or as soon as the current request is answered."""
        if self._lingering:
            self.abort()
        elif self._answer is None and self._rest is None:
            self._transport.close()

    def abort(self) -> None:
        """Close without waiting for the peer."""
        self._transport.abort()

    # Reading.

    def _advance(self) -> None:
        """Answer the requests in the buffer, until one is incomplete or its answer takes time."""
        while self._answer is None and self._writable and not self._transport.is_closing():
            try:
                request = self._next_request()
            except HttpError as error:
                self._refuse(error)
                return
            if request is None:
                self._transport.resume_reading()
                return
            # A peer without the secret has one answer for each connection: the listener limits
            # how many it accepts at a time, and nothing else would limit a peer's requests.
            is_last = not (request.keep_alive and self._authenticated)
            self._keep_alive = self._keep_alive and not is_last
            self.deadline = math.inf
            answer = self._server.answer(request)
            if isinstance(answer, Response):
                self._send(answer)
            else:
                self._answer = answer
                answer.add_done_callback(self._answered)

    def _next_request(self) -> Request | None:
        """Take one whole request out of the buffer; None if it is incomplete."""
        request = self._request
        if request is None:
            end = self._buffer.find(END_OF_HEAD, 0, HEAD_LIMIT + 4)
            if end < 0:
                self._await_head()
                return None
            request = self._admit(self._buffer[:end])
            self._buffer = self._buffer[end + 4 :]
        length = request.length
        if len(self._buffer) < length:
            self._request = request
            self._expect_more()
            return None
        self._request = None
        self._mid_request = False
        if length:
            request.body = self._buffer[:length]
            self._buffer = self._buffer[length:]
        return request

    def _admit(self, head: bytes) -> Request:
        self._signature = ""
        request = parse_head(head)
        request.peer = self._peer
        self._server.admit(request)
        self._signature = request.signature
        if self._signature and not self._authenticated:
            self._authenticated = True
            self._server.unauthenticated.discard(self)
        if request.length > request.max_length:
            raise HttpError(413, f"a body may have at most {request.max_length} bytes here")
        return request

    def _note_buffered(self) -> None:
        if not self._authenticated:
            self._server.unauthenticated.hold(self, len(self._buffer))

    def _await_head(self) -> None:
        if len(self._buffer) > HEAD_LIMIT:
            raise HttpError(431, f"a request's header may have at most {HEAD_LIMIT} bytes")
        if not self._buffer:
            self.deadline = self._loop.time() + self._server.limits.idle_s
        elif not self._buffer[:1].isalpha():
            # For example TLS: without an answer the peer would wait.
            raise HttpError(400, "this is not HTTP; this server speaks plain HTTP/1.1 only")
        else:
            self._expect_more()

    def _expect_more(self) -> None:
        if not self._mid_request:
            self._mid_request = True
            self.deadline = self._loop.time() + self._server.limits.request_s

    # Writing.

    def _answered(self, answer: asyncio.Future[Response]) -> None:
        self._answer = None
        if self._transport.is_closing():
            # The peer is gone. error_response still logs a bug.
            if not answer.cancelled() and (error := answer.exception()) is not None:
                self._server.error_response(error)
            return
        try:
            response = answer.result()
        except (Exception, asyncio.CancelledError) as error:
            response = self._server.error_response(error)
        self._send(response)
        if self._rest is None:
            self._advance()
            self._note_buffered()

    def _send(self, response: Response) -> None:
        if self._server.closing:
            self._keep_alive = False
        parts = self._head(response)
        body = response.body
        if len(body) <= _PIECE:
            parts.append(body)
        else:
            self._rest = memoryview(body)
        self._transport.write(b"".join(parts))
        self._write_rest()

    def _head(self, response: Response) -> list[bytes]:
        parts = [response.head]
        if self._signature and response.status != 401:
            parts.append(self._server.verifier.sign(self._signature, response))
        parts.append(b"\r\n" if self._keep_alive else b"Connection: close\r\n\r\n")
        return parts

    def _write_rest(self) -> None:
        while self._rest is not None and self._writable:
            piece = self._rest[:_PIECE]
            self._rest = self._rest[_PIECE:] if len(self._rest) > _PIECE else None
            self._transport.write(piece)
        if self._rest is None and not self._keep_alive:
            self._transport.close()

    def _refuse(self, error: HttpError) -> None:
        """Send an error, and close once the peer has had time to read it.

        If the connection were closed at once, bytes that still arrive would
        reset it, and the peer would lose the answer.
        """
        self._buffer = b""
        self._lingering = True
        self.deadline = self._loop.time() + self._server.limits.linger_s
        self._transport.resume_reading()
        self._keep_alive = False
        response = Response.error(error)
        self._transport.write(b"".join((*self._head(response), response.body)))
        self._transport.write_eof()
