"""Programs in the foreground of the user's terminal.

They run in our process group and session with our three streams, so that they
can read the keyboard and Ctrl-C reaches them as it would any other program.
"""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING

from ytf.starter.keeper import Command
from ytf.starter.process import Exit, Program

if TYPE_CHECKING:
    from ytf.starter.situation import Message

_INTERRUPTED = 128 + signal.SIGINT
_LOOK_S = 5.0


def run_program(command: Command) -> Exit:
    """Run a program to its end at the terminal; nothing it started is left."""
    inbox: SimpleQueue[Message] = SimpleQueue()

    def take(timeout_s: float) -> None:
        try:
            inbox.get(timeout=timeout_s)
        except Empty:
            return

    program = Program(command, None, inbox)
    try:
        with ctrl_c_is_the_programs():
            while program.exit is None:
                take(_LOOK_S)
    finally:
        end_program(program, 0.0, take)
    return program.exit


def end_program(program: Program, grace_s: float, take: Callable[[float], None]) -> None:
    """SIGTERM, the grace period, SIGKILL; returns when all its processes are dead.

    ``take`` waits for the next message, at most so many seconds.
    """
    deadline = time.monotonic() + grace_s
    if program.exit is None:
        program.end_gently()
    while program.exit is None and time.monotonic() < deadline:
        take(max(0.0, deadline - time.monotonic()))
    if program.exit is None:
        program.end_now()
    while program.exit is None:
        take(_LOOK_S)


@contextmanager
def ctrl_c_is_the_programs() -> Iterator[None]:
    """While a program is in the foreground, Ctrl-C is for it: it may well go on."""
    # A handler, not SIG_IGN, which the program would inherit.
    old = signal.signal(signal.SIGINT, lambda *_: None)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, old)


def died_of_ctrl_c(end: Exit) -> bool:
    """Whether the user ended the program; a shell around it says so with its exit code."""
    return end.signal == signal.SIGINT or end.exit_code == _INTERRUPTED
