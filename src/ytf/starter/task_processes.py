"""Runs a task's command several times at once, as ``torchrun`` does, and is one program to others.

::

    starter ──▶ reaper ──fork──▶ this ──fork, exec──▶ bash -c "$DTF_TASK_PROGRAM"   rank 4
                                      └─fork, exec──▶ bash -c "$DTF_TASK_PROGRAM"   rank 5

It is forked from the reaper and executes nothing, so that it needs no
interpreter on the node and hardly any memory. Each process has a process group
of its own, and its lines get its rank in front: ``[4] loss 0.31``. What it does:

* It ends when all processes have: with exit code 0 if all have succeeded.
* The first process that fails ends the others: SIGTERM, the grace period,
  SIGKILL. Its end becomes that of the program, and its last lines are
  repeated at the end of stderr, where the diagnostics look for the cause.
* Signals to the program are passed on to all processes.

As in the reaper, nothing here may take a lock that a thread of the starter
could have held when it was forked: no imports, no buffered files.
"""

from __future__ import annotations

import os
import select
import signal
import time

from ytf.starter.process_tree import send_signal, signal_on_parents_death

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Dict, Iterable, List, Mapping, NoReturn, Optional, Sequence

_PASSED_ON = (
    signal.SIGTERM,
    signal.SIGINT,
    signal.SIGHUP,
    signal.SIGUSR1,
    signal.SIGUSR2,
    signal.SIGCONT,
)
_LONGEST_LINE = 8192
"""A longer line (a progress bar has no line ends) is written in pieces."""
_TAIL_BYTES = 3072
_TAIL_LINES = 20
"""How much of the failed process is repeated; the diagnostics show 4 KiB and 30 lines."""
_CHUNK = 65536


def run_processes(
    argv: List[str], envs: Sequence[Mapping[bytes, bytes]], mask: Iterable[int], grace_s: float
) -> NoReturn:
    """Be the process that runs ``argv`` once with each of these environments. Never returns.

    All signals must be blocked; ``mask`` is what the processes begin with.
    """
    code = 126
    try:
        code = _Processes(argv, envs, mask, grace_s).run()
    except OSError as exc:
        _write(2, ("ytf: the processes of the task cannot be run: %s\n" % exc).encode())
    finally:
        os._exit(code)


class _Stream:
    """One output of one process: its lines go to a descriptor, the rank in front."""

    __slots__ = ("_buffer", "_prefix", "_target", "fd", "tail")

    def __init__(self, fd: int, target: int, prefix: bytes) -> None:
        self.fd = fd
        self._target = target
        self._prefix = prefix
        self._buffer = b""
        self.tail = b""

    def take(self) -> bool:
        """Read what there is; False at the end."""
        try:
            data = os.read(self.fd, _CHUNK)
        except BlockingIOError:
            return True
        lines = (self._buffer + data).split(b"\n")
        self._buffer = lines.pop()
        if self._buffer and (not data or len(self._buffer) > _LONGEST_LINE):
            lines.append(self._buffer)
            self._buffer = b""
        if lines:
            self.tail = (self.tail + b"\n".join(lines) + b"\n")[-_TAIL_BYTES:]
            _write(self._target, b"".join(self._prefix + line + b"\n" for line in lines))
        return bool(data)

    def drain(self) -> None:
        """Write what is in the pipe, and a last line without an end."""
        os.set_blocking(self.fd, False)
        readable = select.poll()
        readable.register(self.fd, select.POLLIN)
        while readable.poll(0) and self.take():
            continue
        if self._buffer:
            self.tail = (self.tail + self._buffer + b"\n")[-_TAIL_BYTES:]
            _write(self._target, self._prefix + self._buffer + b"\n")


class _Processes:
    """The processes of one task."""

    def __init__(
        self,
        argv: List[str],
        envs: Sequence[Mapping[bytes, bytes]],
        mask: Iterable[int],
        grace_s: float,
    ) -> None:
        self._argv = argv
        self._envs = envs
        self._mask = mask
        self._grace_s = grace_s
        self._living: Dict[int, int] = {}
        """Process id → local rank."""
        self._streams: Dict[int, _Stream] = {}
        self._outputs: List[List[_Stream]] = []
        """The stdout and the stderr of each process, by local rank."""
        self._failed: Optional[int] = None
        self._status = 0
        self._kill_at: Optional[float] = None
        self._told_to_end = False
        self._poll = select.poll()

    def run(self) -> int:
        """Run all to their end and return the exit code; dies of the signal that ended one."""
        reading, writing = os.pipe()
        os.set_blocking(reading, False)
        os.set_blocking(writing, False)
        for signum in (*_PASSED_ON, signal.SIGCHLD):
            signal.signal(signum, self._on_signal)
        signal.set_wakeup_fd(writing, warn_on_full_buffer=False)
        for env in self._envs:
            self._start(env)
        self._poll.register(reading, select.POLLIN)
        signal.pthread_sigmask(signal.SIG_SETMASK, set(self._mask) - {signal.SIGCHLD})
        while self._living:
            self._wait(reading)
            self._reap()
        for stream in list(self._streams.values()):
            stream.drain()
        if self._failed is None:
            return 0
        if not self._told_to_end:
            self._tell_failure(self._failed)
        return _end_like(self._status)

    def _start(self, env: Mapping[bytes, bytes]) -> None:
        prefix = b"[" + env.get(b"YTF_RANK", str(len(self._outputs)).encode()) + b"] "
        pipes = [os.pipe(), os.pipe()]
        me = os.getpid()
        pid = os.fork()
        if pid == 0:
            self._become_process(me, [writing for _, writing in pipes], env)
        self._living[pid] = len(self._outputs)
        self._outputs.append([])
        for target, (reading, writing) in enumerate(pipes, 1):
            os.close(writing)
            stream = _Stream(reading, target, prefix)
            self._outputs[-1].append(stream)
            self._streams[reading] = stream
            self._poll.register(reading, select.POLLIN)

    def _become_process(
        self, parent: int, outputs: Sequence[int], env: Mapping[bytes, bytes]
    ) -> None:
        try:
            signal.set_wakeup_fd(-1)
            os.setpgid(0, 0)
            signal_on_parents_death(signal.SIGKILL)
            if os.getppid() == parent:
                for target, fd in enumerate(outputs, 1):
                    os.dup2(fd, target)
                for signum in (*_PASSED_ON, signal.SIGCHLD):
                    signal.signal(signum, signal.SIG_DFL)
                signal.pthread_sigmask(signal.SIG_SETMASK, self._mask)
                os.execve(self._argv[0], self._argv, env)
        except OSError as exc:
            _write(2, ("ytf: cannot run %s: %s\n" % (self._argv[0], exc.strerror)).encode())
        finally:
            os._exit(126)

    def _on_signal(self, signum: int, frame: object) -> None:
        if signum != signal.SIGCHLD:
            self._told_to_end = self._told_to_end or signum == signal.SIGTERM
            self._signal_all(signum)

    def _signal_all(self, signum: int) -> None:
        for pid in list(self._living):
            # By its id as well: it may not have made its group yet.
            if not send_signal(-pid, signum):
                send_signal(pid, signum)

    def _wait(self, wakeups: int) -> None:
        """Pass on output until a signal has come, or it is time to kill."""
        left_ms = None
        if self._kill_at is not None:
            left_ms = max((self._kill_at - time.monotonic()) * 1000, 0)
            if left_ms == 0:
                self._signal_all(signal.SIGKILL)
                self._kill_at = None
                left_ms = None
        for fd, _ in self._poll.poll(left_ms):
            if fd == wakeups:
                os.read(wakeups, _CHUNK)
            elif not self._streams[fd].take():
                self._poll.unregister(fd)
                del self._streams[fd]
                os.close(fd)

    def _reap(self) -> None:
        for pid, local_rank in list(self._living.items()):
            ended, status = os.waitpid(pid, os.WNOHANG)
            if not ended:
                continue
            del self._living[pid]
            if status != 0 and self._failed is None:
                self._failed, self._status = local_rank, status
                self._signal_all(signal.SIGTERM)
                self._kill_at = time.monotonic() + self._grace_s

    def _tell_failure(self, local_rank: int) -> None:
        status = self._status
        how = (
            "signal %d" % os.WTERMSIG(status)
            if os.WIFSIGNALED(status)
            else "exit code %d" % os.WEXITSTATUS(status)
        )
        rank = self._envs[local_rank].get(b"YTF_RANK", b"?").decode()
        stdout, stderr = self._outputs[local_rank]
        tail = stderr.tail if stderr.tail.strip() else stdout.tail
        lines = tail.splitlines()[-_TAIL_LINES:]
        text = "ytf: rank %s (process %d of the task's %d) failed first, with %s%s\n" % (
            rank,
            local_rank,
            len(self._envs),
            how,
            "; its last lines were:" if lines else "",
        )
        _write(2, text.encode() + b"".join(line + b"\n" for line in lines))


def _end_like(status: int) -> int:
    """Die of the signal of a wait status, or return its exit code."""
    if os.WIFSIGNALED(status):
        signum = os.WTERMSIG(status)
        if signum != signal.SIGKILL:
            signal.signal(signum, signal.SIG_DFL)
        os.kill(os.getpid(), signum)
        return 128 + signum  # it cannot die of this one
    return os.WEXITSTATUS(status)


def _write(fd: int, data: bytes) -> None:
    """Write all of it; what the disk refuses is lost, as if the process had written it."""
    try:
        while data:
            data = data[os.write(fd, data) :]
    except OSError:
        return
