"""Runs ``client:0``, the task of ``--client``, at the submitter's terminal.

To the master it is a task like any other: it uses the starter's own registry
client and runner.
"""

from __future__ import annotations

from collections.abc import Callable
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING

from ytf.backends.api import JobCredentials, MasterAddress
from ytf.client.client_env import ClientEnv
from ytf.client.master_lookup import ClientMasterLocator
from ytf.client.terminal_program import died_of_ctrl_c, end_program, leave_ctrl_c_to
from ytf.errors import InternalError, UnreachableError
from ytf.specs.ids import task_id
from ytf.specs.job import CLIENT
from ytf.starter.desired_state import REVOKED, STOPPED, DesiredState, ReceivedClusterSpec
from ytf.starter.native_runner import NativeProgram
from ytf.starter.registry import REST, make_registry_client
from ytf.wire.signing import Signer

if TYPE_CHECKING:
    from ytf.starter.desired_state import InboxMessage

CONTAINER = f"{CLIENT}_0"
_CHECK_S = 5.0
"""How often the silence of the master is looked at while nothing else happens."""


class ClientTask:
    """``client:0``: construct it, then call ``run``."""

    def __init__(self, credentials: JobCredentials, master: MasterAddress, env: ClientEnv) -> None:
        self._env = env
        self._timeouts = credentials.spec.timeouts
        self._inbox: SimpleQueue[InboxMessage] = SimpleQueue()
        self._desired = DesiredState()
        self._locator = ClientMasterLocator(credentials, master)
        self._registry = make_registry_client(
            # Whatever the job's own is: it has no port to publish.
            REST,
            locator=self._locator,
            signer=Signer(credentials.secret),
            inbox=self._inbox,
            job=credentials.job,
            task=task_id(CLIENT, 0),
            container=CONTAINER,
            heartbeat_timeout_s=self._timeouts.heartbeat_timeout_s,
            condition=dict,  # its user sees whether it waits, and it has no logs
        )
        self._attempt = 1
        self._program: NativeProgram | None = None

    def run(self) -> None:
        """Be a task of the job until the master stops it.

        Raises ``KeyboardInterrupt`` if the program died of Ctrl-C; the master
        decides what any other exit means. Nothing that the program started is
        alive on return, whatever the reason.
        """
        self._registry.start()
        generation = 1
        try:
            while not self._is_over():
                self._run_attempt(generation)
                order = self._desired.next_attempt(self._attempt)
                if order is not None:
                    self._end_program(order.grace_s)
                    self._attempt, generation = order.attempt, order.generation
        finally:
            self._end_program(self._grace_s())
            self._locator.close()

    def _run_attempt(self, generation: int) -> None:
        """Run one attempt, from the registration to the report; returns early if it is over."""
        number = self._attempt
        self._registry.register(number, host=self._env.host, port=None, control=None)
        if not self._wait(lambda: self._desired.is_registered(number)):
            return
        self._registry.subscribe()
        if not self._wait(lambda: self._fitting_spec(generation) is not None):
            return
        spec = self._fitting_spec(generation)
        assert spec is not None
        with leave_ctrl_c_to(lambda: self._program):
            program = NativeProgram(self._env.command(spec, number), None, self._inbox)
            self._program = program
            if self._wait(lambda: program.pid is not None or program.exit is not None):
                if program.pid is not None:
                    self._registry.report_started(number)
                if not self._wait(lambda: program.exit is not None):
                    return
        end = program.exit
        if end is None:
            return
        self._program = None
        if died_of_ctrl_c(end):
            raise KeyboardInterrupt
        self._registry.report_exited(number, end)
        self._wait(lambda: False)

    def _fitting_spec(self, generation: int) -> ReceivedClusterSpec | None:
        spec = self._desired.spec
        return spec if spec is not None and spec.fits(generation, CLIENT, 0, None) else None

    def _wait(self, condition: Callable[[], bool]) -> bool:
        """Take messages until the condition holds; False if the attempt must not go on."""
        while not condition():
            if self._is_over() or self._desired.next_attempt(self._attempt) is not None:
                return False
            self._take(_CHECK_S)
        return True

    def _is_over(self) -> bool:
        """Tell whether the master has stopped this task; raises if it ended in another way."""
        shutdown = self._desired.shutdown()
        if shutdown is not None:
            if shutdown.code in (STOPPED, REVOKED):
                return True
            raise InternalError(f"the client could not take part in the job: {shutdown.reason}")
        silence_s = self._registry.silence_s()
        if silence_s > self._timeouts.master_silence_s:
            raise UnreachableError(f"no master has answered for {silence_s:.0f} s")
        return False

    def _take(self, timeout_s: float) -> None:
        try:
            self._desired.update(self._inbox.get(timeout=timeout_s))
        except Empty:
            return

    def _grace_s(self) -> float:
        shutdown = self._desired.shutdown()
        if shutdown is None or shutdown.grace_s is None:
            return self._timeouts.stop_grace_s
        return shutdown.grace_s

    def _end_program(self, grace_s: float) -> None:
        program, self._program = self._program, None
        if program is not None:
            end_program(program, grace_s, self._take)
