"""Frames: bytes recorded from a real client, and streams split anywhere."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ytf.hadoop.proto.client_pb2 import GetClusterMetricsResponse
from ytf.hadoop.proto.messages import (
    MalformedMessageError,
    delimited,
    parse,
    read_delimited,
    serialize,
)
from ytf.hadoop.proto.rpc_pb2 import MethodHeader, ResponseHeader, SaslMessage
from ytf.hadoop.rpc import frames, sasl

CLIENT = bytes(range(16))
PROTOCOL = "org.apache.hadoop.yarn.api.ApplicationClientProtocolPB"


def hexed(text: str) -> bytes:
    """Bytes from hex with names in it, as in the guide: ``<client>`` and ``"text"``."""
    out = b""
    for word in text.split():
        if word == "<client>":
            out += CLIENT
        else:
            out += word[1:-1].encode() if word[0] == '"' else bytes.fromhex(word)
    return out


def test_the_first_flight_of_a_simple_connection() -> None:
    assert frames.connection_header(frames.NO_SASL) == hexed("68727063 09 00 00")
    assert frames.context_frame(CLIENT, "alice", PROTOCOL) == hexed(
        f'0000005d 1a 0802 1000 1805 2210 <client> 2801 41 1207 0a05 "alice" 1a36 "{PROTOCOL}"'
    )
    method = MethodHeader(method="getClusterMetrics", protocol=PROTOCOL, version=1)
    assert frames.call_frame(CLIENT, 0, 0, "", method, b"") == hexed(
        "0000006a 1a 0802 1000 1800 2210 <client> 2800"
        f' 4d 0a11 "getClusterMetrics" 1236 "{PROTOCOL}" 1801 00'
    )


def test_the_first_flight_of_a_sasl_connection() -> None:
    flight = frames.connection_header(frames.SASL) + frames.sasl_frame(
        SaslMessage(state=sasl.NEGOTIATE)
    )
    assert flight == hexed("687270630900df 0000000e 0a 0802 1000 1841 2200 2801 02 1001")


def test_a_token_connection_names_nobody_but_says_so() -> None:
    assert frames.context_frame(CLIENT, None, "P") == hexed(
        '00000021 1a 0802 1000 1805 2210 <client> 2801 05 1200 1a01 "P"'
    )


def test_ping_has_no_body() -> None:
    assert frames.ping_frame(CLIENT) == hexed("0000001b 1a 0802 1000 1807 2210 <client> 2801")


def test_the_caller_goes_into_the_audit_log_and_is_cut() -> None:
    frame = frames.call_frame(CLIENT, 1, 0, "x" * 500, MethodHeader(
        method="m", protocol="p", version=1), b"")  # fmt: skip
    assert b"x" * 128 in frame
    assert b"x" * 129 not in frame


def test_an_answer_as_captured() -> None:
    frame = hexed("1a 0800 1000 1809 3a10 <client> 4000 0c 0a0a 0802 1000 1802 2000 2800")
    response = frames.read_response(frame)
    assert (response.call_id, response.header.status) == (0, 0)
    answer = parse(GetClusterMetricsResponse, read_delimited(response.body, 0)[0])
    assert (answer.metrics.node_managers, answer.metrics.active) == (2, 2)


def test_a_negative_call_id_comes_unsigned() -> None:
    header = bytes.fromhex("08dfffffff0f1000")
    assert frames.read_response(delimited(header)).call_id == frames.SASL_CALL


@given(st.lists(st.binary(max_size=60), max_size=6), st.data())
def test_any_split_of_the_stream_gives_the_same_frames(
    contents: list[bytes], data: st.DataObject
) -> None:
    stream = b"".join(len(each).to_bytes(4, "big") + each for each in contents)
    splitter, found, at = frames.FrameSplitter(100), [], 0
    while at < len(stream):
        size = data.draw(st.integers(1, len(stream) - at))
        found += splitter.feed(stream[at : at + size])
        at += size
    assert found == contents


def test_a_length_beyond_the_limit_is_refused_before_its_bytes_come() -> None:
    with pytest.raises(MalformedMessageError, match="an answer of 4294967295 bytes"):
        frames.FrameSplitter(1000).feed(b"\xff\xff\xff\xff")
    with pytest.raises(MalformedMessageError, match="speaks HTTP"):
        frames.FrameSplitter(1000).feed(b"HTTP/1.1 404 Not Found\r\n")


@given(
    st.integers(-100, 2**31 - 1),
    st.integers(-1, 50),
    st.text(max_size=40),
    st.binary(max_size=200),
)
def test_calls_round_trip(call_id: int, retry: int, name: str, request: bytes) -> None:
    from ytf.hadoop.proto.rpc_pb2 import RequestHeader

    method = MethodHeader(method=name, protocol="p", version=1)
    [frame] = frames.FrameSplitter().feed(
        frames.call_frame(CLIENT, call_id, retry, "ytf", method, request)
    )
    header_bytes, at = read_delimited(frame, 0)
    method_bytes, at = read_delimited(frame, at)
    request_bytes, at = read_delimited(frame, at)
    header = parse(RequestHeader, header_bytes)
    assert (header.call_id, header.retry_count) == (call_id, retry)
    assert header.HasField("op")
    assert header.caller_context.context == "ytf"
    assert parse(MethodHeader, method_bytes) == method
    assert (request_bytes, at) == (request, len(frame))


@given(st.binary(max_size=80))
def test_any_bytes_are_an_answer_or_refused(data: bytes) -> None:
    try:
        frames.read_response(data)
    except MalformedMessageError:
        return


def test_a_header_without_its_required_fields_is_refused() -> None:
    """Else a missing status would read as success."""
    with pytest.raises(MalformedMessageError, match="lacks a required field"):
        frames.read_response(delimited(b"\x08\x01"))


def test_answers_are_parsed_whatever_comes_after() -> None:
    header = serialize(ResponseHeader(call_id=7, status=0))
    response = frames.read_response(delimited(header) + b"rest")
    assert (response.call_id, response.body) == (7, b"rest")
