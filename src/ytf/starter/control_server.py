"""Serves a starter's control endpoint: signed HTTP for the master and clients.

docs/protocols.md §2. Whatever a caller sends, it ends its own connection at most.
One thread waits for all callers that have not shown the secret: they are few, a
new one replaces the oldest, and they cost their heads only. A caller whose head
has a valid signature gets a thread.
"""

from __future__ import annotations

import errno
import selectors
import socket
import threading
import time
from functools import partial

from ytf.log import LimitedLog
from ytf.starter import threads
from ytf.starter.control_routes import ControlReply, ControlRequest, RouteError
from ytf.wire.http_reader import (
    END_OF_HEAD,
    HEAD_LIMIT,
    HttpReader,
    MalformedHttpError,
    RequestHead,
    parse_request,
)
from ytf.wire.signing import HEADER, HEADER_KEY, ReplayGuard, answer_header, body_digest
from ytf.wire.untrusted import shown

TYPE_CHECKING = False
if TYPE_CHECKING:
    from queue import SimpleQueue
    from typing import Callable, Dict, Mapping, Optional

    from ytf.starter.control_routes import ControlStream, Route
    from ytf.starter.desired_state import InboxMessage
    from ytf.wire.signing import RequestSignature, Signer

REQUEST_LIMIT = 64 * 1024
"""The most bytes of a signed request's body."""
REQUEST_TIMEOUT_S = 10.0
"""How long a caller may take to send a request, or the next one."""
MAX_UNAUTHENTICATED = 64
"""Callers without a signed request at a time, each with a head of 16 KiB at most."""
MAX_THREADS = 16
"""Callers that have sent a signed request. Beyond it, a new one replaces one that is silent."""
BACKLOG = 128
PAUSE_S = 0.1
"""How long nothing is accepted after the system has refused to."""


class _Caller:
    """A connection without a signed request so far: what it has sent, and how long it may take."""

    __slots__ = ("buffer", "deadline", "sock")

    def __init__(self, sock: socket.socket, deadline: float) -> None:
        self.sock = sock
        self.buffer = b""
        self.deadline = deadline


class ControlServer:
    """Serves ``routes`` (``"POST /control/v1/signal"`` → function) on a listening socket.

    Accepts only what was signed for ``container``: all starters of a job share
    its secret, and a request overheard on its way to one must not work at another.
    """

    def __init__(
        self,
        listener: socket.socket,
        signer: Signer,
        container: str,
        routes: Mapping[str, Route],
        inbox: SimpleQueue[InboxMessage],
    ) -> None:
        self._listener = listener
        self._signer = signer
        self._container = container
        self._routes = routes
        self._inbox = inbox
        self._replays = ReplayGuard()
        # The oldest first. Only the thread of run uses it.
        self._callers: Dict[socket.socket, _Caller] = {}
        self._selector = selectors.DefaultSelector()
        self._lock = threading.Lock()
        self._free = threading.Semaphore(MAX_THREADS)
        # Authenticated connections between two requests, the longest silent first.
        self._silent: Dict[socket.socket, None] = {}
        self._is_shut_down = False
        self._dropped = LimitedLog()
        self._bugs = LimitedLog()

    # Callers that have not shown the secret

    def run(self) -> None:
        """Accept callers until the listener is shut down; who shows the secret gets a thread."""
        self._listener.listen(BACKLOG)
        self._listener.setblocking(False)
        self._selector.register(self._listener, selectors.EVENT_READ)
        while not self._is_shut_down:
            oldest = next(iter(self._callers.values()), None)
            left_s = None if oldest is None else max(oldest.deadline - time.monotonic(), 0.0)
            for key, _ in self._selector.select(left_s):
                caller = key.data
                if caller is None:
                    self._accept()
                elif caller.sock in self._callers:  # not replaced in this same round
                    self._guard(caller.sock, partial(self._read, caller))
            now = time.monotonic()
            for caller in [c for c in self._callers.values() if c.deadline <= now]:
                self._drop(caller.sock, "it sent no request in time")
        for sock in list(self._callers):
            self._drop(sock, "the endpoint is closed")
        self._selector.close()

    def _accept(self) -> None:
        try:
            sock, _ = self._listener.accept()
        except BlockingIOError:
            return
        except OSError as exc:
            self._is_shut_down = exc.errno == errno.EINVAL
            # Or else the caller went away again, or the system has no descriptor or memory left.
            self._dropped.write("control endpoint: no connection was accepted: %s" % exc)
            time.sleep(PAUSE_S)
            return
        sock.setblocking(False)
        if len(self._callers) >= MAX_UNAUTHENTICATED:
            self._drop(next(iter(self._callers)), "others wanted to connect")
        caller = _Caller(sock, time.monotonic() + REQUEST_TIMEOUT_S)
        self._callers[sock] = caller
        self._selector.register(sock, selectors.EVENT_READ, caller)

    def _read(self, caller: _Caller) -> None:
        """Take what a caller has sent; with its whole head it is given a thread, or refused."""
        try:
            data = caller.sock.recv(HEAD_LIMIT)
        except BlockingIOError:
            return
        if not data:
            raise MalformedHttpError("it closed the connection without a request")
        caller.buffer += data
        raw, end, rest = caller.buffer.partition(END_OF_HEAD)
        if len(raw) > HEAD_LIMIT:
            raise MalformedHttpError("headers of more than %d bytes" % HEAD_LIMIT)
        if not end:
            return
        head = parse_request(raw, RequestHead)
        signed = self._check(head)
        if signed is None:
            text = "the signature is missing, wrong, used or not for us"
            caller.sock.send(_format(ControlReply(401, {"error": text}), None))
            raise MalformedHttpError(text)
        self._forget(caller.sock)
        self._serve_in_thread(caller.sock, rest, head, signed)

    def _guard(self, sock: socket.socket, step: Callable[[], None]) -> None:
        """Do something with a caller; whatever goes wrong ends its connection, and nothing else."""
        try:
            step()
        except (OSError, MalformedHttpError) as exc:
            self._drop(sock, str(exc))
        except Exception as exc:
            self._bugs.write(threads.bug_text(exc, "control"))
            self._drop(sock, "of a bug")

    def _drop(self, sock: socket.socket, why: str) -> None:
        self._dropped.write("control endpoint: a caller was dropped: %s" % why)
        self._forget(sock)
        sock.close()

    def _forget(self, sock: socket.socket) -> None:
        if self._callers.pop(sock, None) is not None:
            self._selector.unregister(sock)

    def _check(self, head: RequestHead) -> Optional[RequestSignature]:
        """Return a request's signature if it is valid, new and meant for this starter."""
        header = head.headers.get(HEADER_KEY, "")
        signed = self._signer.verify_request(head.method, head.target, header)
        if signed is None or signed.actor.rpartition("/")[2] != self._container:
            return None
        with self._lock:
            return signed if self._replays.accept(signed.actor, signed.counter) else None

    # Callers that have

    def _serve_in_thread(
        self, sock: socket.socket, rest: bytes, head: RequestHead, signed: RequestSignature
    ) -> None:
        if not self._free.acquire(blocking=False):
            self._drop_longest_silent()
            if not self._free.acquire(timeout=REQUEST_TIMEOUT_S):
                raise MalformedHttpError("%d callers are served already" % MAX_THREADS)
        try:
            threads.start("control", partial(self._serve, sock, rest, head, signed), self._inbox)
        except RuntimeError as exc:  # no more threads, by the user's or the container's limit
            self._free.release()
            raise MalformedHttpError(str(exc)) from exc

    def _drop_longest_silent(self) -> None:
        with self._lock:
            longest = next(iter(self._silent), None)
            if longest is None:
                return
            del self._silent[longest]
            try:
                longest.shutdown(socket.SHUT_RDWR)
            except OSError:
                return  # the caller has just gone

    def _serve(
        self, sock: socket.socket, rest: bytes, head: RequestHead, signed: RequestSignature
    ) -> None:
        try:
            try:
                with sock:
                    stream = self._serve_requests(sock, HttpReader(sock, rest), head, signed)
            finally:
                self._free.release()
            if stream is not None:
                stream.run()
        except (OSError, MalformedHttpError) as exc:
            self._dropped.write("control endpoint: a caller was dropped: %s" % exc)
        except Exception as exc:
            # The program goes on: nothing that a caller sends may end it.
            self._bugs.write(threads.bug_text(exc, "control"))

    def _serve_requests(
        self,
        sock: socket.socket,
        reader: HttpReader,
        head: RequestHead,
        signed: Optional[RequestSignature],
    ) -> Optional[ControlStream]:
        """Answer a request whose head has come, and those that follow on the same connection.

        Returns the stream into which the connection has turned, None if it is over.
        """
        deadline = time.monotonic() + REQUEST_TIMEOUT_S
        while signed is not None:
            body = reader.read_body(head.length, deadline, REQUEST_LIMIT)
            if body_digest(body) != signed.digest:
                raise MalformedHttpError("the body is not the one that was signed")
            sock.settimeout(REQUEST_TIMEOUT_S)
            stream = self._answer(sock, head, signed, body)
            if stream is not None or not head.keep_alive:
                return stream
            deadline = time.monotonic() + REQUEST_TIMEOUT_S
            raw = self._next_head(sock, reader, deadline)
            if raw is None:
                return None
            head = parse_request(raw, RequestHead)
            signed = self._check(head)
        raise MalformedHttpError("a further request is not signed as it should")

    def _next_head(
        self, sock: socket.socket, reader: HttpReader, deadline: float
    ) -> Optional[bytes]:
        """Return the next request's head; None if the caller closed, or was dropped as silent."""
        with self._lock:
            self._silent[sock] = None
        try:
            return reader.read_head(deadline)
        finally:
            with self._lock:
                self._silent.pop(sock, None)

    def _answer(
        self, sock: socket.socket, head: RequestHead, signed: RequestSignature, body: bytes
    ) -> Optional[ControlStream]:
        """Answer one request; returns the stream that follows, if its route has opened one."""
        path, _, query = head.target.partition("?")
        request = ControlRequest(_parameters(query), body, signed.signature, sock)
        reply = self._route(head.method + " " + path, request)
        digest = body_digest(reply.body)
        right = self._signer.sign_answer(signed.signature, reply.status, digest)
        try:
            sock.sendall(_format(reply, answer_header(digest, right)))
        except OSError:
            if reply.stream is not None:
                reply.stream.abandon()
            raise
        return reply.stream

    def _route(self, name: str, request: ControlRequest) -> ControlReply:
        route = self._routes.get(name)
        if route is None:
            return ControlReply(404, {"error": "there is no %s here" % name})
        try:
            return route(request)
        except RouteError as exc:
            return ControlReply(exc.status, {"error": str(exc)})
        except (ValueError, KeyError, TypeError) as exc:
            return ControlReply(400, {"error": "not understood: %s" % shown(exc)})


def _parameters(query: str) -> Dict[str, str]:
    pairs = (pair.partition("=") for pair in query.split("&"))
    return {name: value for name, equals, value in pairs if equals}


def _format(reply: ControlReply, auth: Optional[str]) -> bytes:
    lines = ["HTTP/1.1 %d -" % reply.status, "Content-Length: %d" % len(reply.body)]
    lines += ["%s: %s" % item for item in reply.headers.items()]
    if auth is not None:
        lines.append("%s: %s" % (HEADER, auth))
    return "\r\n".join(lines).encode("latin-1") + b"\r\n\r\n" + reply.body
