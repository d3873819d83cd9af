"""Runs the process between starter and program, so that no end of either leaves a process behind.

::

    starter ──fork──▶ reaper ──fork, exec──▶ bash -c "$DTF_TASK_PROGRAM"

The reaper is forked from the starter when the program starts and ends after
the program. It adopts the processes that the program abandons, and

* when the program ends, kills what it left running, then tells the starter;
* on SIGTERM, ends the program gently: SIGTERM to its process group, then waits
  until that group is gone, also when the program's first process (often a
  shell) is gone long before those it started;
* on SIGUSR1, which Linux also sends it when the starter dies, kills everything.

If the reaper itself is killed, Linux kills the program, and the starter, which
adopts what is left, kills the rest.

The starter has threads, so after the fork nothing here may take a lock that
one of them could have held: no imports, no buffered files.
"""

from __future__ import annotations

import os
import signal

from ytf.starter.process_tree import (
    become_subreaper,
    kill_descendants,
    reap,
    scan_descendants,
    send_signal,
    signal_on_parents_death,
)
from ytf.starter.task_processes import run_processes

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Callable, Iterable, List, Mapping, Optional, Sequence, Set

    MakeReaper = Callable[["ProgramCommand", int, Iterable[int]], "Reaper"]

END_GENTLY = signal.SIGTERM
END_NOW = signal.SIGUSR1

STARTED = b"started"
EXITED = b"exited"
FAILED = b"failed"


class ProgramCommand:
    """What a reaper runs, and where the output goes.

    ``outputs`` are descriptors for stdout and stderr; None: the program shares
    the starter's own three streams and its session, as at a terminal. The
    reaper calls ``prepare`` before it starts the program. If there are
    ``processes``, ``argv`` is run once with the variables of each, as
    ``ytf.starter.task_processes`` says, also of ``grace_s``. The reaper keeps
    the descriptors ``held`` open until its end.
    """

    __slots__ = ("argv", "env", "grace_s", "held", "outputs", "prepare", "processes")

    def __init__(
        self,
        argv: List[str],
        env: Mapping[bytes, bytes],
        outputs: Optional[List[int]],
        prepare: Optional[Callable[[], None]] = None,
        processes: Sequence[Mapping[bytes, bytes]] = (),
        grace_s: float = 0.0,
        held: Sequence[int] = (),
    ) -> None:
        self.argv = argv
        self.held = held
        self.processes = processes
        self.grace_s = grace_s
        self.env = env
        self.outputs = outputs
        self.prepare = prepare

    @property
    def own_session(self) -> bool:
        """Whether the program leads a session, and so a process group, of its own."""
        return self.outputs is not None


class Reaper:
    """The code of the reaper process of one program.

    A runner whose program is not a descendant of the reaper (a container of a
    docker daemon) extends it: ``ask_to_end``, ``is_alive`` and ``kill_all``
    are about descendants here and must be about that container there. So does
    ``ytf.starter.engine_runner``.
    """

    def __init__(self, command: ProgramCommand, report: int, mask: Iterable[int]) -> None:
        self.command = command
        self.program = 0
        """The pid of the program's first process."""
        self.status: Optional[int] = None
        """The wait status of that process; None while it runs."""
        self._report = report
        self._mask = mask

    def ask_to_end(self) -> None:
        """Send SIGTERM to what is in the foreground of the program."""
        if self.command.own_session:
            send_signal(-self.program, signal.SIGTERM)
        else:
            for pid in scan_descendants(os.getpid()):
                send_signal(pid, signal.SIGTERM)

    def is_alive(self) -> bool:
        """Tell whether anything is left of what was asked to end."""
        if self.command.own_session:
            return send_signal(-self.program, 0)
        return reap(self.on_reaped)

    def kill_all(self) -> None:
        """Kill all that the program started; return once it is proved dead."""
        kill_descendants(self.on_reaped)

    def on_reaped(self, pid: int, status: int) -> None:
        """Note the wait status of a child that ended."""
        if pid == self.program:
            self.status = status

    def await_start(self) -> Optional[int]:
        """Return the pid to report as the program's, once it runs; None if it never did."""
        return self.program

    def run(self, starter: int) -> None:
        """Run the program to its end and report it; ``starter`` is the starter's pid."""
        if self.command.own_session:
            # Away from the starter's group, which a node may kill as a whole.
            os.setsid()
        signal_on_parents_death(END_NOW)
        become_subreaper()
        if os.getppid() != starter:
            return
        if self.command.prepare is not None:
            self.command.prepare()
        outputs = self.command.outputs or ()
        _close_all_but({0, 1, 2, self._report, *outputs, *self.command.held})
        failure = self._start_program()
        if failure:
            _report_line(self._report, FAILED, failure)
            return
        pid = self.await_start()
        if pid is not None:
            _report_line(self._report, STARTED, str(pid))
        self.await_end()
        self.kill_all()
        _report_line(self._report, EXITED, str(self.status))

    def await_end(self) -> None:
        """Return when it is time to kill what is left."""
        ending = False
        while True:
            reap(self.on_reaped)
            if self.status is not None and not (ending and self.is_alive()):
                return
            # All signals are blocked since before the fork, so none is missed.
            signum = signal.sigwait({signal.SIGCHLD, END_GENTLY, END_NOW})
            if signum == END_NOW:
                return
            if signum == END_GENTLY:
                ending = True
                self.ask_to_end()

    def _start_program(self) -> str:
        """Start the program; returns why it failed, or "" once ``exec`` has succeeded."""
        reaper = os.getpid()
        reading, writing = os.pipe()
        pid = os.fork()
        if pid == 0:
            self._become_program(reaper, writing)
        os.close(writing)
        for fd in self.command.outputs or ():
            os.close(fd)
        failure = os.read(reading, 4096)  # ends empty when exec closes the other side
        os.close(reading)
        if failure:
            os.waitpid(pid, 0)
            return failure.decode("utf-8", "replace")
        self.program = pid
        return ""

    def _become_program(self, reaper: int, writing: int) -> None:
        try:
            if self.command.outputs is not None:
                os.setsid()
                os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
                os.dup2(self.command.outputs[0], 1)
                os.dup2(self.command.outputs[1], 2)
            signal_on_parents_death(signal.SIGKILL)
            if os.getppid() != reaper:
                os._exit(1)
            default_signals(ignored_too=self.command.own_session)
            if self.command.processes:
                os.close(writing)
                run_processes(
                    self.command.argv, self.command.processes, self._mask, self.command.grace_s
                )
            signal.pthread_sigmask(signal.SIG_SETMASK, self._mask)
            os.execve(self.command.argv[0], self.command.argv, self.command.env)
        except OSError as exc:
            text = "cannot run %s: %s" % (self.command.argv[0], exc.strerror)
            os.write(writing, text.encode("utf-8", "replace"))
        finally:
            os._exit(126)


def fork_reaper(command: ProgramCommand, report: int, make_reaper: MakeReaper = Reaper) -> int:
    """Start a reaper process and return its pid. Must be called from the main thread.

    ``make_reaper`` is called in the new process.
    It writes lines to the descriptor ``report``: ``started PID``, then ``exited
    STATUS`` (as from ``wait``), or ``failed REASON`` alone. Nothing of the
    program is alive when the last line is written. If that line is missing, the
    reaper was killed.
    """
    starter = os.getpid()
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
    try:
        pid = os.fork()
        if pid == 0:
            _run_reaper(make_reaper, command, report, starter, mask)
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
    return pid


def _run_reaper(
    make_reaper: MakeReaper,
    command: ProgramCommand,
    report: int,
    starter: int,
    mask: Iterable[int],
) -> None:
    """Be the reaper process. Never returns."""
    code = 1
    try:
        make_reaper(command, report, mask).run(starter)
        code = 0
    except Exception as exc:
        _report_line(report, FAILED, "its reaper failed: %r" % exc)
    finally:
        os._exit(code)


def _report_line(report: int, what: bytes, value: str) -> None:
    line = what + b" " + value.replace("\n", " ").encode("utf-8", "replace") + b"\n"
    try:
        os.write(report, line)
    except BrokenPipeError:
        return  # the starter is dead


def default_signals(ignored_too: bool) -> None:
    # Python ignores SIGPIPE and SIGXFSZ, which a program would inherit; the
    # starter's handlers would run in the moment before exec. What the submitter's
    # shell ignored (nohup, &) concerns its own terminal, not a task.
    for signum in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}:
        now = signal.getsignal(signum)
        ours = callable(now) or signum in (signal.SIGPIPE, signal.SIGXFSZ)
        if ours or (ignored_too and now == signal.SIG_IGN):
            signal.signal(signum, signal.SIG_DFL)


def _close_all_but(keep: Set[int]) -> None:
    # The starter's connections and its port must not stay open in the reaper.
    for name in os.listdir("/proc/self/fd"):
        if int(name) not in keep:
            try:
                os.close(int(name))
            except OSError:
                continue  # the descriptor of the listing itself
