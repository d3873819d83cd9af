"""What peers without the secret may take of the server: connections, bytes, descriptors."""

from __future__ import annotations

import asyncio
import errno
import os
import socket
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager

import pytest

from tests.web.conftest import Site, serving
from tests.web.raw_client import Peer, connected
from ytf.testing.waiting import eventually_async
from ytf.web import listener
from ytf.web.connection import Limits
from ytf.web.messages import Request, Response
from ytf.web.server import HttpServer
from ytf.wire.http_reader import HEAD_LIMIT


@pytest.fixture
def idle() -> Iterator[ExitStack]:
    """Holds the sockets of peers that say nothing more."""
    with ExitStack() as stack:
        yield stack


def connect(stack: ExitStack, site: Site, count: int, data: bytes = b"") -> list[socket.socket]:
    """Connect so many peers that send ``data``, and do not wait for anything."""
    peers = []
    for _ in range(count):
        peer = stack.enter_context(socket.create_connection(("127.0.0.1", site.port), 30))
        peer.setblocking(False)
        if data:
            try:
                peer.send(data)
            except OSError:
                assert count > 1  # it was closed already, to make room
        peers.append(peer)
    return peers


@asynccontextmanager
async def waiting_starters(site: Site, count: int) -> AsyncIterator[list[Peer]]:
    """Peers whose signed requests are held, as the polls of starters are."""
    site.server.route("POST", "/poll", site.hold)
    async with AsyncExitStack() as stack:
        peers = []
        for i in range(count):
            peers.append(await stack.enter_async_context(connected(site.port, f"c{i}/poll")))
            await peers[i].start("POST", "/poll", {})
        await eventually_async(lambda: len(site.waits) == count)
        yield peers


async def answered(site: Site, peers: list[Peer]) -> None:
    for wait in site.waits:
        wait.set_result(Response(b"news"))
    for peer in peers:
        assert (await peer.finish()).body == b"news"


async def test_idle_connections_close_each_other_and_nobody_else(idle: ExitStack) -> None:
    limits = Limits(unauthenticated=50)
    async with serving(limits) as site, waiting_starters(site, 20) as starters:
        strangers = site.server.unauthenticated
        for round_ in range(1, 11):
            connect(idle, site, 60)
            await eventually_async(lambda: len(strangers) + strangers.shed == 60 * round_)  # noqa: B023
            assert len(strangers) == 50
        await eventually_async(lambda: len(site.server.connections) == 70)
        async with connected(site.port) as one_more:
            assert (await one_more.ask("POST", "/signed", {})).status == 200
        await answered(site, starters)


@pytest.mark.parametrize(
    "data",
    [
        b"GET / HTTP/1.1\r\nA: " + b"x" * (HEAD_LIMIT - 1000),
        b"POST /signed HTTP/1.1\r\nContent-Length: 1048576\r\n\r\n" + b"x" * 500_000,
        b"POST /echo HTTP/1.1\r\nContent-Length: 4096\r\n\r\n" + b"x" * 4000,
        b"GET /hold HTTP/1.1\r\n\r\n" + b"GET /hold HTTP/1.1\r\n\r\n" * 3000,
    ],
)
async def test_what_is_buffered_for_strangers_stays_within_one_budget(
    idle: ExitStack, data: bytes
) -> None:
    limits = Limits(unauthenticated_bytes=200_000)
    most = 0

    def buffered(site: Site) -> int:
        return sum(
            len(connection._buffer)
            for connection in site.server.connections
            if not connection._transport.is_closing()
        )

    async with serving(limits) as site, waiting_starters(site, 5) as starters:
        for _ in range(10):
            connect(idle, site, 30, data)
            for _ in range(20):
                await asyncio.sleep(0)
                most = max(most, buffered(site))
        async with connected(site.port) as one_more:
            assert (await one_more.ask("POST", "/signed", {})).status == 200
        most = max(most, buffered(site))
        # One read more than the budget: what makes it overflow has been received already.
        assert most <= 200_000 + 64 * 1024
        assert site.server.unauthenticated.bytes <= 200_000
        site.waits = site.waits[:5]
        await answered(site, starters)


async def test_a_repeated_head_buys_nothing(site: Site, idle: ExitStack) -> None:
    async with connected(site.port) as peer:
        recorded = peer.signed("POST", "/signed", b"1")
        assert (await peer.raw(recorded)).status == 200
    head = recorded.partition(b"\r\n\r\n")[0].replace(b"Length: 1", b"Length: 1000000")
    peers = connect(idle, site, 20, head + b"\r\n\r\n" + b"1" * 500_000)
    loop = asyncio.get_running_loop()
    for sock in peers:
        assert (await loop.sock_recv(sock, 100)).startswith(b"HTTP/1.1 401 ")
    assert not any(connection._authenticated for connection in site.server.connections)
    assert site.server.unauthenticated.bytes == 0


async def test_connections_leave_descriptors_for_everything_else(
    idle: ExitStack, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ytf.web.server.raise_descriptor_limit", lambda: 40)
    async with serving(None) as site, waiting_starters(site, 20) as starters:
        before = len(os.listdir("/proc/self/fd"))
        for _ in range(10):
            connect(idle, site, 20)
            await eventually_async(lambda: len(site.server.connections) == 40)
            # Those of the starters are on both sides of this process, too.
            mine = len(idle._exit_callbacks)  # type: ignore[attr-defined]  # only to count them
            assert len(os.listdir("/proc/self/fd")) <= before + mine + 20
        async with connected(site.port) as one_more:
            assert (await one_more.ask("POST", "/signed", {})).status == 200
        await answered(site, starters)


async def test_where_all_belong_to_the_job_a_new_one_is_refused(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("ytf.web.server.raise_descriptor_limit", lambda: 5)
    async with serving(None) as site, waiting_starters(site, 5) as starters:
        async with connected(site.port) as one_more:
            assert await one_more.end() == b""
        await answered(site, starters)
    assert "all belong to this job" in capfd.readouterr().err


async def test_a_system_without_descriptors_is_waited_for(
    site: Site, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    assert site.server._listener is not None
    real = site.server._listener._socket
    refusals = [OSError(errno.EMFILE, "Too many open files"), OSError(errno.ENETDOWN, "down")]

    class Refusing:
        def accept(self) -> object:
            if refusals:
                raise refusals.pop()
            return real.accept()

        def __getattr__(self, name: str) -> object:
            return getattr(real, name)

    monkeypatch.setattr(site.server._listener, "_socket", Refusing())
    async with connected(site.port) as peer:
        assert (await peer.ask("POST", "/signed", {})).status == 200
    monkeypatch.undo()
    assert not refusals
    assert "no connection can be accepted: [Errno 24]" in capfd.readouterr().err


async def test_unsigned_work_is_limited(site: Site, idle: ExitStack) -> None:
    def works() -> int:
        return len(site.server._work)

    connect(idle, site, 70, b"GET /work HTTP/1.1\r\n\r\n")
    # The others are told so, and closed.
    await eventually_async(lambda: works() == len(site.server.connections) == 64)
    async with connected(site.port) as peer:
        assert (await peer.raw(b"GET /work HTTP/1.1\r\n\r\n")).status == 503
    async with connected(site.port) as peer:
        assert (await peer.ask("POST", "/signed", {})).status == 200
    site.gate.set()
    await eventually_async(lambda: not works())
    async with connected(site.port) as peer:
        assert (await peer.raw(b"GET /work HTTP/1.1\r\n\r\n")).body == b"done"


async def test_it_listens_on_ipv6() -> None:
    server = HttpServer(Request, limits=None)  # type: ignore[arg-type]  # no request comes
    port = await server.listen("::1")
    socket.create_connection(("::1", port), 10).close()
    await server.close()


def test_the_descriptor_limit_leaves_a_reserve() -> None:
    assert listener.raise_descriptor_limit() > 0
