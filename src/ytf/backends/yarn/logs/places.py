"""The places where a running container's streams can be read: its starter, its NodeManager."""

from __future__ import annotations

import secrets
from collections.abc import Iterator

import msgspec

from ytf.backends.yarn.logs.streams import Half, Sizes, Stream
from ytf.errors import NotFoundError, UnreachableError
from ytf.hadoop.logs import NodeLog, list_node_logs, stream_node_log
from ytf.specs.names import TaskId
from ytf.specs.status import StarterPlace
from ytf.starter.auth import Signer
from ytf.starter.http import Answer, Channel, ChannelError, OutcomeUnknownError

_LIST_S = 2.0
"""How long a starter may take to say what there is. It answers in milliseconds; one behind a
firewall, or on a dead machine, never does, and then the next best place is waiting."""
_READ_S = 10.0
"""How long a piece may take: lines to a cluster may be slow."""
_PIECE = 1 << 20
_NODE_S = 3.0


class _Listed(msgspec.Struct, frozen=True):
    """What a starter tells of each half: ``stdout.1`` is the older one of stdout."""

    attempt: int
    stream: str
    size: int


_LIST = msgspec.json.Decoder(list[_Listed])


class StarterLogs:
    """A container's streams at its starter's control endpoint. Implements ``Place``.

    Keeps a connection open. For one thread at a time.
    """

    def __init__(self, starter: StarterPlace, signer: Signer) -> None:
        self._task = TaskId(starter.task)
        self._control = starter.control
        actor = f"client/{secrets.token_hex(8)}/{starter.container}"
        self._channel = Channel(f"http://{starter.control}", signer, actor)

    def sizes(self) -> Sizes:
        """What the container has of all its attempts."""
        answer = self._get("/control/v1/streams", _LIST_S)
        return {
            Half(
                Stream(self._task, each.attempt, each.stream.removesuffix(".1")),
                is_older=each.stream.endswith(".1"),
            ): each.size
            for each in _LIST.decode(answer.body)
        }

    def read(self, half: Half, offset: int) -> Iterator[bytes]:
        """A half from ``offset`` on."""
        stream = f"{half.stream.name}{'.1' if half.is_older else ''}"
        asked = f"/control/v1/logs?attempt={half.stream.attempt}&stream={stream}&limit={_PIECE}"
        end: int | None = None
        while end is None or offset < end:
            answer = self._get(f"{asked}&offset={offset}", _READ_S)
            if not answer.body:
                return
            # As it is now: of a program that never stops writing others are to be told as well.
            end = end or offset + len(answer.body) + _left(answer, offset)
            offset += len(answer.body)
            yield answer.body

    def close(self) -> None:
        """Close the connection; the next question opens another."""
        self._channel.close()

    def _get(self, path: str, timeout_s: float) -> Answer:
        try:
            answer = self._call(path, timeout_s)
        except ChannelError as exc:
            raise UnreachableError(
                f"the starter at {self._control} does not answer: {_cause(exc)}"
            ) from exc
        if answer.status == 404:
            raise NotFoundError(f"the starter at {self._control}: {answer.error()}")
        if answer.status != 200:
            raise UnreachableError(
                f"the starter at {self._control} answered {answer.status}: {answer.error()}"
            )
        return answer

    def _call(self, path: str, timeout_s: float) -> Answer:
        try:
            return self._channel.call("GET", path, timeout_s=timeout_s)
        except OutcomeUnknownError as exc:
            if isinstance(exc.__cause__, TimeoutError):
                raise
            # It closes a connection that was silent when others want to be served.
            return self._channel.call("GET", path, timeout_s=timeout_s)


def _left(answer: Answer, offset: int) -> int:
    """How much there is beyond an answer."""
    size = answer.headers.get("ytf-size", "0")
    return max(int(size) - offset - len(answer.body), 0) if size.isdecimal() else 0


def _cause(exc: ChannelError) -> str:
    """Why, without what the sentence around it says already."""
    cause = exc.__cause__ or exc
    return str(getattr(cause, "strerror", None) or cause)


class NodeLogs:
    """A container's streams at its NodeManager's web address. Implements ``Place``."""

    def __init__(self, node: str, container: str) -> None:
        self._node = node
        self._container = container
        self._listed: dict[Half, NodeLog] = {}

    def sizes(self) -> Sizes:
        """What the container has of all its attempts."""
        self._listed = {}
        for log in list_node_logs(self._node, self._container, _NODE_S):
            half = Half.of_file(log.name)
            if half is not None:
                self._listed[half] = log
        return {half: log.size for half, log in self._listed.items()}

    def read(self, half: Half, offset: int) -> Iterator[bytes]:
        """A half from ``offset`` on, of those that were there when last asked for sizes."""
        log = self._listed[half]
        return stream_node_log(self._node, self._container, log, beyond=offset)
