"""Reads the logs of a running container from its NodeManager's REST API. Blocking, with timeouts.

A log comes between a banner and a closing line. The banner has its length and
ends with ``LogContents:``. Mirrors ``NMWebServices`` and ``ContainerLogsUtils``.
"""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http.client import HTTPException, HTTPResponse
from typing import Any
from urllib.parse import quote

from ytf.errors import NotFoundError, RefusedError, UnreachableError, YtfError

TIMEOUT_S = 10.0

_SLACK_BYTES = 1 << 16
"""A log may grow by so much between its listing and its reading at no extra cost."""
_PIECE_BYTES = 1 << 18
_MAX_LISTING_BYTES = 64 << 20
_MAX_LINE_BYTES = 1 << 12


@dataclass(frozen=True, slots=True)
class NodeLog:
    """A log file of a running container, with its size when it was listed."""

    name: str
    size: int


def list_node_logs(node: str, container: str, timeout_s: float = TIMEOUT_S) -> list[NodeLog]:
    """The log files of a container. ``node`` is the NodeManager's web address, ``host:port``.

    Raises ``NotFoundError`` if the node does not know the container (any more),
    ``RefusedError`` if it denies access, ``UnreachableError`` if it does not
    answer.
    """
    body = _get(node, f"/ws/v1/node/containers/{quote(container)}/logs", timeout_s)
    try:
        answer = json.loads(body)
        # This REST API writes a list of one as an object.
        groups = _as_list(answer["containerLogsInfo"])
        return [
            NodeLog(name=str(each["fileName"]), size=int(each["fileSize"]))
            for group in groups
            for each in _as_list(group.get("containerLogInfo") or [])
        ]
    except (
        ValueError,
        KeyError,
        TypeError,
        AttributeError,
        RecursionError,  # of deep JSON
        OverflowError,  # of 1e999
    ) as exc:
        raise UnreachableError(
            f"the answer of the NodeManager at {node} is no list of logs",
            hint="check that this is the web address of a NodeManager",
        ) from exc


def stream_node_log(
    node: str,
    container: str,
    log: NodeLog,
    *,
    beyond: int = 0,
    timeout_s: float = TIMEOUT_S,
) -> Iterator[bytes]:
    """The bytes of a log after its first ``beyond`` ones, in pieces, however many there are.

    Includes what was written since ``log`` was listed. Yields nothing if the
    log has become shorter than ``beyond``. Raises as :func:`list_node_logs`,
    also between pieces.
    """
    # The API returns the end of a log, not a range of it. But the answer has the length
    # of the log, and so we know where that end begins.
    wanted = log.size - beyond + _SLACK_BYTES
    while True:
        path = f"/ws/v1/node/containers/{quote(container)}/logs/{quote(log.name)}?size=-{wanted}"
        with _opened(node, path, timeout_s, accept="text/plain") as answer:
            length = _length(answer)
            begin = max(length - wanted, 0)
            if begin <= beyond:
                _skip(answer, beyond - begin)
                yield from _pieces(answer, length - beyond)
                return
        wanted = 2 * (length - beyond)


def _length(answer: HTTPResponse) -> int:
    """The length of the log, from the banner; 0 without a banner, which an empty log lacks."""
    length = 0
    line = answer.readline(_MAX_LINE_BYTES)
    if not line.startswith(b"Container: "):
        return 0
    while line and line != b"LogContents:\n":
        name, _, value = line.partition(b":")
        if name == b"LogLength" and value.strip().isdigit():
            length = int(value)
        line = answer.readline(_MAX_LINE_BYTES)
    return length


def _skip(answer: HTTPResponse, count: int) -> None:
    for _ in _pieces(answer, count):
        pass


def _pieces(answer: HTTPResponse, count: int) -> Iterator[bytes]:
    """The next ``count`` bytes; fewer if the log was truncated meanwhile."""
    while count > 0 and (piece := answer.read(min(count, _PIECE_BYTES))):
        count -= len(piece)
        yield piece


def _get(node: str, path: str, timeout_s: float, accept: str = "application/json") -> bytes:
    with _opened(node, path, timeout_s, accept) as answer:
        return answer.read(_MAX_LISTING_BYTES)


@contextmanager
def _opened(node: str, path: str, timeout_s: float, accept: str) -> Iterator[HTTPResponse]:
    """The answer to a request. Errors while it is read are raised as ytf's errors."""
    request = urllib.request.Request(f"http://{node}{path}", headers={"Accept": accept})
    try:
        with urllib.request.urlopen(request, timeout=timeout_s) as answer:
            yield answer
    except urllib.error.HTTPError as exc:
        with exc:
            raise _http_error(exc, node, path) from exc
    except (OSError, HTTPException) as exc:
        raise UnreachableError(
            f"the NodeManager at {node} does not answer: {_why(exc)}",
            hint="its node may be lost; its aggregated logs can be read after the job's end",
        ) from exc


def _why(exc: OSError | HTTPException) -> object:
    """The system's message, without the wrapping of ``urllib``."""
    inner = exc.reason if isinstance(exc, urllib.error.URLError) else exc
    return getattr(inner, "strerror", None) or inner


def _http_error(exc: urllib.error.HTTPError, node: str, path: str) -> YtfError:
    if exc.code in (401, 403):
        return RefusedError(f"the NodeManager at {node} does not show {path}: {exc.reason}")
    if exc.code in (400, 404, 503):
        # A NodeManager answers 503 for a container that it no longer knows.
        return NotFoundError(
            f"the NodeManager at {node} has no {path}",
            hint="after a container's end its logs are aggregated, if the cluster does that",
        )
    return UnreachableError(f"the NodeManager at {node} answered {exc.code} for {path}")


def _as_list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]
