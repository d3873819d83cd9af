"""Reads HTTP/1.1 messages: the one parser of servers and clients, and a reader of sockets.

Our messages always have a ``Content-Length`` and no chunks (docs/protocols.md §1).
A head is parsed and authenticated before the body is read, so the two are read
in two steps. Everything in a head is bounded. An ambiguous head is refused: if a
proxy and this parser understood it differently, that would be a way to attack.
"""

from __future__ import annotations

import re
import time

from ytf.wire.untrusted import MOST, shown

TYPE_CHECKING = False
if TYPE_CHECKING:
    import socket
    from typing import Callable, Dict, List, Optional, TypeVar

    Head = TypeVar("Head", bound="RequestHead")

HEAD_LIMIT = 16 * 1024
END_OF_HEAD = b"\r\n\r\n"

_METHODS = frozenset(
    ("GET", "HEAD", "POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "CONNECT")
)
_ONCE = frozenset(("content-length", "transfer-encoding", "ytf-auth"))

# One regular expression for the whole head takes a third of the time of a loop over its lines.
_TOKEN = r"[!#$%&'*+.^_`|~0-9A-Za-z-]+"
_LINES = r"((?:\r\n%s:[^\r\n\0]*)*)" % _TOKEN
_REQUEST = re.compile(r"(%s) (/[!-~]*) HTTP/([0-9]\.[0-9])%s" % (_TOKEN, _LINES)).fullmatch
_ANSWER = re.compile(r"HTTP/1\.[0-9] ([0-9]{3})(?: [^\r\n\0]*)?%s" % _LINES).fullmatch
_FIELDS = re.compile(r"\r\n([^:]+):[ \t]*([^\r]*)").findall


class MalformedHttpError(Exception):
    """The peer does not speak our protocol. ``status`` is what a server answers to that."""

    def __init__(self, text: str, status: int = 400) -> None:
        super().__init__(text)
        self.status = status


class RequestHead:
    """The head of a request: headers have names in lower case, ``length`` is the body's."""

    __slots__ = ("headers", "keep_alive", "length", "method", "target")

    def __init__(
        self, method: str, target: str, headers: Dict[str, str], keep_alive: bool, length: int
    ) -> None:
        self.method = method
        self.target = target
        self.headers = headers
        self.keep_alive = keep_alive
        self.length = length


class AnswerHead:
    """The head of an answer: its status, headers (names in lower case), the body's length."""

    __slots__ = ("headers", "length", "status")

    def __init__(self, status: int, headers: Dict[str, str], length: int) -> None:
        self.status = status
        self.headers = headers
        self.length = length


def parse_request(head: bytes, make: Callable[..., Head]) -> Head:
    """Parse the head of a request, without the empty line that ends it.

    ``make`` is :class:`RequestHead` or a class derived from it.
    """
    parts = _REQUEST(head.decode("latin-1"))
    if parts is None:
        raise MalformedHttpError(
            "a request is 'METHOD /path HTTP/1.1' and lines of 'Name: value', ended by CRLF"
        )
    method, target, version, lines = parts.groups()
    if version not in ("1.1", "1.0"):
        raise MalformedHttpError("this server speaks HTTP/1.1 only", 505)
    if method not in _METHODS:
        raise MalformedHttpError("there is no method %s here" % method[:20], 501)
    headers = _headers(lines)
    keep_alive = version == "1.1" and "close" not in headers.get("connection", "").lower()
    return make(method, target, headers, keep_alive, _body_length(headers))


def parse_answer(head: bytes) -> AnswerHead:
    """Parse the head of an answer, without the empty line that ends it."""
    parts = _ANSWER(head.decode("latin-1"))
    if parts is None:
        raise MalformedHttpError("the answer is not HTTP")
    status, lines = parts.groups()
    headers = _headers(lines)
    return AnswerHead(int(status), headers, _body_length(headers))


def _headers(lines: str) -> Dict[str, str]:
    headers: Dict[str, str] = {}
    for name, value in _FIELDS(lines):
        name = name.lower()
        if name in headers and name in _ONCE:
            raise MalformedHttpError("the header %s is there twice" % name)
        headers[name] = value.rstrip(" \t")
    return headers


def _body_length(headers: Dict[str, str]) -> int:
    if "transfer-encoding" in headers:
        raise MalformedHttpError("send the body with Content-Length, not in chunks", 501)
    text = headers.get("content-length", "0")
    if not (text.isascii() and text.isdigit()):
        raise MalformedHttpError("Content-Length is %s, not a number" % shown(text))
    # Whatever the limit is, more digits are over it; and int() refuses thousands of them.
    return int(text) if len(text) <= 18 else MOST


class HttpReader:
    """Reads messages from the socket of one connection, one after another.

    ``received`` is what has already been read from it.
    """

    def __init__(self, sock: socket.socket, received: bytes = b"") -> None:
        self._sock = sock
        self._buffer = received

    @property
    def holds_more(self) -> bool:
        """Whether bytes beyond the last message have already arrived."""
        return bool(self._buffer)

    def take_rest(self) -> bytes:
        """Return the bytes beyond the last message, for who reads the socket from now on."""
        rest, self._buffer = self._buffer, b""
        return rest

    def read_head(self, deadline: float) -> Optional[bytes]:
        """Return the next message's head, or None if the peer closed before its first byte.

        ``deadline`` is on the monotonic clock. Raises :class:`MalformedHttpError`
        if the head is too long or not whole, and ``OSError`` (timeouts included)
        if the network failed.
        """
        while END_OF_HEAD not in self._buffer:
            if len(self._buffer) > HEAD_LIMIT:
                raise MalformedHttpError("headers of more than %d bytes" % HEAD_LIMIT, 431)
            data = self._receive(HEAD_LIMIT, deadline)
            if not data:
                if not self._buffer:
                    return None
                raise MalformedHttpError("the connection was closed within the headers")
            self._buffer += data
        head, _, self._buffer = self._buffer.partition(END_OF_HEAD)
        return head

    def read_body(self, length: int, deadline: float, limit: int) -> bytes:
        """Return the body of ``length`` that follows a head; raises as :meth:`read_head` does."""
        if length > limit:
            raise MalformedHttpError(
                "a body of %d bytes, more than the %d allowed" % (length, limit), 413
            )
        body, self._buffer = self._buffer[:length], self._buffer[length:]
        pieces: List[bytes] = [body]
        missing = length - len(body)
        while missing > 0:
            piece = self._receive(min(missing, 65536), deadline)
            if not piece:
                raise MalformedHttpError("the connection was closed within the body")
            pieces.append(piece)
            missing -= len(piece)
        return b"".join(pieces)

    def _receive(self, most: int, deadline: float) -> bytes:
        left_s = deadline - time.monotonic()
        if left_s <= 0:
            # A peer that always has one more byte must not be read for ever.
            raise TimeoutError("timed out")
        self._sock.settimeout(left_s)
        return self._sock.recv(most)
