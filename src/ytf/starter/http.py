"""A signed HTTP/1.1 channel to one of our processes (docs/protocols.md §1 and §2).

::

    channel = Channel("http://node7:41234", Signer(secret), "client/5f3a")
    answer = channel.call("GET", "/client/v1/status")
    if answer.status == 200:
        status = answer.json()

Every request is signed and every answer checked. What can go wrong differs in
what the caller may conclude::

    ChannelError
    ├── NotSentError         the peer was not reached: nothing was done
    ├── OutcomeUnknownError  sent, but no (whole) answer: it may have been done
    └── SignatureError       whoever listens there is not, or not for us, of this job
        ├── SignatureRefusedError   it answered 401
        └── SignatureWrongError     its answer is not signed with our secret
"""

from __future__ import annotations

import json
import socket
import time

from ytf.starter import wire
from ytf.starter.auth import HEADER, body_digest, same

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Dict, Optional, Tuple

    from ytf.starter.auth import Signer

ANSWER_LIMIT = 64 * 1024 * 1024
CONNECT_TIMEOUT_S = 5.0


class ChannelError(Exception):
    """A call did not bring an answer that can be trusted."""


class NotSentError(ChannelError):
    """The peer could not be reached; the call was certainly not executed."""


class OutcomeUnknownError(ChannelError):
    """The call was sent but not (wholly) answered: it may or may not have been executed."""


class SignatureError(ChannelError):
    """The two sides do not share a secret."""


class SignatureRefusedError(SignatureError):
    """The peer answered 401: it does not take our signature."""


class SignatureWrongError(SignatureError):
    """The answer is not signed with our secret and was not looked at."""


class Answer:
    """What came back: the status, the body, and headers (names in lower case, not signed)."""

    __slots__ = ("body", "headers", "status")

    def __init__(self, status: int, body: bytes, headers: Dict[str, str]) -> None:
        self.status = status
        self.body = body
        self.headers = headers

    def json(self) -> Any:
        """The body, decoded; ``ValueError`` if it is not JSON."""
        return json.loads(self.body.decode("utf-8"))

    def error(self) -> str:
        """The one sentence an error answer carries, or what its body begins with."""
        try:
            return str(self.json()["error"])
        except (ValueError, KeyError, TypeError):
            return self.body[:200].decode("utf-8", "replace")


def split_url(url: str) -> Tuple[str, int]:
    """Host and port of ``http://host:port``, where the host may be an IPv6 ``[address]``."""
    scheme, mark, rest = url.partition("://")
    host, colon, port = rest.rstrip("/").rpartition(":")
    port_ok = port.isascii() and port.isdigit() and 0 < int(port) < 65536
    if scheme != "http" or not mark or not colon or not host or not port_ok:
        raise ValueError("%r is not of the form http://host:port" % url)
    if host.startswith("[") and host.endswith("]"):
        host = host[1:-1]
    return host, int(port)


class Channel:
    """One kept-alive connection, opened when first needed and again when it was closed.

    Each channel needs an ``actor`` of its own, as the peer demands that an
    actor's counters grow. Calls must come from one thread at a time; only
    :meth:`interrupt` may come from another.
    """

    def __init__(self, url: str, signer: Signer, actor: str) -> None:
        self.url = url
        self._host, self._port = split_url(url)
        self._signer = signer
        self._actor = actor
        self._counter = time.time_ns()
        self._sock: Optional[socket.socket] = None
        self._reader: Optional[wire.Reader] = None

    def call(self, method: str, path: str, body: bytes = b"", timeout_s: float = 10.0) -> Answer:
        """Send one request and return its verified answer, whatever its status but 401.

        ``path`` goes with its query, already encoded. ``timeout_s`` is for
        all of it, connecting included. Nothing is sent twice: a caller that
        may repeat the call does so itself.
        """
        deadline = time.monotonic() + timeout_s
        sock, reader = self._connection(deadline)
        self._counter += 1
        digest = body_digest(body)
        signature = self._signer.request(method, path, self._actor, self._counter, digest)
        head = "%s %s HTTP/1.1\r\nHost: %s\r\nContent-Length: %d\r\n%s: %s %d %s\r\n\r\n" % (
            method, path, self.url.partition("://")[2].rstrip("/"), len(body),
            HEADER, self._actor, self._counter, signature,
        )  # fmt: skip
        try:
            sock.settimeout(max(deadline - time.monotonic(), 0.001))
            sock.sendall(head.encode() + body)
            message = reader.read(deadline, ANSWER_LIMIT)
        except (OSError, wire.MalformedError) as exc:
            self.close()
            raise OutcomeUnknownError("%s %s at %s: %s" % (method, path, self.url, exc)) from exc
        if message is None:
            self.close()
            raise OutcomeUnknownError(
                "%s %s at %s: the connection was closed without an answer"
                % (method, path, self.url)
            )
        if message.headers.get("connection", "").lower() == "close" or reader.holds_more:
            self.close()
        return self._verified(message, signature)

    def _verified(self, message: wire.Message, signature: str) -> Answer:
        version, _, rest = message.first.partition(" ")
        code = rest[:3]
        if not version.startswith("HTTP/1.") or not (code.isascii() and code.isdigit()):
            self.close()
            raise SignatureWrongError("%s answered with something that is not HTTP" % self.url)
        status = int(code)
        if status == 401:
            self.close()
            raise SignatureRefusedError("%s refused our signature" % self.url)
        right = self._signer.answer(signature, status, body_digest(message.body))
        if not same(message.headers.get(HEADER.lower(), ""), right):
            self.close()
            raise SignatureWrongError("the answer of %s is not signed with our secret" % self.url)
        return Answer(status, message.body, message.headers)

    def _connection(self, deadline: float) -> Tuple[socket.socket, wire.Reader]:
        if self._sock is not None and self._reader is not None:
            if _is_quiet(self._sock):
                return self._sock, self._reader
            self.close()
        left = min(deadline - time.monotonic(), CONNECT_TIMEOUT_S)
        try:
            sock = socket.create_connection((self._host, self._port), max(left, 0.001))
        except OSError as exc:
            raise NotSentError("%s cannot be reached: %s" % (self.url, exc)) from exc
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._sock = sock
        self._reader = wire.Reader(sock)
        return sock, self._reader

    def interrupt(self) -> None:
        """Make a call that waits in another thread fail now, as ``OutcomeUnknownError``."""
        sock = self._sock
        if sock is not None:
            try:
                sock.shutdown(socket.SHUT_RDWR)
            except OSError:
                return  # already closed, by the peer or by the call itself

    def close(self) -> None:
        """Close the connection; the next call opens another."""
        if self._sock is not None:
            self._sock.close()
        self._sock = None
        self._reader = None


def _is_quiet(sock: socket.socket) -> bool:
    # An idle connection with something to read was closed by the peer, or
    # holds bytes nobody asked for: neither can carry another request.
    sock.settimeout(0)
    try:
        sock.recv(1, socket.MSG_PEEK)
    except (BlockingIOError, InterruptedError):
        return True
    except OSError:
        return False
    return False
