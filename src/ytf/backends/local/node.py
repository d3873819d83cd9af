"""The node: one small process beside every local job, and the parent of all its others.

It starts the master and starts it again when it dies or hangs, runs containers
as the master orders, watches their memory, and tells each completion until the
master has it in its journal. Being a child subreaper it inherits whatever a
dead starter or master leaves behind, and kills it: no process of a job
outlives its container, and none outlives the job.

::

    RUNNING ──"finished"──▶ FINISHING ──all dead──▶ staging removed, exit 0
       └─────SIGTERM──────▶ STOPPING ───all dead──▶ exit 0 (the master records the job as FAILED)

Standard library only, one thread. docs/protocols.md §4 has the lines.
"""

from __future__ import annotations

import contextlib
import json
import os
import selectors
import signal
import socket
import time

from ytf import processes
from ytf.backends.local.hosted import Hosted
from ytf.backends.local.lines import LineSocket
from ytf.backends.local.pulse import Pulse
from ytf.backends.local.record import replace, write_last_record
from ytf.backends.local.removal import remove_tree
from ytf.backends.local.restarts import Restarts
from ytf.backends.local.spawn import spawn
from ytf.starter.linux import adopt_orphans

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ytf.backends.local.lines import Message

_RUNNING, _FINISHING, _STOPPING = "RUNNING", "FINISHING", "STOPPING"

_SAMPLE_S = 0.5
"""Between two looks at the containers' memory."""
_MASTER_GRACE_S = 10.0
"""What a master gets to end after its line was closed or the job was finished."""
_SILENCE_S = 60.0
"""How long a master may say nothing before it counts as hung: far longer than a busy one does."""
_LITTLE = 1 << 20
"""Bytes below which a disk that could not be written is called full."""
_STRAGGLER_S = 10.0
"""How long a completion waits for processes that SIGKILL does not end."""


class Node:
    """Runs one job; :meth:`run` returns when nothing of it is left.

    ``master`` is the command that starts a master; ``ready_fd`` is a pipe on
    which the submitter waits: the node writes its pid there and hands it to the
    first master. A master that is silent for ``silence_s`` is killed.
    """

    def __init__(
        self, job_dir: str, ready_fd: int, master: list[str], *, silence_s: float = _SILENCE_S
    ) -> None:
        self._job_dir = job_dir
        self._ready_fd: int | None = ready_fd
        self._master_command = master
        self._silence_s = silence_s
        with open(os.path.join(job_dir, "spec.json"), encoding="utf-8") as file:
            limits = json.load(file).get("master", {})
        self._restarts = Restarts(
            limits.get("max_attempts", 4), limits.get("attempt_window_s", 600.0)
        )
        self._phase = _RUNNING
        self._selector = selectors.DefaultSelector()
        self._attempt = 0
        self._master_pid: int | None = None
        self._line: LineSocket | None = None
        self._pulse: Pulse | None = None
        self._burying = False
        self._start_master_at: float | None = None
        self._kill_master_at: float | None = None
        self._hosted: dict[str, Hosted] = {}
        self._unacknowledged: dict[str, Message] = {}
        self._removers: set[int] = set()
        self._signalled = False
        self._next_sample = 0.0

    # -- life ---------------------------------------------------------------

    def run(self) -> None:
        """Until the job is over, or the machine wants us gone."""
        wakeup, woken = os.pipe()
        os.set_blocking(wakeup, False)
        os.set_blocking(woken, False)
        signal.set_wakeup_fd(woken, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._note_signal)
        self._selector.register(wakeup, selectors.EVENT_READ)

        adopt_orphans()
        pid = os.getpid()
        identity = {"pid": pid, "start_ticks": processes.start_ticks(pid)}
        replace(os.path.join(self._job_dir, "node.json"), json.dumps(identity))
        if self._ready_fd is not None:
            _tell_submitter(self._ready_fd, f"node {pid}\n")
        self._start_master(time.monotonic())

        while not self._is_over():
            for key, _ in self._selector.select(self._timeout()):
                if key.fd == wakeup:
                    _drain(wakeup)
            self._serve_master()
            self._reap()
            self._tick(time.monotonic())

    def _note_signal(self, number: int, _frame: object) -> None:
        self._signalled = True
        _log(f"received {signal.Signals(number).name}")

    def _is_over(self) -> bool:
        if self._phase == _RUNNING or self._hosted or self._master_pid or self._removers:
            return False
        if self._phase == _FINISHING:
            _remove(self._job_dir)
        _log("the job is over" if self._phase == _FINISHING else "stopped")
        return True

    def _timeout(self) -> float | None:
        now = time.monotonic()
        times = [at for at in (self._start_master_at, self._kill_master_at) if at is not None]
        if self._pulse is not None:
            times.append(self._pulse.due)
        if self._hosted:
            times.append(self._next_sample)
        return max(0.0, min(times) - now) if times else None

    def _tick(self, now: float) -> None:
        """Do what has come due."""
        if self._signalled and self._phase == _RUNNING:
            self._stop(now)
        if self._start_master_at is not None and now >= self._start_master_at:
            self._start_master(now)
        if self._kill_master_at is not None and now >= self._kill_master_at:
            self._kill_master("it did not end by itself")
        if self._pulse is not None and now >= self._pulse.due:
            if self._pulse.is_lost(now):
                self._kill_master(f"it has said nothing for {self._silence_s:g} s")
            else:
                self._send({"op": "ping"})
        if self._hosted and now >= self._next_sample:
            self._next_sample = now + _SAMPLE_S
            for hosted in self._hosted.values():
                if hosted.check_memory():
                    _log(f"{hosted.container} used too much memory and was killed")
            self._settle(now)

    def _stop(self, now: float) -> None:
        """Go away in order: containers first, then let the master record what it was."""
        self._phase = _STOPPING
        self._start_master_at = None
        self._kill_containers()
        if self._master_pid:
            self._kill_master_at = now + _MASTER_GRACE_S
        self._close_line()

    # -- the master -----------------------------------------------------------

    def _start_master(self, now: float, bury: str | None = None) -> None:
        """Start the next attempt, numbered above all that ever wrote a journal."""
        self._start_master_at = None
        self._attempt = max(self._attempt, _last_attempt(self._job_dir)) + 1
        arguments = [*self._master_command, "--backend", "local", "--job-dir", self._job_dir]
        arguments += ["--attempt", str(self._attempt)]
        if bury is not None:
            self._burying = True
            arguments += ["--bury", bury]
        ours, theirs = socket.socketpair()
        passed = [theirs.fileno()]
        env = {**os.environ, "YTF_NODE_FD": str(theirs.fileno())}
        if self._ready_fd is not None:
            env["YTF_READY_FD"] = str(self._ready_fd)
            passed.append(self._ready_fd)
        self._restarts.started(now)
        try:
            with theirs:
                self._master_pid = spawn(arguments, env, "/", pass_fds=passed)
        except OSError as exc:
            ours.close()
            self._after_master(f"could not be started: {exc}")
            return
        finally:
            # From now on the pipe ends with the first master: a submission
            # whose first master does not get ready has failed.
            if self._ready_fd is not None:
                os.close(self._ready_fd)
                self._ready_fd = None
        _log(f"started master attempt {self._attempt}, pid {self._master_pid}")
        self._line = LineSocket(ours.detach())
        self._selector.register(self._line.fd, selectors.EVENT_READ)
        self._pulse = Pulse(self._silence_s, now)
        self._send(
            {
                "op": "hello",
                "pid": os.getpid(),
                "attempt": self._attempt,
                "live": list(self._hosted),
                "ended": list(self._unacknowledged.values()),
                "memory_mb": {name: hosted.memory_mb for name, hosted in self._hosted.items()},
            }
        )

    def _serve_master(self) -> None:
        if self._line is None:
            return
        try:
            messages = self._line.receive()
            if messages and self._pulse is not None:
                self._pulse.heard(time.monotonic())
            for message in messages:
                self._obey(message)
        except (ValueError, KeyError) as exc:
            self._kill_master(f"it sent a line the node does not understand: {exc!r}")
            return
        self._line.flush()
        self._watch_line()
        if self._line.ended:
            self._close_line()
            if self._master_pid and self._kill_master_at is None:
                self._kill_master_at = time.monotonic() + _MASTER_GRACE_S

    def _obey(self, message: Message) -> None:
        op = message["op"]
        if op == "launch":
            self._launch(message)
        elif op == "kill":
            hosted = self._hosted.get(message["container"])
            if hosted is not None:
                hosted.kill("released")
        elif op == "ack":
            self._unacknowledged.pop(message["container"], None)
        elif op == "finished":
            if self._phase == _RUNNING:
                self._phase = _FINISHING
                self._kill_master_at = time.monotonic() + _MASTER_GRACE_S
                self._kill_containers()
        elif op != "pong":
            raise ValueError(f"unknown op {op!r}")

    def _send(self, message: Message) -> None:
        if self._line is not None:
            self._line.send(message)
            self._watch_line()

    def _watch_line(self) -> None:
        if self._line is not None and not self._line.ended:
            writing = selectors.EVENT_WRITE if self._line.pending else 0
            self._selector.modify(self._line.fd, selectors.EVENT_READ | writing)

    def _close_line(self) -> None:
        self._pulse = None
        if self._line is not None:
            self._selector.unregister(self._line.fd)
            self._line.close()
            self._line = None

    def _kill_master(self, why: str) -> None:
        self._kill_master_at = None
        self._pulse = None
        if self._master_pid:
            _log(f"killing master attempt {self._attempt}: {why}")
            processes.kill([self._master_pid])

    def _master_ended(self, wait_status: int) -> None:
        """Read a master's last words, then decide."""
        self._serve_master()
        self._close_line()
        self._master_pid = None
        self._kill_master_at = None
        self._after_master(_describe(wait_status))

    def _after_master(self, how: str) -> None:
        """Decide what comes after a master."""
        _log(f"master attempt {self._attempt} {how}")
        if self._phase != _RUNNING:
            return
        now = time.monotonic()
        if self._burying:
            self._give_up(f"the master died too often, the last one {how}")
            return
        delay = self._restarts.died(now)
        if delay is not None:
            self._start_master_at = now + delay
            return
        self._start_master(
            now,
            bury=f"the master died too often: attempt {self._attempt} {how};"
            " see logs/master.log of the job",
        )

    def _give_up(self, reason: str) -> None:
        """Record the job ourselves: not even burying it worked."""
        if _free_bytes(self._job_dir) < _LITTLE:
            reason += f"; the disk of {self._job_dir} is full"
        try:
            write_last_record(self._job_dir, f"{reason}; see logs/master.log of the job")
            self._phase = _FINISHING
        except OSError as exc:
            _log(f"the job cannot be recorded: {exc}; the next ytf command tries again")
            self._phase = _STOPPING
        self._kill_containers()

    # -- containers -----------------------------------------------------------

    def _launch(self, order: Message) -> None:
        container = order["container"]
        if container in self._hosted or container in self._unacknowledged:
            return
        if self._phase != _RUNNING:
            return
        try:
            pid = spawn(
                order["argv"],
                {**os.environ, **order["env"]},
                order["cwd"],
                output=order["stdout"],
            )
        except OSError as exc:
            self._remove(order["cwd"])
            reason = f"cannot start {order['argv'][0]}: {exc.strerror}: {exc.filename}"
            self._send({"op": "failed", "container": container, "reason": reason})
            return
        self._hosted[container] = Hosted(
            container,
            pid,
            cwd=order["cwd"],
            memory_mb=order["memory_mb"],
            logs=order["logs"],
            attempt=order["attempt"],
        )

    def _kill_containers(self) -> None:
        for hosted in self._hosted.values():
            hosted.kill("released")

    def _reap(self) -> None:
        """Collect every child that ended, then see what they left behind."""
        now = time.monotonic()
        any_ended = False
        while True:
            try:
                pid, wait_status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                break
            if pid == 0:
                break
            any_ended = True
            if pid == self._master_pid:
                self._master_ended(wait_status)
                continue
            # Looked up anew each time: a master's last words may have launched one.
            hosted = self._host_of(pid)
            if hosted is not None:
                hosted.ended(wait_status, now)
            else:
                self._removers.discard(pid)
        if any_ended:
            self._settle(now)

    def _host_of(self, pid: int) -> Hosted | None:
        """The container whose starter is, or has just been, this child."""
        living = (each for each in self._hosted.values() if each.ended_at is None)
        return next((hosted for hosted in living if hosted.pid == pid), None)

    def _settle(self, now: float) -> None:
        """Kill orphans; tell completions once there are none."""
        ours = {hosted.pid for hosted in self._hosted.values() if hosted.ended_at is None}
        ours |= self._removers | {self._master_pid or 0}
        orphans = [pid for pid in processes.children(os.getpid()) if pid not in ours]
        for pid in orphans:
            processes.kill([pid, *processes.descendants(pid)])
        for hosted in list(self._hosted.values()):
            if hosted.ended_at is None:
                continue
            if orphans and now - hosted.ended_at < _STRAGGLER_S:
                continue
            self._complete(hosted, orphans)

    def _complete(self, hosted: Hosted, orphans: list[int]) -> None:
        left_behind = (
            f"processes that could not be killed: {', '.join(map(str, orphans))}" if orphans else ""
        )
        completion = hosted.completion(left_behind)
        del self._hosted[hosted.container]
        self._unacknowledged[hosted.container] = completion
        self._send(completion)
        self._remove(hosted.cwd)

    def _remove(self, directory: str) -> None:
        """Remove a working directory aside: it may be big, and the node has one thread."""
        try:
            pid = os.fork()
        except OSError as exc:
            _log(f"cannot remove {directory} now: {exc}; it goes with the job")
            return
        if pid == 0:
            signal.set_wakeup_fd(-1)
            try:
                _remove(directory)
            finally:
                os._exit(0)
        self._removers.add(pid)


def main(arguments: list[str]) -> None:
    """``JOB_DIR READY_FD MASTER_COMMAND…``: run a job, detached from whoever called."""
    job_dir, ready_fd, *master = arguments
    # The submitter waits for this first process only, so that the node is
    # nobody's child: it leaves no zombie in a program that submits many jobs.
    if os.fork() > 0:
        os._exit(0)
    Node(job_dir, int(ready_fd), master).run()


def _tell_submitter(fd: int, text: str) -> None:
    try:
        os.write(fd, text.encode())
    except BrokenPipeError:
        _log("the submitter is gone already")


def _last_attempt(job_dir: str) -> int:
    """The highest master attempt that has a journal; 0 if none has."""
    try:
        names = os.listdir(os.path.join(job_dir, "journal"))
    except FileNotFoundError:
        return 0
    return max((int(name) for name in names if name.isdigit()), default=0)


def _remove(directory: str) -> None:
    try:
        remove_tree(directory)
    except OSError as exc:
        _log(f"cannot remove {directory}: {exc}; the next ytf command tries again")


def _describe(wait_status: int) -> str:
    if os.WIFSIGNALED(wait_status):
        return f"was killed by signal {os.WTERMSIG(wait_status)}"
    return f"exited with code {os.WEXITSTATUS(wait_status)}"


def _free_bytes(directory: str) -> int:
    found = os.statvfs(directory)
    return found.f_bavail * found.f_frsize


def _drain(fd: int) -> None:
    try:
        while os.read(fd, 4096):
            pass
    except BlockingIOError:
        return


def _log(text: str) -> None:
    line = f"{time.strftime('%Y-%m-%d %H:%M:%S')} node: {text}\n"
    # On a full disk the line is lost, and the job goes on.
    with contextlib.suppress(OSError):
        os.write(2, line.encode("utf-8", "backslashreplace"))
