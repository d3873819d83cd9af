"""Reads what the functions of a job returned or raised, from the files that its tasks left.

What is read are pickles, which can do anything to whoever loads them: only those of a
directory in which nobody but the job's owner can have written are read, and only by the
owner (``JobHandle.results``).
"""

from __future__ import annotations

import io
import json
import pickle
import posixpath
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ytf.storage.files import Files

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

_MOST_JSON = 16 << 20


@dataclass(frozen=True)
class RemoteFailure:
    """What a function raised in a task: as text, and the exception if it could be unpickled."""

    type_name: str
    message: str
    traceback: str
    exception: BaseException | None


class TaskResults:
    """The results of one task: of each of its processes, by its local rank."""

    def __init__(self, files: Files, folder: str) -> None:
        self._files = files
        self._folder = folder
        try:
            self._names = {each.name for each in files.list(folder)}
        except FileNotFoundError:
            self._names = set()

    @property
    def processes(self) -> list[int]:
        """The local ranks of the processes that have begun, in order."""
        begun = (each.partition(".") for each in self._names)
        return sorted(int(rank) for rank, _, kind in begun if kind == "begun" and rank.isdecimal())

    def has_value(self, process: int) -> bool:
        """Whether the function has returned in this process."""
        return f"{process}.value" in self._names

    def value(self, process: int) -> object:
        """What the function returned; raises whatever its pickle raises."""
        return self._load(f"{process}.value")

    def failure(self) -> RemoteFailure | None:
        """What the function raised, in the first process of the task in which it has."""
        for process in self.processes:
            if f"{process}.json" in self._names:
                return self._failure(process)
        return None

    def _failure(self, process: int) -> RemoteFailure:
        path = posixpath.join(self._folder, f"{process}.json")
        about = json.loads(b"".join(self._files.read(path, 0, _MOST_JSON)))
        exception: object = None
        if f"{process}.error" in self._names:
            try:
                exception = self._load(f"{process}.error")
            except Exception as exc:
                # Its class may need what is not installed here. Its text tells all the same.
                about["traceback"] += f"(it cannot be unpickled here: {exc})\n"
        return RemoteFailure(
            type_name=str(about["type"]),
            message=str(about["message"]),
            traceback=str(about["traceback"]),
            exception=exception if isinstance(exception, BaseException) else None,
        )

    def _load(self, name: str) -> object:
        pieces = self._files.read(posixpath.join(self._folder, name))
        with io.BufferedReader(_PieceReader(pieces), 1 << 20) as file:
            return pickle.load(file)


class _PieceReader(io.RawIOBase):
    """A file of pieces that come one by one: a result need not fit in memory twice."""

    def __init__(self, pieces: Iterator[bytes]) -> None:
        self._pieces = pieces
        self._left = memoryview(b"")

    def readable(self) -> bool:
        """See ``io.IOBase.readable``."""
        return True

    def readinto(self, buffer: WriteableBuffer) -> int:
        """See ``io.RawIOBase.readinto``."""
        if not self._left:
            self._left = memoryview(next(self._pieces, b""))
        target = memoryview(buffer).cast("B")
        count = min(len(target), len(self._left))
        target[:count] = self._left[:count]
        self._left = self._left[count:]
        return count
