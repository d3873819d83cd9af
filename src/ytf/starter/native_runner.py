"""Runs the user's program as a native process of the node: the first ``Runner``.

The starter forks a reaper (``ytf.starter.reaper``), the reaper the program. A
thread of the starter reads the reaper's reports, caps the log files and samples
what the program uses.
"""

from __future__ import annotations

import os
import select
import signal
import time

from ytf.starter import threads
from ytf.starter.desired_state import ProgramChanged
from ytf.starter.process_tree import (
    describe_descendants,
    kill_descendants,
    scan_descendants,
    send_signal,
)
from ytf.starter.process_usage import cgroup_memory, read_usage
from ytf.starter.program_activity import ProgramActivity
from ytf.starter.reaper import (
    END_GENTLY,
    END_NOW,
    EXITED,
    FAILED,
    STARTED,
    ProgramCommand,
    Reaper,
    fork_reaper,
)
from ytf.starter.runner import CANNOT_RUN, ProgramExit
from ytf.starter.usage_meter import UsageMeter, gpu_meter

TYPE_CHECKING = False
if TYPE_CHECKING:
    from queue import SimpleQueue
    from typing import Any, Callable, Dict, List, Mapping, Optional, Sequence

    from ytf.starter.desired_state import InboxMessage
    from ytf.starter.gpus import TakenGpus
    from ytf.starter.process_usage import ProcessUsage
    from ytf.starter.program_logs import ProgramLogs
    from ytf.starter.reaper import MakeReaper
    from ytf.starter.runner import ContainerAccess

CAP_EVERY_S = 1.0


class NativeRunner:
    """A :class:`ytf.starter.runner.Runner` of native processes.

    Where a program is several processes, ``grace_s`` is what they have from
    SIGTERM to SIGKILL after one of them has failed.
    """

    def __init__(self, grace_s: float = 0.0) -> None:
        self._grace_s = grace_s

    is_ready = True

    def prepare(self, on_progress: Callable[[str], None]) -> None:
        """Do nothing: a node can always run native programs."""

    def inherited_variables(self, container: Mapping[bytes, bytes]) -> Mapping[bytes, bytes]:
        """Return all of them: the program runs where they were made."""
        return container

    def gpu_variables(self, gpus: TakenGpus) -> Mapping[str, str]:
        """Return those that hide the node's other GPUs."""
        return gpus.variables()

    def remove_orphans(self) -> None:
        """Do nothing: ``ytf.starter.orphans`` finds processes."""

    def start(
        self,
        command: str,
        env: Mapping[bytes, bytes],
        logs: Optional[ProgramLogs],
        inbox: SimpleQueue[InboxMessage],
        processes: Sequence[Mapping[bytes, bytes]] = (),
        gpus: Optional[TakenGpus] = None,
    ) -> NativeProgram:
        """Start a shell command; see :meth:`ytf.starter.runner.Runner.start`."""
        argv = shell_command(command, env)
        outputs = None if logs is None else logs.open()
        each = [{**env, **own} for own in processes]
        held = () if gpus is None else gpus.locks
        program = ProgramCommand(
            argv, env, outputs, processes=each, grace_s=self._grace_s, held=held
        )
        return NativeProgram(program, logs, inbox, gpus)


class NativeProgram:
    """A :class:`ytf.starter.runner.RunningProgram`: processes below a reaper."""

    def __init__(
        self,
        command: ProgramCommand,
        logs: Optional[ProgramLogs],
        inbox: SimpleQueue[InboxMessage],
        gpus: Optional[TakenGpus] = None,
        make_reaper: MakeReaper = Reaper,
    ) -> None:
        self.pid: Optional[int] = None
        self.exit: Optional[ProgramExit] = None
        self._reported: Optional[ProgramExit] = None
        self._own_session = command.own_session
        self._container_id = os.fsdecode(command.env.get(b"YTF_CONTAINER_ID", b""))
        self._logs = logs
        self._inbox = inbox
        self._reading, writing = os.pipe()
        try:
            self._reaper = fork_reaper(command, writing, make_reaper)
        except OSError:
            os.close(self._reading)
            raise
        finally:
            os.close(writing)
            for fd in command.outputs or ():
                os.close(fd)
        now = time.monotonic()
        self._activity = ProgramActivity(now)
        self._meter = UsageMeter(
            self._read_usage,
            now,
            memory=self._cgroup_memory,
            gpus=gpu_meter(gpus, command.env, inbox),
        )
        threads.start("watch", self._watch, inbox)

    def idle_s(self) -> float:
        """For how many seconds no process of the program has used processor time."""
        return self._activity.idle_s()

    def usage(self) -> Optional[Dict[str, Any]]:
        """What the program uses, as of the last sample or, after its end, in all."""
        return self._meter.latest

    def signal(self, signum: int) -> bool:
        """Send a signal to the program's process group; False if it does not run."""
        if self.pid is None or self.exit is not None:
            return False
        return send_signal(-self.pid if self._own_session else self.pid, signum)

    def end_gently(self) -> None:
        """Ask the program to end: SIGTERM to its process group."""
        if self.exit is None:
            send_signal(self._reaper, END_GENTLY)

    def end_now(self) -> None:
        """Kill all its processes."""
        if self.exit is None:
            send_signal(self._reaper, END_NOW)

    def processes(self) -> List[int]:
        """Return the pids of all processes of the program, parents before children."""
        return scan_descendants(self._reaper)

    def describe_processes(self) -> str:
        """Return text for people: each process, its threads, what they wait for."""
        return describe_descendants(self._reaper)

    def shell_container(self) -> Optional[ContainerAccess]:
        """Return None: shells are opened where the program runs, on the node."""
        return None

    def exit_of(self, status: int) -> ProgramExit:
        """Return how the program ended, from the wait status that the reaper reported."""
        return _exit_of_status(status)

    def _read_usage(self) -> Optional[ProcessUsage]:
        return read_usage(self._reaper)

    def _cgroup_memory(self, first: int) -> Optional[int]:
        return cgroup_memory(first, self._container_id) if self._container_id else None

    def _used_in_all(self, rusage: Any) -> Optional[Any]:
        """Return what the program used, from what the reaper and its children did."""
        return rusage

    def _watch(self) -> None:
        """Read the reaper's reports and keep the logs within their limit, until the end."""
        buffer = b""
        poll = select.poll()
        poll.register(self._reading, select.POLLIN)
        while True:
            if not poll.poll(CAP_EVERY_S * 1000):
                if self._logs is not None:
                    self._logs.rotate_if_full()
                now = time.monotonic()
                used_s = self._meter.sample_if_due(now)
                if used_s is not None:
                    self._activity.check(now, used_s)
                continue
            data = os.read(self._reading, 4096)
            buffer += data
            *lines, buffer = buffer.split(b"\n")
            for line in lines:
                self._take_report(line)
            if not data:
                break
        os.close(self._reading)
        self._after_reaper()
        self._inbox.put(ProgramChanged())

    def _take_report(self, line: bytes) -> None:
        what, _, value = line.partition(b" ")
        if what == STARTED:
            self.pid = int(value)
            self._inbox.put(ProgramChanged())
        elif what == EXITED:
            self._reported = self.exit_of(int(value))
        elif what == FAILED:
            self._reported = ProgramExit(CANNOT_RUN, reason=value.decode("utf-8", "replace"))

    def _after_reaper(self) -> None:
        """Reap the reaper; if it died before its program, kill what it left."""
        _, status, rusage = os.wait4(self._reaper, 0)
        self._meter.finish(self._used_in_all(rusage), time.monotonic())
        if status != 0:
            kill_descendants(lambda pid, status: None)
        if self._reported is None:
            how = _exit_of_status(status)
            text = "the process that watched over it ended first (%s)" % (
                "exit code %s" % how.exit_code if how.signal is None else "signal %s" % how.signal
            )
            self._reported = ProgramExit(signal=signal.SIGKILL.value, reason=text)
        if self._logs is not None:
            self._logs.rotate_if_full()
        self.exit = self._reported


def shell_command(command: str, env: Mapping[bytes, bytes]) -> List[str]:
    """Return ``bash -c COMMAND``, or ``sh`` where there is no bash.

    Raises ``OSError`` if there is neither.
    """
    path = env.get(b"PATH", os.fsencode(os.defpath)).split(b":")
    for name in (b"bash", b"sh"):
        for folder in [*path, b"/bin", b"/usr/bin"]:
            shell = os.path.join(folder, name)
            if os.path.isabs(shell) and os.access(shell, os.X_OK):
                return [os.fsdecode(shell), "-c", command]
    raise OSError("there is no bash and no sh on this node")


def _exit_of_status(status: int) -> ProgramExit:
    """From what ``wait`` gives."""
    if os.WIFSIGNALED(status):
        return ProgramExit(signal=os.WTERMSIG(status))
    return ProgramExit(os.WEXITSTATUS(status))
