"""Reads the logs of containers from the best source that answers, several containers at a time.

::

    starter ──(does not answer)──▶ NodeManager ──(does not answer either)──▶ a notice to the user
       ▲──────────(tried again, after ever longer pauses)──┴──────────────────────┘

A starter has what was written a moment ago. The NodeManager has the same files,
also after the container's end. After the job they are in HDFS: see ``aggregated``.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from queue import Empty, Full, Queue, SimpleQueue
from threading import Thread

from ytf.backends.api import CheckInterrupt, LogLine, never_interrupted
from ytf.backends.stream_reader import StreamReaders
from ytf.backends.yarn.logs.live_sources import ContainerLocation, NodeLogSource, StarterLogSource
from ytf.errors import NotFoundError, RefusedError, UnreachableError
from ytf.specs.status import StarterAddress

MAX_THREADS = 32
_SILENCE_S = 2.0
"""How long a source may not answer before the user is told: containers end, and nodes pause."""
_FIRST_PAUSE_S = 1.0
_LONGEST_PAUSE_S = 30.0
_LONGEST_PAUSE_BEFORE_BEGIN_S = 4.0
"""For a container that is not running yet: its node writes a traceback to its own log each time
that it is asked, and localizing an environment may take minutes."""
_BATCH_LINES = 500
_MAX_BATCHES = 16
"""Batches that may wait for the reader."""
_CLOSE_CHECK_S = 0.2

Clock = Callable[[], float]
OpenStarter = Callable[[StarterAddress], StarterLogSource]
"""Opens the log source of a starter with the job's secret."""


@dataclass(frozen=True)
class LogNotice:
    """A message to the user. Of messages with the same ``kind`` only the first is shown."""

    text: str
    kind: str | None = None


class _Backoff:
    """When a source that did not answer, or had nothing, may be called again."""

    def __init__(self, clock: Clock, longest_s: float = _LONGEST_PAUSE_S) -> None:
        self._clock = clock
        self._longest_s = longest_s
        self._next_s = _FIRST_PAUSE_S
        self._until = 0.0

    @property
    def is_over(self) -> bool:
        return self._clock() >= self._until

    def begin(self) -> None:
        self._until = self._clock() + self._next_s
        self._next_s = min(self._next_s * 2, self._longest_s)

    def reset(self) -> None:
        self._next_s, self._until = _FIRST_PAUSE_S, 0.0


class ContainerLogReader:
    """Reads the logs of one container, again and again. Not thread-safe.

    ``notify_at_once``: a notice that no source answers is due at once, not only
    when that has lasted for a moment.
    """

    def __init__(
        self,
        location: ContainerLocation,
        readers: StreamReaders,
        open_starter: OpenStarter | None = None,
        *,
        notify_at_once: bool = False,
        clock: Clock = time.monotonic,
    ) -> None:
        self.location = location
        """May be replaced by newer knowledge."""
        self.is_done = False
        """Whether more of the container can come from HDFS only."""
        self.has_read = False
        """Whether a source was read to its end."""
        self._readers = readers
        self._open_starter = open_starter
        self._silence_s = 0.0 if notify_at_once else _SILENCE_S
        self._clock = clock
        self._starter: tuple[StarterAddress, StarterLogSource] | None = None
        self._starter_backoff = _Backoff(clock)
        self._node_backoff = _Backoff(clock)
        self._begin_backoff = _Backoff(clock, _LONGEST_PAUSE_BEFORE_BEGIN_S)
        # Since when they do not answer, and their first error.
        self._starter_failure: tuple[float, str] | None = None
        self._node_failure: tuple[float, str] | None = None
        self._is_notified = False

    def read(self) -> Iterator[LogLine | LogNotice]:
        """The new lines, and notices of sources that do not answer."""
        # Taken once: if it says that the container has ended, this read is the last one.
        location = self.location
        if location.starter is not None and self._starter_backoff.is_over:
            called_at = self._clock()
            try:
                yield from self._readers.read(self._starter_source(location.starter))
            except (NotFoundError, UnreachableError) as exc:
                self._starter_backoff.begin()
                self._starter_failure = self._starter_failure or (called_at, str(exc))
            else:
                self._starter_backoff.reset()
                self._starter_failure = None
                self._node_answered()
                self.has_read = True
                return
        yield from self._read_node(location)

    @property
    def is_node_silent(self) -> bool:
        """Whether the last call to its node failed."""
        return self._node_failure is not None

    def close(self) -> None:
        """Close the connection to the starter."""
        if self._starter is not None:
            self._starter[1].close()
            self._starter = None

    def _starter_source(self, starter: StarterAddress) -> StarterLogSource:
        if self._starter is None or self._starter[0] != starter:
            self.close()
            assert self._open_starter is not None
            self._starter = starter, self._open_starter(starter)
        return self._starter[1]

    def _read_node(self, location: ContainerLocation) -> Iterator[LogLine | LogNotice]:
        if location.web is None:
            self.is_done = location.has_ended
            if location.starter is None and not location.has_ended:
                yield LogNotice(
                    f"the log of {location.task} on {_node(location)} cannot be read now:"
                    " only the master knows the address of its node, and it does not answer",
                    kind="unknown node",
                )
            return
        may_have_begun = location.has_ended or self._begin_backoff.is_over
        if not self._node_backoff.is_over or not may_have_begun:
            return
        called_at = self._clock()
        try:
            yield from self._readers.read(NodeLogSource(location.web, location.container))
        except NotFoundError:
            # It has not begun, or the node has forgotten it: then HDFS has its logs later.
            self._begin_backoff.begin()
            self.is_done = location.has_ended
        except (RefusedError, UnreachableError) as exc:
            self._node_backoff.begin()
            self._node_failure = self._node_failure or (called_at, str(exc))
            yield from self._notice_unreadable(location)
            return
        else:
            self._begin_backoff.reset()
            self.is_done = location.has_ended
            self.has_read = True
        self._node_answered()
        if location.starter is not None and not location.is_over:
            yield from self._notice_starter_silent(location)

    def _node_answered(self) -> None:
        self._node_backoff.reset()
        self._node_failure = None
        self._is_notified = False

    def _lasts(self, failure: tuple[float, str] | None) -> bool:
        return failure is not None and self._clock() - failure[0] >= self._silence_s

    def _notice_starter_silent(self, location: ContainerLocation) -> Iterator[LogNotice]:
        if self._starter_failure is not None and self._lasts(self._starter_failure):
            yield LogNotice(
                f"{self._starter_failure[1]}; what {location.task} writes on {_node(location)} is"
                " read from its NodeManager, a moment later (so are others that cannot be reached"
                " from here)",
                kind="starter silent",
            )

    def _notice_unreadable(self, location: ContainerLocation) -> Iterator[LogNotice]:
        if self._is_notified or not self._lasts(self._node_failure) or self._node_failure is None:
            return
        self._is_notified = True
        reasons = [self._node_failure[1]]
        if self._starter_failure is not None and location.starter is not None:
            reasons.insert(0, self._starter_failure[1])
        then = (
            "what was not read yet may be lost with its node"
            if location.has_ended
            else "the other logs are read on, and this one is tried again"
        )
        yield LogNotice(
            f"the log of {location.task} on {_node(location)} cannot be read:"
            f" {', and '.join(reasons)}; {then}"
        )


def _node(location: ContainerLocation) -> str:
    return location.node or location.web or "its node"


Batch = list[LogLine | LogNotice]


class ReaderGoneError(Exception):
    """The reader of a :class:`LogPipe` has closed it."""


class LogPipe:
    """Passes lines and notices from threads to one reader. A slow reader holds up the threads."""

    def __init__(self) -> None:
        self._queue: Queue[Batch | BaseException | None] = Queue(_MAX_BATCHES)
        self._is_closed = False

    def put(self, item: Batch | BaseException | None) -> None:
        """Pass a batch, an error to be raised at the reader's, or None: the end."""
        while not self._is_closed:
            with suppress(Full):
                return self._queue.put(item, timeout=_CLOSE_CHECK_S)
        raise ReaderGoneError

    def put_all(self, reader: ContainerLogReader) -> None:
        """Read a container once and pass what is new."""
        batch: Batch = []
        try:
            for item in reader.read():
                batch.append(item)
                if len(batch) == _BATCH_LINES:
                    self.put(batch)
                    batch = []
        finally:
            if batch:
                self.put(batch)

    def items(self, check: CheckInterrupt = never_interrupted) -> Iterator[LogLine | LogNotice]:
        """The lines and notices, until the end. Called by the reader, as ``check`` is."""
        while (item := self._next(check)) is not None:
            if isinstance(item, BaseException):
                raise item
            yield from item

    def _next(self, check: CheckInterrupt) -> Batch | BaseException | None:
        while True:
            with suppress(Empty):
                return self._queue.get(timeout=_CLOSE_CHECK_S)
            check()

    def close(self) -> None:
        """Stop reading: threads that put something get ``ReaderGoneError``."""
        self._is_closed = True


def read_once(readers: Sequence[ContainerLogReader]) -> Iterator[LogLine | LogNotice]:
    """What these containers have now, in their order, though several are read at a time."""
    pipes = [LogPipe() for _ in readers]
    work: SimpleQueue[tuple[ContainerLogReader, LogPipe]] = SimpleQueue()
    for each in zip(readers, pipes, strict=True):
        work.put(each)

    def run() -> None:
        while True:
            try:
                reader, pipe = work.get_nowait()
            except Empty:
                return
            try:
                _read_to_end(reader, pipe)
            except ReaderGoneError:
                return
            finally:
                reader.close()

    # Daemon threads, not a pool: the interpreter must not wait for a source that hangs.
    for _ in readers[:MAX_THREADS]:
        Thread(target=run, daemon=True).start()
    try:
        for pipe in pipes:
            yield from pipe.items()
    finally:
        for pipe in pipes:
            pipe.close()


def _read_to_end(reader: ContainerLogReader, pipe: LogPipe) -> None:
    try:
        pipe.put_all(reader)
    except ReaderGoneError:
        raise
    except Exception as exc:
        pipe.put(exc)
    pipe.put(None)
