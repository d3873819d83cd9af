"""Programs in the foreground of the user's terminal.

They run in our process group and session with our three streams, so that they
can read the keyboard and Ctrl-C reaches them as it would any other program.
"""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING

from ytf.errors import InternalError
from ytf.starter import threads
from ytf.starter.descendants import descendants
from ytf.starter.keeper import Command
from ytf.starter.process import Exit, Program
from ytf.starter.situation import Ended, ProgramChanged

if TYPE_CHECKING:
    from ytf.starter.situation import Message

_INTERRUPTED = 128 + signal.SIGINT
_LOOK_S = 5.0


def run_program(command: Command, *, until: Callable[[], None], grace_s: float) -> Exit:
    """Run a program at the terminal to its end, or to the return of ``until``.

    ``until`` runs in a thread of its own, which is left behind if the program
    ends first. Nothing the program started is alive on return, nor when an
    interrupt passes through here.
    """
    inbox: SimpleQueue[Message] = SimpleQueue()
    over = threading.Event()

    def wait_until() -> None:
        until()
        over.set()
        inbox.put(ProgramChanged())

    def take(timeout_s: float) -> None:
        try:
            message = inbox.get(timeout=timeout_s)
        except Empty:
            return
        if isinstance(message, Ended):
            raise InternalError(message.reason)

    program = Program(command, None, inbox)
    try:
        with ctrl_c_is_the_programs(lambda: program):
            threads.start("until", wait_until, inbox)
            while program.exit is None and not over.is_set():
                take(_LOOK_S)
    finally:
        end = end_program(program, grace_s, take)
    return end


def end_program(program: Program, grace_s: float, take: Callable[[float], None]) -> Exit:
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
    return program.exit


@contextmanager
def ctrl_c_is_the_programs(program: Callable[[], Program | None]) -> Iterator[None]:
    """While a program is in the foreground, Ctrl-C is for it: it may well go on.

    A terminal sends it to the program as well as to us; a SIGINT that comes in
    another way is passed on.
    """

    def arrive(number: int, frame: object) -> None:
        running = program()
        if running is not None and not _in_foreground():
            _interrupt(running)

    # A handler, not SIG_IGN, which the program would inherit.
    old = signal.signal(signal.SIGINT, arrive)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, old)


def _in_foreground() -> bool:
    """Whether we are of the processes that a terminal's Ctrl-C is for."""
    try:
        terminal = os.open("/dev/tty", os.O_RDONLY | os.O_NOCTTY)
    except OSError:
        return False
    try:
        return os.tcgetpgrp(terminal) == os.getpgrp()
    finally:
        os.close(terminal)


def _interrupt(program: Program) -> None:
    """SIGINT to those of the program's processes that a terminal would send it to."""
    reached: set[int] = set()
    # A terminal reaches a whole group at one moment. We look again, because a
    # process may have begun another one before our signal reached it.
    while found := set(descendants(program.keeper)) - reached:
        reached |= found
        for pid in found:
            with suppress(ProcessLookupError):
                if os.getpgid(pid) == os.getpgrp():
                    os.kill(pid, signal.SIGINT)


def died_of_ctrl_c(end: Exit) -> bool:
    """Whether the user ended the program; a shell around it says so with its exit code."""
    return end.signal == signal.SIGINT or end.exit_code == _INTERRUPTED
