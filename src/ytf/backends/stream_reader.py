"""Turns the bytes of a task's stdout or stderr into lines, each exactly once, from any source.

On one machine the source is the files themselves. On YARN a stream can be read at
the task's starter and at its NodeManager while the container runs, and in HDFS
after the job. All three have the same files, byte for byte, so an offset into a file
that was read at one source is valid at the others.

A starter rotates a stream that grows too long: all of the file but its last bytes,
of a length that is limited, becomes ``<name>.1``. All offsets have then moved
towards the beginning, by a length that is not known to readers. A reader finds its
place again by the last bytes that it has read, in either file or across both.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Protocol

from ytf.backends.api import LogLine
from ytf.specs.ids import TaskId, group_of, index_of, task_id

_LONGEST_LINE = 1 << 20
_CHECKED = 64
"""How many bytes before the offset are read again, to detect a rotation."""
_REMEMBERED = 4096
"""How many bytes before the offset are kept, to find the place again after a rotation."""
_LEFT_BY_ROTATION = 1 << 16
"""A rotation leaves less than one block in the current file, and what comes meanwhile."""
_FIRST_WINDOW = 1 << 20
_WINDOW_GROWTH = 16
_FEWEST = 64
"""Fewer bytes than these could match anywhere."""
_FILE_NAME = re.compile(
    r"(?P<group>[A-Za-z0-9_]+)-(?P<index>\d+)\.(?P<attempt>\d+)\.(?P<stream>stdout|stderr)"
    r"(?P<rotated>\.1)?"
)


@dataclass(frozen=True, order=True)
class TaskStream:
    """The stdout or stderr of one attempt of a task."""

    task: TaskId
    attempt: int
    name: str


@dataclass(frozen=True)
class StreamFile:
    """One file of a stream: the one that is written to, or the rotated one before it."""

    stream: TaskStream
    is_rotated: bool = False

    @property
    def name(self) -> str:
        """The file's name in a container's log directory, on YARN."""
        stream = self.stream
        task = f"{group_of(stream.task)}-{index_of(stream.task)}"
        return f"{task}.{stream.attempt}.{stream.name}{'.1' if self.is_rotated else ''}"

    @classmethod
    def parse(cls, name: str) -> StreamFile | None:
        """The stream file with a name on YARN; None for files that are no task's stream."""
        found = _FILE_NAME.fullmatch(name)
        if found is None:
            return None
        task = task_id(found["group"], int(found["index"]))
        return cls(TaskStream(task, int(found["attempt"]), found["stream"]), bool(found["rotated"]))


FileSizes = Mapping[StreamFile, int]


class LogSource(Protocol):
    """Where the streams of one container, or of several, can be read.

    Both methods raise ``NotFoundError`` for what is not there (any more),
    ``UnreachableError`` and ``RefusedError``; :meth:`read` also between pieces.
    """

    def sizes(self) -> FileSizes:
        """The files that there are now, with their sizes."""
        ...

    def read(self, file: StreamFile, offset: int) -> Iterator[bytes]:
        """The bytes of a file from ``offset`` to its present end, in pieces."""
        ...


class _RotatedError(Exception):
    """The bytes before the offset have changed: the starter has rotated the stream."""


class StreamReader:
    """Reads one stream to its end, again and again, and keeps the offset between two reads.

    Each byte becomes part of a line once and in order, whichever source is read
    next, also if the starter rotates the stream in between, as long as the rotated
    file still has the byte.
    """

    def __init__(self, stream: TaskStream) -> None:
        self._current = StreamFile(stream)
        self._rotated = StreamFile(stream, is_rotated=True)
        self._file: StreamFile | None = None
        """The file that is being read; None before the first read."""
        self._offset = 0
        self._last = b""
        """The bytes before the offset."""
        self._partial = b""
        """The beginning of a line whose end has not been read yet."""
        self.has_begun = False
        """Whether any byte was read."""

    def read(self, source: LogSource, sizes: FileSizes) -> Iterator[LogLine]:
        """The new complete lines; ``sizes`` are the source's last answer."""
        yield from self.read_rotated(source, sizes)
        yield from self.read_current(source, sizes)

    def read_rotated(self, source: LogSource, sizes: FileSizes) -> Iterator[LogLine]:
        """The rest of the rotated file, which comes before the current one."""
        if self._file is None:
            self._file = self._rotated if self._rotated in sizes else self._current
        if self._file == self._rotated:
            try:
                yield from self._lines(self._next_bytes(source))
            except _RotatedError:
                yield from self._resume(source)
            else:
                self._begin_current()

    def read_current(self, source: LogSource, sizes: FileSizes) -> Iterator[LogLine]:
        """What is new in the current file, and before it what was rotated meanwhile."""
        size = sizes.get(self._current)
        if size is None or size == self._offset:
            return
        try:
            if size < self._offset:
                raise _RotatedError
            yield from self._lines(self._next_bytes(source))
        except _RotatedError:
            yield from self._resume(source)
            # If it is rotated once more meanwhile, the next read finds the place.
            with suppress(_RotatedError):
                yield from self._lines(self._next_bytes(source))

    def last_line(self) -> Iterator[LogLine]:
        """The last line if it has no line ending."""
        if self._partial:
            yield self._line(self._partial)
            self._partial = b""

    def _begin_current(self) -> None:
        self._file, self._offset, self._last = self._current, 0, b""

    def _resume(self, source: LogSource) -> Iterator[LogLine]:
        """The bytes of the rotated file that were not read before; then the current one is next."""
        sizes = source.sizes()
        if self._rotated not in sizes:
            self._begin_current()  # the starter had no room for it
            return
        already_read = self._already_read(source, sizes[self._rotated])
        if already_read > 0:
            self._file, self._offset = self._current, already_read
            return
        self._offset = find_resume_offset(
            self._last,
            lambda offset: source.read(self._rotated, offset),
            size=sizes[self._rotated],
            old_offset=self._offset,
        )
        self._file = self._rotated
        # Not checked for a rotation again: the place was found just now.
        yield from self._lines(source.read(self._rotated, self._offset))
        self._begin_current()

    def _already_read(self, source: LogSource, size: int) -> int:
        """How many bytes of the current file were read before a rotation left them there.

        ``size`` is that of the rotated file.
        """
        last = self._last
        before = b"".join(source.read(self._rotated, max(size - len(last), 0)))[: len(last)]
        both = before + _first_bytes(source.read(self._current, 0), _LEFT_BY_ROTATION)
        # They cannot be behind where they were, whatever the rotation has dropped.
        found = both.rfind(last, 0, max(len(before) + self._offset - size, 0))
        return found + len(last) - len(before) if found >= 0 else 0

    def _next_bytes(self, source: LogSource) -> Iterator[bytes]:
        """The bytes from the offset on; ``_RotatedError`` if those before it have changed."""
        assert self._file is not None
        # A rotation may have left some of the last bytes in the other file.
        expected = self._last[max(len(self._last) - min(_CHECKED, self._offset), 0) :]
        seen = b""
        for piece in source.read(self._file, self._offset - len(expected)):
            if len(seen) == len(expected):
                yield piece
                continue
            missing = len(expected) - len(seen)
            seen += piece[:missing]
            if not expected.startswith(seen):
                raise _RotatedError
            if len(piece) > missing:
                yield piece[missing:]
        if len(seen) < len(expected):
            raise _RotatedError

    def _lines(self, pieces: Iterable[bytes]) -> Iterator[LogLine]:
        for piece in pieces:
            self.has_begun = True
            self._offset += len(piece)
            self._last = (self._last + piece[-_REMEMBERED:])[-_REMEMBERED:]
            *complete, self._partial = (self._partial + piece).split(b"\n")
            for text in complete:
                yield self._line(text)
            if len(self._partial) > _LONGEST_LINE:
                # A program that never ends its lines must not fill our memory.
                yield from self.last_line()

    def _line(self, text: bytes) -> LogLine:
        stream = self._current.stream
        return LogLine(
            task=stream.task,
            attempt=stream.attempt,
            stream=stream.name,
            text=text.removesuffix(b"\r").decode("utf-8", "replace"),
        )


class StreamReaders:
    """The readers of the streams of ``tasks``, or of all tasks if that is empty.

    Several threads may use it, as long as no two read the same stream.
    """

    def __init__(self, tasks: Iterable[TaskId]) -> None:
        self._tasks = frozenset(tasks)
        self._readers: dict[TaskStream, StreamReader] = {}

    def wants(self, task: TaskId) -> bool:
        """Whether the streams of a task are to be read."""
        return not self._tasks or task in self._tasks

    def reader(self, stream: TaskStream) -> StreamReader | None:
        """The reader of a stream; None if the stream is not to be read."""
        if not self.wants(stream.task):
            return None
        return self._readers.setdefault(stream, StreamReader(stream))

    def read(self, source: LogSource) -> Iterator[LogLine]:
        """The new complete lines of all streams of a source, stream by stream."""
        sizes = source.sizes()
        for stream in sorted({file.stream for file in sizes}):
            reader = self.reader(stream)
            if reader is not None:
                yield from reader.read(source, sizes)

    def have_begun(self) -> bool:
        """Whether any byte of any stream was read."""
        return any(reader.has_begun for reader in self._readers.values())

    def last_lines(self) -> Iterator[LogLine]:
        """The last lines that have no line ending."""
        for stream in sorted(self._readers):
            yield from self._readers[stream].last_line()


def _first_bytes(pieces: Iterable[bytes], length: int) -> bytes:
    """At least so many bytes, if there are so many."""
    found: list[bytes] = []
    for piece in pieces:
        found.append(piece)
        length -= len(piece)
        if length <= 0:
            break
    return b"".join(found)


def find_resume_offset(
    last: bytes, read: Callable[[int], Iterator[bytes]], *, size: int, old_offset: int
) -> int:
    """The offset in a rotated file of ``size`` bytes after ``last``, the bytes read last.

    0, so that the whole file is read, if they are nowhere in it. ``read`` reads the
    file from an offset on; ``old_offset`` is where ``last`` ended before the rotation.
    Bytes only move towards the beginning, and starters check the size often. So the
    last of several matches is the right one, most likely near the end of the file,
    which is searched first. What lies behind ``old_offset`` is not read.
    """
    end = min(size, old_offset)
    window = _FIRST_WINDOW
    while True:
        begin = max(end - window, 0)
        data = _first_bytes(read(begin), old_offset - begin)
        found = data.rfind(last, 0, old_offset - begin)
        if found >= 0:
            return begin + found + len(last)
        if begin + len(data) < old_offset and _is_cut_at_end(last, data):
            return begin + len(data)
        if begin == 0:
            return _read_at_beginning(last, data)
        window *= _WINDOW_GROWTH


def _is_cut_at_end(last: bytes, data: bytes) -> bool:
    """Whether ``data`` ends within ``last``: bytes written during the rotation are lost."""
    return any(data.endswith(last[:length]) for length in range(len(last) - 1, _FEWEST, -1))


def _read_at_beginning(last: bytes, data: bytes) -> int:
    """How many bytes at the beginning of ``data`` were read: the rotation dropped those before."""
    begin = data[: len(last)]
    lengths = range(len(last) - 1, _FEWEST, -1)
    return next((length for length in lengths if begin.startswith(last[-length:])), 0)
