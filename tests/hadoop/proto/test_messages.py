"""Decoding messages of a peer."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ytf.errors import InternalError
from ytf.hadoop.proto import client_pb2, master_pb2, rpc_pb2, security_pb2
from ytf.hadoop.proto.messages import (
    MalformedMessageError,
    delimited,
    parse,
    read_delimited,
    serialize,
    text,
    varint,
)

KINDS = (
    rpc_pb2.ResponseHeader,
    rpc_pb2.SaslMessage,
    client_pb2.GetQueueInfoResponse,
    client_pb2.GetApplicationsResponse,
    master_pb2.AllocateResponse,
    security_pb2.Credentials,
)


@given(st.binary(max_size=300), st.binary(max_size=5))
def test_delimited_round_trip(data: bytes, after: bytes) -> None:
    assert read_delimited(delimited(data) + after, 0) == (data, len(delimited(data)))


@given(st.integers(0, 2**32 - 1))
def test_varints_are_protobufs(value: int) -> None:
    message = rpc_pb2.ResponseHeader(call_id=value, status=0)
    assert serialize(message)[1:-2] == varint(value)


@given(st.binary(max_size=20), st.integers(0, 25))
def test_any_bytes_are_delimited_or_refused(data: bytes, start: int) -> None:
    try:
        found, end = read_delimited(data, start)
    except MalformedMessageError:
        return
    assert data[:end].endswith(found)


@given(st.sampled_from(KINDS), st.binary(max_size=60))
def test_any_bytes_are_a_message_or_refused(
    kind: type[rpc_pb2.ResponseHeader], data: bytes
) -> None:
    try:
        parse(kind, data)
    except MalformedMessageError:
        return


def test_endless_varints_and_lengths_are_refused() -> None:
    for data in (b"\xff" * 20, b"\xff\xff\xff\xff\x7f", b"\x80", b""):
        with pytest.raises(MalformedMessageError):
            read_delimited(data, 0)


def test_deep_nesting_is_refused() -> None:
    data = b""
    for _ in range(5000):
        data = b"\x32" + delimited(data)  # field 6: a queue below a queue
    with pytest.raises(MalformedMessageError):
        parse(client_pb2.QueueInfo, data)


def test_our_own_incomplete_messages_are_our_bug() -> None:
    with pytest.raises(InternalError, match="incomplete"):
        serialize(security_pb2.Token(kind="k"))


def test_text() -> None:
    assert (text("a"), text(b"\xffb")) == ("a", "\ufffdb")
