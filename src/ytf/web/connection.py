"""One connection of the HTTP server: reads requests one after the other, writes their answers.

::

                 whole request               answer written
    READING ─────────────────▶ ANSWERING ─────────────────▶ READING
       │ not HTTP                                 └─ close wished ─▶ closed
       └──────────▶ LINGERING ──▶ closed

Bytes that come while a request is answered wait in the buffer; reading stops
when there are too many. Each state but ANSWERING has a deadline, which the
server's sweep enforces, so that nobody keeps a connection by being slow.
"""

from __future__ import annotations

import asyncio
import math
from typing import TYPE_CHECKING

import msgspec

from ytf.web.messages import MAX_HEAD, HttpError, Request, Response, parse_head

if TYPE_CHECKING:
    from ytf.web.http import HttpServer

_PIECE = 64 * 1024
"""How much of a long answer is given to the transport at once, and so copied at most."""


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """How long a peer may take, in seconds."""

    request_s: float = 15.0
    """From connecting, or the first byte of a request, to its last byte."""
    idle_s: float = 60.0
    """Between an answer and the next request."""
    write_s: float = 30.0
    """To take in some more of an answer."""
    linger_s: float = 2.0
    """To read why its request was not understood."""
    sweep_s: float = 1.0
    """How often the limits are looked at."""


class Connection(asyncio.BufferedProtocol):
    """The server's end of one connection. ``deadline`` is when the sweep ends it."""

    __slots__ = (
        "_answer",
        "_body_length",
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
        self._body_length = 0
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
        # Tell us as soon as the peer is slower than we are.
        transport.set_write_buffer_limits(high=0)
        self.deadline = self._loop.time() + self._server.limits.request_s
        self._server.connections.add(self)
        if self._server.closing:
            transport.close()

    def connection_lost(self, exc: Exception | None) -> None:
        self._server.lost(self)
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
        elif len(self._buffer) > MAX_HEAD:
            self._transport.pause_reading()

    def eof_received(self) -> bool:
        # Half-closed: an answer that is being made or sent may still be wanted, but
        # nobody waits on a connection whose other end has died.
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

    # What the server calls.

    def close_when_idle(self) -> None:
        """Close now, or as soon as the request that is being answered is."""
        if self._lingering:
            self.abort()
        elif self._answer is None and self._rest is None:
            self._transport.close()

    def abort(self) -> None:
        """Close without waiting for the peer."""
        self._transport.abort()

    # Reading.

    def _advance(self) -> None:
        """Answer what is in the buffer, until a request is incomplete or must be waited for."""
        while self._answer is None and self._writable and not self._transport.is_closing():
            try:
                request = self._next_request()
            except HttpError as error:
                self._refuse(error)
                return
            if request is None:
                self._transport.resume_reading()
                return
            request.peer = self._peer
            self._keep_alive = self._keep_alive and request.keep_alive
            self.deadline = math.inf
            answer = self._server.answer(request)
            self._signature = request.signature
            if isinstance(answer, Response):
                self._send(answer)
            else:
                self._answer = answer
                answer.add_done_callback(self._answered)

    def _next_request(self) -> Request | None:
        """Take one whole request out of the buffer, None if it is not there yet."""
        request = self._request
        if request is None:
            end = self._buffer.find(b"\r\n\r\n", 0, MAX_HEAD + 4)
            if end < 0:
                self._await_head()
                return None
            request, self._body_length = parse_head(self._buffer[:end])
            self._buffer = self._buffer[end + 4 :]
        if len(self._buffer) < self._body_length:
            self._request = request
            self._expect_more()
            return None
        self._request = None
        self._mid_request = False
        if self._body_length:
            request.body = self._buffer[: self._body_length]
            self._buffer = self._buffer[self._body_length :]
        return request

    def _await_head(self) -> None:
        if len(self._buffer) > MAX_HEAD:
            raise HttpError(431, f"a request's header may have at most {MAX_HEAD} bytes")
        if not self._buffer:
            self.deadline = self._loop.time() + self._server.limits.idle_s
        elif not self._buffer[:1].isalpha():
            # Whoever begins like this (TLS, for one) would wait for an answer in vain.
            raise HttpError(400, "this is not HTTP; only plain HTTP/1.1 is spoken here")
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
            # Nobody hears it; look at a failure all the same, so that it is logged.
            if not answer.cancelled() and (error := answer.exception()) is not None:
                self._server.failure(error)
            return
        try:
            response = answer.result()
        except (Exception, asyncio.CancelledError) as error:
            response = self._server.failure(error)
        self._send(response)
        if self._rest is None:
            self._advance()

    def _send(self, response: Response) -> None:
        if self._server.closing:
            self._keep_alive = False
        parts = [response.head]
        if self._signature and response.status != 401:
            parts.append(self._server.gatekeeper.sign(self._signature, response))
        parts.append(b"\r\n" if self._keep_alive else b"Connection: close\r\n\r\n")
        body = response.body
        if len(body) <= _PIECE:
            parts.append(body)
        else:
            self._rest = memoryview(body)
        self._transport.write(b"".join(parts))
        self._write_rest()

    def _write_rest(self) -> None:
        while self._rest is not None and self._writable:
            piece = self._rest[:_PIECE]
            self._rest = self._rest[_PIECE:] if len(self._rest) > _PIECE else None
            self._transport.write(piece)
        if self._rest is None and not self._keep_alive:
            self._transport.close()

    def _refuse(self, error: HttpError) -> None:
        """Say what was wrong, then close once the peer had a chance to read it.

        Closing at once would reset the connection under bytes that are still
        coming, and with them the answer.
        """
        self._buffer = b""
        self._lingering = True
        self.deadline = self._loop.time() + self._server.limits.linger_s
        self._transport.resume_reading()
        response = Response.error(error)
        self._transport.write(response.head + b"Connection: close\r\n\r\n" + response.body)
        self._transport.write_eof()
