"""Calls our other processes over signed HTTP/1.1 (docs/protocols.md §1 and §2).

::

    channel = SignedChannel("http://node7:41234", Signer(secret), "client/5f3a")
    answer = channel.call("GET", "/client/v1/status")
    if answer.status == 200:
        status = answer.json()

Every request is signed and every answer is checked. The errors differ in what
the caller may conclude::

    ChannelError
    ├── NotSentError         the peer was not reached: nothing was done
    ├── UnansweredError      sent, but no (whole) answer: it may have been done
    └── SignatureError       the listener there does not share our secret
        ├── SignatureRefusedError   it answered 401
        └── SignatureWrongError     its answer is not signed with our secret
"""

from __future__ import annotations

import socket
import time

from ytf.wire import http_reader
from ytf.wire.address import split_url
from ytf.wire.signing import HEADER, HEADER_KEY, body_digest, request_header
from ytf.wire.untrusted import read_json

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Dict, Optional, Tuple

    from ytf.wire.signing import Signer

ANSWER_LIMIT = 64 * 1024 * 1024
CONNECT_TIMEOUT_S = 5.0


class ChannelError(Exception):
    """A call brought no answer that can be trusted."""


class NotSentError(ChannelError):
    """The peer could not be reached; the call was certainly not executed."""


class UnansweredError(ChannelError):
    """The call was sent but not (wholly) answered: it may or may not have been executed."""


class SignatureError(ChannelError):
    """The two sides do not share a secret."""


class SignatureRefusedError(SignatureError):
    """The peer answered 401: it does not take our signature."""


class SignatureWrongError(SignatureError):
    """The answer is not signed with our secret; its content was not used."""


class Answer:
    """An answer: the status, the body, and headers (names in lower case, not signed)."""

    __slots__ = ("body", "headers", "status")

    def __init__(self, status: int, body: bytes, headers: Dict[str, str]) -> None:
        self.status = status
        self.body = body
        self.headers = headers

    def json(self) -> Any:
        """Decode the body; ``ValueError`` if it is not JSON within bounds."""
        return read_json(self.body)

    def error(self) -> str:
        """Return the sentence that an error answer carries, or how its body begins."""
        try:
            return str(self.json()["error"])
        except (ValueError, KeyError, TypeError):
            return self.body[:200].decode("utf-8", "replace")


class OpenedStream:
    """A connection that has turned into a stream.

    ``received`` has already been read from it. ``signature`` is that of the request.
    """

    __slots__ = ("received", "signature", "sock")

    def __init__(self, sock: socket.socket, received: bytes, signature: str) -> None:
        self.sock = sock
        self.received = received
        self.signature = signature


class SignedChannel:
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
        self._reader: Optional[http_reader.HttpReader] = None

    def call(self, method: str, path: str, body: bytes = b"", timeout_s: float = 10.0) -> Answer:
        """Send one request and return its verified answer, whatever its status but 401.

        ``path`` includes the query, already encoded. ``timeout_s`` covers the
        whole call, connecting included. Nothing is sent twice: a caller that
        may repeat the call does so itself.
        """
        answer, _ = self._exchange(method, path, body, timeout_s)
        reader = self._reader
        closes = answer.headers.get("connection", "").lower() == "close"
        if closes or reader is None or reader.holds_more:
            self.close()
        return answer

    def open_stream(
        self, method: str, path: str, body: bytes = b"", timeout_s: float = 10.0
    ) -> Tuple[Answer, Optional[OpenedStream]]:
        """Send a request after which the connection is a stream, if its answer is 200.

        The connection then belongs to the caller; the next call opens another.
        """
        answer, signature = self._exchange(method, path, body, timeout_s)
        sock, reader = self._sock, self._reader
        if answer.status != 200 or sock is None or reader is None:
            return answer, None
        self._sock = self._reader = None
        return answer, OpenedStream(sock, reader.take_rest(), signature)

    def _exchange(
        self, method: str, path: str, body: bytes, timeout_s: float
    ) -> Tuple[Answer, str]:
        """Return the answer to a request, and the signature of the request."""
        deadline = time.monotonic() + timeout_s
        sock, reader = self._connection(deadline)
        self._counter += 1
        digest = body_digest(body)
        signature = self._signer.sign_request(method, path, self._actor, self._counter, digest)
        head = "%s %s HTTP/1.1\r\nHost: %s\r\nContent-Length: %d\r\n%s: %s\r\n\r\n" % (
            method, path, self.url.partition("://")[2].rstrip("/"), len(body),
            HEADER, request_header(self._actor, self._counter, digest, signature),
        )  # fmt: skip
        try:
            sock.settimeout(max(deadline - time.monotonic(), 0.001))
            sock.sendall(head.encode() + body)
            answer = self._read_answer(reader, signature, deadline)
        except (OSError, http_reader.MalformedHttpError) as exc:
            self.close()
            raise UnansweredError("%s %s at %s: %s" % (method, path, self.url, exc)) from exc
        except SignatureError:
            self.close()
            raise
        if answer is None:
            self.close()
            raise UnansweredError(
                "%s %s at %s: the connection was closed without an answer"
                % (method, path, self.url)
            )
        return answer, signature

    def _read_answer(
        self, reader: http_reader.HttpReader, signature: str, deadline: float
    ) -> Optional[Answer]:
        """Return the answer to the request with this signature; None if there is none.

        Reads a body only after its head was found to be signed with our secret:
        whoever listens on a dead master's port could send megabytes.
        """
        raw = reader.read_head(deadline)
        if raw is None:
            return None
        try:
            head = http_reader.parse_answer(raw)
        except http_reader.MalformedHttpError as exc:
            raise SignatureWrongError("%s does not speak HTTP: %s" % (self.url, exc)) from exc
        if head.status == 401:
            raise SignatureRefusedError("%s refused our signature" % self.url)
        header = head.headers.get(HEADER_KEY, "")
        digest = self._signer.verify_answer(signature, head.status, header)
        if digest is None:
            raise SignatureWrongError("the answer of %s is not signed with our secret" % self.url)
        body = reader.read_body(head.length, deadline, ANSWER_LIMIT)
        if body_digest(body) != digest:
            raise SignatureWrongError("the answer of %s has another body than signed" % self.url)
        return Answer(head.status, body, head.headers)

    def _connection(self, deadline: float) -> Tuple[socket.socket, http_reader.HttpReader]:
        if self._sock is not None and self._reader is not None:
            if _is_quiet(self._sock):
                return self._sock, self._reader
            self.close()
        left = min(deadline - time.monotonic(), CONNECT_TIMEOUT_S)
        try:
            sock = socket.create_connection((self._host, self._port), max(left, 0.001))
        except (OSError, UnicodeError) as exc:  # the latter for what can be no host's name
            raise NotSentError("%s cannot be reached: %s" % (self.url, exc)) from exc
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._sock = sock
        self._reader = http_reader.HttpReader(sock)
        return sock, self._reader

    def interrupt(self) -> None:
        """Make a call that waits in another thread fail now, as ``UnansweredError``."""
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
    # holds bytes that answer no request: neither can carry another request.
    sock.settimeout(0)
    try:
        sock.recv(1, socket.MSG_PEEK)
    except (BlockingIOError, InterruptedError):
        return True
    except OSError:
        return False
    return False
