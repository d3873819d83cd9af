"""The main loop of the node: one small process per local job, the parent of all its others.

The node supervises the master, runs containers as the master orders, limits
their memory, and repeats each completion until the master has it in its
journal. It keeps the programs' TCP servers away from the network
(``ytf.backends.local.loopback``). It is a child subreaper, so it inherits the processes that a dead
starter or master leaves, and kills them: no process of a job outlives its
container, and none outlives the job.

::

    RUNNING ──"finished"──▶ FINISHING ──all dead──▶ staging removed, exit 0
       └─────SIGTERM──────▶ STOPPING ───all dead──▶ exit 0 (the master records the job as FAILED)

Standard library only, one thread. docs/protocols.md §4 describes the messages.
"""

from __future__ import annotations

import json
import os
import selectors
import signal
import time

from ytf import processes
from ytf.backends.local.files import DISK_FULL_BYTES, free_bytes, remove_tree, write_atomically
from ytf.backends.local.loopback import (
    ListenSupervisor,
    UnsupportedError,
    confine_thread,
    warning_text,
)
from ytf.backends.local.node.container_process import ContainerProcess, is_engine_reaper
from ytf.backends.local.node.master_supervisor import MasterSupervisor, RestartPolicy
from ytf.backends.local.node.spawn import spawn
from ytf.backends.local.records import write_minimal_record
from ytf.log import log
from ytf.starter.process_tree import become_subreaper

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ytf.backends.local.node.json_lines import Message

_RUNNING, _FINISHING, _STOPPING = "RUNNING", "FINISHING", "STOPPING"

_MEMORY_CHECK_S = 0.5
"""Time between two checks of the containers' memory."""
_MASTER_SILENCE_S = 60.0
"""How long a master may send nothing before it counts as hung: far longer than a busy one does."""
_ORPHAN_TIMEOUT_S = 10.0
"""How long a completion waits for processes that SIGKILL does not end."""


class Node:
    """Runs one job; :meth:`run` returns when nothing of it is left.

    ``master`` is the command that starts a master. ``ready_fd`` is a pipe on
    which the submitter waits: the node writes its pid to it, and the first
    master inherits it. A master that is silent for ``silence_s`` is killed.
    """

    def __init__(
        self,
        job_dir: str,
        ready_fd: int,
        master: list[str],
        *,
        silence_s: float = _MASTER_SILENCE_S,
    ) -> None:
        self._job_dir = job_dir
        with open(os.path.join(job_dir, "spec.json"), encoding="utf-8") as file:
            spec = json.load(file)
        limits = spec.get("master", {})
        self._exposes_ports = spec.get("expose_ports", False)
        self._listens: ListenSupervisor | None = None
        self._warning = ""
        self._phase = _RUNNING
        self._selector = selectors.DefaultSelector()
        self._master = MasterSupervisor(
            job_dir,
            ready_fd,
            master,
            self._selector,
            restarts=RestartPolicy(
                limits.get("max_attempts", 4), limits.get("attempt_window_s", 600.0)
            ),
            silence_s=silence_s,
        )
        self._containers: dict[str, ContainerProcess] = {}
        self._unacknowledged: dict[str, Message] = {}
        self._removers: set[int] = set()
        self._signalled = False
        self._next_memory_check = 0.0

    # -- main loop --------------------------------------------------------------

    def run(self) -> None:
        """Run until the job is over, or until SIGTERM or SIGINT has stopped it."""
        wakeup, woken = os.pipe()
        os.set_blocking(wakeup, False)
        os.set_blocking(woken, False)
        signal.set_wakeup_fd(woken, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._on_signal)
        self._selector.register(wakeup, selectors.EVENT_READ)

        become_subreaper()
        pid = os.getpid()
        identity = {"pid": pid, "start_ticks": processes.start_ticks(pid)}
        write_atomically(os.path.join(self._job_dir, "node.json"), json.dumps(identity))
        self._master.tell_submitter(f"node {pid}\n")
        self._confine_programs()
        self._start_master(time.monotonic())

        while not self._is_over():
            for key, _ in self._selector.select(self._timeout()):
                if key.fd == wakeup:
                    _drain(wakeup)
                elif self._listens is not None and key.fd == self._listens.fd:
                    self._warn(self._listens.answer())
            self._serve_master()
            self._reap()
            self._tick(time.monotonic())

    def _on_signal(self, number: int, _frame: object) -> None:
        self._signalled = True
        _log(f"received {signal.Signals(number).name}")

    def _is_over(self) -> bool:
        if self._phase == _RUNNING or self._containers or self._master.pid or self._removers:
            return False
        if self._phase == _FINISHING:
            _remove(self._job_dir)
        _log("the job is over" if self._phase == _FINISHING else "stopped")
        return True

    def _timeout(self) -> float | None:
        times = self._master.due_times()
        if self._containers:
            times.append(self._next_memory_check)
        return max(0.0, min(times) - time.monotonic()) if times else None

    def _tick(self, now: float) -> None:
        """Do what is due."""
        if self._signalled and self._phase == _RUNNING:
            self._stop(now)
        if self._master.start_is_due(now):
            self._start_master(now)
        self._master.tick(now)
        if self._containers and now >= self._next_memory_check:
            self._next_memory_check = now + _MEMORY_CHECK_S
            for container in self._containers.values():
                if container.check_memory():
                    _log(f"{container.container} used too much memory and was killed")
            self._settle(now)

    def _stop(self, now: float) -> None:
        """Kill the containers, and let the master record the job."""
        self._phase = _STOPPING
        self._kill_containers()
        self._master.disconnect(now)

    # -- the programs' servers ----------------------------------------------------

    def _confine_programs(self) -> None:
        """From now on let only this machine reach the servers of what the node starts."""
        if self._exposes_ports:
            return
        try:
            fd = confine_thread()
        except UnsupportedError as exc:
            self._warn(str(exc))
            return
        if fd is not None:
            self._listens = ListenSupervisor(fd)
            self._selector.register(fd, selectors.EVENT_READ)

    def _warn(self, why: str) -> None:
        """Tell the master, and every master after it, that programs can be reached; once."""
        if why and not self._warning:
            self._warning = warning_text(why)
            _log(self._warning)
            self._send_warning()

    def _send_warning(self) -> None:
        if self._warning:
            self._master.send({"op": "warning", "text": self._warning})

    # -- the master -----------------------------------------------------------

    def _start_master(self, now: float, finalize: str | None = None) -> None:
        containers = {
            "live": list(self._containers),
            "ended": list(self._unacknowledged.values()),
            "memory_mb": {name: each.memory_mb for name, each in self._containers.items()},
        }
        try:
            self._master.start(now, containers, finalize)
        except OSError as exc:
            self._after_master(f"could not be started: {exc}")
            return
        self._send_warning()

    def _serve_master(self) -> None:
        try:
            for message in self._master.receive(time.monotonic()):
                self._obey(message)
        except (ValueError, KeyError) as exc:
            self._master.kill(f"it sent a line the node does not understand: {exc!r}")
            return
        self._master.flush(time.monotonic())

    def _obey(self, message: Message) -> None:
        op = message["op"]
        if op == "launch":
            self._launch(message)
        elif op == "kill":
            container = self._containers.get(message["container"])
            if container is not None:
                container.kill("released")
        elif op == "ack":
            self._unacknowledged.pop(message["container"], None)
        elif op == "finished":
            if self._phase == _RUNNING:
                self._phase = _FINISHING
                self._master.expect_end(time.monotonic())
                self._kill_containers()
        elif op != "pong":
            raise ValueError(f"unknown op {op!r}")

    def _master_ended(self, wait_status: int) -> None:
        """Obey what the master sent last, then decide what follows."""
        self._serve_master()
        self._master.reaped()
        self._after_master(_describe(wait_status))

    def _after_master(self, how: str) -> None:
        """Restart the master, or finalize the job if the master died too often."""
        attempt = self._master.attempt
        _log(f"master attempt {attempt} {how}")
        if self._phase != _RUNNING:
            return
        if self._master.finalizing:
            self._give_up(f"the master died too often, the last one {how}")
            return
        now = time.monotonic()
        if not self._master.schedule_restart(now):
            self._start_master(
                now,
                finalize=f"the master died too often: attempt {attempt} {how};"
                " see logs/master.log of the job",
            )

    def _give_up(self, reason: str) -> None:
        """Write the record in the node, because the finalizing master died too."""
        if free_bytes(self._job_dir) < DISK_FULL_BYTES:
            reason += f"; the disk of {self._job_dir} is full"
        try:
            write_minimal_record(self._job_dir, f"{reason}; see logs/master.log of the job")
            self._phase = _FINISHING
        except OSError as exc:
            _log(f"the job cannot be recorded: {exc}; the next ytf command tries again")
            self._phase = _STOPPING
        self._kill_containers()

    # -- containers -----------------------------------------------------------

    def _launch(self, order: Message) -> None:
        name = order["container"]
        if name in self._containers or name in self._unacknowledged:
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
            self._remove_later(order["cwd"])
            reason = f"cannot start {order['argv'][0]}: {exc.strerror}: {exc.filename}"
            self._master.send({"op": "failed", "container": name, "reason": reason})
            return
        self._containers[name] = ContainerProcess(
            name,
            pid,
            cwd=order["cwd"],
            memory_mb=order["memory_mb"],
            logs=order["logs"],
            attempt=order["attempt"],
        )

    def _kill_containers(self) -> None:
        for container in self._containers.values():
            container.kill("released")

    def _reap(self) -> None:
        """Wait for every child that ended, then settle what they left behind."""
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
            if pid == self._master.pid:
                self._master_ended(wait_status)
                continue
            # Looked up each time: the last messages of a master may have launched a container.
            container = self._container_of_starter(pid)
            if container is not None:
                container.ended(wait_status, now)
            else:
                self._removers.discard(pid)
        if any_ended:
            self._settle(now)

    def _container_of_starter(self, pid: int) -> ContainerProcess | None:
        """Return the container whose starter is this child, or was until now."""
        running = (each for each in self._containers.values() if each.ended_at is None)
        return next((container for container in running if container.pid == pid), None)

    def _settle(self, now: float) -> None:
        """Kill orphans; complete ended containers once there are no orphans."""
        known = {each.pid for each in self._containers.values() if each.ended_at is None}
        known |= self._removers | {self._master.pid or 0}
        orphans = [pid for pid in processes.children(os.getpid()) if pid not in known]
        for pid in orphans:
            if not is_engine_reaper(pid):
                processes.kill([pid, *processes.descendants(pid)])
        for container in list(self._containers.values()):
            if container.ended_at is None:
                continue
            if orphans and now - container.ended_at < _ORPHAN_TIMEOUT_S:
                continue
            self._complete(container, orphans)

    def _complete(self, container: ContainerProcess, orphans: list[int]) -> None:
        left_behind = (
            f"processes that could not be killed: {', '.join(map(str, orphans))}" if orphans else ""
        )
        completion = container.completion(left_behind)
        del self._containers[container.container]
        self._unacknowledged[container.container] = completion
        self._master.send(completion)
        self._remove_later(container.cwd)

    def _remove_later(self, directory: str) -> None:
        """Remove a working directory in a child: it may be big, and the node has one thread."""
        try:
            pid = os.fork()
        except OSError as exc:
            _log(f"cannot remove {directory} now: {exc}; it is removed at the end of the job")
            return
        if pid == 0:
            signal.set_wakeup_fd(-1)
            try:
                _remove(directory)
            finally:
                os._exit(0)
        self._removers.add(pid)


def main(arguments: list[str]) -> None:
    """Run a job, detached from the caller. Arguments: ``JOB_DIR READY_FD MASTER_COMMAND…``."""
    job_dir, ready_fd, *master = arguments
    # The submitter waits only for this first process. The node becomes a child of init,
    # and leaves no zombie in a program that submits many jobs.
    if os.fork() > 0:
        os._exit(0)
    Node(job_dir, int(ready_fd), master).run()


def _remove(directory: str) -> None:
    try:
        remove_tree(directory)
    except OSError as exc:
        _log(f"cannot remove {directory}: {exc}; the next ytf command tries again")


def _describe(wait_status: int) -> str:
    if os.WIFSIGNALED(wait_status):
        return f"was killed by signal {os.WTERMSIG(wait_status)}"
    return f"exited with code {os.WEXITSTATUS(wait_status)}"


def _drain(fd: int) -> None:
    try:
        while os.read(fd, 4096):
            pass
    except BlockingIOError:
        return


def _log(text: str) -> None:
    log(f"node: {text}")
