"""HTTP/1.1 messages as data: parsing of requests and building of answers, no I/O.

Only what our protocols use (docs/protocols.md §1): bodies have a
``Content-Length`` or are not there. What is unclear is refused, never guessed,
because two readers that guess differently can be played against each other.
"""

from __future__ import annotations

import re
from http import HTTPStatus
from urllib.parse import parse_qs

import msgspec

from ytf.starter.auth import body_digest

MAX_HEAD = 16 * 1024
MAX_BODY = 1024 * 1024

_METHODS = frozenset(
    {"GET", "HEAD", "POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "CONNECT"}
)
_ONCE = frozenset({"content-length", "transfer-encoding", "ytf-auth"})

# One pass of the regex engine over the whole head costs a third of a loop over its lines.
_TOKEN = r"[!#$%&'*+.^_`|~0-9A-Za-z-]+"
_HEAD = re.compile(
    rf"({_TOKEN}) (/[!-~]*) HTTP/([0-9]\.[0-9])((?:\r\n{_TOKEN}:[^\r\n\0]*)*)"
).fullmatch
_FIELDS = re.compile(r"\r\n([^:]+):[ \t]*([^\r]*)").findall

Headers = tuple[tuple[str, str], ...]


class HttpError(Exception):
    """A request that gets an answer other than 200: its status and one sentence why."""

    def __init__(self, status: int, message: str, headers: Headers = ()) -> None:
        super().__init__(message)
        self.status = status
        self.headers = headers


class Request:
    """One request, whole. ``actor`` and ``signature`` are set where it was signed and verified.

    ``peer`` is the address it came from.
    """

    __slots__ = (
        "actor",
        "body",
        "headers",
        "keep_alive",
        "method",
        "path",
        "peer",
        "signature",
        "target",
    )

    def __init__(
        self,
        method: str,
        target: str,
        headers: dict[str, str],
        *,
        keep_alive: bool = True,
        body: bytes = b"",
    ) -> None:
        self.method = method
        self.target = target
        self.path = target.partition("?")[0]
        self.headers = headers
        self.keep_alive = keep_alive
        self.body = body
        self.peer = ""
        self.actor = ""
        self.signature = ""

    def parameter(self, name: str) -> str | None:
        """The last value of a query parameter, None if it is not there."""
        values = parse_qs(self.target.partition("?")[2], keep_blank_values=True).get(name)
        return values[-1] if values else None


class Response:
    """One answer. May be given to many requests: what can be computed once is kept.

    ``digest`` is the body's, for signatures.
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
        """The body's digest, computed at the first use."""
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
        """An answer whose body is the JSON of a value."""
        return cls(msgspec.json.encode(value), status=status)

    @classmethod
    def error(cls, error: HttpError) -> Response:
        """An answer that says ``{"error": "one sentence"}``."""
        body = msgspec.json.encode({"error": str(error)})
        return cls(body, status=error.status, headers=error.headers)


def parse_head(head: bytes) -> tuple[Request, int]:
    """The request of a head (up to, without, its empty line), and how long its body will be.

    Raises :class:`HttpError` for whatever is not plain HTTP/1.x of our kind.
    """
    parts = _HEAD(head.decode("latin-1"))
    if parts is None:
        raise HttpError(
            400, "a request is 'METHOD /path HTTP/1.1' and lines of 'Name: value', ended by CRLF"
        )
    method, target, version, lines = parts.groups()
    if version not in ("1.1", "1.0"):
        raise HttpError(505, "only HTTP/1.1 is spoken here")
    if method not in _METHODS:
        raise HttpError(501, f"there is no method {method[:20]} here")
    headers: dict[str, str] = {}
    for name, value in _FIELDS(lines):
        name = name.lower()
        if name in headers and name in _ONCE:
            raise HttpError(400, f"the header {name} is there twice")
        headers[name] = value.rstrip(" \t")
    wishes = headers.get("connection", "").lower()
    keep_alive = version == "1.1" and "close" not in wishes
    return Request(method, target, headers, keep_alive=keep_alive), _body_length(headers)


def _body_length(headers: dict[str, str]) -> int:
    if "transfer-encoding" in headers:
        raise HttpError(501, "send the body with Content-Length, not in chunks")
    length = headers.get("content-length")
    if length is None:
        return 0
    if not length.isdecimal():
        raise HttpError(400, "Content-Length is not a number")
    # Compare lengths first: int() refuses numbers of thousands of digits in its own way.
    if len(length) > 15 or int(length) > MAX_BODY:
        raise HttpError(413, f"a body may have at most {MAX_BODY} bytes")
    return int(length)
