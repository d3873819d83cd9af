"""What both commands print: usable standard streams, error messages and exit codes.

stdout is for programs: if it cannot be written, the command fails. stderr is for
people: if it cannot be written, the command goes on without it.
"""

from __future__ import annotations

import errno
import io
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from ytf.errors import InternalError, YtfError
from ytf.terminal_text import printable, printable_output

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

INTERRUPTED = 130
"""128 + SIGINT, as shells have it."""
BROKEN_PIPE = 141
"""128 + SIGPIPE: the process that read stdout has gone."""
NOT_WRITTEN = 1
"""stdout could not be written, because of a full disk for example."""


class OutputError(OSError):
    """stdout could not be written: its disk is full, it was closed, or its reader has gone."""

    @property
    def reader_left(self) -> bool:
        """Whether stdout is a pipe that no process reads any more."""
        return self.errno == errno.EPIPE


def run_command(prog: str, command: Callable[[], int]) -> int:
    """Run a command; turn what it raises into a message, a hint and an exit code.

    A traceback is shown only for bugs of ytf.
    """
    try:
        with standard_streams():
            return command()
    except InternalError:
        return _report_bug(prog)
    except YtfError as error:
        report_error(prog, error)
        return error.exit_code
    except KeyboardInterrupt:
        return INTERRUPTED
    except OutputError as error:
        return report_not_written(prog, error)
    except Exception:
        return _report_bug(prog)


def say(text: str) -> None:
    """Print a line on stderr. A stderr that cannot be written does not stop a command.

    What it quotes may come from others: control characters are shown, not obeyed.
    """
    _print_on_stderr(printable(text))


def say_output(text: str) -> None:
    """Print a line of a program's output on stderr; on a terminal only its colours are obeyed."""
    _print_on_stderr(printable_output(text) if sys.stderr.isatty() else text)


def _print_on_stderr(text: str) -> None:
    try:
        # In one piece: another thread may print log lines.
        sys.stderr.write(f"{text}\n")
        sys.stderr.flush()
    except OSError:
        _redirect_to_devnull(2)


def report_error(prog: str, error: YtfError) -> None:
    """Print what happened and what to do next, on stderr."""
    say(f"{prog}: error: {error}")
    if error.hint:
        say(f"hint: {error.hint}")


def report_not_written(prog: str, error: OutputError, what: str = "the output") -> int:
    """Say that stdout could not be written, unless its reader just left; returns the exit code."""
    if error.reader_left:
        return BROKEN_PIPE
    say(f"{prog}: error: {what} cannot be written to stdout: {error.strerror}")
    return NOT_WRITTEN


def _report_bug(prog: str) -> int:
    import traceback

    say(traceback.format_exc().rstrip())
    say(f"{prog}: this is a bug in ytf: please report it with the lines above and the command")
    return InternalError.exit_code


@contextmanager
def standard_streams() -> Iterator[None]:
    """Make all three standard streams usable: open, and able to print any character.

    If a descriptor were left closed, the next file that is opened would get its
    number, and Python would print on stdout what is meant for a closed stderr. A
    closed stdin or stdout is replaced by one that fails when it is used.
    While entered, a failed write to stdout raises :class:`OutputError`.
    """
    for fd, mode in ((0, os.O_WRONLY), (1, os.O_RDONLY), (2, os.O_WRONLY)):
        if not _is_open(fd):
            # open() gives the lowest free descriptor, and those below this one are in use.
            os.open(os.devnull, mode)
    if sys.stdin is None:
        sys.stdin = io.TextIOWrapper(io.FileIO(0, closefd=False))
    if sys.stderr is None:
        sys.stderr = io.TextIOWrapper(io.FileIO(2, "w", closefd=False), write_through=True)
    before = sys.stdout
    sys.stdout = io.TextIOWrapper(
        io.BufferedWriter(_Stdout()),
        encoding=getattr(before, "encoding", None),
        # A job's name or a log line may have characters that an ASCII terminal cannot show.
        errors="backslashreplace",
        line_buffering=os.isatty(1),
    )
    try:
        yield
    finally:
        ours, sys.stdout = sys.stdout, before
        ours.flush()


class _Stdout(io.FileIO):
    """Descriptor 1; raises :class:`OutputError`, which other files do not raise."""

    def __init__(self) -> None:
        super().__init__(1, "w", closefd=False)

    def write(self, data: ReadableBuffer, /) -> int:
        try:
            return super().write(data)
        except OSError as exc:
            # Otherwise the interpreter would try again at its exit, and complain.
            _redirect_to_devnull(1)
            raise OutputError(exc.errno, exc.strerror) from exc


def _redirect_to_devnull(fd: int) -> None:
    """Discard from now on what is written to a broken stream."""
    devnull = os.open(os.devnull, os.O_WRONLY)
    os.dup2(devnull, fd)
    os.close(devnull)


def _is_open(fd: int) -> bool:
    try:
        os.fstat(fd)
    except OSError:
        return False
    return True
