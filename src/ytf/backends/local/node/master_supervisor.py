"""Starts, watches and restarts the master of a local job, for the node.

A master that dies or hangs is replaced by the next attempt, as often as the
job's spec allows. Times are seconds of a monotonic clock.
"""

from __future__ import annotations

import os
import selectors
import socket

from ytf import processes
from ytf.backends.local.node.json_lines import JsonLineSocket
from ytf.backends.local.node.spawn import spawn
from ytf.backends.local.records import last_master_attempt
from ytf.log import log

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from ytf.backends.local.node.json_lines import Message

_GRACE_S = 10.0
"""How long a master may take to end after its socket was closed or the job was finished."""
_STEADY_S = 60.0
"""A master that lived this long was healthy: the next restart is without delay again."""
_FIRST_DELAY_S = 0.5
_MAX_DELAY_S = 30.0
_PINGS = 6
"""How often a silent master is pinged before it counts as hung."""


class RestartPolicy:
    """Allows at most ``max_attempts`` starts within ``window_s``; older starts do not count.

    The first restart comes at once. The delay of restarts that follow quickly
    grows exponentially.
    """

    def __init__(self, max_attempts: int, window_s: float) -> None:
        self._max_attempts = max_attempts
        self._window_s = window_s
        self._starts: list[float] = []
        self._quick = 0

    def started(self, now: float) -> None:
        """Note that a master was started."""
        self._starts.append(now)

    def died(self, now: float) -> float | None:
        """Return the delay before the next start in seconds; None if no start is left."""
        if self._starts and now - self._starts[-1] >= _STEADY_S:
            self._quick = 0
        self._starts = [at for at in self._starts if now - at < self._window_s]
        if len(self._starts) >= self._max_attempts:
            return None
        self._quick += 1
        if self._quick == 1:
            return 0.0
        # The exponent is limited, because the delay has its maximum long before 2**16.
        return min(_FIRST_DELAY_S * 2.0 ** min(self._quick - 2, 16), _MAX_DELAY_S)


class SilenceTimer:
    """Decides when to ping a master, and when it has been silent for too long.

    Only time in which the node itself ran counts: after the machine was
    suspended, the master gets its time again.
    """

    def __init__(self, limit_s: float, now: float) -> None:
        self._limit_s = limit_s
        self._every_s = limit_s / _PINGS
        self._heard_at = now
        self.due = now + self._every_s
        """When to call :meth:`is_expired`."""

    def heard(self, now: float) -> None:
        """Note that the master sent something."""
        self._heard_at = now

    def is_expired(self, now: float) -> bool:
        """Return whether the master counts as hung; if not, the caller pings it."""
        overslept = now - self.due > self._every_s
        self.due = now + self._every_s
        if overslept:
            self._heard_at = now
        return now - self._heard_at >= self._limit_s


class MasterSupervisor:
    """Runs one master attempt after the other, and owns the socket to the current one.

    ``ready_fd`` is the pipe to the submitter: the first master inherits it. A
    master that sends nothing for ``silence_s`` is killed. The node decides
    what follows when a master ends.
    """

    def __init__(
        self,
        job_dir: str,
        ready_fd: int,
        command: Sequence[str],
        selector: selectors.BaseSelector,
        *,
        restarts: RestartPolicy,
        silence_s: float,
    ) -> None:
        self._job_dir = job_dir
        self._ready_fd: int | None = ready_fd
        self._command = command
        self._selector = selector
        self._restarts = restarts
        self._silence_s = silence_s
        self.attempt = 0
        self.pid: int | None = None
        self.finalizing = False
        """Whether the current master only replays the journal and records the job."""
        self._socket: JsonLineSocket | None = None
        self._silence: SilenceTimer | None = None
        self._start_at: float | None = None
        self._kill_at: float | None = None

    def tell_submitter(self, text: str) -> None:
        """Write to the submitter, if it still waits for the first master."""
        if self._ready_fd is None:
            return
        try:
            os.write(self._ready_fd, text.encode())
        except BrokenPipeError:
            log("node: the submitter is gone already")

    # -- start and end ------------------------------------------------------------

    def start(self, now: float, containers: Message, finalize: str | None = None) -> None:
        """Start the next attempt and send it ``containers``, the state of the node.

        Its number is higher than that of all attempts with a journal. With
        ``finalize``, the master only records the job as FAILED for that reason.
        Raises ``OSError`` if the command cannot be started.
        """
        self._start_at = None
        self.attempt = max(self.attempt, last_master_attempt(self._job_dir)) + 1
        arguments = [*self._command, "--backend", "local", "--job-dir", self._job_dir]
        arguments += ["--attempt", str(self.attempt)]
        if finalize is not None:
            self.finalizing = True
            arguments += ["--finalize", finalize]
        ours, theirs = socket.socketpair()
        passed = [theirs.fileno()]
        env = {**os.environ, "YTF_NODE_FD": str(theirs.fileno())}
        if self._ready_fd is not None:
            env["YTF_READY_FD"] = str(self._ready_fd)
            passed.append(self._ready_fd)
        self._restarts.started(now)
        try:
            with theirs:
                self.pid = spawn(arguments, env, "/", pass_fds=passed)
        except OSError as exc:
            ours.close()
            self.tell_submitter(f"failed: the master could not be started: {exc}\n")
            raise
        finally:
            # From now on only the first master has the pipe: if that master
            # ends before it is ready, the submission has failed.
            if self._ready_fd is not None:
                os.close(self._ready_fd)
                self._ready_fd = None
        log(f"node: started master attempt {self.attempt}, pid {self.pid}")
        self._socket = JsonLineSocket(ours.detach())
        self._selector.register(self._socket.fd, selectors.EVENT_READ)
        self._silence = SilenceTimer(self._silence_s, now)
        self.send({"op": "hello", "pid": os.getpid(), "attempt": self.attempt, **containers})

    def schedule_restart(self, now: float) -> bool:
        """Schedule the next start after a master died; False if no start is left."""
        delay = self._restarts.died(now)
        if delay is None:
            return False
        self._start_at = now + delay
        return True

    def expect_end(self, now: float) -> None:
        """Kill the master unless it ends by itself in time."""
        self._kill_at = now + _GRACE_S

    def disconnect(self, now: float) -> None:
        """Start no further master, and close the socket, so that the current one ends."""
        self._start_at = None
        if self.pid:
            self.expect_end(now)
        self._close()

    def kill(self, why: str) -> None:
        """SIGKILL the master."""
        self._kill_at = None
        self._silence = None
        if self.pid:
            log(f"node: killing master attempt {self.attempt}: {why}")
            processes.kill([self.pid])

    def reaped(self) -> None:
        """Forget the master after its process was waited for."""
        self._close()
        self.pid = None
        self._kill_at = None

    # -- time -----------------------------------------------------------------------

    def due_times(self) -> list[float]:
        """Return when :meth:`start_is_due` or :meth:`tick` have something to do."""
        times = [at for at in (self._start_at, self._kill_at) if at is not None]
        if self._silence is not None:
            times.append(self._silence.due)
        return times

    def start_is_due(self, now: float) -> bool:
        """Return whether the time of a scheduled start has come."""
        return self._start_at is not None and now >= self._start_at

    def tick(self, now: float) -> None:
        """Kill a master that did not end in time or hangs; ping one that is silent."""
        if self._kill_at is not None and now >= self._kill_at:
            self.kill("it did not end by itself")
        if self._silence is not None and now >= self._silence.due:
            if self._silence.is_expired(now):
                self.kill(f"it has said nothing for {self._silence_s:g} s")
            else:
                self.send({"op": "ping"})

    # -- messages -------------------------------------------------------------------

    def receive(self, now: float) -> list[Message]:
        """Return the messages of the master; ``ValueError`` for a line that is not JSON."""
        if self._socket is None:
            return []
        messages = self._socket.receive()
        if messages and self._silence is not None:
            self._silence.heard(now)
        return messages

    def send(self, message: Message) -> None:
        """Send a message to the current master, if there is one."""
        if self._socket is not None:
            self._socket.send(message)
            self._watch_socket()

    def flush(self, now: float) -> None:
        """Send what is left; give a master that closed its socket some time to end."""
        if self._socket is None:
            return
        self._socket.flush()
        self._watch_socket()
        if self._socket.ended:
            self._close()
            if self.pid and self._kill_at is None:
                self.expect_end(now)

    def _watch_socket(self) -> None:
        if self._socket is not None and not self._socket.ended:
            writing = selectors.EVENT_WRITE if self._socket.pending else 0
            self._selector.modify(self._socket.fd, selectors.EVENT_READ | writing)

    def _close(self) -> None:
        self._silence = None
        if self._socket is not None:
            self._selector.unregister(self._socket.fd)
            self._socket.close()
            self._socket = None
