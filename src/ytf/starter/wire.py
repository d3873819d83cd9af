"""Reading HTTP/1.1 messages off a socket: what both sides of ours need, no more.

``Content-Length`` always, no chunks (docs/protocols.md §1).
"""

from __future__ import annotations

import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    import socket
    from typing import Dict, Optional

HEAD_LIMIT = 16 * 1024


class MalformedError(Exception):
    """The peer does not speak our protocol."""


class Message:
    """A request or an answer: its first line, headers (names in lower case) and body."""

    __slots__ = ("body", "first", "headers")

    def __init__(self, first: str, headers: Dict[str, str], body: bytes) -> None:
        self.first = first
        self.headers = headers
        self.body = body


class Reader:
    """Takes messages off one connection, one after another."""

    def __init__(self, sock: socket.socket) -> None:
        self._sock = sock
        self._buffer = b""

    @property
    def holds_more(self) -> bool:
        """Whether bytes beyond the last message have already come."""
        return bool(self._buffer)

    def read(self, deadline: float, limit: int) -> Optional[Message]:
        """The next message, or None if the peer closed before its first byte.

        ``deadline`` is on the monotonic clock. Raises :class:`MalformedError` for
        what is no message or has a body over ``limit``, ``OSError`` (timeouts
        too) for what the network did.
        """
        while b"\r\n\r\n" not in self._buffer:
            if len(self._buffer) > HEAD_LIMIT:
                raise MalformedError("headers of more than %d bytes" % HEAD_LIMIT)
            if not self._receive(deadline):
                if not self._buffer:
                    return None
                raise MalformedError("the connection was closed within the headers")
        head, _, self._buffer = self._buffer.partition(b"\r\n\r\n")
        first, *lines = head.decode("latin-1").split("\r\n")
        headers: Dict[str, str] = {}
        for line in lines:
            name, colon, value = line.partition(":")
            if not colon:
                raise MalformedError("a header without a colon")
            headers[name.strip().lower()] = value.strip()
        length = headers.get("content-length", "0")
        if not (length.isascii() and length.isdigit()):
            raise MalformedError("Content-Length is %r" % length)
        return Message(first, headers, self._body(int(length), deadline, limit))

    def _body(self, length: int, deadline: float, limit: int) -> bytes:
        if length > limit:
            raise MalformedError("a body of %d bytes, more than the %d allowed" % (length, limit))
        pieces = [self._buffer]
        missing = length - len(self._buffer)
        while missing > 0:
            self._buffer = b""
            if not self._receive(deadline):
                raise MalformedError("the connection was closed within the body")
            pieces.append(self._buffer)
            missing -= len(self._buffer)
        whole = b"".join(pieces)
        self._buffer = whole[length:]
        return whole[:length]

    def _receive(self, deadline: float) -> bool:
        self._sock.settimeout(max(deadline - time.monotonic(), 0.001))
        data = self._sock.recv(65536)
        self._buffer += data
        return bool(data)
