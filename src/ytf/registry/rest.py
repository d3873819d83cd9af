"""The registry served by the master itself (docs/protocols.md §1).

A poll that has no news is a future in a queue: all are held equally long, so
the queue is in the order of their ends and one timer serves thousands.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from typing import Annotated, TypeVar

import msgspec

from ytf.master.events import StarterRegistered, TaskExited, TaskStarted
from ytf.registry.api import Order, ReportSink
from ytf.specs.cluster import ClusterSpec
from ytf.specs.names import ContainerId, TaskId
from ytf.web.http import HttpServer
from ytf.web.messages import HttpError, Request, Response
from ytf.web.signing import container_of

_ORDERS_PER_MASTER = 1_000_000
_TICK_S = 0.05
"""Holds that end within one tick of each other are answered together."""

_Attempt = Annotated[int, msgspec.Meta(ge=0)]
_Port = Annotated[int, msgspec.Meta(ge=1, le=65535)]


class _Report(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    task: TaskId
    attempt: _Attempt
    container: ContainerId


class _Register(_Report, frozen=True, kw_only=True, forbid_unknown_fields=True):
    host: str
    port: _Port | None
    control: str | None

    def event(self) -> StarterRegistered:
        return StarterRegistered(
            task=self.task,
            attempt=self.attempt,
            container=self.container,
            host=self.host,
            port=self.port,
            control=self.control,
        )


class _Started(_Report, frozen=True, kw_only=True, forbid_unknown_fields=True):
    def event(self) -> TaskStarted:
        return TaskStarted(task=self.task, attempt=self.attempt, container=self.container)


class _Exited(_Report, frozen=True, kw_only=True, forbid_unknown_fields=True):
    exit_code: int | None
    signal: int | None
    ended_at: float
    tail: str = ""
    reason: str = ""
    port_taken: bool = False

    def event(self) -> TaskExited:
        return TaskExited(
            task=self.task,
            attempt=self.attempt,
            container=self.container,
            exit_code=self.exit_code,
            signal=self.signal,
            ended_at=self.ended_at,
            tail=self.tail,
            reason=self.reason,
            port_lost=self.port_taken,
        )


class _Poll(_Report, frozen=True, kw_only=True, forbid_unknown_fields=True):
    order: int
    revision: int


class _Starter:
    """What is known of one container's starter."""

    __slots__ = ("answer", "container", "heard", "hold", "number", "order")

    def __init__(self, container: ContainerId, number: int, order: Order) -> None:
        self.container = container
        self.number = number
        self.order = order
        self.heard: float | None = None
        self.hold: asyncio.Future[Response] | None = None
        self.answer: Response | None = None
        """Answer A, as long as neither the order nor the cluster spec changes."""


_REGISTER = msgspec.json.Decoder(_Register)
_STARTED = msgspec.json.Decoder(_Started)
_EXITED = msgspec.json.Decoder(_Exited)
_POLL = msgspec.json.Decoder(_Poll)

_R = TypeVar("_R", bound=_Report)


class RestRegistry:
    """A :class:`~ytf.registry.api.Registry` on the master's HTTP server.

    ``attempt`` is the master's: each master numbers its orders above those of
    all earlier ones, so that a starter takes the new master's order for news.
    A recovering master sets the orders of the containers it knows before
    :meth:`start`; until then starters are told to try again.
    """

    def __init__(self, server: HttpServer, *, attempt: int, hold_s: float = 5.0) -> None:
        self._gatekeeper = server.gatekeeper
        self._hold_s = hold_s
        self._first = attempt * _ORDERS_PER_MASTER + 1
        self._sink: ReportSink | None = None
        self._starters: dict[ContainerId, _Starter] = {}
        self._holds: deque[tuple[float, _Starter, asyncio.Future[Response]]] = deque()
        self._timer: asyncio.TimerHandle | None = None
        self._reports: set[asyncio.Task[Response]] = set()
        self._revision = 0
        self._cluster: Response | None = None
        self._answers: dict[tuple[int, Order], Response] = {}
        server.route("POST", "/starter/v1/register", self._on_register)
        server.route("POST", "/starter/v1/poll", self._on_poll)
        server.route("POST", "/starter/v1/started", self._on_started)
        server.route("POST", "/starter/v1/exited", self._on_exited)
        server.route("GET", "/starter/v1/cluster", self._on_cluster)

    # The port.

    async def start(self, sink: ReportSink) -> None:
        """Begin to take reports; from now on an unknown container's poll is a 409."""
        self._sink = sink

    def publish(self, spec: ClusterSpec) -> None:
        """Make a cluster spec known to all; a lower revision never replaces a higher one."""
        if spec.revision <= self._revision:
            return
        self._revision = spec.revision
        self._cluster = Response.json(spec)
        self._answers.clear()
        for starter in self._starters.values():
            starter.answer = None
        self._answer_holds()

    def order(self, container: ContainerId, order: Order) -> None:
        """Set what the starter of a container is to do; the same order again is no news."""
        starter = self._starters.get(container)
        if starter is None:
            self._starters[container] = _Starter(container, self._first, order)
        elif starter.order != order:
            starter.number += 1
            starter.order = order
            starter.answer = None
            self._answer_hold(starter)

    def forget(self, container: ContainerId) -> None:
        """The container is over; its starter, should it still call, is told to stop."""
        self._gatekeeper.forget(container)
        starter = self._starters.pop(container, None)
        if starter is not None and starter.hold is not None and not starter.hold.done():
            starter.hold.set_exception(_revoked(container))

    def last_heard(self, container: ContainerId) -> float | None:
        """When (monotonic clock) the container's starter last called, None if never."""
        starter = self._starters.get(container)
        return None if starter is None else starter.heard

    async def close(self) -> None:
        """Stop taking reports, after answering those that wait."""
        self._sink = None
        self._answer_holds()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._reports:
            await asyncio.wait(self._reports)

    # What starters call.

    async def _on_register(self, request: Request) -> Response:
        return await self._report(_decode(_REGISTER, request).event())

    async def _on_started(self, request: Request) -> Response:
        return await self._report(_decode(_STARTED, request).event())

    async def _on_exited(self, request: Request) -> Response:
        return await self._report(_decode(_EXITED, request).event())

    async def _report(self, event: StarterRegistered | TaskStarted | TaskExited) -> Response:
        sink = self._ready()
        before = self._starters.get(event.container)
        number = before.number if before is not None else 0
        if before is not None:
            before.heard = time.monotonic()
        task = asyncio.current_task()
        assert task is not None
        self._reports.add(task)
        try:
            order = await sink.report(event)
        finally:
            self._reports.discard(task)
        starter = self._starters.get(event.container)
        if order is None or (before is not None and starter is None):
            self._gatekeeper.forget(event.container)
            raise _revoked(event.container)
        # An order that was set while the report was being written is newer than the sink's.
        if starter is None or starter.number == number:
            self.order(event.container, order)
            starter = self._starters[event.container]
        starter.heard = time.monotonic()
        return self._answer(starter)

    def _on_poll(self, request: Request) -> Response | asyncio.Future[Response]:
        body = _decode(_POLL, request)
        self._ready()
        starter = self._starters.get(body.container)
        if starter is None:
            self._gatekeeper.forget(body.container)
            raise _revoked(body.container)
        starter.heard = time.monotonic()
        if starter.number > body.order or self._revision > body.revision:
            return self._answer(starter)
        return self._hold(starter)

    def _on_cluster(self, request: Request) -> Response:
        self._ready()
        starter = self._starters.get(ContainerId(container_of(request)))
        if starter is not None:
            starter.heard = time.monotonic()
        if self._cluster is None:
            raise HttpError(404, "there is no cluster spec yet: not everyone has registered")
        return self._cluster

    def _ready(self) -> ReportSink:
        if self._sink is None:
            raise HttpError(503, "the master is not ready; try again")
        return self._sink

    # Answers, at once or later.

    def _answer(self, starter: _Starter) -> Response:
        if starter.answer is None:
            key = (starter.number, starter.order)
            answer = self._answers.get(key)
            if answer is None:
                order = msgspec.to_builtins(starter.order)
                order["number"] = starter.number
                answer = Response.json({"order": order, "revision": self._revision})
                self._answers[key] = answer
            starter.answer = answer
        return starter.answer

    def _hold(self, starter: _Starter) -> asyncio.Future[Response]:
        # A starter has one poll at a time: an older one comes from a connection it gave up.
        self._answer_hold(starter)
        loop = asyncio.get_running_loop()
        hold: asyncio.Future[Response] = loop.create_future()
        starter.hold = hold
        end = loop.time() + self._hold_s
        self._holds.append((end, starter, hold))
        if self._timer is None:
            self._timer = loop.call_at(end + _TICK_S, self._end_holds, loop)
        return hold

    def _end_holds(self, loop: asyncio.AbstractEventLoop) -> None:
        now = loop.time()
        while self._holds and self._holds[0][0] <= now:
            _, starter, hold = self._holds.popleft()
            if starter.hold is hold:
                self._answer_hold(starter)
        self._timer = None
        if self._holds:
            self._timer = loop.call_at(self._holds[0][0] + _TICK_S, self._end_holds, loop)

    def _answer_hold(self, starter: _Starter) -> None:
        hold, starter.hold = starter.hold, None
        # A hold is done already when its connection was lost: then it is cancelled.
        if hold is not None and not hold.done():
            hold.set_result(self._answer(starter))

    def _answer_holds(self) -> None:
        for _, starter, hold in self._holds:
            if starter.hold is hold:
                self._answer_hold(starter)
        self._holds.clear()


def _decode(decoder: msgspec.json.Decoder[_R], request: Request) -> _R:
    """A starter's report, or a 400; a 401 if it speaks for a container that is not its own."""
    container = container_of(request)
    try:
        body = decoder.decode(request.body)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise HttpError(400, f"the body of {request.path} is not understood: {error}") from error
    if body.container != container:
        raise HttpError(401, f"{request.actor} may not speak for {body.container}")
    return body


def _revoked(container: ContainerId) -> HttpError:
    return HttpError(409, f"{container} is not (any longer) a container of this job: stop")
