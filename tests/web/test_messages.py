from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ytf.web.messages import HttpError, Response, parse_head


def test_a_request_is_taken_apart() -> None:
    request = parse_head(
        b"POST /a/b?x=1&y=&x=2 HTTP/1.1\r\nHost: h:1\r\nCONTENT-length:  12 \r\nYtf-Auth: a 1 b"
    )
    assert (request.method, request.path, request.length) == ("POST", "/a/b", 12)
    assert request.target == "/a/b?x=1&y=&x=2"
    assert request.headers["ytf-auth"] == "a 1 b"
    assert request.keep_alive
    assert (request.parameter("x"), request.parameter("y")) == ("2", "")
    assert request.parameter("z") is None


@pytest.mark.parametrize(
    ("head", "keep_alive"),
    [
        (b"GET / HTTP/1.1\r\nConnection: close", False),
        (b"GET / HTTP/1.1\r\nConnection: Keep-Alive", True),
        (b"GET / HTTP/1.0", False),
    ],
)
def test_keep_alive(head: bytes, keep_alive: bool) -> None:
    assert parse_head(head).keep_alive is keep_alive


@pytest.mark.parametrize(
    ("status", "head"),
    [
        (400, b""),
        (400, b"GET"),
        (400, b"GET /"),
        (400, b"GET  / HTTP/1.1"),
        (400, b"GET / HTTP/1.1\0"),
        (400, b"GET /a b HTTP/1.1"),
        (400, b"GET http://h/ HTTP/1.1"),
        (400, b"GET /\xe4 HTTP/1.1"),
        (400, b"G\x01T / HTTP/1.1"),
        (400, b"GET / HTTP/1.1\r\nno colon"),
        (400, b"GET / HTTP/1.1\r\nspace : 1"),
        (400, b"GET / HTTP/1.1\r\nA: 1\r\n folded"),
        (400, b"GET / HTTP/1.1\r\nA: 1\nB: 2"),
        (400, b"GET / HTTP/1.1\r\nA: 1\rB: 2"),
        (400, b"GET / HTTP/1.1\r\nContent-Length: 1\r\nContent-Length: 1"),
        (400, b"GET / HTTP/1.1\r\nYtf-Auth: 1\r\nYtf-Auth: 1"),
        (400, b"GET / HTTP/1.1\r\nContent-Length: -1"),
        (400, b"GET / HTTP/1.1\r\nContent-Length: +1"),
        (400, b"GET / HTTP/1.1\r\nContent-Length: 1_0"),
        (400, b"GET / HTTP/1.1\r\nContent-Length: \xb2"),
        (400, b"GET / HTTP/1.1\r\nContent-Length: "),
        (501, b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked"),
        (501, b"POST / HTTP/1.1\r\nContent-Length: 3\r\nTransfer-Encoding: chunked"),
        (501, b"BREW / HTTP/1.1"),
        (505, b"GET / HTTP/2.0"),
    ],
)
def test_what_is_unclear_is_refused(status: int, head: bytes) -> None:
    with pytest.raises(HttpError) as refusal:
        parse_head(head)
    assert refusal.value.status == status
    assert str(refusal.value)


@given(st.binary(max_size=200))
def test_no_head_crashes_the_parser(head: bytes) -> None:
    try:
        request = parse_head(head)
    except HttpError as refusal:
        status = refusal.status
    else:
        status = 200
        assert request.target.startswith("/")
        assert request.length >= 0
    assert status in (200, 400, 501, 505)


def test_a_response_is_computed_once() -> None:
    response = Response(b"{}", headers=(("Allow", "GET"),))
    assert response.head == (
        b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 2\r\nAllow: GET\r\n"
    )
    assert response.head is response.head
    assert response.digest is response.digest
