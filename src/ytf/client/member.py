"""``--client``: one task of the job at the submitter's terminal.

To the master it is a task like any other; the code that makes it one is the
starter's own.
"""

from __future__ import annotations

from collections.abc import Callable
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING

from ytf.backends.api import Access, MasterAddress
from ytf.client.access import ClientWhereabouts
from ytf.client.surroundings import Surroundings
from ytf.client.terminal import ctrl_c_is_the_programs, died_of_ctrl_c, end_program
from ytf.errors import InternalError, UnreachableError
from ytf.specs.job import CLIENT
from ytf.specs.names import task_id
from ytf.starter import threads
from ytf.starter.auth import Signer
from ytf.starter.link import Link
from ytf.starter.poll import Poller
from ytf.starter.process import Program
from ytf.starter.report import EXITED, REGISTER, STARTED, Reporter
from ytf.starter.situation import (
    REVOKED,
    STOPPED,
    ClusterSpec,
    Order,
    Situation,
)

if TYPE_CHECKING:
    from ytf.starter.situation import Message

CONTAINER = f"{CLIENT}_0"
_LOOK_S = 5.0


class ClientTask:
    """``client:0``: a task like any other to the master, but here. ``run`` is its whole life."""

    def __init__(self, access: Access, master: MasterAddress, surroundings: Surroundings) -> None:
        self._surroundings = surroundings
        self._timeouts = access.spec.timeouts
        self._inbox: SimpleQueue[Message] = SimpleQueue()
        self._situation = Situation()
        self._whereabouts = ClientWhereabouts(access, master)
        signer = Signer(access.secret)
        task = task_id(CLIENT, 0)
        self._reporter = Reporter(
            Link(self._whereabouts, signer, f"{CONTAINER}/report"),
            self._inbox,
            task=task,
            container=CONTAINER,
        )
        self._attempt = 1
        self._poller = Poller(
            Link(self._whereabouts, signer, f"{CONTAINER}/poll"),
            self._inbox,
            task=task,
            container=CONTAINER,
            attempt=lambda: self._attempt,
            heartbeat_s=self._timeouts.heartbeat_s,
        )
        self._polling = False
        self._program: Program | None = None

    def run(self) -> None:
        """Take part until the master wants no more of us.

        Raises ``KeyboardInterrupt`` if the program died of Ctrl-C; what its
        end means otherwise is the master's to say. Nothing the program started
        is alive on return, whatever the reason.
        """
        threads.start("report", self._reporter.run, self._inbox)
        generation = 1
        try:
            while not self._over():
                self._run_attempt(generation)
                order = self._situation.successor(self._attempt)
                if order is not None:
                    self._end_program(order.grace_s)
                    self._attempt, generation = order.attempt, order.generation
        finally:
            self._end_program(self._grace_s())
            self._whereabouts.close()

    def _run_attempt(self, generation: int) -> None:
        """From the registration to the report; returns early when the attempt is over."""
        number = self._attempt
        host = self._surroundings.host
        self._reporter.send(REGISTER, number, host=host, port=None, control=None)
        if not self._wait(lambda: self._situation.is_acknowledged(REGISTER, number)):
            return
        self._start_polling()
        if not self._wait(lambda: self._fitting_spec(generation) is not None):
            return
        spec = self._fitting_spec(generation)
        assert spec is not None
        with ctrl_c_is_the_programs(lambda: self._program):
            program = Program(self._surroundings.command(spec, number), None, self._inbox)
            self._program = program
            if self._wait(lambda: program.pid is not None or program.exit is not None):
                if program.pid is not None:
                    self._reporter.send(STARTED, number)
                if not self._wait(lambda: program.exit is not None):
                    return
        end = program.exit
        if end is None:
            return
        self._program = None
        if died_of_ctrl_c(end):
            raise KeyboardInterrupt
        self._reporter.send(
            EXITED,
            number,
            exit_code=end.exit_code,
            signal=end.signal,
            ended_at=end.ended_at,
            tail="",
            reason=end.reason,
        )
        self._wait(lambda: False)

    def _fitting_spec(self, generation: int) -> ClusterSpec | None:
        spec = self._situation.spec
        return spec if spec is not None and spec.fits(generation, CLIENT, 0, None) else None

    def _start_polling(self) -> None:
        if not self._polling:
            self._polling = True
            order: Order | None = self._situation.order
            known = order.number if order is not None else 0
            threads.start("poll", lambda: self._poller.run(known), self._inbox)

    def _wait(self, condition: Callable[[], bool]) -> bool:
        """Take messages until the condition holds; False if the attempt must not go on."""
        while not condition():
            if self._over() or self._situation.successor(self._attempt) is not None:
                return False
            self._take(_LOOK_S)
        return True

    def _over(self) -> bool:
        """Whether the master has let us go; raises what a user must hear otherwise."""
        end = self._situation.end()
        if end is not None:
            if end.code in (STOPPED, REVOKED):
                return True
            raise InternalError(f"the client could not take part in the job: {end.reason}")
        silence_s = self._whereabouts.silence_s()
        if silence_s > self._timeouts.orphan_s:
            raise UnreachableError(f"no master was heard of for {silence_s:.0f} s")
        return False

    def _take(self, timeout_s: float) -> None:
        try:
            self._situation.take(self._inbox.get(timeout=timeout_s))
        except Empty:
            return

    def _grace_s(self) -> float:
        end = self._situation.end()
        if end is None or end.grace_s is None:
            return self._timeouts.stop_grace_s
        return end.grace_s

    def _end_program(self, grace_s: float) -> None:
        program, self._program = self._program, None
        if program is not None:
            end_program(program, grace_s, self._take)
