"""Lines of the tasks' logs: from their nodes while the job runs, gathered in HDFS after it.

A log's own name tells whose it is (``<group>-<index>.<attempt>.<stream>``), so
that those of attempts in containers long gone are found as well.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from ytf.backends.api import LogLine
from ytf.errors import NotFoundError, RefusedError, UnreachableError
from ytf.hadoop.logs import (
    ByteSource,
    NodeLog,
    find_aggregated,
    list_node_logs,
    read_container_logs,
    stream_node_log,
)
from ytf.specs.names import TaskId, task_id
from ytf.specs.status import JobStatus
from ytf.storage.sources import FileTree

if TYPE_CHECKING:
    from ytf.backends.yarn.handle import YarnJob

_POLL_S = 0.5
_LONGEST_LINE = 1 << 20
_NAME = re.compile(
    r"(?P<group>[A-Za-z0-9_]+)-(?P<index>\d+)\.(?P<attempt>\d+)\.(?P<stream>stdout|stderr)"
    r"(?P<older>\.1)?"
)


@dataclass(frozen=True, order=True)
class Stream:
    """One stream of one attempt."""

    task: TaskId
    attempt: int
    name: str


class _Reader:
    """Makes lines of one stream's bytes, and knows how far it has come.

    A stream may have an older half, which is read first and once. ``taken`` is
    how many bytes were taken of the half that is being read.
    """

    def __init__(self, stream: Stream) -> None:
        self._stream = stream
        self._partial = b""
        self._past_older = False
        self.taken = 0

    def takes(self, *, older: bool) -> bool:
        """Whether there may be news in this half."""
        return not (older and self._past_older)

    def done_with_older(self) -> None:
        """Go on to the newest half; the older one was taken, or there is none."""
        if not self._past_older:
            self._past_older, self.taken = True, 0

    def take(self, pieces: Iterable[bytes]) -> Iterator[LogLine]:
        for piece in pieces:
            self.taken += len(piece)
            *whole, self._partial = (self._partial + piece).split(b"\n")
            for text in whole:
                yield self._line(text)
            if len(self._partial) > _LONGEST_LINE:
                # A program that never ends its lines must not fill our memory.
                yield from self.rest()

    def rest(self) -> Iterator[LogLine]:
        """A last line without an ending."""
        if self._partial:
            yield self._line(self._partial)
            self._partial = b""

    def _line(self, text: bytes) -> LogLine:
        return LogLine(
            task=self._stream.task,
            attempt=self._stream.attempt,
            stream=self._stream.name,
            text=text.removesuffix(b"\r").decode("utf-8", "replace"),
        )


def parse_name(name: str) -> tuple[Stream, bool] | None:
    """Whose log a file is, and whether its older half; None if it is none of a program's."""
    found = _NAME.fullmatch(name)
    if found is None:
        return None
    task = task_id(found["group"], int(found["index"]))
    return Stream(task, int(found["attempt"]), found["stream"]), bool(found["older"])


def read_logs(job: YarnJob, tasks: list[TaskId], *, follow: bool) -> Iterator[LogLine]:
    """Lines of these tasks (all if none is named), as they are now or until the job's end."""
    readers = _Readers(frozenset(tasks))
    while True:
        # Asked before reading, so that the last look sees all there is.
        status = job.status()
        if status.state.is_final:
            job.wait_for_logs()
            yield from _gathered(job, readers)
            yield from readers.rest()
            return
        told = False
        for line in _live(status, readers):
            told = True
            yield line
        if not follow:
            yield from readers.rest()
            return
        if not told:
            time.sleep(_POLL_S)


class _Readers:
    """The readers of the streams that are wanted."""

    def __init__(self, tasks: frozenset[TaskId]) -> None:
        self._tasks = tasks
        self._readers: dict[Stream, _Reader] = {}

    def of(self, stream: Stream) -> _Reader | None:
        if self._tasks and stream.task not in self._tasks:
            return None
        return self._readers.setdefault(stream, _Reader(stream))

    def rest(self) -> Iterator[LogLine]:
        for stream in sorted(self._readers):
            yield from self._readers[stream].rest()


def _live(status: JobStatus, readers: _Readers) -> Iterator[LogLine]:
    for task in status.tasks:
        if task.container is None or task.log_url is None:
            continue
        node = urlsplit(task.log_url).netloc
        try:
            yield from _of_container(node, task.container, readers)
        except (NotFoundError, RefusedError, UnreachableError):
            # It does not run yet or any more; what it wrote is gathered at the job's end.
            continue


def _of_container(node: str, container: str, readers: _Readers) -> Iterator[LogLine]:
    found = {each.name: each for each in list_node_logs(node, container)}
    for name in sorted(found):
        parsed = parse_name(name)
        reader = None if parsed is None or parsed[1] else readers.of(parsed[0])
        if reader is None:
            continue
        older = found.get(f"{name}.1")
        if older is not None and reader.takes(older=True):
            yield from _news(node, container, older, reader)
        reader.done_with_older()
        yield from _news(node, container, found[name], reader)


def _news(node: str, container: str, log: NodeLog, reader: _Reader) -> Iterator[LogLine]:
    if log.size < reader.taken:
        reader.taken = 0  # its starter has cut it
    if log.size > reader.taken:
        pieces = stream_node_log(node, container, log, beyond=reader.taken)
        yield from reader.take(pieces)


def _gathered(job: YarnJob, readers: _Readers) -> Iterator[LogLine]:
    tree = FileTree(job.files)
    for file in find_aggregated(tree, job.rm.conf, job.owner, job.job):
        # Twice, as a node sorts by name, which puts an older half behind its newest:
        # see AggregatedLogFormat.LogValue.
        for older in (True, False):
            yield from _of_file(tree.source(file.path), readers, older=older)


def _of_file(source: ByteSource, readers: _Readers, *, older: bool) -> Iterator[LogLine]:
    """What was not taken before of the older halves, or of the newest, in a gathered file."""
    for log in read_container_logs(source):
        parsed = parse_name(log.name)
        reader = None if parsed is None or parsed[1] != older else readers.of(parsed[0])
        if reader is None or not reader.takes(older=older):
            continue
        if not older:
            reader.done_with_older()
        if log.size < reader.taken:
            reader.taken = 0  # its starter has cut it
        yield from reader.take(_beyond(log.pieces, reader.taken))


def _beyond(pieces: Iterator[bytes], taken: int) -> Iterator[bytes]:
    """The bytes that were not taken before."""
    for piece in pieces:
        if taken >= len(piece):
            taken -= len(piece)
        else:
            yield piece[taken:]
            taken = 0
