"""One connection: answers in any order, and every failure of a call."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from tests.hadoop.rpc.echo import ALICE, ECHO, PATIENT, PROTOCOL, answer, number
from tests.hadoop.rpc.server import HangUpError, JavaError, Received, RpcServer
from ytf.hadoop.conf import Address
from ytf.hadoop.proto.records_pb2 import Priority
from ytf.hadoop.proto.security_pb2 import Token as TokenMessage
from ytf.hadoop.rpc import digest_md5
from ytf.hadoop.rpc.connection import Method, RpcConnection, RpcSettings, connect
from ytf.hadoop.rpc.errors import (
    AccessDeniedError,
    AuthenticationError,
    InvalidTokenError,
    NotExecutedError,
    OutcomeUnknownError,
    RemoteError,
    StandbyError,
)
from ytf.hadoop.security.credentials import Token
from ytf.hadoop.security.login import Login

LONG = Method("long", TokenMessage, TokenMessage, True)
TOKEN = Token(b"\x0a\x04name", b"\x01\x02", "K", "s")


@asynccontextmanager
async def connected(
    server: RpcServer, login: Login = ALICE, settings: RpcSettings = PATIENT
) -> AsyncIterator[RpcConnection]:
    connection = await connect(server.address, PROTOCOL, login, settings)
    try:
        yield connection
    finally:
        await connection.close()


async def test_a_call_says_who_asks_what(server: RpcServer) -> None:
    async with connected(server) as connection:
        assert (await connection.call(ECHO, number(7))).priority == 7
        await connection.call(ECHO, number(8), retry=2)
    first, second = server.received
    assert first.context.user.effective_user == "alice"
    assert first.context.protocol == first.method.protocol == PROTOCOL
    assert first.header.caller_context.context == "ytf"
    assert (first.header.call_id, second.header.call_id) == (0, 1)
    assert (first.header.retry_count, second.header.retry_count) == (0, 2)
    assert len(first.header.client_id) == 16


async def test_answers_may_come_in_any_order(server: RpcServer) -> None:
    gates = [asyncio.Event() for _ in range(3)]

    async def gated(call: Received) -> Priority:
        await gates[(await answer(call)).priority].wait()
        return await answer(call)

    server.handlers["echo"] = gated
    async with connected(server) as connection:
        calls = [asyncio.create_task(connection.call(ECHO, number(n))) for n in range(3)]
        for n in (2, 0, 1):
            gates[n].set()
            assert (await calls[n]).priority == n
    assert server.connections == 1


@pytest.mark.parametrize(
    ("qop", "ciphers"),
    [
        (digest_md5.AUTH, ""),
        (digest_md5.AUTH_INT, ""),
        (digest_md5.AUTH_CONF, "rc4"),
        (digest_md5.AUTH_CONF, "3des"),
    ],
)
async def test_a_token_opens_the_door_at_every_protection(qop: str, ciphers: str) -> None:
    login = Login(user="", token=TOKEN, secure=True)

    async def long_answer(call: Received) -> TokenMessage:
        return TokenMessage(identifier=b"x" * 200_000, password=b"", kind="", service="")

    async with (
        RpcServer(
            {"echo": answer, "long": long_answer}, token=TOKEN, qop=qop, ciphers=ciphers
        ) as server,
        connected(server, login) as connection,
    ):
        answers = await asyncio.gather(*(connection.call(ECHO, number(n)) for n in range(20)))
        assert [each.priority for each in answers] == list(range(20))
        # Longer than one wrapped message can be.
        long = TokenMessage(identifier=b"y" * 150_000, password=b"", kind="", service="")
        assert len((await connection.call(LONG, long)).identifier) == 200_000
        assert len(server.received[-1].request) > 150_000
        assert not server.received[0].context.user.HasField("effective_user")
        assert server.received[0].context.HasField("user")


async def test_wrong_tokens_are_refused() -> None:
    async with RpcServer({"echo": answer}, token=TOKEN) as server:
        for wrong, error in (
            (Token(b"other", b"", "K"), InvalidTokenError),
            (Token(TOKEN.identifier, b"wrong", "K"), AuthenticationError),
        ):
            with pytest.raises(error):
                await connect(server.address, PROTOCOL, Login(user="", token=wrong), PATIENT)


async def test_a_bare_name_where_tokens_are_wanted_is_refused() -> None:
    async with RpcServer({"echo": answer}, token=TOKEN) as server, connected(server) as connection:
        with pytest.raises(AuthenticationError, match="does not let us in"):
            await connection.call(ECHO, number(1))
        assert connection.closed


async def test_an_exception_is_refused_and_the_connection_lives(server: RpcServer) -> None:
    async def refuse(call: Received) -> Priority:
        raise JavaError("org.apache.hadoop.ipc.StandbyException", "not me\n\tat java.Foo")

    server.handlers["echo"] = refuse
    async with connected(server) as connection:
        with pytest.raises(StandbyError, match=r"^not me$") as caught:
            await connection.call(ECHO, number(1))
        assert caught.value.trace == "\tat java.Foo"
        assert caught.value.detail == 1
        server.handlers["echo"] = answer
        assert (await connection.call(ECHO, number(2))).priority == 2


async def test_a_class_that_only_wraps_another_is_not_the_one_that_counts(
    server: RpcServer,
) -> None:
    denied = "org.apache.hadoop.security.AccessControlException"

    async def refuse(call: Received) -> Priority:
        raise JavaError(
            "org.apache.hadoop.yarn.exceptions.YarnException", f"{denied}: not you: bob"
        )

    server.handlers["echo"] = refuse
    async with connected(server) as connection:
        with pytest.raises(AccessDeniedError, match=r"^not you: bob$") as caught:
            await connection.call(ECHO, number(1))
    assert caught.value.class_name == denied


async def test_unknown_classes_are_remote_errors_all_the_same(server: RpcServer) -> None:
    async def refuse(call: Received) -> Priority:
        raise JavaError("java.lang.Foo", "")

    server.handlers["echo"] = refuse
    async with connected(server) as connection:
        with pytest.raises(RemoteError, match=r"java.lang.Foo") as caught:
            await connection.call(ECHO, number(1))
    assert type(caught.value) is RemoteError
    assert caught.value.class_name == "java.lang.Foo"


async def test_a_fatal_answer_refuses_its_call_and_leaves_the_others_open(
    server: RpcServer,
) -> None:
    arrived = asyncio.Event()

    async def misbehave(call: Received) -> Priority:
        if (await answer(call)).priority == 0:
            arrived.set()
            await asyncio.Event().wait()
        name = "org.apache.hadoop.security.AccessControlException"
        raise JavaError(name, "no", fatal=True, detail=10)

    server.handlers["echo"] = misbehave
    async with connected(server) as connection:
        other = asyncio.create_task(connection.call(ECHO, number(0)))
        await arrived.wait()
        with pytest.raises(AccessDeniedError):
            await connection.call(ECHO, number(1))
        with pytest.raises(OutcomeUnknownError):
            await other
        assert connection.closed
        with pytest.raises(NotExecutedError):
            await connection.call(ECHO, number(2))


async def test_a_late_fatal_word_about_nothing_leaves_the_outcome_unknown(
    server: RpcServer,
) -> None:
    async with connected(server) as connection:
        await connection.call(ECHO, number(1))

        async def refuse(call: Received) -> Priority:
            call.header.call_id = -1
            raise JavaError("java.io.IOException", "broken", fatal=True, detail=10)

        server.handlers["echo"] = refuse
        with pytest.raises(OutcomeUnknownError, match="broken"):
            await connection.call(ECHO, number(2))


async def test_a_connection_that_ends_leaves_the_outcome_unknown(server: RpcServer) -> None:
    async def hang_up(call: Received) -> Priority:
        raise HangUpError

    server.handlers["echo"] = hang_up
    async with connected(server) as connection:
        with pytest.raises(OutcomeUnknownError, match="echo was sent to EchoProtocol at 127"):
            await connection.call(ECHO, number(1))
        assert connection.closed


async def test_silence_ends_at_the_timeout(server: RpcServer) -> None:
    async def silent(call: Received) -> Priority:
        await asyncio.Event().wait()
        raise AssertionError

    server.handlers["echo"] = silent
    settings = RpcSettings(call_timeout_s=0.05)
    async with connected(server, settings=settings) as connection:
        with pytest.raises(OutcomeUnknownError, match="no answer came within"):
            await connection.call(ECHO, number(1))
        assert connection.closed


async def test_a_slow_call_does_not_take_the_others_with_it(server: RpcServer) -> None:
    async def slow_or_not(call: Received) -> Priority:
        if (await answer(call)).priority == 0:
            await asyncio.Event().wait()
        return await answer(call)

    server.handlers["echo"] = slow_or_not
    settings = RpcSettings(call_timeout_s=0.2)
    async with connected(server, settings=settings) as connection:
        slow = asyncio.create_task(connection.call(ECHO, number(0)))
        await asyncio.sleep(0)
        await connection.call(ECHO, number(1))
        with pytest.raises(OutcomeUnknownError):
            await slow
        assert not connection.closed
        assert (await connection.call(ECHO, number(2))).priority == 2


async def test_a_cancelled_call_is_forgotten(server: RpcServer) -> None:
    arrived, go = asyncio.Event(), asyncio.Event()

    async def wait(call: Received) -> Priority:
        arrived.set()
        await go.wait()
        return await answer(call)

    server.handlers["echo"] = wait
    async with connected(server) as connection:
        call = asyncio.create_task(connection.call(ECHO, number(1)))
        await arrived.wait()
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        go.set()
        assert (await connection.call(ECHO, number(2))).priority == 2


async def test_pings_are_sent_while_a_call_waits(server: RpcServer) -> None:
    go = asyncio.Event()

    async def wait(call: Received) -> Priority:
        await go.wait()
        return await answer(call)

    server.handlers["echo"] = wait
    settings = RpcSettings(ping_interval_s=0.005)
    async with connected(server, settings=settings) as connection:
        call = asyncio.create_task(connection.call(ECHO, number(1)))
        await asyncio.wait_for(server.pinged(3), 60)
        go.set()
        await call


async def test_nobody_there(server: RpcServer) -> None:
    await server.stop()
    with pytest.raises(NotExecutedError, match="cannot connect to EchoProtocol at"):
        await connect(server.address, PROTOCOL, ALICE, PATIENT)
    with pytest.raises(NotExecutedError, match="cannot connect"):
        await connect(Address("no-such-host.invalid", 1), PROTOCOL, ALICE, PATIENT)


async def test_a_server_that_accepts_and_says_nothing() -> None:
    has_left = asyncio.Event()

    async def mute(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()
        writer.close()
        has_left.set()

    listener = await asyncio.start_server(mute, "127.0.0.1", 0)
    async with listener:
        address = Address(*listener.sockets[0].getsockname())
        settings = RpcSettings(connect_timeout_s=0.05)
        with pytest.raises(NotExecutedError, match="did not answer within"):
            await connect(address, PROTOCOL, Login(user="", token=TOKEN), settings)
        await has_left.wait()
