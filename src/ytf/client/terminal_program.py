"""Runs programs in the foreground of the user's terminal, for ``--client`` and ``ytf attach``.

They run in our process group and session with our three streams, so that they
can read the keyboard, and Ctrl-C reaches them as it does any other program.
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
from ytf.starter.desired_state import ProgramChanged, Shutdown
from ytf.starter.native_runner import NativeProgram
from ytf.starter.reaper import ProgramCommand
from ytf.starter.runner import ProgramExit

if TYPE_CHECKING:
    from ytf.starter.desired_state import InboxMessage

_INTERRUPTED = 128 + signal.SIGINT
_WAIT_S = 5.0


def run_program(
    command: ProgramCommand, *, until: Callable[[], None], grace_s: float
) -> ProgramExit:
    """Run a program at the terminal to its end, or to the return of ``until``.

    ``until`` runs in a thread of its own, which is left behind if the program
    ends first. Nothing that the program started is alive on return, nor when
    an interrupt passes through here.
    """
    inbox: SimpleQueue[InboxMessage] = SimpleQueue()
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
        if isinstance(message, Shutdown):
            raise InternalError(message.reason)

    program = NativeProgram(command, None, inbox)
    try:
        with leave_ctrl_c_to(lambda: program):
            threads.start("until", wait_until, inbox)
            while program.exit is None and not over.is_set():
                take(_WAIT_S)
    finally:
        end = end_program(program, grace_s, take)
    return end


def end_program(
    program: NativeProgram, grace_s: float, take: Callable[[float], None]
) -> ProgramExit:
    """Send SIGTERM, wait for the grace period, send SIGKILL; return when all processes are dead.

    ``take`` takes the next message from the inbox; it waits so many seconds at
    most.
    """
    deadline = time.monotonic() + grace_s
    if program.exit is None:
        program.end_gently()
    while program.exit is None and time.monotonic() < deadline:
        take(max(0.0, deadline - time.monotonic()))
    if program.exit is None:
        program.end_now()
    while program.exit is None:
        take(_WAIT_S)
    return program.exit


@contextmanager
def leave_ctrl_c_to(program: Callable[[], NativeProgram | None]) -> Iterator[None]:
    """Leave Ctrl-C to the program in the foreground, which may well go on after it.

    A terminal sends SIGINT to the program as well as to us; a SIGINT that comes
    in another way is passed on.
    """

    def on_sigint(number: int, frame: object) -> None:
        running = program()
        if running is not None and not _in_foreground():
            _interrupt(running)

    # A handler, not SIG_IGN, which the program would inherit.
    old = signal.signal(signal.SIGINT, on_sigint)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, old)


def _in_foreground() -> bool:
    """Tell whether a terminal's Ctrl-C is for our process group."""
    try:
        terminal = os.open("/dev/tty", os.O_RDONLY | os.O_NOCTTY)
    except OSError:
        return False
    try:
        return os.tcgetpgrp(terminal) == os.getpgrp()
    finally:
        os.close(terminal)


def _interrupt(program: NativeProgram) -> None:
    """Send SIGINT to those of the program's processes that a terminal would send it to."""
    reached: set[int] = set()
    # A terminal reaches a whole group at one moment. We look again, because a
    # process may have begun another one before our signal reached it.
    while found := set(program.processes()) - reached:
        reached |= found
        for pid in found:
            with suppress(ProcessLookupError):
                if os.getpgid(pid) == os.getpgrp():
                    os.kill(pid, signal.SIGINT)


def died_of_ctrl_c(end: ProgramExit) -> bool:
    """Tell whether the user ended the program; a shell around it exits with 130 then."""
    return end.signal == signal.SIGINT or end.exit_code == _INTERRUPTED
