"""The logs of a running container, asked of its NodeManager's REST. Blocking, with time-outs.

Each text comes between a banner and a closing line, of which only the lines up
to ``LogContents:`` have a fixed form: what closes it is found from behind.
Mirrors ``NMWebServices`` and ``ContainerLogsUtils``.
"""

from __future__ import annotations

import json
import re
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
LARGEST = 64 << 20

_SLACK = 1 << 16
"""By how much a log may grow, from its being listed to its being read, at no extra cost."""
_PIECE = 1 << 18
_LONGEST_LINE = 1 << 12
_BANNER = re.compile(rb"\AContainer: .*?\nLogContents:\n", re.DOTALL)


@dataclass(frozen=True, slots=True)
class NodeLog:
    """A log file of a running container, as large as it was when asked."""

    name: str
    size: int


def list_node_logs(node: str, container: str, timeout_s: float = TIMEOUT_S) -> list[NodeLog]:
    """The log files of a container; ``node`` is the NodeManager's web address, ``host:port``.

    Raises ``NotFoundError`` if the node does not know it (any more),
    ``RefusedError`` if it does not let us, ``UnreachableError`` if it does not
    answer.
    """
    body = _get(node, f"/ws/v1/node/containers/{quote(container)}/logs", timeout_s)
    try:
        answer = json.loads(body)
        # A list of one is written as the one.
        groups = _as_list(answer["containerLogsInfo"])
        return [
            NodeLog(name=str(each["fileName"]), size=int(each["fileSize"]))
            for group in groups
            for each in _as_list(group.get("containerLogInfo") or [])
        ]
    except (ValueError, KeyError, TypeError, AttributeError) as exc:
        raise UnreachableError(
            f"the NodeManager at {node} answered what is no list of logs",
            hint="see whether it is a NodeManager's web address",
        ) from exc


def read_node_log(
    node: str,
    container: str,
    name: str,
    *,
    tail: int | None = None,
    timeout_s: float = TIMEOUT_S,
) -> bytes:
    """What a container has written into a log so far, or its last ``tail`` bytes.

    At most :data:`LARGEST` bytes are taken, the last ones. Raises as
    :func:`list_node_logs`.
    """
    size = LARGEST if tail is None else min(tail, LARGEST)
    if size == 0:
        return b""
    path = f"/ws/v1/node/containers/{quote(container)}/logs/{quote(name)}?size=-{size}"
    return _without_banner(_get(node, path, timeout_s, accept="text/plain"), name)


def stream_node_log(
    node: str,
    container: str,
    log: NodeLog,
    *,
    beyond: int = 0,
    timeout_s: float = TIMEOUT_S,
) -> Iterator[bytes]:
    """What a log has beyond its first ``beyond`` bytes, in pieces, however much that is.

    Also what was written since it was listed as ``log``. Nothing, if it has
    become shorter than ``beyond``. Raises as :func:`list_node_logs`, and
    between pieces, too.
    """
    # A node can be asked for the end of a log, not for a place in it; but it says
    # how long the log is as it reads it, and so where that end begins.
    wanted = log.size - beyond + _SLACK
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
    """How long the log is, from the banner; 0 without one, which an empty log has not."""
    length = 0
    line = answer.readline(_LONGEST_LINE)
    if not line.startswith(b"Container: "):
        return 0
    while line and line != b"LogContents:\n":
        name, _, value = line.partition(b":")
        if name == b"LogLength" and value.strip().isdigit():
            length = int(value)
        line = answer.readline(_LONGEST_LINE)
    return length


def _skip(answer: HTTPResponse, count: int) -> None:
    for _ in _pieces(answer, count):
        pass


def _pieces(answer: HTTPResponse, count: int) -> Iterator[bytes]:
    """The next ``count`` bytes; fewer if the answer ends before, as the log was cut."""
    while count > 0 and (piece := answer.read(min(count, _PIECE))):
        count -= len(piece)
        yield piece


def _without_banner(body: bytes, name: str) -> bytes:
    begin = _BANNER.search(body)
    end = body.rfind(b"End of LogType:" + name.encode())
    if begin is None or end < begin.end():
        # Hadoop 2 sends the bare text.
        return body
    return body[begin.end() : end]


def _get(node: str, path: str, timeout_s: float, accept: str = "application/json") -> bytes:
    with _opened(node, path, timeout_s, accept) as answer:
        return answer.read(LARGEST + (1 << 16))


@contextmanager
def _opened(node: str, path: str, timeout_s: float, accept: str) -> Iterator[HTTPResponse]:
    """The answer to a question; whatever goes wrong while it is read is told as ours."""
    request = urllib.request.Request(f"http://{node}{path}", headers={"Accept": accept})
    try:
        with urllib.request.urlopen(request, timeout=timeout_s) as answer:
            yield answer
    except urllib.error.HTTPError as exc:
        with exc:
            raise _said_no(exc, node, path) from exc
    except (OSError, HTTPException) as exc:
        raise UnreachableError(
            f"the NodeManager at {node} does not answer: {_why(exc)}",
            hint="its node may be lost; what it aggregated can be read after the job's end",
        ) from exc


def _why(exc: OSError | HTTPException) -> object:
    """What the system said, without the wrapping."""
    inner = exc.reason if isinstance(exc, urllib.error.URLError) else exc
    return getattr(inner, "strerror", None) or inner


def _said_no(exc: urllib.error.HTTPError, node: str, path: str) -> YtfError:
    if exc.code in (401, 403):
        return RefusedError(f"the NodeManager at {node} does not show {path}: {exc.reason}")
    if exc.code in (400, 404, 503):
        # It says 503 for a container that it has forgotten, and means it.
        return NotFoundError(
            f"the NodeManager at {node} has no {path}",
            hint="after a container's end its logs are aggregated, if the cluster does that",
        )
    return UnreachableError(f"the NodeManager at {node} answered {exc.code} for {path}")


def _as_list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]
