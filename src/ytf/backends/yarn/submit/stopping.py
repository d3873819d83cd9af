"""Work that can be told to stop: who gives up waits neither for packing nor for uploads."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from ytf.storage.files import Files, FileStatus


class StoppedError(Exception):
    """Nobody wants the rest of this. It ends a thread that nobody listens to any more."""


def going(stopped: threading.Event) -> None:
    """Go on, or raise :class:`StoppedError`."""
    if stopped.is_set():
        raise StoppedError


@dataclass(frozen=True)
class StoppableFiles:
    """A file system that does nothing more once ``stopped`` is set: see :class:`Files`.

    Every call raises :class:`StoppedError` then, and a write that is under way
    does so at its next piece, and leaves no file.
    """

    files: Files
    stopped: threading.Event

    def uri(self, path: str) -> str:
        """See :meth:`Files.uri`."""
        return self.files.uri(path)

    def stat(self, path: str) -> FileStatus:
        """See :meth:`Files.stat`."""
        return self._going().stat(path)

    def read(self, path: str, offset: int = 0, length: int | None = None) -> Iterator[bytes]:
        """See :meth:`Files.read`."""
        return self._each(self._going().read(path, offset, length))

    def write(self, path: str, chunks: Iterable[bytes], mode: int = 0o600) -> FileStatus:
        """See :meth:`Files.write`."""
        return self._going().write(path, self._each(chunks), mode)

    def mkdir(self, path: str, mode: int = 0o700) -> None:
        """See :meth:`Files.mkdir`."""
        self._going().mkdir(path, mode)

    def chmod(self, path: str, mode: int) -> None:
        """See :meth:`Files.chmod`."""
        self._going().chmod(path, mode)

    def delete(self, path: str) -> None:
        """See :meth:`Files.delete`."""
        self._going().delete(path)

    def rename(self, source: str, target: str) -> None:
        """See :meth:`Files.rename`."""
        self._going().rename(source, target)

    def _going(self) -> Files:
        going(self.stopped)
        return self.files

    def _each(self, pieces: Iterable[bytes]) -> Iterator[bytes]:
        for piece in pieces:
            self._going()
            yield piece
        # The end of the pieces would make it a whole file.
        self._going()

    # Last, as its name hides the type of the same name from what follows in the class.
    def list(self, path: str) -> list[FileStatus]:
        """See :meth:`Files.list`."""
        return self._going().list(path)
