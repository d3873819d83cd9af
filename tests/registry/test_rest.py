from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any

import msgspec
import pytest

from tests.specs.usages import task_usage
from tests.web.raw_client import SECRET, Peer, connected
from ytf.errors import UnreachableError
from ytf.machine.events import StarterRegistered, TaskExited, TaskStarted
from ytf.registry.api import Order, Registry
from ytf.registry.rest import RestRegistry
from ytf.specs.ids import ContainerId, TaskId
from ytf.specs.status import ClusterSpec
from ytf.starter.program_logs import TAIL_BYTES
from ytf.starter.rest_registry import LONGEST_REASON
from ytf.testing.waiting import eventually_async
from ytf.web.request_auth import RequestVerifier
from ytf.web.server import HttpServer

C1 = ContainerId("container_1")
C2 = ContainerId("container_2")
ORDER = Order(attempt=1, generation=1)
SPEC = ClusterSpec(generation=1, revision=1, members={"worker": ("h:1", "h:2")})
HOLD_S = 0.2

WHO = {"task": "worker:0", "attempt": 1, "container": C1}
REGISTER = {**WHO, "host": "h", "port": 1, "control": "h:2"}
EXITED = {**WHO, "exit_code": 1, "signal": None, "ended_at": 5.5, "tail": "ü", "reason": ""}


@dataclass
class Sink:
    """A master whose answers, and their times, a test sets."""

    order: Order | None = ORDER
    error: Exception | None = None
    events: list[object] = field(default_factory=list)
    durable: asyncio.Event = field(default_factory=asyncio.Event)

    async def report(self, event: StarterRegistered | TaskStarted | TaskExited) -> Order | None:
        self.events.append(event)
        await self.durable.wait()
        if self.error is not None:
            raise self.error
        return self.order

    def note(self, text: str, *, is_warning: bool = False) -> None:
        raise AssertionError(text)


@dataclass
class Served:
    server: HttpServer
    registry: RestRegistry
    sink: Sink
    port: int


@pytest.fixture
async def served() -> AsyncIterator[Served]:
    server = HttpServer(RequestVerifier(SECRET))
    registry = RestRegistry(server, attempt=1, hold_s=HOLD_S)
    sink = Sink()
    sink.durable.set()
    await registry.start(sink)
    yield Served(server, registry, sink, await server.listen("127.0.0.1"))
    sink.durable.set()
    await registry.close()
    await server.close()
    assert registry._timer is None
    assert not registry._holds


def poll(order: int = 0, revision: int = 0, **changes: Any) -> dict[str, Any]:
    return {**WHO, "order": order, "revision": revision, **changes}


async def number(peer: Peer) -> int:
    """Poll without knowing anything: the number of the current order."""
    return int((await peer.ask("POST", "/starter/v1/poll", poll())).json()["order"]["number"])


def test_it_is_a_registry() -> None:
    registry: Registry = RestRegistry(HttpServer(RequestVerifier(SECRET)), attempt=1)
    assert registry.last_heard(C1) is None


async def test_reports_become_events(served: Served) -> None:
    async with connected(served.port, f"{C1}/report") as peer:
        answer = (await peer.ask("POST", "/starter/v1/register", REGISTER)).json()
        assert answer == {
            "order": {
                "number": 1_000_001,
                "attempt": 1,
                "generation": 1,
                "stop": False,
                "grace_s": 10.0,
            },
            "revision": 0,
            "registered": 1,
        }
        assert (await peer.ask("POST", "/starter/v1/started", WHO)).json() == answer
        assert (await peer.ask("POST", "/starter/v1/exited", EXITED)).json() == answer
    task = TaskId("worker:0")
    assert served.sink.events == [
        StarterRegistered(task=task, attempt=1, container=C1, host="h", port=1, control="h:2"),
        TaskStarted(task=task, attempt=1, container=C1),
        TaskExited(
            task=task, attempt=1, container=C1, exit_code=1, signal=None, ended_at=5.5, tail="ü"
        ),
    ]


async def test_a_report_is_answered_once_durable(served: Served) -> None:
    served.sink.durable.clear()
    async with connected(served.port, f"{C1}/report") as peer:
        await peer.start("POST", "/starter/v1/register", REGISTER)
        reply = asyncio.create_task(peer.finish())
        await eventually_async(lambda: bool(served.sink.events))
        assert not reply.done()
        served.sink.durable.set()
        assert (await reply).status == 200


async def test_a_report_is_taken_in_even_if_its_starter_is_lost(served: Served) -> None:
    served.sink.durable.clear()
    async with connected(served.port, f"{C1}/report") as peer:
        await peer.start("POST", "/starter/v1/register", REGISTER)
        await eventually_async(lambda: bool(served.sink.events))
        peer.reset()
        await eventually_async(lambda: not served.server.connections)
    served.sink.durable.set()
    await eventually_async(lambda: served.registry.last_heard(C1) is not None)


async def test_the_journal_that_cannot_be_written_is_a_503(served: Served) -> None:
    served.sink.error = UnreachableError("the journal cannot be written: disk full")
    async with connected(served.port, f"{C1}/report") as peer:
        reply = await peer.ask("POST", "/starter/v1/register", REGISTER)
        assert reply.status == 503
        assert "disk full" in reply.json()["error"]
        assert served.registry.last_heard(C1) is None
        served.sink.error = None
        assert (await peer.ask("POST", "/starter/v1/register", REGISTER)).status == 200


async def test_who_is_not_of_the_job_must_stop(served: Served) -> None:
    served.sink.order = None
    async with connected(served.port, f"{C1}/report") as peer:
        for path, body in (("register", REGISTER), ("started", WHO), ("exited", EXITED)):
            assert (await peer.ask("POST", f"/starter/v1/{path}", body)).status == 409
        assert (await peer.ask("POST", "/starter/v1/poll", poll())).status == 409
    assert not served.server.verifier._counters


async def test_before_the_start_starters_try_again() -> None:
    server = HttpServer(RequestVerifier(SECRET))
    registry = RestRegistry(server, attempt=2, hold_s=HOLD_S)
    port = await server.listen("127.0.0.1")
    registry.order(C1, ORDER)
    async with connected(port, f"{C1}/report") as peer:
        for path, body in (("register", REGISTER), ("poll", poll())):
            assert (await peer.ask("POST", f"/starter/v1/{path}", body)).status == 503
        assert (await peer.ask("GET", "/starter/v1/cluster")).status == 503
        await registry.start(Sink())
        # Orders of the second master are news to whoever knows those of the first.
        reply = await peer.ask("POST", "/starter/v1/poll", poll(order=1_000_005))
        assert reply.json()["order"]["number"] == 2_000_001
        await registry.close()
        assert (await peer.ask("POST", "/starter/v1/poll", poll())).status == 503
    await server.close()


async def test_a_poll_says_how_the_program_is(served: Served) -> None:
    served.registry.order(C1, ORDER)
    assert served.registry.condition(C1) is None
    async with connected(served.port, f"{C1}/poll") as peer:
        body = poll(idle_s=7.5, output_lost_at=99.0)
        assert (await peer.ask("POST", "/starter/v1/poll", body)).status == 200
        known = served.registry.condition(C1)
        assert known is not None
        assert (known.attempt, known.output_lost_at) == (1, 99.0)
        assert known.idle_since is not None
        assert 7.5 <= time.monotonic() - known.idle_since < 60
        await peer.ask("POST", "/starter/v1/poll", poll(idle_s=0))
        known = served.registry.condition(C1)
        assert known is not None
        assert known.idle_since is None
        await peer.ask("POST", "/starter/v1/poll", poll())
        assert served.registry.condition(C1) is None, "no program runs"
        assert (await peer.ask("POST", "/starter/v1/poll", poll(idle_s=-1))).status == 400
    served.registry.forget(C1)
    assert served.registry.condition(C1) is None


async def test_a_poll_says_what_a_starter_does_without_a_program(served: Served) -> None:
    served.registry.order(C1, ORDER)
    assert served.registry.activity(C1) == ""
    async with connected(served.port, f"{C1}/poll") as peer:
        body = poll(activity="stage-in: 1 of 2 files")
        assert (await peer.ask("POST", "/starter/v1/poll", body)).status == 200
        assert served.registry.activity(C1) == "stage-in: 1 of 2 files"
        assert served.registry.condition(C1) is None
        await peer.ask("POST", "/starter/v1/poll", poll(idle_s=0))
        assert served.registry.activity(C1) == ""
        body = poll(activity="x" * 1001)
        assert (await peer.ask("POST", "/starter/v1/poll", body)).status == 400
    served.registry.forget(C1)
    assert served.registry.activity(C1) == ""


async def test_polls_and_exits_say_what_the_program_uses(served: Served) -> None:
    served.registry.order(C1, ORDER)
    usage = msgspec.to_builtins(task_usage())
    async with connected(served.port, f"{C1}/poll") as peer:
        body = poll(idle_s=0, usage=usage)
        assert (await peer.ask("POST", "/starter/v1/poll", body)).status == 200
        known = served.registry.condition(C1)
        assert known is not None
        assert known.usage == task_usage()
        for wrong in ({"cpu_s": -1}, {"memory_bytes": 2**70}, {"threads": "all"}):
            body = poll(idle_s=0, usage={**usage, **wrong})
            assert (await peer.ask("POST", "/starter/v1/poll", body)).status == 200
            known = served.registry.condition(C1)
            assert known is not None
            assert known.usage is None, "a wrong figure is dropped; it does not end a program"
    async with connected(served.port, f"{C1}/report") as peer:
        exited = {**WHO, "exit_code": 0, "signal": None, "ended_at": 1.0, "usage": usage}
        assert (await peer.ask("POST", "/starter/v1/exited", exited)).status == 200
        (event,) = served.sink.events
        assert isinstance(event, TaskExited)
        assert event.usage == task_usage()


async def test_a_poll_without_news_is_held_and_is_a_heartbeat(served: Served) -> None:
    served.registry.order(C1, ORDER)
    assert served.registry.last_heard(C1) is None
    async with connected(served.port, f"{C1}/poll") as peer:
        known = await number(peer)
        begun = time.monotonic()
        reply = await peer.ask("POST", "/starter/v1/poll", poll(known))
        assert time.monotonic() - begun >= HOLD_S
        assert reply.json()["order"]["number"] == known
        heard = served.registry.last_heard(C1)
        assert heard is not None
        assert begun <= heard <= begun + 2


async def test_a_new_order_ends_the_hold_at_once(served: Served) -> None:
    served.registry._hold_s = 60.0
    served.registry.order(C1, ORDER)
    async with connected(served.port, f"{C1}/poll") as peer:
        known = await number(peer)
        await peer.start("POST", "/starter/v1/poll", poll(known))
        await eventually_async(lambda: len(served.registry._holds) == 1)
        served.registry.order(C1, ORDER)  # the same again: no news
        served.registry.order(C2, Order(attempt=9, generation=1))  # somebody else's
        reply = asyncio.create_task(peer.finish())
        served.registry.order(C1, Order(attempt=2, generation=2, grace_s=3.0))
        assert (await reply).json() == {
            "order": {
                "number": known + 1,
                "attempt": 2,
                "generation": 2,
                "stop": False,
                "grace_s": 3.0,
            },
            "revision": 0,
            "registered": 0,
        }


async def test_a_new_cluster_spec_ends_all_holds_at_once(served: Served) -> None:
    served.registry._hold_s = 60.0
    served.registry.order(C1, ORDER)
    served.registry.order(C2, ORDER)
    async with (
        connected(served.port, f"{C1}/poll") as one,
        connected(served.port, f"{C2}/poll") as two,
    ):
        assert (await one.ask("GET", "/starter/v1/cluster")).status == 404
        known = await number(one)
        await one.start("POST", "/starter/v1/poll", poll(known))
        await two.start("POST", "/starter/v1/poll", poll(known, container=C2))
        await eventually_async(lambda: len(served.registry._holds) == 2)
        served.registry.publish(SPEC)
        for peer in (one, two):
            assert (await peer.finish()).json()["revision"] == 1
            assert (await peer.ask("GET", "/starter/v1/cluster")).json() == {
                "generation": 1,
                "revision": 1,
                "members": {"worker": ["h:1", "h:2"]},
            }


async def test_a_lower_revision_never_replaces_a_higher_one(served: Served) -> None:
    served.registry.publish(ClusterSpec(generation=2, revision=3, members={}))
    served.registry.publish(SPEC)
    async with connected(served.port, f"{C1}/poll") as peer:
        assert (await peer.ask("GET", "/starter/v1/cluster")).json()["revision"] == 3


async def test_a_forgotten_container_must_stop_at_once(served: Served) -> None:
    served.registry._hold_s = 60.0
    served.registry.order(C1, ORDER)
    async with connected(served.port, f"{C1}/poll") as peer:
        known = await number(peer)
        await peer.start("POST", "/starter/v1/poll", poll(known))
        await eventually_async(lambda: len(served.registry._holds) == 1)
        served.registry.forget(C1)
        served.registry.forget(C1)
        assert (await peer.finish()).status == 409
        assert (await peer.ask("POST", "/starter/v1/poll", poll())).status == 409
    assert served.registry.last_heard(C1) is None
    assert not served.server.verifier._counters


async def test_forgotten_while_its_report_is_written(served: Served) -> None:
    served.registry.order(C1, ORDER)
    served.sink.durable.clear()
    async with connected(served.port, f"{C1}/report") as peer:
        await peer.start("POST", "/starter/v1/started", WHO)
        await eventually_async(lambda: bool(served.sink.events))
        served.registry.forget(C1)
        served.sink.durable.set()
        assert (await peer.finish()).status == 409


async def test_an_order_set_while_a_report_is_written_wins(served: Served) -> None:
    served.registry.order(C1, ORDER)
    served.sink.durable.clear()
    async with connected(served.port, f"{C1}/report") as peer:
        await peer.start("POST", "/starter/v1/started", WHO)
        await eventually_async(lambda: bool(served.sink.events))
        served.registry.order(C1, Order(attempt=2, generation=2))
        served.sink.durable.set()
        assert (await peer.finish()).json()["order"]["attempt"] == 2


async def test_a_second_poll_ends_the_first(served: Served) -> None:
    served.registry._hold_s = 60.0
    served.registry.order(C1, ORDER)
    async with connected(served.port, f"{C1}/poll") as old, connected(served.port) as new:
        known = await number(old)
        await old.start("POST", "/starter/v1/poll", poll(known))
        await eventually_async(lambda: len(served.registry._holds) == 1)
        new.actor = f"{C1}/poll"
        await new.start("POST", "/starter/v1/poll", poll(known))
        assert (await old.finish()).status == 200
        served.registry.order(C1, Order(attempt=2, generation=1))
        assert (await new.finish()).json()["order"]["attempt"] == 2


async def test_starters_lost_in_a_hold_leave_nothing(served: Served) -> None:
    served.registry.order(C1, ORDER)
    for i in range(5):
        async with connected(served.port, f"{C1}/poll") as peer:
            await peer.start("POST", "/starter/v1/poll", poll(1_000_001))
            await eventually_async(lambda: bool(served.registry._holds))
            (peer.drop if i % 2 else peer.reset)()
            await eventually_async(lambda: not served.server.connections)
    await eventually_async(lambda: not served.registry._holds and served.registry._timer is None)


async def test_close_answers_those_who_wait(served: Served) -> None:
    served.registry._hold_s = 60.0
    served.registry.order(C1, ORDER)
    served.sink.durable.clear()
    async with (
        connected(served.port, f"{C1}/poll") as polling,
        connected(served.port, f"{C1}/report") as reporting,
    ):
        known = await number(polling)
        await polling.start("POST", "/starter/v1/poll", poll(known))
        await reporting.start("POST", "/starter/v1/exited", EXITED)
        await eventually_async(lambda: bool(served.sink.events) and bool(served.registry._holds))
        closing = asyncio.create_task(served.registry.close())
        assert (await polling.finish()).status == 200
        assert not closing.done()
        served.sink.durable.set()
        await closing
        assert (await reporting.finish()).status == 200


@pytest.mark.parametrize("path", ["register", "poll", "started", "exited"])
async def test_a_container_speaks_for_itself_only(served: Served, path: str) -> None:
    served.registry.order(C1, ORDER)
    body = {"register": REGISTER, "poll": poll(), "started": WHO, "exited": EXITED}[path]
    for actor in (f"{C2}/poll", f"{C2}/report", "client/x", C1, "/poll", f"{C1}/other"):
        async with connected(served.port, actor) as peer:
            assert (await peer.ask("POST", f"/starter/v1/{path}", body)).status == 401
    assert not served.sink.events
    assert served.registry.last_heard(C1) is None


@pytest.mark.parametrize(
    "change",
    [
        {"port": 0},
        {"port": 65536},
        {"port": "1"},
        {"attempt": -1},
        {"attempt": 1.5},
        {"host": None},
        {"more": 1},
        {"host": "\ud800"},
        {"task": 1},
    ],
)
async def test_what_is_not_understood_is_a_400(served: Served, change: dict[str, Any]) -> None:
    async with connected(served.port, f"{C1}/report") as peer:
        reply = await peer.ask("POST", "/starter/v1/register", {**REGISTER, **change})
        assert reply.status == 400
        assert "/starter/v1/register" in reply.json()["error"]
    assert not served.sink.events


@pytest.mark.parametrize("body", [b"", b"[" * 100_000, b"\xff", b'"\xff"', b"{}", b"null"])
async def test_no_body_crashes_it(served: Served, body: bytes) -> None:
    async with connected(served.port, f"{C1}/report") as peer:
        await peer.send(peer.signed("POST", "/starter/v1/exited", body))
        assert (await peer.finish()).status == 400


@pytest.mark.parametrize(
    ("path", "change"),
    [
        ("register", {"task": "x" * 301}),
        ("register", {"attempt": -1}),
        ("register", {"attempt": 2**63}),
        ("register", {"attempt": "DIGITS"}),
        ("register", {"host": ""}),
        ("register", {"host": "h" * 256}),
        ("register", {"host": "h\0"}),
        ("register", {"host": "h/x"}),
        ("register", {"host": "h\n"}),
        ("register", {"port": 0}),
        ("register", {"port": 65536}),
        ("register", {"control": "h"}),
        ("register", {"control": "h:0"}),
        ("register", {"control": "h:65536"}),
        ("register", {"control": "h" * 256 + ":1"}),
        ("started", {"task": "x" * 301}),
        ("exited", {"exit_code": 2**31}),
        ("exited", {"signal": 129}),
        ("exited", {"signal": -1}),
        ("exited", {"ended_at": -1.0}),
        ("exited", {"ended_at": 1e300}),
        ("exited", {"tail": "x" * 16_385}),
        ("exited", {"reason": "x" * 16_385}),
        ("poll", {"order": -1}),
        ("poll", {"revision": 2**63}),
    ],
)
async def test_every_field_of_a_report_has_limits(
    served: Served, path: str, change: dict[str, Any]
) -> None:
    served.registry.order(C1, ORDER)
    bodies = {"register": REGISTER, "started": WHO, "exited": EXITED, "poll": poll()}
    text = json.dumps({**bodies[path], **change}).replace('"DIGITS"', "9" * 5000).encode()
    async with connected(served.port, f"{C1}/report") as peer:
        await peer.send(peer.signed("POST", f"/starter/v1/{path}", text))
        reply = await peer.finish()
    assert (reply.status, served.sink.events) == (400, [])
    assert "is not understood" in reply.json()["error"]


async def test_what_starters_send_is_within_the_limits(served: Served) -> None:
    longest = {"tail": "ä" * TAIL_BYTES, "reason": "x" * LONGEST_REASON}
    async with connected(served.port, f"{C1}/report") as peer:
        body = {**EXITED, **longest}
        assert (await peer.ask("POST", "/starter/v1/exited", body)).status == 200


async def test_a_registration_that_came_another_way_is_told_by_the_next_poll(
    served: Served,
) -> None:
    served.registry._hold_s = 60.0
    served.registry.order(C1, ORDER)
    async with connected(served.port, f"{C1}/poll") as peer:
        await peer.start("POST", "/starter/v1/poll", poll(order=1_000_001))
        await eventually_async(lambda: len(served.registry._holds) == 1)
        served.registry.note_registered(C1, 1)
        answer = (await peer.finish()).json()
        assert (answer["registered"], answer["order"]["number"]) == (1, 1_000_002)
        # Also a poll that comes after it and does not know of it.
        again = await peer.ask("POST", "/starter/v1/poll", poll(order=1_000_001))
        assert again.json()["registered"] == 1
        served.registry.note_registered(C1, 1)
        assert served.registry._starters[C1].number == 1_000_002, "no news"
    served.registry.note_registered(C2, 1)  # unknown: nothing happens


async def test_a_new_master_knows_what_an_earlier_one_has_registered(served: Served) -> None:
    served.registry.order(C1, ORDER, is_registered=True)
    async with connected(served.port, f"{C1}/poll") as peer:
        answer = await peer.ask("POST", "/starter/v1/poll", poll(order=0))
        assert answer.json()["registered"] == 1
