"""One stream of one attempt, told line by line and once, wherever its bytes are read.

What a task writes lies first where its starter and its NodeManager can read it
and at last in HDFS. All three show it as the same halves, byte for byte, so
how far a stream was told is the same place in each of them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Protocol

from ytf.backends.api import LogLine
from ytf.backends.yarn.logs.rejoining import REMEMBERED, find_again
from ytf.specs.names import TaskId, group_of, index_of, task_id

_LONGEST_LINE = 1 << 20
_PROOF = 64
"""How many bytes that were told before are read again, to see that they are still there."""
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


@dataclass(frozen=True)
class Half:
    """The newest part of a stream, or the older one that its starter cut off it."""

    stream: Stream
    is_older: bool = False

    @property
    def file(self) -> str:
        """How it is called in a container's log directory."""
        stream = self.stream
        task = f"{group_of(stream.task)}-{index_of(stream.task)}"
        return f"{task}.{stream.attempt}.{stream.name}{'.1' if self.is_older else ''}"

    @classmethod
    def of_file(cls, name: str) -> Half | None:
        """Whose log a file is; None if it is none of a program's."""
        found = _NAME.fullmatch(name)
        if found is None:
            return None
        task = task_id(found["group"], int(found["index"]))
        return cls(Stream(task, int(found["attempt"]), found["stream"]), bool(found["older"]))


Sizes = Mapping[Half, int]


class Place(Protocol):
    """Where the streams of a container, or of several, can be read.

    Both raise ``NotFoundError`` for what is not there (any more),
    ``UnreachableError`` and ``RefusedError``; reading does between pieces, too.
    """

    def sizes(self) -> Sizes:
        """What there is now."""
        ...

    def read(self, half: Half, offset: int) -> Iterator[bytes]:
        """What a half has from ``offset`` on, in pieces, up to its end as it is now."""
        ...


class _CutError(Exception):
    """What was told of a half is not there any more: its starter has cut it."""


class Reader:
    """Makes lines of a stream's bytes, and knows how far it has come.

    Each byte is told once, in its order, whatever place it is asked to look at
    next, and also when the starter has cut the stream in between, as long as
    that has kept it.
    """

    def __init__(self, stream: Stream) -> None:
        self._newest = Half(stream)
        self._older = Half(stream, is_older=True)
        self._at: Half | None = None
        """The half that is being read; None before the first look."""
        self._taken = 0
        """How many bytes were taken of it."""
        self._last = b""
        """The last of these."""
        self._partial = b""
        self.has_begun = False
        """Whether anything was taken of it."""

    def news(self, place: Place, sizes: Sizes) -> Iterator[LogLine]:
        """The lines that have become whole; ``sizes`` is what the place just had."""
        yield from self.older_news(place, sizes)
        yield from self.newest_news(place, sizes)

    def older_news(self, place: Place, sizes: Sizes) -> Iterator[LogLine]:
        """What is left to tell of the older half, which comes before the newest."""
        if self._at is None:
            self._at = self._older if self._older in sizes else self._newest
        if self._at == self._older:
            try:
                yield from self._lines(self._onward(place))
            except _CutError:
                yield from self._rejoin(place)
            self._begin_newest()

    def newest_news(self, place: Place, sizes: Sizes) -> Iterator[LogLine]:
        """What is new in the newest half, and before it what was cut off meanwhile."""
        size = sizes.get(self._newest)
        if size is None or size == self._taken:
            return
        try:
            if size < self._taken:
                raise _CutError
            yield from self._lines(self._onward(place))
        except _CutError:
            yield from self._rejoin(place)
            self._begin_newest()
            yield from self._lines(self._onward(place))

    def rest(self) -> Iterator[LogLine]:
        """A last line without an ending."""
        if self._partial:
            yield self._line(self._partial)
            self._partial = b""

    def _begin_newest(self) -> None:
        self._at, self._taken, self._last = self._newest, 0, b""

    def _rejoin(self, place: Place) -> Iterator[LogLine]:
        """What the older half has of bytes that were not told when it was cut off."""
        sizes = place.sizes()
        if self._older not in sizes:
            self._begin_newest()  # the starter had no room for it
            return
        self._taken = find_again(
            self._last,
            lambda offset: place.read(self._older, offset),
            size=sizes[self._older],
            most=self._taken,
        )
        self._at = self._older
        # What was just found is not doubted.
        yield from self._lines(place.read(self._older, self._taken))

    def _onward(self, place: Place) -> Iterator[bytes]:
        """The bytes beyond those taken, once it is seen that these are still there."""
        assert self._at is not None
        proof = self._last[-_PROOF:]
        seen = b""
        for piece in place.read(self._at, self._taken - len(proof)):
            if len(seen) == len(proof):
                yield piece
                continue
            missing = len(proof) - len(seen)
            seen += piece[:missing]
            if not proof.startswith(seen):
                raise _CutError
            if len(piece) > missing:
                yield piece[missing:]
        if len(seen) < len(proof):
            raise _CutError

    def _lines(self, pieces: Iterable[bytes]) -> Iterator[LogLine]:
        for piece in pieces:
            self.has_begun = True
            self._taken += len(piece)
            self._last = (self._last + piece[-REMEMBERED:])[-REMEMBERED:]
            *whole, self._partial = (self._partial + piece).split(b"\n")
            for text in whole:
                yield self._line(text)
            if len(self._partial) > _LONGEST_LINE:
                # A program that never ends its lines must not fill our memory.
                yield from self.rest()

    def _line(self, text: bytes) -> LogLine:
        stream = self._newest.stream
        return LogLine(
            task=stream.task,
            attempt=stream.attempt,
            stream=stream.name,
            text=text.removesuffix(b"\r").decode("utf-8", "replace"),
        )


class Readers:
    """The readers of the streams that are wanted: those of ``tasks``, of all if there is none.

    For several threads, as long as no two read the same stream.
    """

    def __init__(self, tasks: Iterable[TaskId]) -> None:
        self._tasks = frozenset(tasks)
        self._readers: dict[Stream, Reader] = {}

    def wants(self, task: TaskId) -> bool:
        """Whether anything of a task is to be told."""
        return not self._tasks or task in self._tasks

    def of(self, stream: Stream) -> Reader | None:
        """The reader of a stream; None if it is not wanted."""
        if not self.wants(stream.task):
            return None
        return self._readers.setdefault(stream, Reader(stream))

    def news(self, place: Place) -> Iterator[LogLine]:
        """What a place has that was not told yet, stream by stream."""
        sizes = place.sizes()
        for stream in sorted({half.stream for half in sizes}):
            reader = self.of(stream)
            if reader is not None:
                yield from reader.news(place, sizes)

    def have_begun(self) -> bool:
        """Whether anything at all was told."""
        return any(reader.has_begun for reader in self._readers.values())

    def rest(self) -> Iterator[LogLine]:
        """Last lines without an ending."""
        for stream in sorted(self._readers):
            yield from self._readers[stream].rest()
