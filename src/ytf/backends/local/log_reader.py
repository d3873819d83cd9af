"""Reads the log files of a local job's tasks line by line, for ``ytf logs``."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

from ytf.backends.api import CheckInterrupt, LogLine, never_interrupted
from ytf.backends.stream_reader import FileSizes, StreamFile, StreamReader, TaskStream
from ytf.specs.ids import TaskId, group_of, index_of, task_id

_STREAMS = ("stdout", "stderr")
_CHUNK = 1 << 20
_POLL_S = 0.2


class LocalLogSource:
    """The files of one stream in the directory of its attempt: a ``LogSource``.

    A file that is removed while it is read ends there.
    """

    def __init__(self, directory: Path, stream: TaskStream) -> None:
        current = directory / stream.name
        self._paths = {
            StreamFile(stream): current,
            StreamFile(stream, is_rotated=True): current.with_name(f"{stream.name}.1"),
        }

    def sizes(self) -> FileSizes:
        """The files that there are now, with their sizes."""
        sizes = {file: _size(path) for file, path in self._paths.items()}
        return {file: size for file, size in sizes.items() if size is not None}

    def read(self, file: StreamFile, offset: int) -> Iterator[bytes]:
        """The bytes of a file from ``offset`` to its present end, in pieces."""
        with suppress(FileNotFoundError), open(self._paths[file], "rb") as opened:
            opened.seek(offset)
            while chunk := opened.read(_CHUNK):
                yield chunk


def read_logs(
    root: Path,
    tasks: list[TaskId],
    *,
    is_over: Callable[[], bool],
    check: CheckInterrupt = never_interrupted,
) -> Iterator[LogLine]:
    """Yield lines of these tasks (of all if the list is empty) below ``root``, until ``is_over``.

    Attempts that start later are found. Everything that was written before
    ``is_over`` returned True is read, including an incomplete last line. ``check`` is called
    whenever there is nothing new.
    """
    wanted = set(tasks)
    found: dict[TaskStream, tuple[StreamReader, LocalLogSource]] = {}
    while True:
        # Checked before reading, so that the last round reads everything.
        over = is_over()
        found_lines = False
        for directory, stream in _find_streams(root, wanted):
            if stream not in found:
                found[stream] = StreamReader(stream), LocalLogSource(directory, stream)
        for reader, source in found.values():
            for line in reader.read(source, source.sizes()):
                found_lines = True
                yield line
        if over:
            for reader, _ in found.values():
                yield from reader.last_line()
            return
        if not found_lines:
            check()
            time.sleep(_POLL_S)


def _find_streams(root: Path, wanted: set[TaskId]) -> list[tuple[Path, TaskStream]]:
    """The streams that there are now, by task and attempt, with the directories of attempts."""
    found: list[tuple[Path, TaskStream]] = []
    for name in _subdirectories(root):
        group, _, index = name.rpartition("-")
        if not group or not index.isdecimal():
            continue
        task = task_id(group, int(index))
        if wanted and task not in wanted:
            continue
        for attempt in _subdirectories(root / name):
            directory = root / name / attempt
            if not attempt.isdecimal():
                continue
            there = [stream for stream in _STREAMS if (directory / stream).exists()]
            found += [(directory, TaskStream(task, int(attempt), stream)) for stream in there]
    return sorted(found, key=lambda each: _order(each[1]))


def _order(stream: TaskStream) -> tuple[str, int, int]:
    return group_of(stream.task), index_of(stream.task), stream.attempt


def _size(path: Path) -> int | None:
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return None


def _subdirectories(path: Path) -> list[str]:
    try:
        with os.scandir(path) as entries:
            return [entry.name for entry in entries if entry.is_dir()]
    except FileNotFoundError:
        return []
