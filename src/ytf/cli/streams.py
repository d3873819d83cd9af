"""The three standard streams, whatever state a caller left them in.

stdout is for programs: what cannot be written there is an error. stderr is for
eyes: where nobody looks (any more), a command goes on without it.
"""

from __future__ import annotations

import errno
import io
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer


class OutputError(OSError):
    """stdout took no more: its disk is full, it was closed, or its reader left."""

    @property
    def reader_left(self) -> bool:
        """Whether it is a pipe that nobody reads any more."""
        return self.errno == errno.EPIPE


class _Output(io.FileIO):
    """Descriptor 1, whose errors are told from those of other files."""

    def __init__(self) -> None:
        super().__init__(1, "w", closefd=False)

    def write(self, data: ReadableBuffer, /) -> int:
        try:
            return super().write(data)
        except OSError as exc:
            # Or the interpreter would try, and complain, once more at its exit.
            _redirect(1)
            raise OutputError(exc.errno, exc.strerror) from exc


@contextmanager
def prepared() -> Iterator[None]:
    """Make all three streams usable: open, and able to take any character.

    A closed descriptor would soon be some other file's, and Python would print
    on stdout what is meant for a closed stderr. In place of a closed stdin or
    stdout comes one that refuses to be used, as the closed one would have.
    While entered, stdout raises :class:`OutputError`.
    """
    for fd, mode in ((0, os.O_WRONLY), (1, os.O_RDONLY), (2, os.O_WRONLY)):
        if not _is_open(fd):
            # Takes the lowest free descriptor, and those below it are in use.
            os.open(os.devnull, mode)
    if sys.stdin is None:
        sys.stdin = io.TextIOWrapper(io.FileIO(0, closefd=False))
    if sys.stderr is None:
        sys.stderr = io.TextIOWrapper(io.FileIO(2, "w", closefd=False), write_through=True)
    before = sys.stdout
    sys.stdout = io.TextIOWrapper(
        io.BufferedWriter(_Output()),
        encoding=getattr(before, "encoding", None),
        # A name or a log line may have what an ASCII terminal has not.
        errors="backslashreplace",
        line_buffering=os.isatty(1),
    )
    try:
        yield
    finally:
        ours, sys.stdout = sys.stdout, before
        ours.flush()


def say(text: str) -> None:
    """Print a line on stderr; one that nobody can read does not stop a command."""
    try:
        print(text, file=sys.stderr, flush=True)
    except OSError:
        _redirect(2)


def _redirect(fd: int) -> None:
    """Let what is still to be written to a broken stream go nowhere, without a word."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, fd)
    os.close(nowhere)


def _is_open(fd: int) -> bool:
    try:
        os.fstat(fd)
    except OSError:
        return False
    return True
