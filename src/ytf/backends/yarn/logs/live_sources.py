"""Reads the logs of running containers: at their starters, or at their NodeManagers."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import msgspec

from ytf.backends import master_api
from ytf.backends.stream_reader import FileSizes, StreamFile, TaskStream
from ytf.errors import NotFoundError, RefusedError, UnreachableError
from ytf.hadoop.logs import NodeLog, list_node_logs, stream_node_log
from ytf.specs.ids import TaskId, task_id
from ytf.specs.status import JobStatus, StarterAddress
from ytf.wire.http_client import Answer, ChannelError, SignedChannel, UnansweredError
from ytf.wire.signing import Signer
from ytf.wire.untrusted import read_int

if TYPE_CHECKING:
    from ytf.backends.yarn.job.job_handle import YarnJobHandle

_LIST_S = 2.0
"""Time limit for a starter's list of streams. It answers in milliseconds; one behind a firewall or
on a dead machine never does, and then its NodeManager is read."""
_READ_S = 10.0
"""Time limit for one piece of a log: the connection to a cluster may be slow."""
_PIECE = 1 << 20
_NODE_S = 3.0
_MASTER_S = 2.0
"""Time limit for the master's list of starters: nodes have the same lines meanwhile."""


class _ListedStream(msgspec.Struct, frozen=True):
    """One file in a starter's list of streams; ``stdout.1`` is the rotated one of stdout."""

    attempt: int
    stream: str
    size: int


class StarterLogSource:
    """A container's streams at its starter's control endpoint. Implements ``LogSource``.

    Keeps a connection open. Not thread-safe.
    """

    def __init__(self, starter: StarterAddress, signer: Signer) -> None:
        self._task = TaskId(starter.task)
        self._control = starter.control
        actor = f"client/{secrets.token_hex(8)}/{starter.container}"
        self._channel = SignedChannel(f"http://{starter.control}", signer, actor)

    def sizes(self) -> FileSizes:
        """The files of all attempts in the container."""
        answer = self._get("/control/v1/streams", _LIST_S)
        return {
            StreamFile(
                TaskStream(self._task, each.attempt, each.stream.removesuffix(".1")),
                is_rotated=each.stream.endswith(".1"),
            ): each.size
            for each in master_api.decode(answer, list[_ListedStream])
        }

    def read(self, file: StreamFile, offset: int) -> Iterator[bytes]:
        """The bytes of a file from ``offset`` on."""
        stream = f"{file.stream.name}{'.1' if file.is_rotated else ''}"
        query = f"attempt={file.stream.attempt}&stream={stream}&limit={_PIECE}"
        end: int | None = None
        while end is None or offset < end:
            answer = self._get(f"/control/v1/logs?{query}&offset={offset}", _READ_S)
            if not answer.body:
                return
            # The end as it is now: other streams must be read, too, while this one grows.
            end = end or offset + len(answer.body) + _bytes_left(answer, offset)
            offset += len(answer.body)
            yield answer.body

    def close(self) -> None:
        """Close the connection; the next call opens another."""
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
        except UnansweredError as exc:
            if isinstance(exc.__cause__, TimeoutError):
                raise
            # A starter closes an idle connection when other clients want to be served.
            return self._channel.call("GET", path, timeout_s=timeout_s)


def _bytes_left(answer: Answer, offset: int) -> int:
    """How many bytes the file has after those in an answer."""
    try:
        size = read_int(answer.headers.get("ytf-size", "0"))
    except ValueError:  # headers are not signed
        return 0
    return max(size - offset - len(answer.body), 0)


def _cause(exc: ChannelError) -> str:
    """The operating system's reason, without the channel's sentence around it."""
    cause = exc.__cause__ or exc
    return str(getattr(cause, "strerror", None) or cause)


class NodeLogSource:
    """A container's streams at its NodeManager's web address. Implements ``LogSource``."""

    def __init__(self, node: str, container: str) -> None:
        self._node = node
        self._container = container
        self._listed: dict[StreamFile, NodeLog] = {}

    def sizes(self) -> FileSizes:
        """The files of all attempts in the container."""
        self._listed = {}
        for log in list_node_logs(self._node, self._container, _NODE_S):
            file = StreamFile.parse(log.name)
            if file is not None:
                self._listed[file] = log
        return {file: log.size for file, log in self._listed.items()}

    def read(self, file: StreamFile, offset: int) -> Iterator[bytes]:
        """The bytes of a file from ``offset`` on; the last call of :meth:`sizes` listed it."""
        log = self._listed[file]
        return stream_node_log(self._node, self._container, log, beyond=offset)


@dataclass(frozen=True, kw_only=True)
class ContainerLocation:
    """A container, and where its logs can be read.

    ``starter`` is None before it has registered and after its end. ``web``, the
    NodeManager's web address, is None if it is not known. ``is_over``: the task has
    ended, and its starter ends at any moment, perhaps before the master reports it.
    """

    task: TaskId
    container: str
    node: str | None
    web: str | None
    starter: StarterAddress | None
    is_over: bool = False
    has_ended: bool = False


class ContainerLocator:
    """Finds the containers of a running job's tasks, and their starters, with its master's help.

    Users who may not take part in the job get no starters. The master's last answer
    stays known while it does not answer.
    """

    def __init__(self, job: YarnJobHandle) -> None:
        self._job = job
        self._secret: bytes | None = None
        self._starters: dict[str, StarterAddress] = {}
        self._webs: dict[str, str] = {}
        self._status: JobStatus | None = None
        self.master_error: str | None = None
        """Why the last call to the master failed; None if it did not."""

    def open_starter(self, starter: StarterAddress) -> StarterLogSource:
        """The log source of one of the known starters."""
        assert self._secret is not None, "without the job's secret no starter is known"
        return StarterLogSource(starter, Signer(self._secret))

    def locate(self, status: JobStatus) -> list[ContainerLocation]:
        """The containers of the tasks, by what is known now."""
        if status != self._status or self._lacks_some(status) or self._knows_ended(status):
            self._ask_master()
            self._status = status
        for task in status.tasks:
            # A status that comes from the journal, while the master is silent, has no URLs.
            if task.container is not None and task.log_url is not None:
                self._webs[task.container] = urlsplit(task.log_url).netloc
        return [
            ContainerLocation(
                task=task_id(task.group, task.index),
                container=task.container,
                node=task.node,
                web=self._webs.get(task.container),
                starter=self._starters.get(task.container),
                is_over=task.state.is_final,
                has_ended=task.state.is_final and task.container not in self._starters,
            )
            for task in status.tasks
            if task.container is not None
        ]

    def _lacks_some(self, status: JobStatus) -> bool:
        """Whether a task runs whose starter is not known: no master answered when it began."""
        return any(
            task.port is not None
            and not task.state.is_final
            and task.container not in self._starters
            for task in status.tasks
        )

    def _knows_ended(self, status: JobStatus) -> bool:
        """Whether a task has ended whose starter still ran: no status tells when that ends."""
        return any(
            task.state.is_final and task.container in self._starters for task in status.tasks
        )

    def _ask_master(self) -> None:
        self.master_error = None
        try:
            master = self._job.find_master()
            self._secret = self._job.secret()
            if master is None or self._secret is None:
                return
            answer = master_api.signed_call(
                master.url, self._secret, "GET", "/client/v1/starters", b"", _MASTER_S
            )
        except (NotFoundError, RefusedError):
            return  # the job has ended, or we may not take part in it
        except ChannelError as exc:
            self.master_error = str(exc) or "it closed the connection"
            return
        if answer.status == 200:
            self._starters = {
                each.container: each for each in master_api.decode(answer, list[StarterAddress])
            }
