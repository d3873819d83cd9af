from __future__ import annotations

import contextlib
import hashlib
import socket
import threading
import time
from collections.abc import Callable, Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.starter.fake_master import SECRET, FakeMaster, sign
from ytf.wire.address import split_url
from ytf.wire.http_client import (
    ChannelError,
    NotSentError,
    SignatureRefusedError,
    SignatureWrongError,
    SignedChannel,
    UnansweredError,
)
from ytf.wire.signing import Signer

Behaviour = Callable[[socket.socket], None]


class Peer:
    """A socket server that does exactly what a test says, connection by connection."""

    def __init__(self, *behaviours: Behaviour) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        self.connections = 0
        self._behaviours = behaviours
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        for behaviour in self._behaviours:
            try:
                sock, _ = self._listener.accept()
            except OSError:
                return
            self.connections += 1
            with sock:
                sock.settimeout(10)
                behaviour(sock)

    def close(self) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._thread.join()


@pytest.fixture
def peer() -> Iterator[Callable[..., Peer]]:
    peers: list[Peer] = []

    def make(*behaviours: Behaviour) -> Peer:
        peers.append(Peer(*behaviours))
        return peers[-1]

    yield make
    for one in peers:
        one.close()


@pytest.fixture
def channel() -> Iterator[Callable[[str], SignedChannel]]:
    channels: list[SignedChannel] = []

    def make(url: str, secret: bytes = SECRET) -> SignedChannel:
        channels.append(SignedChannel(url, Signer(secret), "client/test"))
        return channels[-1]

    yield make
    for one in channels:
        one.close()


def read_request(sock: socket.socket) -> str:
    """Take one request off a socket; its signature."""
    data = b""
    while b"\r\n\r\n" not in data:
        piece = sock.recv(65536)
        if not piece:
            return ""
        data += piece
    line = next(x for x in data.decode().split("\r\n") if x.startswith("Ytf-Auth"))
    return line.rpartition(" ")[2]


def response(signature: str, body: bytes = b"{}", status: int = 200, more: str = "") -> bytes:
    digest = hashlib.sha256(body).hexdigest()
    right = sign(SECRET, "answer", signature, str(status), digest)
    length = more if "Content-Length" in more else f"Content-Length: {len(body)}\r\n{more}"
    return f"HTTP/1.1 {status} OK\r\n{length}Ytf-Auth: {digest} {right}\r\n\r\n".encode() + body


def answer(sock: socket.socket) -> None:
    sock.sendall(response(read_request(sock)))


def test_calls_share_a_connection_and_are_signed(
    master: FakeMaster, channel: Callable[[str], SignedChannel]
) -> None:
    master.publish(1, {"worker": ["a:1"]})
    talk = channel(master.url)
    for _ in range(3):
        reply = talk.call("GET", "/starter/v1/cluster")
        assert reply.status == 200
        assert reply.json()["members"] == {"worker": ["a:1"]}
    assert master.refused == []


def test_an_error_answer_carries_its_sentence(
    master: FakeMaster, channel: Callable[[str], SignedChannel]
) -> None:
    reply = channel(master.url).call("GET", "/starter/v1/cluster")
    assert (reply.status, reply.error()) == (404, "no spec yet")


def test_refused_connection_was_not_sent(channel: Callable[[str], SignedChannel]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as sock:
        port = sock.getsockname()[1]
    with pytest.raises(NotSentError, match="cannot be reached"):
        channel(f"http://127.0.0.1:{port}").call("GET", "/")


def test_unknown_host_was_not_sent(channel: Callable[[str], SignedChannel]) -> None:
    with pytest.raises(NotSentError):
        channel("http://no-such-host.invalid:80").call("GET", "/")


def test_silence_leaves_the_outcome_unknown(
    peer: Callable[..., Peer], channel: Callable[[str], SignedChannel]
) -> None:
    def hang(sock: socket.socket) -> None:
        read_request(sock)
        sock.recv(1)

    began = time.monotonic()
    with pytest.raises(UnansweredError):
        channel(peer(hang).url).call("GET", "/", timeout_s=0.2)
    assert time.monotonic() - began < 60


def test_the_timeout_is_for_the_whole_call_not_for_each_piece(
    peer: Callable[..., Peer], channel: Callable[[str], SignedChannel]
) -> None:
    def drip(sock: socket.socket) -> None:
        data = response(read_request(sock), b"x" * 1000)
        try:
            for i in range(len(data)):
                sock.sendall(data[i : i + 1])
                time.sleep(0.02)
        except OSError:
            return

    began = time.monotonic()
    with pytest.raises(UnansweredError):
        channel(peer(drip).url).call("GET", "/", timeout_s=0.3)
    assert time.monotonic() - began < 15


def test_an_answer_in_pieces_is_put_together(
    peer: Callable[..., Peer], channel: Callable[[str], SignedChannel]
) -> None:
    def pieces(sock: socket.socket) -> None:
        data = response(read_request(sock), b'{"a": 1}')
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for i in range(0, len(data), 7):
            sock.sendall(data[i : i + 7])

    assert channel(peer(pieces).url).call("GET", "/").json() == {"a": 1}


@pytest.mark.parametrize("garbage", [b"x" * 20000, b"HTTP/1.1", b""])
def test_no_whole_answer_leaves_the_outcome_unknown(
    garbage: bytes, peer: Callable[..., Peer], channel: Callable[[str], SignedChannel]
) -> None:
    def babble(sock: socket.socket) -> None:
        read_request(sock)
        sock.sendall(garbage)

    with pytest.raises(UnansweredError):
        channel(peer(babble).url).call("GET", "/")


@pytest.mark.parametrize("length", ["3", "99999999999", "9" * 5000])
def test_a_signed_answer_that_is_not_whole_or_too_long(
    length: str, peer: Callable[..., Peer], channel: Callable[[str], SignedChannel]
) -> None:
    def babble(sock: socket.socket) -> None:
        signature = read_request(sock)
        sock.sendall(response(signature, b"{}", more=f"Content-Length: {length}\r\n"))

    with pytest.raises(UnansweredError):
        channel(peer(babble).url).call("GET", "/")


@pytest.mark.parametrize(
    "stranger",
    [
        b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}",
        b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nYtf-Auth: 00\r\n\r\n{}",
        b"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 99999999999\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: " + b"9" * 5000 + b"\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nno colon\r\n\r\n",
        b"SSH-2.0-OpenSSH\r\n\r\n",
        b"HTTP/1.1 abc\r\n\r\n",
    ],
)
def test_a_stranger_on_the_port_is_not_believed(
    stranger: bytes, peer: Callable[..., Peer], channel: Callable[[str], SignedChannel]
) -> None:
    def pretend(sock: socket.socket) -> None:
        read_request(sock)
        sock.sendall(stranger)

    with pytest.raises(SignatureWrongError):
        channel(peer(pretend).url).call("GET", "/")


def test_nothing_of_a_strangers_body_is_read(
    peer: Callable[..., Peer], channel: Callable[[str], SignedChannel]
) -> None:
    sent: list[int] = []
    ended = threading.Event()

    def flood(sock: socket.socket) -> None:
        read_request(sock)
        sock.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 60000000\r\n\r\n")
        try:
            sent.extend(sock.send(b"x" * 1_000_000) for _ in range(60))
        except OSError:
            sent.append(0)
        ended.set()

    with pytest.raises(SignatureWrongError):
        channel(peer(flood).url).call("GET", "/")
    assert ended.wait(30)
    assert sent[-1] == 0, "it took everything"


def test_another_body_than_the_signed_one_is_not_believed(
    peer: Callable[..., Peer], channel: Callable[[str], SignedChannel]
) -> None:
    def exchange(sock: socket.socket) -> None:
        sock.sendall(response(read_request(sock), b'{"a": 1}').replace(b"1}", b"2}"))

    with pytest.raises(SignatureWrongError):
        channel(peer(exchange).url).call("GET", "/")


ANSWERS = st.lists(
    st.one_of(
        st.binary(max_size=60),
        st.sampled_from([b"HTTP/1.1 ", b"200 OK", b"401", b"\r\n", b"\r\n\r\n", b"9" * 5000]),
        st.sampled_from([b"Content-Length: ", b"Ytf-Auth: ", b"0" * 64, b" ", b"7", b"{}"]),
        st.sampled_from([b"Connection: close\r\n", b"Transfer-Encoding: chunked", b"[" * 60_000]),
    ),
    max_size=12,
).map(b"".join)


def test_no_answer_of_a_stranger_raises_anything_else(
    channel: Callable[[str], SignedChannel],
) -> None:
    answer = b""

    def serve() -> None:
        while True:
            try:
                sock, _ = listener.accept()
            except OSError:
                return
            with sock, contextlib.suppress(OSError):
                read_request(sock)
                sock.sendall(answer)

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=serve)
        thread.start()
        talk = channel(f"http://127.0.0.1:{listener.getsockname()[1]}")

        @settings(max_examples=200, deadline=None, database=None)
        @given(ANSWERS)
        def fuzz(data: bytes) -> None:
            nonlocal answer
            answer = data
            with pytest.raises(ChannelError):
                talk.call("POST", "/", b"{}", timeout_s=30)

        fuzz()
        listener.shutdown(socket.SHUT_RDWR)
    thread.join()


def test_an_answer_to_another_request_is_not_believed(
    peer: Callable[..., Peer], channel: Callable[[str], SignedChannel]
) -> None:
    kept: list[bytes] = []

    def replay(sock: socket.socket) -> None:
        for _round in range(2):
            signature = read_request(sock)
            kept.append(response(signature))
            sock.sendall(kept[0])

    talk = channel(peer(replay).url)
    assert talk.call("GET", "/").status == 200
    with pytest.raises(SignatureWrongError):
        talk.call("GET", "/")


def test_a_wrong_secret_is_refused(master: FakeMaster) -> None:
    talk = SignedChannel(master.url, Signer(b"wrong"), "client/test")
    with pytest.raises(SignatureRefusedError):
        talk.call("GET", "/starter/v1/cluster")
    talk.close()


def test_a_connection_the_peer_closed_while_idle_is_opened_again(
    peer: Callable[..., Peer], channel: Callable[[str], SignedChannel]
) -> None:
    closed = threading.Event()

    def answer_once(sock: socket.socket) -> None:
        sock.sendall(response(read_request(sock)))
        sock.shutdown(socket.SHUT_WR)
        closed.set()
        sock.recv(1)

    one = peer(answer_once, answer)
    talk = channel(one.url)
    assert talk.call("GET", "/").status == 200
    assert closed.wait(60)
    assert talk.call("GET", "/").status == 200
    assert one.connections == 2


def test_connection_close_is_honoured(
    peer: Callable[..., Peer], channel: Callable[[str], SignedChannel]
) -> None:
    def last(sock: socket.socket) -> None:
        sock.sendall(response(read_request(sock), more="Connection: close\r\n"))
        sock.recv(1)

    one = peer(last, answer)
    talk = channel(one.url)
    assert [talk.call("GET", "/").status for _ in range(2)] == [200, 200]
    assert one.connections == 2


def test_a_waiting_call_can_be_interrupted(
    peer: Callable[..., Peer], channel: Callable[[str], SignedChannel]
) -> None:
    asked = threading.Event()

    def hang(sock: socket.socket) -> None:
        read_request(sock)
        asked.set()
        sock.recv(1)

    talk = channel(peer(hang).url)

    def interrupt() -> None:
        assert asked.wait(60)
        talk.interrupt()

    thread = threading.Thread(target=interrupt)
    thread.start()
    began = time.monotonic()
    with pytest.raises(UnansweredError):
        talk.call("GET", "/", timeout_s=250)
    thread.join()
    assert time.monotonic() - began < 60


@pytest.mark.parametrize(
    ("url", "parts"),
    [
        ("http://node:1", ("node", 1)),
        ("http://[::1]:80/", ("::1", 80)),
        ("http://10.0.0.1:65535", ("10.0.0.1", 65535)),
    ],
)
def test_urls(url: str, parts: tuple[str, int]) -> None:
    assert split_url(url) == parts


@pytest.mark.parametrize(
    "url", ["", "node:1", "https://node:1", "http://node", "http://:1", "http://n:0"]
)
def test_what_is_no_url(url: str) -> None:
    with pytest.raises(ValueError, match="http://host:port"):
        split_url(url)
