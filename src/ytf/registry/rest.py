"""The REST registry: starters report to the master's HTTP server (docs/protocols.md §1).

A poll without news is held: it is a future in a queue. All polls are held
equally long, so the queue is ordered by their ends, and one timer is enough for
thousands of them.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from typing import Annotated, Literal, TypeVar

import msgspec

from ytf.machine.events import StarterRegistered, TaskExited, TaskStarted
from ytf.registry.api import Order, ProgramCondition, ReportSink
from ytf.specs.ids import ContainerId, TaskId
from ytf.specs.status import ClusterSpec
from ytf.specs.usage import TaskUsage
from ytf.web.messages import HttpError, Request, Response
from ytf.web.request_auth import container_of
from ytf.web.server import HttpServer
from ytf.wire.address import split_url

_ORDERS_PER_MASTER = 1_000_000
_TICK_S = 0.05
"""Polls whose hold ends within one tick are answered together."""

# Every field is bounded: reports go into the journal, and a value that the master could not
# handle would end each master that reads it.
_Counter = Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]
_Task = Annotated[TaskId, msgspec.Meta(max_length=300)]
_Container = Annotated[ContainerId, msgspec.Meta(max_length=300)]
_Host = Annotated[str, msgspec.Meta(max_length=255, pattern=r"^[!-.0-~]+\Z")]
_Port = Annotated[int, msgspec.Meta(ge=1, le=65535)]
_ExitCode = Annotated[int, msgspec.Meta(ge=-(2**31), le=2**31 - 1)]
_Signal = Annotated[int, msgspec.Meta(ge=0, le=128)]
_Time = Annotated[float, msgspec.Meta(ge=0, le=253402300799)]
"""Seconds since 1970, to the end of the year 9999."""
_Activity = Annotated[str, msgspec.Meta(max_length=1000)]
_Text = Annotated[str, msgspec.Meta(max_length=16 * 1024)]


_NO_USAGE = msgspec.Raw(b"null")


class _Report(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What every starter sends. The fields of a report are those of its event."""

    task: _Task
    attempt: _Counter
    container: _Container


class _Register(_Report, frozen=True, kw_only=True, forbid_unknown_fields=True):
    host: _Host
    port: _Port | None
    control: str | None

    def __post_init__(self) -> None:
        if self.control is not None:
            split_url(f"http://{self.control}")

    def event(self) -> StarterRegistered:
        return StarterRegistered(**msgspec.structs.asdict(self))


class _Started(_Report, frozen=True, kw_only=True, forbid_unknown_fields=True):
    def event(self) -> TaskStarted:
        return TaskStarted(**msgspec.structs.asdict(self))


class _Exited(_Report, frozen=True, kw_only=True, forbid_unknown_fields=True):
    exit_code: _ExitCode | None
    signal: _Signal | None
    ended_at: _Time
    tail: _Text = ""
    tail_stream: Literal["stdout", "stderr"] = "stderr"
    reason: _Text = ""
    port_lost: bool = False
    output_lost_at: _Time | None = None
    usage: msgspec.Raw = _NO_USAGE

    def event(self) -> TaskExited:
        fields = msgspec.structs.asdict(self)
        return TaskExited(**{**fields, "usage": _usage(self.usage)})


class _Poll(_Report, frozen=True, kw_only=True, forbid_unknown_fields=True):
    order: _Counter
    revision: _Counter
    idle_s: _Time | None = None
    """For how long its program has used no processor time; None if no program runs."""
    output_lost_at: _Time | None = None
    usage: msgspec.Raw = _NO_USAGE
    activity: _Activity = ""
    """What it does while no program runs; empty if that is nothing to tell."""


class _Starter:
    """The order of one container's starter, and its held poll."""

    __slots__ = (
        "activity", "answer", "condition", "container", "heard", "hold", "number", "order",
        "registered",
    )  # fmt: skip

    def __init__(self, container: ContainerId, number: int, order: Order) -> None:
        self.container = container
        self.number = number
        self.order = order
        self.registered = 0
        """The attempt whose registration is in the journal."""
        self.heard: float | None = None
        self.hold: asyncio.Future[Response] | None = None
        self.condition: ProgramCondition | None = None
        self.activity = ""
        self.answer: Response | None = None
        """The answer to its polls, until its order or the cluster spec changes."""


_REGISTER = msgspec.json.Decoder(_Register)
_STARTED = msgspec.json.Decoder(_Started)
_EXITED = msgspec.json.Decoder(_Exited)
_POLL = msgspec.json.Decoder(_Poll)
_USAGE: msgspec.json.Decoder[TaskUsage | None] = msgspec.json.Decoder(TaskUsage | None)

_R = TypeVar("_R", bound=_Report)


class RestRegistry:
    """A :class:`~ytf.registry.api.Registry` on the master's HTTP server.

    ``attempt`` is the master's attempt. Each master numbers its orders above those
    of all earlier masters, so that a starter recognises its order as new. A
    recovering master sets the orders of all known containers before
    :meth:`start`; until then starters are told to try again.
    """

    def __init__(self, server: HttpServer, *, attempt: int, hold_s: float = 5.0) -> None:
        self._verifier = server.verifier
        self._hold_s = hold_s
        self._first = attempt * _ORDERS_PER_MASTER + 1
        self._sink: ReportSink | None = None
        self._starters: dict[ContainerId, _Starter] = {}
        self._holds: deque[tuple[float, _Starter, asyncio.Future[Response]]] = deque()
        self._timer: asyncio.TimerHandle | None = None
        self._reports: set[asyncio.Task[Response]] = set()
        self._revision = 0
        self._cluster: Response | None = None
        self._answers: dict[tuple[int, int, Order], Response] = {}
        server.route("POST", "/starter/v1/register", self._on_register)
        server.route("POST", "/starter/v1/poll", self._on_poll)
        server.route("POST", "/starter/v1/started", self._on_started)
        server.route("POST", "/starter/v1/exited", self._on_exited)
        server.route("GET", "/starter/v1/cluster", self._on_cluster)

    # The port.

    async def start(self, sink: ReportSink) -> None:
        """Start to take reports. From now on the poll of an unknown container gets a 409."""
        self._sink = sink

    def publish(self, spec: ClusterSpec) -> None:
        """Publish a cluster spec to all starters. A lower revision never replaces a higher one."""
        if spec.revision <= self._revision:
            return
        self._revision = spec.revision
        self._cluster = Response.json(spec)
        self._answers.clear()
        for starter in self._starters.values():
            starter.answer = None
        self._answer_holds()

    def order(self, container: ContainerId, order: Order, *, is_registered: bool = False) -> None:
        """Set the order for the starter of a container. Repeating the same order does nothing."""
        starter = self._starters.get(container)
        if starter is None:
            starter = self._starters[container] = _Starter(container, self._first, order)
            starter.registered = order.attempt if is_registered else 0
        elif starter.order != order:
            starter.number += 1
            starter.order = order
            starter.answer = None
            self._answer_hold(starter)

    def forget(self, container: ContainerId) -> None:
        """Forget a container that has ended. If its starter still calls, it is told to stop."""
        self._verifier.forget(container)
        starter = self._starters.pop(container, None)
        if starter is not None and starter.hold is not None and not starter.hold.done():
            starter.hold.set_exception(_revoked(container))

    def last_heard(self, container: ContainerId) -> float | None:
        """When the starter of a container called last, by the monotonic clock; None: never."""
        starter = self._starters.get(container)
        return None if starter is None else starter.heard

    def condition(self, container: ContainerId) -> ProgramCondition | None:
        """How the program of a container is; None if none runs or its starter never called."""
        starter = self._starters.get(container)
        return None if starter is None else starter.condition

    def activity(self, container: ContainerId) -> str:
        """What a starter does while no program runs, in its words; empty if that is not known."""
        starter = self._starters.get(container)
        return "" if starter is None else starter.activity

    def registered_attempt(self, container: ContainerId) -> int:
        """The attempt of a container whose registration is in the journal; 0 if none is."""
        starter = self._starters.get(container)
        return 0 if starter is None else starter.registered

    def note_registered(self, container: ContainerId, attempt: int) -> None:
        """Tell a starter that its registration, which came another way, is in the journal."""
        starter = self._starters.get(container)
        if starter is not None and starter.registered < attempt:
            starter.registered = attempt
            # A poll that does not know of it is answered at once, also if it is yet to come.
            starter.number += 1
            starter.answer = None
            self._answer_hold(starter)

    async def remove(self) -> bool:
        """Do nothing: all of it is in this process."""
        return True

    async def close(self) -> None:
        """Answer all waiting starters, and take no more reports."""
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
            self._verifier.forget(event.container)
            raise _revoked(event.container)
        # If the order was changed while the report was written, it is newer than the sink's.
        if starter is None or starter.number == number:
            self.order(event.container, order)
            starter = self._starters[event.container]
        if isinstance(event, StarterRegistered) and starter.registered < event.attempt:
            starter.registered = event.attempt
            starter.answer = None
        starter.heard = time.monotonic()
        return self._answer(starter)

    def _on_poll(self, request: Request) -> Response | asyncio.Future[Response]:
        body = _decode(_POLL, request)
        self._ready()
        starter = self._starters.get(body.container)
        if starter is None:
            self._verifier.forget(body.container)
            raise _revoked(body.container)
        starter.heard = now = time.monotonic()
        starter.condition = _condition(body, now)
        starter.activity = body.activity
        if starter.number > body.order or self._revision > body.revision:
            return self._answer(starter)
        return self._hold(starter)

    def _on_cluster(self, request: Request) -> Response:
        self._ready()
        starter = self._starters.get(ContainerId(container_of(request)))
        if starter is not None:
            starter.heard = time.monotonic()
        if self._cluster is None:
            raise HttpError(404, "there is no cluster spec yet: not every task has registered")
        return self._cluster

    def _ready(self) -> ReportSink:
        if self._sink is None:
            raise HttpError(503, "the master is not ready; try again")
        return self._sink

    # Answers, at once or later.

    def _answer(self, starter: _Starter) -> Response:
        if starter.answer is None:
            key = (starter.number, starter.registered, starter.order)
            answer = self._answers.get(key)
            if answer is None:
                order = msgspec.to_builtins(starter.order)
                order["number"] = starter.number
                answer = Response.json(
                    {
                        "order": order,
                        "revision": self._revision,
                        "registered": starter.registered,
                    }
                )
                self._answers[key] = answer
            starter.answer = answer
        return starter.answer

    def _hold(self, starter: _Starter) -> asyncio.Future[Response]:
        # A starter has one poll at a time: an older one is of a connection that it has left.
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
        # A hold whose connection was lost is already cancelled.
        if hold is not None and not hold.done():
            hold.set_result(self._answer(starter))

    def _answer_holds(self) -> None:
        for _, starter, hold in self._holds:
            if starter.hold is hold:
                self._answer_hold(starter)
        self._holds.clear()


def _decode(decoder: msgspec.json.Decoder[_R], request: Request) -> _R:
    """Decode a starter's report. Raises a 400, or a 401 if it names another container."""
    container = container_of(request)
    try:
        body = decoder.decode(request.body)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise HttpError(400, f"the body of {request.path} is not understood: {error}") from error
    if body.container != container:
        raise HttpError(401, f"{request.actor} may not speak for {body.container}")
    return body


def _condition(poll: _Poll, now: float) -> ProgramCondition | None:
    if poll.idle_s is None:
        return None
    return ProgramCondition(
        attempt=poll.attempt,
        idle_since=now - poll.idle_s if poll.idle_s else None,
        output_lost_at=poll.output_lost_at,
        usage=_usage(poll.usage),
    )


def _usage(told: msgspec.Raw) -> TaskUsage | None:
    """What a program uses; None if that is not told, or cannot be.

    A starter whose report is refused ends its program: a wrong figure must not.
    """
    try:
        return _USAGE.decode(told)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None


def _revoked(container: ContainerId) -> HttpError:
    return HttpError(409, f"{container} is not (any longer) a container of this job: stop")
