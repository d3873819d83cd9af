"""Horovod's rendezvous: what its client expects, and what others cannot do to it."""

from __future__ import annotations

import contextlib
import http.client
import socket
from collections.abc import Iterator
from queue import SimpleQueue
from typing import TYPE_CHECKING

import pytest

from ytf.starter import horovod_rendezvous
from ytf.starter.horovod_rendezvous import (
    ENTRY_SIZE,
    MAX_CALLERS,
    MAX_VALUE,
    HorovodPort,
    HorovodStore,
)
from ytf.testing.waiting import eventually

if TYPE_CHECKING:
    from ytf.starter.desired_state import InboxMessage

HERE = "127.0.0.1"


@pytest.fixture
def port() -> Iterator[HorovodPort]:
    """A port of a starter with rank 0; no thread of it has failed in the end."""
    inbox: SimpleQueue[InboxMessage] = SimpleQueue()
    port = HorovodPort(HERE, (HERE, 1), None, inbox)
    yield port
    port.close()
    assert inbox.empty()


def ask(number: int, method: str, path: str, body: bytes | None = None) -> tuple[int, bytes]:
    """One request, as Horovod's client makes it: a connection for each."""
    connection = http.client.HTTPConnection(HERE, number, timeout=60)
    try:
        connection.request(method, path, body)
        answer = connection.getresponse()
        return answer.status, answer.read()
    finally:
        connection.close()


def is_closed(caller: socket.socket) -> bool:
    """Wait for the server; whether it closed the connection without a byte."""
    try:
        return caller.recv(1) == b""
    except ConnectionResetError:
        return True


def test_values_are_put_read_replaced_and_deleted(port: HorovodPort) -> None:
    number = port.take()
    assert ask(number, "GET", "/global/0") == (404, b"")
    assert ask(number, "PUT", "/global/0", b"\0\xff" * 70_000) == (200, b"")
    assert ask(number, "GET", "/global/0") == (200, b"\0\xff" * 70_000)
    assert ask(number, "PUT", "/global/0", b"new") == (200, b"")
    assert ask(number, "GET", "/global/0") == (200, b"new")
    assert ask(number, "GET", "/local_worker-1/0") == (404, b"")
    assert ask(number, "DELETE", "/global/0") == (200, b"")
    assert ask(number, "DELETE", "/global/0") == (200, b"")
    assert ask(number, "GET", "/global/0") == (404, b"")


def test_each_attempt_has_another_port_and_an_empty_store(port: HorovodPort) -> None:
    first = port.take()
    ask(first, "PUT", "/global/0", b"old")
    second = port.take()
    assert second != first
    assert ask(second, "GET", "/global/0") == (404, b"")
    with pytest.raises(ConnectionRefusedError):
        ask(first, "GET", "/global/0")


def test_it_listens_on_one_address(port: HorovodPort) -> None:
    number = port.take()
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.2", number), 60).close()


def test_a_full_range_of_ports_is_told_by_its_name() -> None:
    with socket.socket() as taken:
        taken.bind((HERE, 0))
        taken.listen()
        number = taken.getsockname()[1]
        full = HorovodPort(HERE, (HERE, 1), (number, number), SimpleQueue())
        with pytest.raises(OSError, match="all ports of task_ports"):
            full.take()


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/", 400),
        ("GET", "/global", 400),
        ("GET", "/global/", 400),
        ("GET", "//0", 400),
        ("PUT", "/a/b/c", 400),
        ("PUT", "/a/" + "x" * 300, 400),
        ("POST", "/global/0", 405),
    ],
)
def test_what_horovod_does_not_ask_is_refused(
    port: HorovodPort, method: str, path: str, status: int
) -> None:
    number = port.take()
    assert ask(number, method, path, b"")[0] == status


@pytest.mark.parametrize(
    "request_",
    [
        b"hello\r\n\r\n",
        b"PUT /a/b HTTP/1.1\r\nContent-Length: -1\r\n\r\n",
        b"PUT /a/b HTTP/1.1\r\nContent-Length: %d\r\n\r\n" % (MAX_VALUE + 1),
        b"PUT /a/b HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n",
        b"GET /" + b"x" * 70_000,
    ],
)
def test_what_is_not_understood_ends_its_connection_alone(
    port: HorovodPort, request_: bytes
) -> None:
    number = port.take()
    with socket.create_connection((HERE, number), 60) as caller:
        with contextlib.suppress(ConnectionResetError, BrokenPipeError):
            caller.sendall(request_)
        assert is_closed(caller)
    assert ask(number, "PUT", "/a/b", b"x") == (200, b"")


def test_silent_callers_do_not_keep_others_out(port: HorovodPort) -> None:
    number = port.take()
    silent = [socket.create_connection((HERE, number), 60) for _ in range(MAX_CALLERS + 20)]
    try:
        assert ask(number, "PUT", "/global/0", b"x") == (200, b"")
        # The oldest was closed to make room.
        assert is_closed(silent[0])
    finally:
        for caller in silent:
            caller.close()


def test_unfinished_requests_have_a_limit_together(
    port: HorovodPort, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(horovod_rendezvous, "MAX_BUFFERED", 300_000)
    number = port.take()
    head = b"PUT /global/0 HTTP/1.1\r\nContent-Length: 200000\r\n\r\n"
    with socket.create_connection((HERE, number), 60) as first:
        first.sendall(head + b"x" * 190_000)
        with socket.create_connection((HERE, number), 60) as second:
            second.sendall(head + b"y" * 190_000)
            first.settimeout(60)
            assert is_closed(first)
            second.sendall(b"y" * 10_000)
            eventually(
                lambda: ask(number, "GET", "/global/0")[0] == 200, describe="the second is stored"
            )


def test_answers_that_are_not_read_have_a_limit_together(
    port: HorovodPort, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Loopback sockets take four megabytes before the server has to keep anything.
    monkeypatch.setattr(horovod_rendezvous, "MAX_VALUE", 12_000_000)
    monkeypatch.setattr(horovod_rendezvous, "MAX_BUFFERED", 13_000_000)
    number = port.take()
    value = b"x" * 11_000_000
    assert ask(number, "PUT", "/global/0", value) == (200, b"")
    with contextlib.ExitStack() as stack:
        deaf = [stack.enter_context(socket.create_connection((HERE, number), 60)) for _ in "abc"]
        for caller in deaf:
            caller.sendall(b"GET /global/0 HTTP/1.1\r\n\r\n")
        # The last is served; the first was dropped for it, before all of its answer was sent.
        assert len(read_to_end(deaf[2])) > len(value)
        assert len(read_to_end(deaf[0])) < len(value)
    assert ask(number, "GET", "/global/0") == (200, value)


def read_to_end(caller: socket.socket) -> bytes:
    """All that the server sends until it closes the connection."""
    received = bytearray()
    with contextlib.suppress(ConnectionResetError):
        while data := caller.recv(1_000_000):
            received += data
    return bytes(received)


def test_a_slow_caller_is_dropped(port: HorovodPort, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(horovod_rendezvous, "REQUEST_TIMEOUT_S", 0.2)
    number = port.take()
    with socket.create_connection((HERE, number), 60) as slow:
        slow.sendall(b"GET /global")
        assert is_closed(slow)


def test_the_store_has_a_limit_and_room_again_after_a_deletion() -> None:
    store = HorovodStore(limit=ENTRY_SIZE + 100)
    assert store.answer("PUT", "/a/b", b"x" * 60) == (200, b"")
    assert store.answer("PUT", "/a/c", b"x" * 60) == (507, b"")
    assert store.answer("PUT", "/a/b", b"x" * 96) == (200, b"")
    assert store.answer("PUT", "/a/b", b"x" * 97) == (507, b"")
    assert store.answer("GET", "/a/b", b"") == (200, b"x" * 96)
    assert store.answer("DELETE", "/a/b", b"") == (200, b"")
    assert store.answer("PUT", "/a/c", b"x" * 60) == (200, b"")


def test_empty_values_take_room_too() -> None:
    store = HorovodStore(limit=100 * ENTRY_SIZE)
    answers = [store.answer("PUT", f"/a/{i}", b"")[0] for i in range(200)]
    assert answers.count(200) < 100
    assert answers[-1] == 507
