from __future__ import annotations

import asyncio
import gc
import logging
import os
import socket
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.web.conftest import LONG, Site
from tests.web.raw_client import SECRET, Peer, connected
from ytf.testing.waiting import eventually_async
from ytf.web.connection import Connection
from ytf.web.messages import MAX_BODY, MAX_UNSIGNED_BODY, Response
from ytf.web.request_auth import RequestVerifier
from ytf.web.server import HttpServer
from ytf.wire.http_reader import HEAD_LIMIT

ECHO = b"POST /echo HTTP/1.1\r\nContent-Length: 5\r\n\r\nhello"


async def authenticate(peer: Peer) -> None:
    """Show the secret once: only then a connection serves more than one request."""
    assert (await peer.ask("POST", "/signed")).status == 200


async def test_a_connection_serves_many_requests(site: Site) -> None:
    async with connected(site.port) as peer:
        await authenticate(peer)
        for _ in range(3):
            reply = await peer.raw(ECHO)
            assert (reply.status, reply.body) == (200, b"hello")
    assert len(site.server.connections) <= 1


async def test_a_request_may_come_byte_by_byte(site: Site) -> None:
    async with connected(site.port) as peer:
        for i in range(len(ECHO)):
            await peer.send(ECHO[i : i + 1])
        assert (await peer.reply()).body == b"hello"


async def test_without_the_secret_a_connection_serves_one_request(site: Site) -> None:
    async with connected(site.port) as peer:
        await peer.send(ECHO * 500)
        reply = await peer.reply()
        assert (reply.body, reply.headers["connection"]) == (b"hello", "close")
        await eventually_async(lambda: not site.server.connections)
    assert len(site.bodies) == 1


async def test_pipelined_requests_are_answered_in_order(site: Site) -> None:
    async with connected(site.port) as peer:
        await authenticate(peer)
        site.bodies.clear()
        many = [
            b"POST /echo HTTP/1.1\r\nContent-Length: %d\r\n\r\n" % i + b"x" * i for i in range(200)
        ]
        await peer.send(b"GET /hold HTTP/1.1\r\n\r\n" + b"".join(many))
        await eventually_async(lambda: bool(site.waits))
        assert not site.bodies, "a request was answered before the one ahead of it"
        site.waits[0].set_result(Response(b"first"))
        assert (await peer.reply()).body == b"first"
        for i in range(200):
            assert len((await peer.reply()).body) == i


@pytest.mark.parametrize(
    ("status", "request_"),
    [
        (404, b"GET /nowhere HTTP/1.1\r\n\r\n"),
        (405, b"GET /signed HTTP/1.1\r\n\r\n"),
        (401, b"POST /signed HTTP/1.1\r\n\r\n"),
        (409, b"GET /refused HTTP/1.1\r\n\r\n"),
        (503, b"GET /unwritable HTTP/1.1\r\n\r\n"),
    ],
)
async def test_a_refused_request_leaves_the_connection_usable(
    site: Site, status: int, request_: bytes
) -> None:
    async with connected(site.port) as peer:
        await authenticate(peer)
        reply = await peer.raw(request_)
        assert reply.status == status
        assert reply.json()["error"]
        assert (await peer.raw(ECHO)).body == b"hello"
    if status == 405:
        assert reply.headers["allow"] == "POST"


async def test_our_own_bug_is_a_500_and_logged(
    site: Site, caplog: pytest.LogCaptureFixture
) -> None:
    async with connected(site.port) as peer:
        await authenticate(peer)
        with caplog.at_level(logging.ERROR, "ytf.web"):
            assert (await peer.raw(b"GET /broken HTTP/1.1\r\n\r\n")).status == 500
        assert (await peer.raw(ECHO)).body == b"hello"
    assert "ZeroDivisionError" in caplog.text


@pytest.mark.parametrize(
    ("status", "data"),
    [
        (400, b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"),
        (400, b"\r\n\r\n"),
        (400, b"hello\r\n\r\n"),
        (413, b"POST /echo HTTP/1.1\r\nContent-Length: %d\r\n\r\n" % (MAX_UNSIGNED_BODY + 1)),
        (413, b"POST /echo HTTP/1.1\r\nContent-Length: " + b"9" * 5000 + b"\r\n\r\n"),
        (401, b"POST /signed HTTP/1.1\r\nContent-Length: 5\r\n\r\n"),
        (413, b"POST /echo HTTP/1.1\r\nContent-Length: 9999999\r\n\r\n" + b"x" * 4_000_000),
        (431, b"GET / HTTP/1.1\r\nA: " + b"x" * (HEAD_LIMIT + 1)),
        (431, b"GET / HTTP/1.1\r\nA: " + b"x" * 200_000 + b"\r\n\r\n"),
        (501, b"POST /echo HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"),
        (505, b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".replace(b"*", b"/")),
    ],
)
async def test_what_is_not_our_http_is_answered_and_closed(
    site: Site, status: int, data: bytes
) -> None:
    async with connected(site.port) as peer:
        reply = await peer.raw(data)
        assert reply.status == status
        assert reply.headers["connection"] == "close"
        assert await peer.end() == b""
    await eventually_async(lambda: not site.server.connections)


async def test_the_greatest_body_is_taken_and_no_greater_one(site: Site) -> None:
    async with connected(site.port) as peer:
        for body in (os.urandom(MAX_BODY), b""):
            await peer.send(peer.signed("POST", "/signed", body))
            assert (await peer.finish()).body == body
        await peer.send(peer.signed("POST", "/signed", os.urandom(MAX_BODY + 1)))
        assert (await peer.finish()).status == 413
    async with connected(site.port) as peer:
        body = os.urandom(MAX_UNSIGNED_BODY)
        await peer.send(b"POST /echo HTTP/1.1\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
        assert (await peer.reply()).body == body


async def test_a_body_that_was_not_signed_is_refused(site: Site) -> None:
    async with connected(site.port) as peer:
        await peer.send(peer.signed("POST", "/signed", b"pay 1")[:-1] + b"9")
        assert (await peer.finish()).status == 401
    assert not site.bodies


async def test_connection_close_is_honoured(site: Site) -> None:
    async with connected(site.port) as peer:
        reply = await peer.raw(b"GET /long HTTP/1.1\r\nConnection: close\r\n\r\n")
        assert reply.body == LONG
        assert reply.headers["connection"] == "close"
        assert await peer.end() == b""


@pytest.mark.parametrize(
    "sent", [b"", b"GET /ho", b"POST /echo HTTP/1.1\r\nContent-Length: 5\r\n\r\nhel"]
)
async def test_who_is_slow_to_ask_is_dropped(hasty: Site, sent: bytes) -> None:
    async with connected(hasty.port) as peer:
        await peer.send(sent)
        assert await peer.end() == b""
    assert not hasty.server.connections


async def test_trickling_bytes_do_not_buy_time(hasty: Site) -> None:
    begun = time.monotonic()
    async with connected(hasty.port) as peer:
        while hasty.server.connections or time.monotonic() < begun + 0.1:
            peer.writer.write(b"G")
            await asyncio.sleep(0.01)
            assert time.monotonic() < begun + 5
    assert time.monotonic() - begun >= hasty.server.limits.request_s * 0.9


async def test_an_idle_connection_is_closed_in_the_end(hasty: Site) -> None:
    async with connected(hasty.port) as peer:
        await authenticate(peer)
        answered = time.monotonic()
        assert await peer.end() == b""
        assert time.monotonic() - answered >= hasty.server.limits.idle_s * 0.9


async def test_a_wait_is_no_idleness(hasty: Site) -> None:
    async with connected(hasty.port) as peer, connected(hasty.port) as idle:
        await peer.send(b"GET /hold HTTP/1.1\r\n\r\n")
        await authenticate(idle)
        assert await idle.end() == b""
        hasty.waits[0].set_result(Response(b"late"))
        assert (await peer.reply()).body == b"late"


async def test_who_does_not_read_is_dropped_and_costs_little(
    hasty: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    buffered: list[int] = []
    pause_writing = Connection.pause_writing

    def pause(connection: Connection) -> None:
        buffered.append(connection._transport.get_write_buffer_size())
        pause_writing(connection)

    monkeypatch.setattr(Connection, "pause_writing", pause)
    async with connected(hasty.port) as deaf:
        await authenticate(deaf)
        assert isinstance(deaf.writer.transport, asyncio.ReadTransport)
        deaf.writer.transport.pause_reading()
        # A hundred megabytes: more than the two sockets take.
        await deaf.send(b"GET /long HTTP/1.1\r\n\r\n" * 100)
        await eventually_async(lambda: bool(buffered) and not hasty.server.connections)
    assert 0 < max(buffered) <= 64 * 1024


async def test_a_lost_caller_ends_its_wait(site: Site) -> None:
    async with connected(site.port) as peer:
        await peer.send(b"GET /hold HTTP/1.1\r\n\r\n")
        await eventually_async(lambda: bool(site.waits))
        peer.drop()
        await eventually_async(site.waits[0].cancelled)
    assert not site.server.connections


async def test_work_is_done_even_if_the_caller_is_lost(site: Site) -> None:
    async with connected(site.port) as peer:
        await peer.send(b"GET /work HTTP/1.1\r\n\r\n")
        await eventually_async(lambda: len(site.server._work) == 1)
        peer.reset()
        await eventually_async(lambda: not site.server.connections)
    site.gate.set()
    await eventually_async(lambda: site.worked == 1 and not site.server._work)


async def test_a_half_closed_caller_still_gets_its_answer(site: Site) -> None:
    async with connected(site.port) as peer:
        await peer.send(b"GET /work HTTP/1.1\r\n\r\n")
        peer.writer.write_eof()
        await eventually_async(lambda: len(site.server._work) == 1)
        site.gate.set()
        assert (await peer.reply()).body == b"done"
        assert await peer.end() == b""


async def test_close_answers_what_is_in_progress() -> None:
    server = HttpServer(RequestVerifier(SECRET))
    site = Site(server)
    port = await server.listen("127.0.0.1")
    async with connected(port) as working, connected(port) as idle, connected(port) as waiting:
        await authenticate(idle)
        await working.send(b"GET /work HTTP/1.1\r\n\r\n")
        await waiting.send(b"GET /hold HTTP/1.1\r\n\r\n")
        await eventually_async(lambda: bool(site.waits) and bool(server._work))
        closing = asyncio.create_task(server.close(grace_s=0.3))
        assert await idle.end() == b""
        site.gate.set()
        reply = await working.reply()
        assert (reply.body, reply.headers["connection"]) == (b"done", "close")
        await closing
        assert site.waits[0].cancelled()
        with pytest.raises(ConnectionRefusedError):
            async with connected(port):
                pass
    assert not server.connections


async def test_an_idle_connection_is_small(site: Site) -> None:
    def resident() -> int:
        gc.collect()
        with open("/proc/self/statm") as statm:
            return int(statm.read().split()[1]) * os.sysconf("SC_PAGESIZE")

    count = 400
    sockets = []
    try:
        # What the first connections cost once is not theirs.
        sockets += [socket.create_connection(("127.0.0.1", site.port)) for _ in range(50)]
        await eventually_async(lambda: len(site.server.connections) == 50)
        before = resident()
        for _ in range(count):
            peer = socket.create_connection(("127.0.0.1", site.port))
            peer.send(b"GET /hold HTTP/1.1\r\n\r\n")
            sockets.append(peer)
        await eventually_async(lambda: len(site.waits) == count)
        assert (resident() - before) / count < 10_000
    finally:
        for peer in sockets:
            peer.close()


@settings(max_examples=150, deadline=None)
@given(
    st.lists(
        st.one_of(
            st.binary(max_size=60),
            st.sampled_from(
                [b"GET /", b"POST /echo", b" HTTP/1.1", b"\r\n", b"\r\n\r\n", b"Content-Length: 3"]
            ),
            st.sampled_from(
                [ECHO, b"Ytf-Auth: c/poll 1 " + b"0" * 64 + b" " + b"0" * 64, b"POST /signed "]
            ),
        ),
        max_size=12,
    )
)
def test_no_bytes_break_the_server(pieces: list[bytes]) -> None:
    async def play() -> None:
        problems: list[object] = []
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(lambda _, context: problems.append(context))
        server = HttpServer(RequestVerifier(b"s"))
        Site(server)
        port = await server.listen("127.0.0.1")
        async with connected(port) as peer:
            for piece in pieces:
                peer.writer.write(piece)
            peer.writer.write_eof()
            answer = await peer.end()
        assert answer == b"" or answer.startswith(b"HTTP/1.1 ")
        assert b" 500 " not in answer
        async with connected(port) as peer:
            assert (await peer.raw(ECHO)).body == b"hello"
        await server.close()
        assert not problems

    asyncio.run(play())
