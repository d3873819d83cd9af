"""The starter's main thread: owns the state, runs the hooks of one attempt after another.

Everything that happens elsewhere comes in as a message: orders and specs from
the poll thread, acknowledgements from the report thread, changes of the
program from its watcher, signals from their handlers.
"""

from __future__ import annotations

import os
import signal
import time
from queue import Empty, SimpleQueue

from ytf.starter import linux, threads
from ytf.starter.address import join, own_address
from ytf.starter.attempt import HOOKS, Attempt
from ytf.starter.auth import Signer
from ytf.starter.bugs import bug_text
from ytf.starter.config import ConfigError
from ytf.starter.control import Control
from ytf.starter.link import Link
from ytf.starter.log import say
from ytf.starter.poll import Poller
from ytf.starter.port import Port, listen
from ytf.starter.report import Reporter
from ytf.starter.routes import routes
from ytf.starter.situation import (
    BUG,
    ORPHANED,
    PARENT_DIED,
    STOPPED,
    ClusterSpec,
    DismissedError,
    Ended,
    Order,
    Situation,
)
from ytf.starter.specfile import SpecFile
from ytf.starter.whereabouts import Whereabouts

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Callable, Dict, NoReturn, Optional, Tuple

    from ytf.starter.config import Config
    from ytf.starter.logs import Logs
    from ytf.starter.process import Program
    from ytf.starter.situation import Message

FLUSH_S = 2.0
"""What undelivered reports get when the master has ordered a stop: it is there to take them."""
WAKE_S = 1.0
"""How late a signal may be noticed that comes just before a wait: that does not end the wait."""
PROVE_S = 10.0
"""How often it is told that killed processes are still not dead."""
PARENT_SIGNAL = signal.SIGRTMIN + 1
"""Sent by Linux when the parent ends. One of its own, as SIGTERM means something else."""


class SupersededError(Exception):
    """The current attempt is over: be another one."""

    def __init__(self, order: Order) -> None:
        super().__init__("attempt %d" % order.attempt)
        self.order = order


class Starter:
    """One container's starter. ``run`` is its whole life."""

    def __init__(self, config: Config) -> None:
        signer = Signer(config.secret())
        self.config = config
        self.situation = Situation()
        self.port = Port(config.port)
        self.spec_file = SpecFile(config.container)
        self.host = config.host or own_address(config.master)
        self.attempt = Attempt(config.attempt, config.generation)
        self.assembled: Optional[Dict[str, str]] = None
        self.program: Optional[Program] = None
        self.logs: Optional[Logs] = None
        self.inbox: SimpleQueue[Message] = SimpleQueue()
        self._whereabouts = Whereabouts(config.master, config.master_file)
        self._reports = Link(self._whereabouts, signer, config.container + "/report")
        self._polls = Link(self._whereabouts, signer, config.container + "/poll")
        self.reporter = Reporter(
            self._reports, self.inbox, task=config.task, container=config.container
        )
        self._poller: Optional[Poller] = None
        try:
            listener = listen(config.host)
        except OSError as exc:
            raise ConfigError("no port for the control endpoint: %s" % exc) from exc
        self.control = join(self.host, listener.getsockname()[1])
        self._control = Control(listener, signer, config.container, routes(self), self.inbox)

    def run(self) -> int:
        """Live; the exit code. No process started here is alive when it returns.

        But for a bug of ours in just that: then the keeper sees to it, which
        outlives us.
        """
        linux.adopt_orphans()
        self._handle_signals()
        self._watch_parent()
        threads.start("report", self.reporter.run, self.inbox)
        threads.start("control", self._control.run, self.inbox)
        try:
            return self._live()
        except Exception as exc:
            say(bug_text(exc, "main"))
            self._kill_program()
            return BUG
        finally:
            self.spec_file.remove()
            self.port.close()

    def _live(self) -> int:
        while True:
            self.attempt, code = self._run_attempt()
            if code is not None:
                return code

    def _run_attempt(self) -> Tuple[Attempt, Optional[int]]:
        """Run the current attempt's hooks and wait; the next attempt, or an exit code."""
        try:
            # Who must leave already, its parent gone, say, tells the master nothing.
            self.wait_until(self.inbox.empty)
            self.check()
            for hook in HOOKS:
                hook(self, self.attempt)
            self.wait_for_orders()
        except SupersededError as exc:
            order = exc.order
            say("%s becomes attempt %d" % (self.config.task, order.attempt))
            self._end_program(order.grace_s)
            return Attempt(order.attempt, order.generation), None
        except DismissedError as exc:
            end = exc.ended
            say("leaving with exit code %d: %s" % (end.code, end.reason))
            self._end_program(self._grace_s(end))
            if end.code == STOPPED and not self.reporter.flush(FLUSH_S):
                say("not every report was taken by the master")
            return self.attempt, end.code

    # What hooks use

    def check(self) -> None:
        """Raise ``DismissedError`` or ``SupersededError`` if this attempt must not go on."""
        end = self.situation.end()
        if end is not None:
            raise DismissedError(end)
        silence_s = self._whereabouts.silence_s()
        if silence_s >= self.config.orphan_s:
            text = "no master was heard of for %.0f s" % silence_s
            raise DismissedError(Ended(ORPHANED, text, None))
        order = self.situation.successor(self.attempt.number)
        if order is not None:
            raise SupersededError(order)

    def wait_until(self, condition: Callable[[], bool]) -> None:
        """Take messages until ``condition`` holds, or this attempt must not go on."""
        while not condition():
            self.check()
            self._take(min(self.config.orphan_s - self._whereabouts.silence_s(), WAKE_S))

    def wait_for_orders(self) -> NoReturn:
        """Take messages until one of them ends this attempt."""
        while True:
            self.wait_until(lambda: False)

    def start_polling(self) -> None:
        """Begin to hear from the master, if not yet begun."""
        if self._poller is not None:
            return
        poller = self._poller = Poller(
            self._polls,
            self.inbox,
            task=self.config.task,
            container=self.config.container,
            attempt=lambda: self.attempt.number,
            heartbeat_s=self.config.heartbeat_s,
        )
        known = self.situation.order.number if self.situation.order else 0
        threads.start("poll", lambda: poller.run(known), self.inbox)

    def told_of_master(self, url: str, attempt: int) -> None:
        """A new master has introduced itself. From any thread."""
        if self._whereabouts.told(url, attempt):
            self._polls.interrupt()
            self._reports.interrupt()

    # The rest is the main thread's own

    def _take(self, timeout_s: float) -> None:
        try:
            message = self.inbox.get(timeout=min(max(timeout_s, 0.0), 3600.0))
        except Empty:
            return
        self.situation.take(message)
        if isinstance(message, ClusterSpec):
            self._refresh_spec_file()

    def _refresh_spec_file(self) -> None:
        spec = self.situation.spec
        if self.program is None or spec is None or spec.generation != self.attempt.generation:
            return
        try:
            self.spec_file.write(spec)
        except OSError as exc:
            say("the program does not learn of the new cluster spec: %s" % exc)

    def _grace_s(self, ended: Ended) -> float:
        return self.config.grace_s if ended.grace_s is None else ended.grace_s

    def _end_program(self, grace_s: float) -> None:
        """End the program and return once it and all its processes are proved dead."""
        program = self.program
        if program is None:
            return
        began = time.monotonic()
        killed = False
        program.end_gently()
        while program.exit is None:
            end = self.situation.end()
            if end is not None:  # more urgent news may come meanwhile
                grace_s = min(grace_s, self._grace_s(end))
            left_s = began + grace_s - time.monotonic()
            if left_s <= 0 and killed:
                say("waiting for processes of attempt %d to die" % self.attempt.number)
            elif left_s <= 0:
                program.end_now()
                killed = True
            self._take(PROVE_S if killed else left_s)
        self.program = None

    def _kill_program(self) -> None:
        """Kill the program's processes, relying on as little of our own state as can be."""
        program = self.program
        if program is None:
            return
        program.end_now()
        deadline = time.monotonic() + PROVE_S
        try:
            while program.exit is None:
                self.inbox.get(timeout=max(deadline - time.monotonic(), 0.0))
        except Empty:
            say("processes of attempt %d are left to their keeper" % self.attempt.number)

    def _handle_signals(self) -> None:
        def leave(signum: int, _: object) -> None:
            name = signal.Signals(signum).name
            self.inbox.put(Ended(128 + signum, "%s received" % name, None))

        def forward(signum: int, _: object) -> None:
            if self.program is not None:
                self.program.signal(signum)

        for signum in (signal.SIGTERM, signal.SIGINT):
            signal.signal(signum, leave)
        for signum in (signal.SIGUSR1, signal.SIGUSR2, signal.SIGHUP):
            signal.signal(signum, forward)

    def _watch_parent(self) -> None:
        parent = self.config.parent
        if parent is None:
            return

        def look(*_: object) -> None:
            # The signal also comes when only the thread that started us ended.
            if os.getppid() != parent:
                text = "process %d, which had started it, is gone" % parent
                self.inbox.put(Ended(PARENT_DIED, text))

        signal.signal(PARENT_SIGNAL, look)
        linux.signal_on_parents_death(PARENT_SIGNAL)
        look()
