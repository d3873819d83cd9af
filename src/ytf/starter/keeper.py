"""The process between starter and program, so that no end of either leaves anything behind.

::

    starter ──fork──▶ keeper ──fork, exec──▶ bash -c "$DTF_TASK_PROGRAM"

The keeper is forked from the starter when the program starts and ends after
it. It adopts whatever the program abandons, and

* when the program ends, kills what it left running, then tells the starter;
* on SIGTERM, ends the program gently: SIGTERM to its process group, then waits
  until that group is gone, also when the program's first process (often a
  shell) is gone long before those it started;
* on SIGUSR1, which Linux also sends it when the starter dies, kills everything.

Should the keeper itself be killed, Linux kills the program, and the starter,
which adopts what is left, kills the rest.

The starter has threads, so after the fork nothing here may take a lock that
one of them could have held: no imports, no buffered files.
"""

from __future__ import annotations

import os
import signal

from ytf.starter import linux
from ytf.starter.descendants import descendants, end_all, reap, send

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Iterable, List, Mapping, Optional, Set

END_GENTLY = signal.SIGTERM
END_NOW = signal.SIGUSR1

STARTED = b"started"
EXITED = b"exited"
FAILED = b"failed"


class Command:
    """What is to be run, and where its output goes.

    ``outputs`` are descriptors for stdout and stderr; None: the program shares
    the starter's own three streams and its session, as at a terminal.
    """

    __slots__ = ("argv", "env", "outputs")

    def __init__(
        self, argv: List[str], env: Mapping[bytes, bytes], outputs: Optional[List[int]]
    ) -> None:
        self.argv = argv
        self.env = env
        self.outputs = outputs

    @property
    def own_session(self) -> bool:
        """Whether the program leads a session, and so a process group, of its own."""
        return self.outputs is not None


def fork_keeper(command: Command, report: int) -> int:
    """Start a keeper and return its pid. To be called from the main thread.

    It writes lines to ``report``: ``started PID``, then ``exited STATUS``
    (as from ``wait``), or ``failed REASON`` alone. Nothing lives any more
    when the last line is written. No last line: it was killed.
    """
    starter = os.getpid()
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
    try:
        pid = os.fork()
        if pid == 0:
            _keep(command, report, starter, mask)
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
    return pid


def _keep(command: Command, report: int, starter: int, mask: Iterable[int]) -> None:
    """The keeper's whole life. Never returns."""
    code = 1
    try:
        _Keeper(command, report, mask).run(starter)
        code = 0
    except Exception as exc:
        _tell(report, FAILED, "its keeper failed: %r" % exc)
    finally:
        os._exit(code)


def _tell(report: int, what: bytes, value: str) -> None:
    line = what + b" " + value.replace("\n", " ").encode("utf-8", "replace") + b"\n"
    try:
        os.write(report, line)
    except BrokenPipeError:
        return  # the starter is dead; there is nobody left to tell


class _Keeper:
    def __init__(self, command: Command, report: int, mask: Iterable[int]) -> None:
        self._command = command
        self._report = report
        self._mask = mask
        self._program = 0
        self._status: Optional[int] = None

    def run(self, starter: int) -> None:
        if self._command.own_session:
            # Away from the starter's group, which a node may kill as a whole.
            os.setsid()
        linux.signal_on_parents_death(END_NOW)
        linux.adopt_orphans()
        if os.getppid() != starter:
            return
        _close_all_but({0, 1, 2, self._report, *(self._command.outputs or ())})
        failure = self._start_program()
        if failure:
            _tell(self._report, FAILED, failure)
            return
        _tell(self._report, STARTED, str(self._program))
        self._wait()
        end_all(self._reaped)
        _tell(self._report, EXITED, str(self._status))

    def _reaped(self, pid: int, status: int) -> None:
        if pid == self._program:
            self._status = status

    def _wait(self) -> None:
        """Return when it is time to kill whatever is left."""
        ending = False
        while True:
            reap(self._reaped)
            if self._status is not None and not (ending and self._is_group_alive()):
                return
            # All signals are blocked since before the fork, so none is missed.
            signum = signal.sigwait({signal.SIGCHLD, END_GENTLY, END_NOW})
            if signum == END_NOW:
                return
            if signum == END_GENTLY:
                ending = True
                self._ask_group_to_end()

    def _ask_group_to_end(self) -> None:
        if self._command.own_session:
            send(-self._program, signal.SIGTERM)
        else:
            for pid in descendants(os.getpid()):
                send(pid, signal.SIGTERM)

    def _is_group_alive(self) -> bool:
        if self._command.own_session:
            return send(-self._program, 0)
        return reap(self._reaped)

    def _start_program(self) -> str:
        """Start it; the reason why not, or an empty string once ``exec`` has succeeded."""
        keeper = os.getpid()
        reading, writing = os.pipe()
        pid = os.fork()
        if pid == 0:
            self._become_program(keeper, writing)
        os.close(writing)
        for fd in self._command.outputs or ():
            os.close(fd)
        failure = os.read(reading, 4096)  # ends empty when exec closes the other side
        os.close(reading)
        if failure:
            os.waitpid(pid, 0)
            return failure.decode("utf-8", "replace")
        self._program = pid
        return ""

    def _become_program(self, keeper: int, writing: int) -> None:
        try:
            if self._command.outputs is not None:
                os.setsid()
                os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
                os.dup2(self._command.outputs[0], 1)
                os.dup2(self._command.outputs[1], 2)
            linux.signal_on_parents_death(signal.SIGKILL)
            if os.getppid() != keeper:
                os._exit(1)
            _default_signals(ignored_too=self._command.own_session)
            signal.pthread_sigmask(signal.SIG_SETMASK, self._mask)
            os.execve(self._command.argv[0], self._command.argv, self._command.env)
        except OSError as exc:
            text = "cannot run %s: %s" % (self._command.argv[0], exc.strerror)
            os.write(writing, text.encode("utf-8", "replace"))
        finally:
            os._exit(126)


def _default_signals(ignored_too: bool) -> None:
    # Python ignores SIGPIPE and SIGXFSZ, which a program would inherit; the
    # starter's handlers would run in the moment before exec. What the submitter's
    # shell ignored (nohup, &) is of its own terminal, and no business of a task.
    for signum in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}:
        now = signal.getsignal(signum)
        ours = callable(now) or signum in (signal.SIGPIPE, signal.SIGXFSZ)
        if ours or (ignored_too and now == signal.SIG_IGN):
            signal.signal(signum, signal.SIG_DFL)


def _close_all_but(keep: Set[int]) -> None:
    # The starter's connections and its port must not live on in the keeper.
    for name in os.listdir("/proc/self/fd"):
        if int(name) not in keep:
            try:
                os.close(int(name))
            except OSError:
                continue  # the descriptor of the listing itself
