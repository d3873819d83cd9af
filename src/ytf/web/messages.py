"""HTTP/1.1 messages of the master's server: requests and responses, without I/O."""

from __future__ import annotations

from collections.abc import Callable
from http import HTTPStatus
from typing import Any
from urllib.parse import parse_qs

import msgspec

from ytf.wire.http_reader import MalformedHttpError, RequestHead, parse_request
from ytf.wire.signing import body_digest

MAX_BODY = 1024 * 1024
"""The most bytes of a body of a signed request."""
MAX_UNSIGNED_BODY = 4 * 1024
"""The most bytes of a body that anybody may send: no unsigned request needs one."""

Headers = tuple[tuple[str, str], ...]


class HttpError(Exception):
    """An answer other than 200: its status, and one sentence that says why."""

    def __init__(self, status: int, message: str, headers: Headers = ()) -> None:
        super().__init__(message)
        self.status = status
        self.headers = headers


class Request(RequestHead):
    """One request. Its body comes after its head was admitted by the server.

    ``actor`` and ``signature`` are set if the head has a valid signature;
    ``digest`` is then that of the body which must follow. ``peer`` is the
    address of its sender, ``max_length`` the most that its body may have.
    """

    __slots__ = (
        "actor",
        "body",
        "digest",
        "handler",
        "max_length",
        "path",
        "peer",
        "signature",
    )

    handler: Callable[[Request], Any]

    def __init__(
        self,
        method: str,
        target: str,
        headers: dict[str, str],
        keep_alive: bool = True,
        length: int = 0,
    ) -> None:
        super().__init__(method, target, headers, keep_alive, length)
        self.path = target.partition("?")[0]
        self.max_length = 0
        self.body = b""
        self.peer = ""
        self.actor = ""
        self.signature = ""
        self.digest = ""

    def parameter(self, name: str) -> str | None:
        """The last value of a query parameter; None if there is none."""
        values = parse_qs(self.target.partition("?")[2], keep_blank_values=True).get(name)
        return values[-1] if values else None


class Response:
    """One response. It may answer many requests, so head and digest are computed once.

    ``digest`` is the digest of the body, for signatures.
    """

    __slots__ = ("_digest", "_head", "body", "content_type", "headers", "status")

    def __init__(
        self,
        body: bytes,
        *,
        status: int = 200,
        content_type: str = "application/json",
        headers: Headers = (),
    ) -> None:
        self.body = body
        self.status = status
        self.content_type = content_type
        self.headers = headers
        self._digest: str | None = None
        self._head: bytes | None = None

    @property
    def digest(self) -> str:
        """The digest of the body, computed at its first use."""
        if self._digest is None:
            self._digest = body_digest(self.body)
        return self._digest

    @property
    def head(self) -> bytes:
        """Status line and headers, without the empty line that ends them."""
        if self._head is None:
            lines = [
                f"HTTP/1.1 {self.status} {HTTPStatus(self.status).phrase}",
                f"Content-Type: {self.content_type}",
                f"Content-Length: {len(self.body)}",
                *(f"{name}: {value}" for name, value in self.headers),
                "",
            ]
            self._head = "\r\n".join(lines).encode("latin-1")
        return self._head

    @classmethod
    def json(cls, value: object, *, status: int = 200) -> Response:
        """A response with a value as JSON."""
        return cls(msgspec.json.encode(value), status=status)

    @classmethod
    def error(cls, error: HttpError) -> Response:
        """A response that says ``{"error": "one sentence"}``."""
        body = msgspec.json.encode({"error": str(error)})
        return cls(body, status=error.status, headers=error.headers)


def parse_head(head: bytes) -> Request:
    """Parse the head of a request, without its final empty line.

    Raises :class:`HttpError` for everything but the subset of HTTP/1.x that we use.
    """
    try:
        return parse_request(head, Request)
    except MalformedHttpError as error:
        raise HttpError(error.status, str(error)) from error
