"""Runs one container's starter: its main thread runs the hooks of one attempt after another.

All that happens elsewhere comes in as a message through the inbox: orders and
cluster specs from the registry's threads, changes of the program from the
runner's, and shutdowns from signal handlers. Only the main thread changes
state.
"""

from __future__ import annotations

import os
import signal
import time
from queue import Empty, SimpleQueue

from ytf.frameworks.api import SERVE_HOROVOD
from ytf.log import log
from ytf.starter import threads
from ytf.starter.attempt import HOOKS, TaskAttempt
from ytf.starter.config import ConfigError
from ytf.starter.control_routes import make_routes
from ytf.starter.control_server import ControlServer
from ytf.starter.desired_state import (
    BUG,
    MASTER_LOST,
    PARENT_DIED,
    STOPPED,
    DesiredState,
    ReceivedClusterSpec,
    ReceivedOrder,
    Shutdown,
    ShutdownError,
)
from ytf.starter.helper_process import Helpers
from ytf.starter.master_finder import MasterFinder
from ytf.starter.master_locator import MasterLocator
from ytf.starter.native_runner import NativeRunner
from ytf.starter.orphans import kill_orphans, watch_orphans
from ytf.starter.port import TaskPort
from ytf.starter.process_tree import become_subreaper, signal_on_parents_death
from ytf.starter.program_env import (
    ClusterSpecFile,
    cluster_spec_path,
    hostfile_path,
    metrics_path,
    remove_file,
)
from ytf.starter.program_metrics import MetricsFile
from ytf.starter.registry import make_registry_client
from ytf.starter.shells import Shells
from ytf.wire.address import join_address, own_address, split_url
from ytf.wire.bind import listen
from ytf.wire.signing import Signer

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Callable, Dict, NoReturn, Optional, Tuple, Union

    from ytf.starter.config import StarterConfig
    from ytf.starter.desired_state import InboxMessage
    from ytf.starter.gpus import TakenGpus
    from ytf.starter.horovod_rendezvous import HorovodPort
    from ytf.starter.program_logs import ProgramLogs
    from ytf.starter.runner import Runner, RunningProgram

SYNC_MARGIN_S = 2.0
"""How much longer than the grace period the last sync of checkpoints may take after a stop."""
FLUSH_S = 2.0
"""How long undelivered reports may take after a stop: the master that ordered it is there."""
WAKE_S = 1.0
"""How late a signal may be noticed: one that comes just before a wait does not end the wait."""
KILL_WAIT_S = 10.0
"""How often it is logged that killed processes are still not dead."""
PARENT_SIGNAL = signal.SIGRTMIN + 1
"""What Linux sends when the parent ends. Not SIGTERM, which means something else."""


class SupersededError(Exception):
    """The current attempt has to make way for a later one."""

    def __init__(self, order: ReceivedOrder) -> None:
        super().__init__("attempt %d" % order.attempt)
        self.order = order


class Starter:
    """One container's starter: construct it, then call ``run``."""

    def __init__(self, config: StarterConfig) -> None:
        self.signer = signer = Signer(config.secret())
        self.config = config
        self.desired = DesiredState()
        self.spec_file = ClusterSpecFile(cluster_spec_path(config.container))
        self.hostfile = hostfile_path(config.container)
        self.metrics = MetricsFile(metrics_path(config.container))
        self.host = config.host or own_address(config.master)
        self.inbox: SimpleQueue[InboxMessage] = SimpleQueue()
        self.port: Union[TaskPort, HorovodPort] = self._make_port(config)
        self.attempt = TaskAttempt(config.attempt, config.generation)
        self.assembled: Optional[Dict[str, str]] = None
        self.libhdfs: Optional[Dict[str, str]] = None
        self.gpus: Optional[TakenGpus] = None
        self.runner = _runner(config)
        self.program: Optional[RunningProgram] = None
        self.logs: Optional[ProgramLogs] = None
        self.activity = ""
        """What it does while no program runs, for the master to show."""
        self.shells = Shells(config.task)
        self.helpers = Helpers(config.helper, _helper_environ(config), self.inbox)
        self._locator = MasterLocator(
            config.master, config.master_file, config.master_attempt, self._make_finder(config)
        )
        self.registry = make_registry_client(
            config.registry,
            locator=self._locator,
            signer=signer,
            inbox=self.inbox,
            job=config.job,
            task=config.task,
            container=config.container,
            heartbeat_timeout_s=config.heartbeat_timeout_s,
            condition=self._condition,
            zookeeper=config.zookeeper,
        )
        try:
            listener = listen(self.host, split_url(config.master), config.control_ports)
        except OSError as exc:
            raise ConfigError("no port for the control endpoint: %s" % exc) from exc
        self.address: str = listener.getsockname()[0]
        self.control = join_address(self.host, listener.getsockname()[1])
        self._control = ControlServer(
            listener, signer, config.container, make_routes(self), self.inbox
        )

    def _make_port(self, config: StarterConfig) -> Union[TaskPort, HorovodPort]:
        if config.port != SERVE_HOROVOD:
            return TaskPort(config.port, config.task_ports)
        # Only one task of a Horovod job needs it.
        from ytf.starter.horovod_rendezvous import HorovodPort

        peer = split_url(config.master)
        return HorovodPort(self.host, peer, config.task_ports, self.inbox)

    def _make_finder(self, config: StarterConfig) -> Optional[MasterFinder]:
        if not config.finder:
            return None
        arguments = [*config.helper, *config.finder]
        environ = _helper_environ(config)
        # A new master gives up starters that are silent for heartbeat_timeout_s: look well before.
        interval_s = config.heartbeat_timeout_s / 3
        return MasterFinder(arguments, environ, self.signer, interval_s, self.inbox)

    def run(self) -> int:
        """Run to the end and return the exit code; no process started here is alive then.

        The exception is a bug of ours in ending the program: then the reaper,
        which outlives this process, kills what is left.
        """
        become_subreaper()
        self._handle_signals()
        self._watch_parent()
        self.registry.start()
        threads.start("orphans", lambda: watch_orphans(self.runner.remove_orphans), self.inbox)
        threads.start("control", self._control.run, self.inbox)
        try:
            return self._run_attempts()
        except Exception as exc:
            log(threads.bug_text(exc, "main"), last=True)
            self._kill_program()
            return BUG
        finally:
            self._locator.close()
            self.helpers.end_all()
            self.shells.close()
            self.registry.close()
            self.spec_file.remove()
            remove_file(self.hostfile)
            self.metrics.remove()
            self.port.close()
            kill_orphans()
            self.runner.remove_orphans()

    def _run_attempts(self) -> int:
        while True:
            self.attempt, code = self._run_attempt()
            if code is not None:
                return code

    def _run_attempt(self) -> Tuple[TaskAttempt, Optional[int]]:
        """Run the current attempt's hooks and wait; returns the next attempt, or an exit code."""
        try:
            # A starter that must exit already (its parent is gone) does not register.
            self.wait_until(self.inbox.empty)
            self.check()
            for hook in HOOKS:
                hook(self, self.attempt)
            self.wait_for_orders()
        except SupersededError as exc:
            order = exc.order
            log("%s becomes attempt %d" % (self.config.task, order.attempt))
            self._end_program(order.grace_s)
            self._finish_sync(None)
            self.helpers.end_all()
            return TaskAttempt(order.attempt, order.generation), None
        except ShutdownError as exc:
            shutdown = exc.shutdown
            log("leaving with exit code %d: %s" % (shutdown.code, shutdown.reason), last=True)
            began = time.monotonic()
            self._end_program(self._grace_s(shutdown))
            if shutdown.code == STOPPED:
                # The master waits for the grace period, and a little longer.
                self._finish_sync(began + self._grace_s(shutdown) + SYNC_MARGIN_S)
            self.helpers.end_all()
            if shutdown.code == STOPPED and not self.registry.flush(FLUSH_S):
                log("not every report was taken by the master")
            return self.attempt, shutdown.code

    # What hooks use

    def check(self) -> None:
        """Raise ``ShutdownError`` or ``SupersededError`` if this attempt must not go on."""
        shutdown = self.desired.shutdown()
        if shutdown is not None:
            raise ShutdownError(shutdown)
        silence_s = self.registry.silence_s()
        if silence_s >= self.config.master_silence_s:
            text = "no master has answered for %.0f s" % silence_s
            raise ShutdownError(Shutdown(MASTER_LOST, text, None))
        order = self.desired.next_attempt(self.attempt.number)
        if order is not None:
            raise SupersededError(order)

    def wait_until(self, condition: Callable[[], bool]) -> None:
        """Take messages until ``condition`` holds, or this attempt must not go on."""
        while not condition():
            self.check()
            self._take(min(self.config.master_silence_s - self.registry.silence_s(), WAKE_S))

    def wait_for_orders(self) -> NoReturn:
        """Take messages until one of them ends this attempt."""
        while True:
            self.wait_until(lambda: False)

    def _condition(self) -> Dict[str, object]:
        """Return how the program is, for a heartbeat. The registry's threads call this."""
        program, logs = self.program, self.logs
        if program is None:
            return {"activity": self.activity} if self.activity else {}
        lost_at = None if logs is None else logs.output_lost_at
        condition: Dict[str, object] = {
            "idle_s": round(program.idle_s(), 1),
            "output_lost_at": lost_at,
        }
        usage = program.usage()
        if usage is not None:
            condition["usage"] = self.attempt.usage_of(usage, self.metrics.read())
        return condition

    # Internals of the main thread

    def _take(self, timeout_s: float) -> None:
        try:
            message = self.inbox.get(timeout=min(max(timeout_s, 0.0), 3600.0))
        except Empty:
            return
        self.desired.update(message)
        if isinstance(message, ReceivedClusterSpec):
            self._refresh_spec_file()

    def _refresh_spec_file(self) -> None:
        spec = self.desired.spec
        if self.program is None or spec is None or spec.generation != self.attempt.generation:
            return
        try:
            self.spec_file.write(spec)
        except OSError as exc:
            log("the program does not learn of the new cluster spec: %s" % exc)

    def _grace_s(self, shutdown: Shutdown) -> float:
        return self.config.grace_s if shutdown.grace_s is None else shutdown.grace_s

    def _end_program(self, grace_s: float) -> None:
        """End the program and return once it and all its processes are proved dead."""
        program = self.program
        if program is None:
            return
        began = time.monotonic()
        killed = False
        program.end_gently()
        if program.shell_container() is not None:
            # It ends when its last process does: a shell may not hold that.
            threads.start("end shells", self.shells.end_all, self.inbox)
        while program.exit is None:
            shutdown = self.desired.shutdown()
            if shutdown is not None:  # a more urgent one may come meanwhile
                grace_s = min(grace_s, self._grace_s(shutdown))
            left_s = began + grace_s - time.monotonic()
            if left_s <= 0 and killed:
                log("waiting for processes of attempt %d to die" % self.attempt.number)
            elif left_s <= 0:
                program.end_now()
                killed = True
            self._take(KILL_WAIT_S if killed else left_s)
        self.attempt.exit = program.exit
        self.program = None

    def _finish_sync(self, deadline: Optional[float]) -> None:
        """Sync the checkpoints of a program that was told to end, up to the deadline if any.

        It returns early if a stop comes meanwhile. Nothing happens if no program ran.
        """
        sync, end = self.attempt.sync, self.attempt.exit
        if sync is None or end is None:
            return
        limit_s = float(self.config.checkpoint_sync["final_s"])
        if deadline is not None:
            limit_s = min(limit_s, max(deadline - time.monotonic(), 0.0))
        sync.finish(end, limit_s, was_asked=True)
        while not sync.is_finished():
            if deadline is None and self.desired.shutdown() is not None:
                deadline = time.monotonic() + self.config.grace_s
            if deadline is not None and time.monotonic() > deadline:
                log("the last sync of the checkpoints is given up: the time is over")
                break
            self._take(WAKE_S)
        if sync.failure:
            log("the last sync of the checkpoints failed: %s" % sync.failure)

    def _kill_program(self) -> None:
        """Kill the program's processes after a bug; relies on as little state as possible."""
        program = self.program
        if program is None:
            return
        program.end_now()
        deadline = time.monotonic() + KILL_WAIT_S
        try:
            while program.exit is None:
                self.inbox.get(timeout=max(deadline - time.monotonic(), 0.0))
        except Empty:
            log("processes of attempt %d are left to their reaper" % self.attempt.number)

    def _handle_signals(self) -> None:
        def shut_down(signum: int, _: object) -> None:
            name = signal.Signals(signum).name
            self.inbox.put(Shutdown(128 + signum, "%s received" % name, None))

        def forward(signum: int, _: object) -> None:
            if self.program is not None:
                self.program.signal(signum)

        for signum in (signal.SIGTERM, signal.SIGINT):
            signal.signal(signum, shut_down)
        for signum in (signal.SIGUSR1, signal.SIGUSR2, signal.SIGHUP):
            signal.signal(signum, forward)

    def _watch_parent(self) -> None:
        parent = self.config.parent
        if parent is None:
            return

        def check_parent(*_: object) -> None:
            # The signal also comes when only the thread that started us ended.
            if os.getppid() != parent:
                text = "process %d, which had started it, is gone" % parent
                self.inbox.put(Shutdown(PARENT_DIED, text))

        signal.signal(PARENT_SIGNAL, check_parent)
        signal_on_parents_death(PARENT_SIGNAL)
        check_parent()


def _runner(config: StarterConfig) -> Runner:
    if config.docker is None:
        return NativeRunner(config.grace_s)
    # Only tasks with an image need it.
    from ytf.starter.engine_runner import EngineRunner

    return EngineRunner(config.docker, config.container, config.inherited)


def _helper_environ(config: StarterConfig) -> Dict[str, str]:
    # Without our own variables, which are long.
    own = {name: value for name, value in os.environ.items() if not name.startswith("YTF_")}
    return dict(own, **config.helper_env)
