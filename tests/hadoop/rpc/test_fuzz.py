"""Hostile peers: whatever they send, a call ends in time, with an error of ours.

Three kinds of bytes: noise, noise where a valid frame would stand, and valid
conversations that go wrong in one place. The peer may then close or stay.
"""

from __future__ import annotations

import asyncio
import contextlib
import tracemalloc

import msgspec
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.hadoop.rpc.echo import ECHO, PROTOCOL, number
from ytf.errors import InternalError, OutcomeUnknownError, RefusedError, UnreachableError
from ytf.hadoop.conf import Address
from ytf.hadoop.proto.messages import delimited, serialize
from ytf.hadoop.proto.records_pb2 import Priority
from ytf.hadoop.proto.rpc_pb2 import ResponseHeader, SaslAuth, SaslMessage
from ytf.hadoop.rpc import sasl
from ytf.hadoop.rpc.connection import RpcSettings, connect
from ytf.hadoop.security.credentials import Token
from ytf.hadoop.security.login import Login

OURS = (OutcomeUnknownError, RefusedError, UnreachableError)
SETTINGS = RpcSettings(
    connect_timeout_s=0.05, call_timeout_s=0.05, ping_interval_s=0.01, max_response_bytes=100_000
)
TOKEN = Token(b"id", b"pw", "K")
CHALLENGE = b'realm="default",nonce="n",qop="auth-conf,auth-int,auth",cipher="rc4,3des"'


def framed(data: bytes) -> bytes:
    return len(data).to_bytes(4, "big") + data


def response(call_id: int, status: int, body: bytes = b"", **fields: str | int) -> bytes:
    header = ResponseHeader(call_id=call_id & 0xFFFFFFFF, status=status)
    for name, value in fields.items():
        setattr(header, name, value)
    return framed(delimited(serialize(header)) + body)


def sasl_response(message: SaslMessage) -> bytes:
    return response(-33, 0, delimited(serialize(message)))


def offer(challenge: bytes) -> bytes:
    auth = SaslAuth(
        method="TOKEN", mechanism="DIGEST-MD5", protocol="", server_id="s", challenge=challenge
    )
    return sasl_response(SaslMessage(state=sasl.NEGOTIATE, auths=[auth]))


SMALL = st.binary(max_size=60)
VALID = st.one_of(
    st.builds(
        response,
        st.integers(-40, 3),
        st.integers(0, 4),
        st.one_of(SMALL, st.just(delimited(serialize(Priority(priority=1))))),
        error_message=st.text(max_size=10),
        exception_class=st.sampled_from(["", "x", "org.apache.hadoop.ipc.StandbyException"]),
        error_detail=st.integers(0, 20),
    ),
    st.builds(offer, st.one_of(SMALL, st.just(CHALLENGE))),
    st.builds(
        lambda state, token: sasl_response(SaslMessage(state=state, token=token)),
        st.integers(-1, 7),
        SMALL,
    ),
)
SAID = st.lists(st.one_of(SMALL, st.builds(framed, SMALL), VALID), max_size=5).map(b"".join)


async def converse(said: bytes, *, close: bool, login: Login) -> None:
    """Call a peer that says this; it must end in time, with an answer or an error of ours."""

    async def peer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError):
            await reader.read(100)
            writer.write(said)
            if not close:
                await reader.read()
        writer.close()

    listener = await asyncio.start_server(peer, "127.0.0.1", 0)
    async with listener:
        address = Address(*listener.sockets[0].getsockname())
        failure: Exception | None = None
        try:
            connection = await connect(address, PROTOCOL, login, SETTINGS)
            try:
                await connection.call(ECHO, number(1))
                await connection.call(ECHO, number(2))
            finally:
                await connection.close()
        except OURS as exc:
            failure = exc
        # A crash inside would show as the cause.
        assert failure is None or not isinstance(failure.__cause__, InternalError)


@settings(max_examples=300)
@given(SAID, st.booleans(), st.booleans())
@example(said=b"\xff\xff\xff\xff", close=False, with_token=True)
@example(said=b"HTTP/1.1 400 Bad Request\r\n\r\n", close=False, with_token=False)
@example(said=b"\x00\x00\x00\x00", close=False, with_token=False)
def test_no_peer_can_hang_or_crash_a_call(said: bytes, close: bool, with_token: bool) -> None:
    login = Login(user="alice", token=TOKEN if with_token else None)
    asyncio.run(asyncio.wait_for(converse(said, close=close, login=login), 60))


@pytest.mark.parametrize("claimed", [99_999, 2**31 - 1, 2**32 - 1])
async def test_no_peer_can_make_us_take_memory_without_bound(claimed: int) -> None:
    """Lengths are believed only up to the limit, and memory is taken as bytes arrive."""
    stop = asyncio.Event()

    async def flood(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(claimed.to_bytes(4, "big"))
        with contextlib.suppress(ConnectionError):
            for _ in range(500):
                writer.write(b"\0" * 65536)
                await writer.drain()
        stop.set()
        writer.close()

    listener = await asyncio.start_server(flood, "127.0.0.1", 0)
    async with listener:
        address = Address(*listener.sockets[0].getsockname())
        patient = msgspec.structs.replace(SETTINGS, connect_timeout_s=60.0)
        connection = await connect(address, PROTOCOL, Login(user="alice"), patient)
        tracemalloc.start()
        try:
            with contextlib.suppress(*OURS):
                await connection.call(ECHO, number(1))
            await asyncio.wait_for(stop.wait(), 60)
            peak = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
            await connection.close()
    assert peak < 5_000_000
