"""Copies files in a bounded number of parallel streams: retries, progress, the first error."""

from __future__ import annotations

import errno
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from typing import TypeVar

from ytf.errors import OutcomeUnknownError, UnreachableError
from ytf.specs.amounts import format_bytes

STREAMS = 8
"""How many files are copied at a time; each takes some MB of memory."""
TRIES = 5
FIRST_PAUSE_S = 1.0
TELL_EVERY_S = 2.0

_FINAL = (FileNotFoundError, FileExistsError, PermissionError, NotADirectoryError)
_FINAL_NUMBERS = {
    errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.ENAMETOOLONG, errno.EISDIR, errno.ELOOP,
}  # fmt: skip

T = TypeVar("T")
R = TypeVar("R")


class StoppedError(Exception):
    """Another file could not be copied, so this one is not either."""


class ContentError(OSError):
    """The copy differs from the original."""


class Progress:
    """How much is copied. Thread-safe; ``tell`` gets a text every other second."""

    def __init__(self, files: int, size: int, tell: Callable[[str], None]) -> None:
        self._files = files
        self._size = size
        self._tell = tell
        self._lock = threading.Lock()
        self._began = self._told = time.monotonic()
        self._copied = 0
        self.files_done = 0
        self.bytes_done = 0

    def add(self, count: int, *, copied: bool = True) -> None:
        """Count bytes that are done; not ``copied``: they were there already."""
        with self._lock:
            self.bytes_done += count
            self._copied += count if copied else 0
            now = time.monotonic()
            if now < self._told + TELL_EVERY_S:
                return
            self._told = now
        self._tell(self.text())

    def undo(self, count: int) -> None:
        """Take back bytes of a file that is copied again."""
        with self._lock:
            self.bytes_done -= count
            self._copied -= count

    def file_done(self) -> None:
        """Count a file."""
        with self._lock:
            self.files_done += 1

    def text(self) -> str:
        """What is done, of how much, and how fast."""
        took = max(time.monotonic() - self._began, 0.001)
        return (
            f"{self.files_done:,} of {self._files:,} files, {format_bytes(self.bytes_done)} of "
            f"{format_bytes(self._size)}, {format_bytes(int(self._copied / took))}/s"
        )

    def summary(self) -> str:
        """What has been done, at the end."""
        took = time.monotonic() - self._began
        files = "1 file" if self._files == 1 else f"{self._files:,} files"
        text = f"{files}, {format_bytes(self._size)}, in {took:.1f} s"
        already = self.bytes_done - self._copied
        return f"{text}; {format_bytes(already)} were there already" if already > 0 else text


def copy_all(
    items: Sequence[T],
    copy: Callable[[T, Callable[[], None]], None],
    describe: Callable[[T], str],
    note: Callable[[str], None],
    streams: int = STREAMS,
) -> None:
    """Call ``copy`` for every item, ``streams`` at a time; repeat what fails for a while only.

    ``copy`` also gets a function to call now and then: it raises once another item has
    failed. ``note`` gets a sentence for each repetition. Raises the first error.
    """
    stopped = threading.Event()

    def check() -> None:
        if stopped.is_set():
            raise StoppedError

    def attempt(item: T) -> None:
        check()
        copy(item, check)

    def work(item: T) -> None:
        try:
            retry(
                lambda: attempt(item), lambda text: note(f"{describe(item)}: {text}"), stopped.wait
            )
        except BaseException:
            stopped.set()
            raise

    with ThreadPoolExecutor(streams) as pool:
        futures = [pool.submit(work, item) for item in items]
        wait(futures, return_when=FIRST_EXCEPTION)
        if stopped.is_set():
            pool.shutdown(cancel_futures=True)
    errors = [
        error
        for each in futures
        if not each.cancelled() and (error := each.exception()) is not None
    ]
    for error in errors:
        if not isinstance(error, StoppedError):
            raise error


def retry(
    action: Callable[[], R],
    note: Callable[[str], None],
    pause: Callable[[float], object] = time.sleep,
) -> R:
    """Return the result of ``action``, which is repeated while its errors are temporary.

    ``note`` gets a sentence for each repetition. Raises the last error.
    """
    pause_s = FIRST_PAUSE_S
    for _ in range(TRIES - 1):
        try:
            return action()
        except OSError as exc:
            if not is_temporary(exc):
                raise
            note(f"{exc}; it is tried again in {pause_s:.0f} s")
        pause(pause_s)
        pause_s *= 2
    return action()


def is_temporary(exc: OSError) -> bool:
    """Whether the same call may succeed a little later."""
    if isinstance(exc, (UnreachableError, OutcomeUnknownError, ContentError)):
        return True
    return (
        not isinstance(exc, _FINAL) and exc.errno is not None and (exc.errno not in _FINAL_NUMBERS)
    )
