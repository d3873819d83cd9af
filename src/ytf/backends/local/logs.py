"""Lines of the tasks' logs, as they are now or as they come."""

from __future__ import annotations

import contextlib
import mmap
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from ytf.backends.api import LogLine
from ytf.specs.names import TaskId, task_id

_STREAMS = ("stdout", "stderr")
_CHUNK = 1 << 20
_LONGEST_LINE = 1 << 20
_POLL_S = 0.2
_TAIL = 4096
"""Bytes by which the place is found again where reading ended, once they have moved."""


class LogFile:
    """One stream of one attempt, read from where the last look ended.

    A log that grows too long is copied to ``<name>.1`` and cut to nothing by
    its starter; what was not read before is then read from the copy.
    """

    def __init__(self, path: Path, task: TaskId, attempt: int) -> None:
        self._path = path
        self._task = task
        self._attempt = attempt
        self._offset = -1
        self._partial = b""
        self._tail = b""

    def new_lines(self) -> Iterator[LogLine]:
        """The lines that have become whole."""
        older = self._path.with_name(self._path.name + ".1")
        if self._offset < 0:
            self._offset = 0
            yield from self._lines_of(older)
            self._offset = 0
        elif _size(self._path) < self._offset:
            self._offset = _end_of(self._tail, older)
            yield from self._lines_of(older)
            self._offset = 0
        yield from self._lines_of(self._path)

    def rest(self) -> Iterator[LogLine]:
        """A last line without an ending, once nobody writes any more."""
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
                    # A program that never ends its lines must not fill our memory.
                    yield from self.rest()

    def _line(self, text: bytes) -> LogLine:
        return LogLine(
            task=self._task,
            attempt=self._attempt,
            stream=self._path.name,
            text=text.removesuffix(b"\r").decode("utf-8", "replace"),
        )


def read_logs(root: Path, tasks: list[TaskId], *, is_over: Callable[[], bool]) -> Iterator[LogLine]:
    """Lines of these tasks (all if none is named) below ``root``, until ``is_over``.

    Attempts that appear later are found. Whatever was written before
    ``is_over`` said so is told, an unfinished last line included.
    """
    wanted = set(tasks)
    files: dict[Path, LogFile] = {}
    while True:
        # Asked before reading, so that the last look sees all there is.
        over = is_over()
        told = False
        for path, task, attempt in _found(root, wanted):
            if path not in files:
                files[path] = LogFile(path, task, attempt)
        for file in files.values():
            for line in file.new_lines():
                told = True
                yield line
        if over:
            for file in files.values():
                yield from file.rest()
            return
        if not told:
            time.sleep(_POLL_S)


def _found(root: Path, wanted: set[TaskId]) -> list[tuple[Path, TaskId, int]]:
    found = []
    for directory in _directories(root):
        group, _, index = directory.rpartition("-")
        if not group or not index.isdecimal():
            continue
        task = task_id(group, int(index))
        if wanted and task not in wanted:
            continue
        for attempt in _directories(root / directory):
            if not attempt.isdecimal():
                continue
            for stream in _STREAMS:
                path = root / directory / attempt / stream
                if path.exists():
                    found.append((path, task, int(attempt)))
    return sorted(found, key=lambda each: (each[1].rpartition(":")[0], _index(each[1]), each[2]))


def _index(task: TaskId) -> int:
    return int(task.rpartition(":")[2])


def _directories(path: Path) -> list[str]:
    try:
        with os.scandir(path) as entries:
            return [entry.name for entry in entries if entry.is_dir()]
    except FileNotFoundError:
        return []


def _end_of(tail: bytes, path: Path) -> int:
    """Where ``tail`` ends in a file; 0, that is all is new, if it is not there.

    The starter copies just the end of a long log: places shift by an unknown
    length, and the copy may begin in the midst of ``tail``.
    """
    try:
        with open(path, "rb") as file, mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ) as data:
            found = data.rfind(tail)
            if found >= 0:
                return found + len(tail)
            begin = data[: len(tail)]
    except (FileNotFoundError, ValueError):
        # Dropped, or empty, which cannot be mapped.
        return 0
    lengths = range(len(tail) - 1, 0, -1)
    return next((length for length in lengths if begin.startswith(tail[-length:])), 0)


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0
