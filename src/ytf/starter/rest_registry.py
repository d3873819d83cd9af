"""Connects a starter to the REST registry: signed HTTP to the master (docs/protocols.md §1).

Two threads call the master, each with an actor and a connection of its own:
one delivers reports, in order, each until it is durable; the other polls for
orders and cluster specs. Their calls outlive a master: they are repeated until
some master has answered.
"""

from __future__ import annotations

import json
import os
import threading
from queue import SimpleQueue

from ytf.log import LimitedLog, log
from ytf.starter import threads
from ytf.starter.desired_state import (
    CANNOT_BEGIN,
    NOT_UNDERSTOOD,
    REVOKED,
    ReceivedClusterSpec,
    ReceivedOrder,
    Registered,
    Shutdown,
    ShutdownError,
)
from ytf.wire.http_client import ChannelError, SignedChannel
from ytf.wire.untrusted import as_int, shown

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable, Dict, Mapping, Optional, Tuple, TypeVar

    from ytf.starter.desired_state import InboxMessage
    from ytf.starter.master_locator import MasterLocator
    from ytf.starter.runner import ProgramExit
    from ytf.wire.http_client import Answer
    from ytf.wire.signing import Signer

    Decoded = TypeVar("Decoded")

REGISTER = "register"
STARTED = "started"
EXITED = "exited"

HOLD_S = 5.0
"""How long the master may hold a poll that has no news."""
FIRST_WAIT_S = 0.05
LONGEST_WAIT_S = 2.0
LONGEST_REASON = 4096
"""The most characters of why a program could not run."""


class CallAbandonedError(Exception):
    """A call was given up because its answer is not needed any more."""


class RestRegistryClient:
    """A :class:`ytf.starter.registry.RegistryClient` that calls the master's REST API."""

    def __init__(
        self,
        locator: MasterLocator,
        signer: Signer,
        inbox: SimpleQueue[InboxMessage],
        *,
        task: str,
        container: str,
        heartbeat_timeout_s: float,
        condition: Callable[[], Dict[str, object]] = dict,
    ) -> None:
        self._locator = locator
        self._condition = condition
        self._inbox = inbox
        self._task = task
        self._container = container
        # A master that went away silently must be noticed, and another one
        # found, before the silence is taken for this starter's death.
        self._poll_timeout_s = HOLD_S + max(1.0, min(heartbeat_timeout_s / 6, 10.0))
        self._reports = MasterCaller(locator, signer, container + "/report")
        self._polls = MasterCaller(locator, signer, container + "/poll")
        self._queue: SimpleQueue[Tuple[str, int, Dict[str, object]]] = SimpleQueue()
        self._undelivered = 0
        self._delivered = threading.Condition()
        self._attempt = 0
        self._known_order = 0
        self._known_registration = -1
        self._is_subscribed = False

    # What starters call

    def start(self) -> None:
        """Begin to deliver reports."""
        threads.start("report", self._deliver_reports, self._inbox)

    def subscribe(self) -> None:
        """Begin to receive orders and cluster specs."""
        if not self._is_subscribed:
            self._is_subscribed = True
            threads.start("poll", self._poll, self._inbox)

    def register(
        self, attempt: int, *, host: str, port: Optional[int], control: Optional[str]
    ) -> None:
        """Report where an attempt is reached."""
        self._attempt = attempt
        self._report(REGISTER, attempt, {"host": host, "port": port, "control": control})

    def report_started(self, attempt: int) -> None:
        """Report that the program runs."""
        self._report(STARTED, attempt, {})

    def report_exited(
        self,
        attempt: int,
        end: ProgramExit,
        *,
        tail: str = "",
        tail_stream: str = "stderr",
        port_lost: bool = False,
        output_lost_at: Optional[float] = None,
        usage: Optional[Dict[str, Any]] = None,
    ) -> None:
        """Report the program's exit."""
        body: Dict[str, object] = {
            "exit_code": end.exit_code,
            "signal": end.signal,
            "ended_at": end.ended_at,
            "tail": tail,
            "tail_stream": tail_stream,
            "reason": end.reason[:LONGEST_REASON],
            "port_lost": port_lost,
            "output_lost_at": output_lost_at,
            "usage": usage,
        }
        self._report(EXITED, attempt, body)

    def flush(self, timeout_s: float) -> bool:
        """Wait until every report is durable; False if ``timeout_s`` passed first."""
        with self._delivered:
            return self._delivered.wait_for(lambda: self._undelivered == 0, timeout_s)

    def set_master(self, url: str, attempt: int) -> None:
        """Take in the address of a new master."""
        if self._locator.update(url, attempt):
            self._polls.interrupt()
            self._reports.interrupt()

    def silence_s(self) -> float:
        """How long no master has answered, in seconds."""
        return self._locator.silence_s()

    def close(self) -> None:
        """Do nothing: its threads end with the process."""

    # The thread that delivers reports

    def _report(self, report: str, attempt: int, more: Mapping[str, object]) -> None:
        body = {"task": self._task, "attempt": attempt, "container": self._container, **more}
        with self._delivered:
            self._undelivered += 1
        self._queue.put((report, attempt, body))

    def _deliver_reports(self) -> None:
        try:
            while True:
                report, attempt, body = self._queue.get()
                try:
                    self._deliver(report, attempt, body)
                except CallAbandonedError:
                    log("%s: not reported, as the program has ended since" % report)
                with self._delivered:
                    self._undelivered -= 1
                    self._delivered.notify_all()
        except ShutdownError as exc:
            self._reports.close()
            self._inbox.put(exc.shutdown)

    def _deliver(self, report: str, attempt: int, body: Dict[str, object]) -> None:
        def abandon() -> bool:
            # A master that cannot make anything durable, its disk being full,
            # must still learn of the exit: that report does not wait for this one.
            return report == STARTED and not self._queue.empty()

        path = "/starter/v1/" + report
        order, _, _ = self._reports.post(path, body, _read_answer, abandon_if=abandon)
        self._known_order = order.number
        self._inbox.put(order)
        if report == REGISTER:
            self._note_registration(attempt)

    def _note_registration(self, attempt: int) -> None:
        """Take in which attempt the master has in its journal."""
        if attempt > self._known_registration:
            self._known_registration = attempt
            self._inbox.put(Registered(attempt))

    # The thread that polls

    def _poll(self) -> None:
        order, revision = self._known_order, 0
        try:
            while True:
                body = {
                    "task": self._task,
                    "attempt": self._attempt,
                    "container": self._container,
                    "order": order,
                    "revision": revision,
                    **self._condition(),
                }
                received, newest, registered = self._polls.post(
                    "/starter/v1/poll", body, _read_answer, self._poll_timeout_s
                )
                if received.number != order:
                    order = received.number
                    self._inbox.put(received)
                self._note_registration(registered)
                if newest > revision:
                    revision = self._fetch_spec(revision, newest)
        except ShutdownError as exc:
            self._polls.close()
            self._inbox.put(exc.shutdown)

    def _fetch_spec(self, revision: int, newest: int) -> int:
        """Get the newest cluster spec; returns its revision, or ``revision`` if there was none."""
        spec = self._polls.get("/starter/v1/cluster", ReceivedClusterSpec.from_json)
        if spec is not None and spec.revision > revision:
            self._inbox.put(spec)
            return spec.revision
        # The master has announced a newer one; do not ask in a tight loop.
        self._polls.pause()
        return revision


def _read_answer(value: Any) -> Tuple[ReceivedOrder, int, int]:
    """Decode the answer to a report or a poll.

    It tells the order, the newest cluster spec's revision, and which attempt is
    registered. Raises one of :data:`NOT_UNDERSTOOD`.
    """
    order = ReceivedOrder.from_json(value["order"])
    return order, as_int(value["revision"]), as_int(value["registered"])


def _body(answer: Answer, path: str, url: str) -> Any:
    """Return the JSON of a 200, and raise what follows from another status."""
    if answer.status == 200:
        return answer.json()
    text = "%s answered %d: %s" % (url, answer.status, answer.error())
    if answer.status == 409:
        raise ShutdownError(Shutdown(REVOKED, "the master revoked this container: " + text))
    if answer.status < 500:
        raise ShutdownError(Shutdown(CANNOT_BEGIN, "%s: %s" % (path, text)))
    raise _TryAgainError(text)


class _TryAgainError(Exception):
    """The master is not ready, or has a bug (5xx)."""


class MasterCaller:
    """Calls of one actor to the master, repeated until some master has answered.

    For one thread; each thread has its own.
    """

    def __init__(self, locator: MasterLocator, signer: Signer, actor: str) -> None:
        self._locator = locator
        self._signer = signer
        self._actor = actor
        self._channel: Optional[SignedChannel] = None
        self._trouble = LimitedLog()

    def post(
        self,
        path: str,
        body: Mapping[str, object],
        decode: Callable[[Any], Decoded],
        timeout_s: float = 10.0,
        abandon_if: Callable[[], bool] = lambda: False,
    ) -> Decoded:
        """Return a master's decoded answer, however long that takes.

        The call may be executed more than once. Raises :class:`ShutdownError`
        when the answer is that this starter is not wanted or not understood,
        and :class:`CallAbandonedError` in place of a repetition once
        ``abandon_if`` is true.
        """
        data = json.dumps(body).encode()
        found = self._call("POST", path, data, decode, timeout_s, abandon_if)
        assert found is not None  # that is for a GET
        return found

    def get(self, path: str, decode: Callable[[Any], Decoded]) -> Optional[Decoded]:
        """Return a master's decoded answer, however long that takes; None for a 404.

        Raises :class:`ShutdownError` as :meth:`post` does.
        """
        return self._call("GET", path, b"", decode, 10.0, lambda: False)

    def _call(
        self,
        method: str,
        path: str,
        data: bytes,
        decode: Callable[[Any], Decoded],
        timeout_s: float,
        abandon_if: Callable[[], bool],
    ) -> Optional[Decoded]:
        wait_s = FIRST_WAIT_S
        trouble = ""
        while True:
            url = self._locator.url
            try:
                answer = self._channel_to(url).call(method, path, data, timeout_s)
            except ChannelError as exc:
                # Perhaps a stranger on a dead master's port: nothing that comes from there
                # ends this starter, only the silence of all masters for master_silence_s.
                text = str(exc)
            else:
                try:
                    is_absent = answer.status == 404 and method == "GET"
                    found = None if is_absent else decode(_body(answer, path, url))
                except NOT_UNDERSTOOD as exc:
                    text = "%s answered what is not understood: %s" % (url, shown(exc))
                except _TryAgainError as exc:
                    self._locator.heard()
                    text = str(exc)
                else:
                    self._locator.heard()
                    if trouble:
                        log("%s: answered by %s" % (path, url))
                    return found
            if text != trouble:
                self._trouble.write("%s: trying again: %s" % (path, text))
                trouble = text
            if abandon_if():
                raise CallAbandonedError
            self._locator.refresh()
            # Jitter: thousands of starters lose the same master at the same moment.
            self._locator.wait(url, wait_s * (0.5 + os.urandom(1)[0] / 256))
            wait_s = min(wait_s * 2, LONGEST_WAIT_S)

    def pause(self) -> None:
        """Wait a moment before the same call is made again."""
        self._locator.wait(self._locator.url, LONGEST_WAIT_S / 4)

    def close(self) -> None:
        """Close the connection. Only for the thread that calls."""
        if self._channel is not None:
            self._channel.close()

    def interrupt(self) -> None:
        """Stop waiting for an answer from a master that has been replaced. From any thread."""
        channel = self._channel
        if channel is not None:
            channel.interrupt()

    def _channel_to(self, url: str) -> SignedChannel:
        if self._channel is None or self._channel.url != url:
            self.close()
            self._channel = SignedChannel(url, self._signer, self._actor)
        return self._channel
