"""Reads the log files of a local job's tasks line by line, for ``ytf logs``."""

from __future__ import annotations

import contextlib
import mmap
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from ytf.backends.api import LogLine
from ytf.specs.ids import TaskId, task_id

_STREAMS = ("stdout", "stderr")
_CHUNK = 1 << 20
_LONGEST_LINE = 1 << 20
_POLL_S = 0.2
_CHECKED = 64
"""How many bytes before the offset are read again, to detect a rotation."""
_TAIL = 4096
"""How many bytes read last are kept, to find the position again after a log rotation."""


class LogFile:
    """Reads one stream of one attempt, each time from where the last read ended.

    The starter moves the beginning of a log that grows too long to ``<name>.1``.
    What was not read before is then read from there, and from what has stayed.
    """

    def __init__(self, path: Path, task: TaskId, attempt: int) -> None:
        self._path = path
        self._task = task
        self._attempt = attempt
        self._offset = -1
        self._partial = b""
        self._tail = b""

    def new_lines(self) -> Iterator[LogLine]:
        """Yield the lines that were completed since the last call."""
        rotated = self._path.with_name(self._path.name + ".1")
        if self._offset < 0:
            self._offset = 0
            yield from self._lines_of(rotated)
            self._offset = 0
        elif self._is_rotated():
            self._offset, already_read = _resume(self._tail, self._offset, rotated, self._path)
            yield from self._lines_of(rotated)
            self._offset = already_read
        yield from self._lines_of(self._path)

    def _is_rotated(self) -> bool:
        """Whether the bytes before the offset are not those that were read there."""
        size, known = _size(self._path), min(self._offset, len(self._tail), _CHECKED)
        if size <= self._offset:
            return size < self._offset
        # It may have been cut, and have grown beyond the offset since.
        before = _read_at(self._path, self._offset - known, known)
        return before != self._tail[len(self._tail) - known :]

    def rest(self) -> Iterator[LogLine]:
        """Yield a last line without a line ending, once no process writes any more."""
        if self._partial:
            yield self._line(self._partial)
            self._partial = b""

    def _lines_of(self, path: Path) -> Iterator[LogLine]:
        with contextlib.suppress(FileNotFoundError), open(path, "rb") as file:
            file.seek(self._offset)
            while chunk := file.read(_CHUNK):
                self._offset += len(chunk)
                self._tail = (self._tail + chunk)[-_TAIL:]
                *whole, self._partial = (self._partial + chunk).split(b"\n")
                for text in whole:
                    yield self._line(text)
                if len(self._partial) > _LONGEST_LINE:
                    # Limits our memory if a program never ends its lines.
                    yield from self.rest()

    def _line(self, text: bytes) -> LogLine:
        return LogLine(
            task=self._task,
            attempt=self._attempt,
            stream=self._path.name,
            text=text.removesuffix(b"\r").decode("utf-8", "replace"),
        )


def read_logs(root: Path, tasks: list[TaskId], *, is_over: Callable[[], bool]) -> Iterator[LogLine]:
    """Yield lines of these tasks (of all if the list is empty) below ``root``, until ``is_over``.

    Attempts that start later are found. Everything that was written before
    ``is_over`` returned True is read, including an incomplete last line.
    """
    wanted = set(tasks)
    files: dict[Path, LogFile] = {}
    while True:
        # Checked before reading, so that the last round reads everything.
        over = is_over()
        found_lines = False
        for path, task, attempt in _find_files(root, wanted):
            if path not in files:
                files[path] = LogFile(path, task, attempt)
        for file in files.values():
            for line in file.new_lines():
                found_lines = True
                yield line
        if over:
            for file in files.values():
                yield from file.rest()
            return
        if not found_lines:
            time.sleep(_POLL_S)


def _find_files(root: Path, wanted: set[TaskId]) -> list[tuple[Path, TaskId, int]]:
    found = []
    for directory in _subdirectories(root):
        group, _, index = directory.rpartition("-")
        if not group or not index.isdecimal():
            continue
        task = task_id(group, int(index))
        if wanted and task not in wanted:
            continue
        for attempt in _subdirectories(root / directory):
            if not attempt.isdecimal():
                continue
            for stream in _STREAMS:
                path = root / directory / attempt / stream
                if path.exists():
                    found.append((path, task, int(attempt)))
    return sorted(found, key=lambda each: (each[1].rpartition(":")[0], _index(each[1]), each[2]))


def _index(task: TaskId) -> int:
    return int(task.rpartition(":")[2])


def _subdirectories(path: Path) -> list[str]:
    try:
        with os.scandir(path) as entries:
            return [entry.name for entry in entries if entry.is_dir()]
    except FileNotFoundError:
        return []


def _resume(tail: bytes, offset: int, rotated: Path, current: Path) -> tuple[int, int]:
    """Return from where on the two files of a rotated log are new.

    ``tail`` are the bytes that were read last, ``offset`` is where they ended before
    the rotation. A reader that was nearly at the end finds them across both files.
    """
    size = _size(rotated)
    before = _read_at(rotated, max(size - len(tail), 0), len(tail))
    both = before + _read_at(current, 0, _CHUNK)
    # They cannot be behind where they were, whatever the rotation has dropped.
    found = both.rfind(tail, 0, max(len(before) + offset - size, 0))
    if found >= 0:
        return size, found + len(tail) - len(before)
    return _end_of(tail, rotated), 0


def _read_at(path: Path, offset: int, length: int) -> bytes:
    try:
        with open(path, "rb") as file:
            file.seek(offset)
            return file.read(length)
    except FileNotFoundError:
        return b""


def _end_of(tail: bytes, path: Path) -> int:
    """Return where ``tail`` ends in a file; 0 if it is not there, so that all counts as new.

    The starter copies only the end of a long log. So positions shift by an
    unknown length, and the copy may begin in the middle of ``tail``.
    """
    try:
        with open(path, "rb") as file, mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ) as data:
            found = data.rfind(tail)
            if found >= 0:
                return found + len(tail)
            begin = data[: len(tail)]
    except (FileNotFoundError, ValueError):
        # The file was removed, or it is empty and cannot be mapped.
        return 0
    lengths = range(len(tail) - 1, 0, -1)
    return next((length for length in lengths if begin.startswith(tail[-length:])), 0)


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0
