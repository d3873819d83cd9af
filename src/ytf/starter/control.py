"""The starter's control endpoint (docs/protocols.md §2): signed HTTP, the other way round."""

from __future__ import annotations

import json
import socket
import threading
import time
from functools import partial

from ytf.starter import threads, wire
from ytf.starter.auth import HEADER, Replays, body_digest, same
from ytf.starter.log import say

TYPE_CHECKING = False
if TYPE_CHECKING:
    from queue import SimpleQueue
    from typing import Callable, Dict, Mapping, Optional

    from ytf.starter.auth import Signer
    from ytf.starter.situation import Message

    Route = Callable[["Request"], "Reply"]

REQUEST_LIMIT = 64 * 1024
PATIENCE_S = 10.0
"""How long a caller may take to send a request, or the next one."""
AT_ONCE = 8
"""Connections that are served at a time; a newer one takes the place of one that says nothing."""


class Request:
    """One request whose signature was good."""

    __slots__ = ("body", "query")

    def __init__(self, query: Mapping[str, str], body: bytes) -> None:
        self.query = query
        self.body = body


class Reply:
    """What is answered: bytes as they are, or anything else as JSON."""

    __slots__ = ("body", "headers", "status")

    def __init__(
        self, status: int, value: object, headers: Optional[Dict[str, str]] = None
    ) -> None:
        self.status = status
        self.body = value if isinstance(value, bytes) else json.dumps(value).encode()
        self.headers = headers or {}


class CannotDoError(Exception):
    """A route's answer when it does not do what it was asked: a status and one sentence."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.status = status


class Control:
    """Serves ``routes`` (``"POST /control/v1/signal"`` → function) on a listening socket.

    Takes only what was signed for ``container``: all starters of a job share
    its secret, and what one was told must not be told to another by a listener.
    """

    def __init__(
        self,
        listener: socket.socket,
        signer: Signer,
        container: str,
        routes: Mapping[str, Route],
        inbox: SimpleQueue[Message],
    ) -> None:
        self._listener = listener
        self._signer = signer
        self._container = container
        self._routes = routes
        self._inbox = inbox
        self._replays = Replays()
        self._lock = threading.Lock()
        self._free = threading.Semaphore(AT_ONCE)
        # Those that have yet to send a (whole) request, the longest silent first.
        self._silent: Dict[socket.socket, None] = {}

    def run(self) -> None:
        """Accept for ever, each connection in a thread of its own, a few at once."""
        while True:
            try:
                sock, _ = self._listener.accept()
            except ConnectionAbortedError:
                continue  # the caller went away again
            if not self._free.acquire(blocking=False):
                self._dismiss_the_silent()
                self._free.acquire()
            with self._lock:
                self._silent[sock] = None  # here, as its thread may come to it late
            threads.start("control", partial(self._serve, sock), self._inbox)

    def _dismiss_the_silent(self) -> None:
        with self._lock:
            longest = next(iter(self._silent), None)
            if longest is None:
                return
            del self._silent[longest]
            try:
                longest.shutdown(socket.SHUT_RDWR)
            except OSError:
                return  # its caller has just gone

    def _serve(self, sock: socket.socket) -> None:
        try:
            with sock:
                reader = wire.Reader(sock)
                while True:
                    message = self._next(sock, reader)
                    if message is None:
                        return
                    sock.settimeout(PATIENCE_S)
                    sock.sendall(self._answer(message))
        except (OSError, wire.MalformedError) as exc:
            say("control endpoint: a caller was dropped: %s" % exc)
        finally:
            self._free.release()

    def _next(self, sock: socket.socket, reader: wire.Reader) -> Optional[wire.Message]:
        """The connection's next request, or None when it or we had enough."""
        with self._lock:
            self._silent[sock] = None
        try:
            return reader.read(time.monotonic() + PATIENCE_S, REQUEST_LIMIT)
        finally:
            with self._lock:
                self._silent.pop(sock, None)

    def _answer(self, message: wire.Message) -> bytes:
        method, _, rest = message.first.partition(" ")
        target = rest.rpartition(" ")[0]
        signature = self._check(message, method, target)
        if signature is None:
            return _format(
                Reply(401, {"error": "the signature is missing, wrong, used or not for us"}), None
            )
        path, _, query = target.partition("?")
        reply = self._route(method + " " + path, Request(_parameters(query), message.body))
        right = self._signer.answer(signature, reply.status, body_digest(reply.body))
        return _format(reply, right)

    def _check(self, message: wire.Message, method: str, target: str) -> Optional[str]:
        """The request's signature if it is good, new and meant for this starter."""
        parts = message.headers.get(HEADER.lower(), "").split(" ")
        if len(parts) != 3 or not (parts[1].isascii() and parts[1].isdigit()):
            return None
        actor, counter, signature = parts[0], int(parts[1]), parts[2]
        right = self._signer.request(method, target, actor, counter, body_digest(message.body))
        if not same(signature, right) or actor.rpartition("/")[2] != self._container:
            return None
        with self._lock:
            return signature if self._replays.accept(actor, counter) else None

    def _route(self, name: str, request: Request) -> Reply:
        route = self._routes.get(name)
        if route is None:
            return Reply(404, {"error": "there is no %s here" % name})
        try:
            return route(request)
        except CannotDoError as exc:
            return Reply(exc.status, {"error": str(exc)})
        except (ValueError, KeyError, TypeError) as exc:
            return Reply(400, {"error": "not understood: %r" % exc})


def _parameters(query: str) -> Dict[str, str]:
    pairs = (pair.partition("=") for pair in query.split("&"))
    return {name: value for name, equals, value in pairs if equals}


def _format(reply: Reply, signature: Optional[str]) -> bytes:
    lines = ["HTTP/1.1 %d -" % reply.status, "Content-Length: %d" % len(reply.body)]
    lines += ["%s: %s" % item for item in reply.headers.items()]
    if signature is not None:
        lines.append("%s: %s" % (HEADER, signature))
    return "\r\n".join(lines).encode("latin-1") + b"\r\n\r\n" + reply.body
