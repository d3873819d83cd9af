"""Several addresses: when the next one is tried, and when it must not be."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from tests.hadoop.rpc.echo import ALICE, ECHO, ONCE, PATIENT, PROTOCOL, answer, number
from tests.hadoop.rpc.server import HangUpError, JavaError, Received, RpcServer
from ytf.errors import OutcomeUnknownError, SettingsError, UnreachableError
from ytf.hadoop.conf import Address, Configuration
from ytf.hadoop.proto.messages import parse
from ytf.hadoop.proto.records_pb2 import Priority
from ytf.hadoop.rpc import client
from ytf.hadoop.rpc.client import RetryPolicy, RpcClient, master_retry_policy, rpc_settings
from ytf.hadoop.rpc.connection import RpcConnection, RpcSettings, connect
from ytf.hadoop.rpc.errors import AccessDeniedError, NotExecutedError
from ytf.hadoop.security.credentials import Token
from ytf.hadoop.security.login import Login

STANDBY = "org.apache.hadoop.ipc.StandbyException"
RETRIABLE = "org.apache.hadoop.ipc.RetriableException"


@pytest.fixture
async def second() -> AsyncIterator[RpcServer]:
    async with RpcServer({"echo": answer}) as running:
        yield running


def service(*servers: RpcServer, retry_policy: RetryPolicy | None = None) -> RpcClient:
    addresses = [server.address for server in servers]
    return RpcClient(addresses, PROTOCOL, ALICE, settings=PATIENT, retry_policy=retry_policy)


def refuse(server: RpcServer, *errors: Exception) -> None:
    """Let the server's next answers be these errors."""
    waiting = list(errors)

    async def handler(call: Received) -> Priority:
        if waiting:
            raise waiting.pop(0)
        return await answer(call)

    server.handlers["echo"] = handler


async def test_one_connection_serves_many_calls(server: RpcServer) -> None:
    async with service(server) as calls:
        answers = await asyncio.gather(*(calls.call(ECHO, number(n)) for n in range(10)))
        await calls.call(ECHO, number(1))
    assert [each.priority for each in answers] == list(range(10))
    assert server.connections == 1


async def test_a_dead_address_is_passed_over(server: RpcServer, second: RpcServer) -> None:
    await server.stop()
    async with service(server, second) as calls:
        assert (await calls.call(ONCE, number(1))).priority == 1
        await calls.call(ONCE, number(2))
    # It stayed where it was answered.
    assert (server.connections, second.connections) == (0, 1)


@pytest.mark.parametrize("name", [STANDBY, RETRIABLE])
async def test_who_says_not_me_is_passed_over(
    server: RpcServer, second: RpcServer, name: str
) -> None:
    refuse(server, JavaError(name))
    async with service(server, second) as calls:
        assert (await calls.call(ONCE, number(1))).priority == 1
    assert len(second.received) == 1


async def test_any_other_refusal_is_final(server: RpcServer, second: RpcServer) -> None:
    refuse(server, JavaError("org.apache.hadoop.security.AccessControlException", "no"))
    async with service(server, second) as calls:
        with pytest.raises(AccessDeniedError):
            await calls.call(ECHO, number(1))
    assert second.connections == 0


async def test_a_wrong_token_is_not_taken_elsewhere(second: RpcServer) -> None:
    async with RpcServer({"echo": answer}, token=Token(b"right", b"", "K")) as picky:
        login = Login(user="", token=Token(b"wrong", b"", "K"))
        addresses = [picky.address, second.address]
        async with RpcClient(addresses, PROTOCOL, login, settings=PATIENT) as calls:
            with pytest.raises(Exception, match="nobody knows this token"):
                await calls.call(ECHO, number(1))
    assert second.connections == 0


async def test_a_call_without_an_answer_is_repeated_if_it_may_be(
    server: RpcServer, second: RpcServer
) -> None:
    refuse(server, HangUpError())
    async with service(server, second) as calls:
        assert (await calls.call(ECHO, number(1))).priority == 1
    assert second.received[0].header.retry_count == 1


async def test_a_call_without_an_answer_is_not_repeated_if_it_may_not(
    server: RpcServer, second: RpcServer
) -> None:
    refuse(server, HangUpError())
    async with service(server, second) as calls:
        with pytest.raises(OutcomeUnknownError):
            await calls.call(ONCE, number(1))
    assert len(server.received) == 1
    assert second.connections == 0


async def test_a_server_that_was_restarted_is_tried_again_at_once(server: RpcServer) -> None:
    async with service(server) as calls:
        await calls.call(ECHO, number(1))
        await server.drop()
        assert (await calls.call(ECHO, number(2))).priority == 2
    assert server.connections == 2


async def test_an_old_connection_that_breaks_gives_one_more_try(server: RpcServer) -> None:
    async with service(server) as calls:
        await calls.call(ECHO, number(1))
        refuse(server, HangUpError())
        assert (await calls.call(ECHO, number(2))).priority == 2
        refuse(server, HangUpError(), HangUpError())
        with pytest.raises(OutcomeUnknownError):
            await calls.call(ECHO, number(3))


async def test_without_a_retry_policy_it_ends_after_one_round(
    server: RpcServer, second: RpcServer
) -> None:
    await server.stop()
    await second.stop()
    async with service(server, second) as calls:
        with pytest.raises(UnreachableError) as caught:
            await calls.call(ECHO, number(1))
    assert isinstance(caught.value, NotExecutedError)
    assert str(server.address) in str(caught.value)
    assert str(second.address) in str(caught.value)
    assert caught.value.hint


async def test_it_pauses_after_each_round_until_one_comes_up(
    server: RpcServer, second: RpcServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    await server.stop()
    await second.stop()
    pause_s = 12.5
    steps: list[str] = []
    real_sleep = asyncio.sleep

    async def count_tries(*arguments: Any) -> RpcConnection:
        steps.append("try")
        return await connect(*arguments)

    async def start_at_the_second_pause(seconds: float) -> None:
        if seconds != pause_s:
            await real_sleep(seconds)
            return
        steps.append("pause")
        if steps.count("pause") == 2:
            await server.start()

    monkeypatch.setattr(client, "connect", count_tries)
    monkeypatch.setattr(asyncio, "sleep", start_at_the_second_pause)
    policy = RetryPolicy(total_s=100, pause_s=pause_s)
    async with service(server, second, retry_policy=policy) as calls:
        assert (await calls.call(ONCE, number(1))).priority == 1
    assert steps == ["try", "try", "pause", "try", "try", "pause", "try"]


async def test_silence_is_not_waited_for_as_long_as_a_standby_that_answers(
    server: RpcServer, second: RpcServer
) -> None:
    await server.stop()
    policy = RetryPolicy(total_s=600, pause_s=0.01, silence_s=0.0)
    refuse(second, *[JavaError(STANDBY)] * 3)
    async with service(server, second, retry_policy=policy) as calls:
        assert (await calls.call(ONCE, number(1))).priority == 1
    await second.stop()
    async with service(server, second, retry_policy=policy) as calls:
        with pytest.raises(UnreachableError):
            await calls.call(ECHO, number(1))


async def test_a_single_standby_is_asked_again_over_the_same_connection(
    server: RpcServer,
) -> None:
    refuse(server, JavaError(STANDBY), JavaError(STANDBY))
    async with service(server, retry_policy=RetryPolicy(total_s=10, pause_s=0.01)) as calls:
        assert (await calls.call(ONCE, number(1))).priority == 1
    assert server.connections == 1


async def test_concurrent_calls_agree_on_where_to_go(server: RpcServer, second: RpcServer) -> None:
    await server.stop()
    async with service(server, second) as calls:
        answers = await asyncio.gather(*(calls.call(ECHO, number(n)) for n in range(20)))
    assert [each.priority for each in answers] == list(range(20))
    assert second.connections == 1


async def test_a_call_that_is_refused_late_stays_where_others_went(
    server: RpcServer, second: RpcServer
) -> None:
    both_arrived, first_answered = asyncio.Event(), asyncio.Event()

    async def stand_by(call: Received) -> Priority:
        if len(server.received) == 2:
            both_arrived.set()
        is_late = parse(Priority, call.request).priority == 2
        await (first_answered if is_late else both_arrived).wait()
        raise JavaError(STANDBY)

    server.handlers["echo"] = stand_by
    async with service(server, second) as calls:
        late = asyncio.create_task(calls.call(ECHO, number(2)))
        assert (await calls.call(ECHO, number(1))).priority == 1
        first_answered.set()
        assert (await late).priority == 2
    assert (server.connections, second.connections) == (1, 1)


async def test_another_login_means_another_connection() -> None:
    old, new = Token(b"old", b"1", "K"), Token(b"new", b"2", "K")
    async with RpcServer({"echo": answer}, token=old) as server:
        login = Login(user="", token=old)
        async with RpcClient([server.address], PROTOCOL, login, settings=PATIENT) as calls:
            await calls.call(ECHO, number(1))
            server.token = new
            await calls.call(ECHO, number(2))
            calls.relogin(Login(user="", token=new))
            await calls.call(ECHO, number(3))
    assert server.connections == 2


async def test_calls_in_flight_outlive_a_new_login(server: RpcServer) -> None:
    arrived, go = asyncio.Event(), asyncio.Event()

    async def wait(call: Received) -> Priority:
        arrived.set()
        await go.wait()
        return await answer(call)

    server.handlers["echo"] = wait
    async with service(server) as calls:
        old = asyncio.create_task(calls.call(ONCE, number(1)))
        await arrived.wait()
        calls.relogin(Login(user="bob"))
        new = asyncio.create_task(calls.call(ONCE, number(2)))
        go.set()
        assert ((await old).priority, (await new).priority) == (1, 2)
    assert server.connections == 2


async def test_a_dead_hosts_timeout_is_a_reason_to_go_on(second: RpcServer) -> None:
    has_left = asyncio.Event()

    async def mute(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()
        writer.close()
        has_left.set()

    listener = await asyncio.start_server(mute, "127.0.0.1", 0)
    async with listener:
        silent = Address(*listener.sockets[0].getsockname())
        settings = RpcSettings(call_timeout_s=0.05)
        async with RpcClient([silent, second.address], PROTOCOL, ALICE, settings=settings) as calls:
            assert (await calls.call(ECHO, number(1))).priority == 1
        await has_left.wait()


def test_no_address_at_all() -> None:
    with pytest.raises(SettingsError, match="no address is configured for EchoProtocol"):
        RpcClient([], PROTOCOL, ALICE)


def test_settings_of_the_cluster_are_kept() -> None:
    conf = Configuration.of(
        {
            "ipc.client.rpc-timeout.ms": "0",
            "ipc.client.connect.timeout": "5s",
            "ipc.maximum.response.length": "1m",
            "yarn.resourcemanager.connect.max-wait.ms": "1000",
        }
    )
    settings = rpc_settings(conf, caller="ytf_job")
    assert settings.connect_timeout_s == 5
    assert settings.call_timeout_s == 120
    assert settings.max_response_bytes == 2**20
    assert settings.caller == "ytf_job"
    assert master_retry_policy(conf).total_s == 1
