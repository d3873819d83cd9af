from __future__ import annotations

import json
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, suppress
from pathlib import Path
from queue import SimpleQueue
from typing import TYPE_CHECKING

import pytest

from tests.starter.conftest import RunningStarter
from tests.starter.fake_master import SECRET, FakeMaster
from ytf.starter import control_server, threads
from ytf.starter.control_routes import ControlReply, ControlRequest
from ytf.starter.control_server import MAX_UNAUTHENTICATED, ControlServer
from ytf.testing.waiting import eventually
from ytf.wire.http_client import SignatureRefusedError, SignedChannel, UnansweredError
from ytf.wire.signing import Signer

if TYPE_CHECKING:
    from ytf.starter.control_routes import Route
    from ytf.starter.desired_state import InboxMessage

PROGRAM = (
    "trap 'echo usr1' USR1; printf 0123456789; echo 'no good' >&2; while :; do sleep 0.01; done"
)


@pytest.fixture
def starter(master: FakeMaster, start: Callable[..., RunningStarter]) -> RunningStarter:
    running = start(PROGRAM)
    master.meet()
    master.expect("started", 0)
    eventually(lambda: "good" in running.output(stream="stderr"), describe="the program's output")
    return running


@pytest.fixture
def control(master: FakeMaster, starter: RunningStarter) -> Iterator[SignedChannel]:
    address = master.expect("register", 0)["control"]
    with closing(SignedChannel(f"http://{address}", Signer(SECRET), "client/7/c1")) as channel:
        yield channel


def test_a_signal_reaches_the_program(control: SignedChannel, starter: RunningStarter) -> None:
    answer = control.call("POST", "/control/v1/signal", b'{"signal": 10}')
    assert (answer.status, answer.json()) == (200, {})
    eventually(lambda: "usr1" in starter.output(), describe="the signal")


@pytest.mark.parametrize("body", [b"", b"{}", b"[]", b'{"signal": "TERM"}', b'{"signal": 99}'])
def test_what_is_no_signal_is_refused(control: SignedChannel, body: bytes) -> None:
    answer = control.call("POST", "/control/v1/signal", body)
    assert answer.status == 400
    assert answer.error()


@pytest.mark.parametrize(
    ("query", "data"),
    [
        ("stream=stdout&offset=0&limit=4", b"0123"),
        ("stream=stdout&offset=-3&limit=100", b"789"),
        ("stream=stdout&offset=8", b"89"),
        ("stream=stdout&offset=50&limit=10", b""),
    ],
)
def test_logs(control: SignedChannel, query: str, data: bytes) -> None:
    answer = control.call("GET", "/control/v1/logs?" + query)
    assert (answer.status, answer.body) == (200, data)
    assert answer.headers["ytf-size"] == "10"


def test_logs_of_all_attempts_in_the_container(
    control: SignedChannel, starter: RunningStarter
) -> None:
    earlier = starter.log_dir / "7"
    earlier.mkdir()
    (earlier / "stdout").write_bytes(b"newest")
    (earlier / "stdout.1").write_bytes(b"older")
    listed = control.call("GET", "/control/v1/streams").json()
    assert [tuple(each.values()) for each in listed] == [
        (0, "stdout", 10),
        (0, "stderr", 8),
        (7, "stdout", 6),
        (7, "stdout.1", 5),
    ]
    assert list(listed[0]) == ["attempt", "stream", "size"]
    older = control.call("GET", "/control/v1/logs?attempt=7&stream=stdout.1&offset=2")
    assert (older.body, older.headers["ytf-size"]) == (b"der", "5")
    assert control.call("GET", "/control/v1/logs?attempt=8&stream=stdout").status == 404
    assert control.call("GET", "/control/v1/logs?attempt=x&stream=stdout").status == 400


@pytest.mark.parametrize("query", ["", "?stream=../secret", "?stream=stdout&offset=x"])
def test_nothing_but_the_two_streams_can_be_read(control: SignedChannel, query: str) -> None:
    assert control.call("GET", "/control/v1/logs" + query).status == 400


def test_stacks_show_the_programs_processes(
    control: SignedChannel, starter: RunningStarter
) -> None:
    text = control.call("GET", "/control/v1/stacks").body.decode()
    assert "bash -c" in text
    assert "  thread " in text


def test_an_unknown_path(control: SignedChannel) -> None:
    assert control.call("GET", "/control/v1/secrets").status == 404


def test_a_wrong_secret_is_refused(master: FakeMaster, starter: RunningStarter) -> None:
    url = "http://" + master.expect("register", 0)["control"]
    with (
        closing(SignedChannel(url, Signer(b"wrong"), "client/8/c1")) as channel,
        pytest.raises(SignatureRefusedError),
    ):
        channel.call("POST", "/control/v1/signal", b'{"signal": 9}')
    assert starter.process.poll() is None


def test_a_replayed_request_is_refused(master: FakeMaster, starter: RunningStarter) -> None:
    host, _, port = master.expect("register", 0)["control"].rpartition(":")
    signer = Signer(SECRET)
    digest = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
    signature = signer.sign_request("GET", "/control/v1/stacks", "client/9/c1", 5, digest)
    auth = f"client/9/c1 5 {digest} {signature}"
    request = f"GET /control/v1/stacks HTTP/1.1\r\nYtf-Auth: {auth}\r\n\r\n".encode()
    statuses = []
    for _ in range(2):
        with socket.create_connection((host, int(port)), 5) as sock:
            sock.sendall(request)
            statuses.append(sock.recv(100)[:12])
    assert statuses == [b"HTTP/1.1 200", b"HTTP/1.1 401"]


@pytest.mark.parametrize("actor", ["client/9", "client/9/c2", "master", "client/9/c1/", "c1x"])
def test_a_request_to_another_starter_is_refused(
    master: FakeMaster, starter: RunningStarter, actor: str
) -> None:
    url = "http://" + master.expect("register", 0)["control"]
    with (
        closing(SignedChannel(url, Signer(SECRET), actor)) as channel,
        pytest.raises(SignatureRefusedError),
    ):
        channel.call("POST", "/control/v1/signal", b'{"signal": 9}')
    assert starter.process.poll() is None


def test_it_listens_where_the_node_said(master: FakeMaster, starter: RunningStarter) -> None:
    _, _, port = master.expect("register", 0)["control"].rpartition(":")
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.2", int(port)), 5).close()


def test_callers_that_say_nothing_keep_nobody_waiting(control: SignedChannel) -> None:
    host, _, port = control.url.removeprefix("http://").rpartition(":")
    with ExitStack() as silent:
        for beginning in [b"", b"GET /control/v1/st"] * 8:
            sock = silent.enter_context(socket.create_connection((host, int(port)), 5))
            sock.sendall(beginning)
        # Far less than they would be waited for.
        assert control.call("GET", "/control/v1/stacks", timeout_s=5.0).status == 200


@pytest.mark.parametrize(
    "noise", [b"\r\n\r\n", b"GET\r\nx\r\n\r\n", b"\x00" * 30000, b"GET / HTTP/1.1\r\n"]
)
def test_noise_does_not_harm(noise: bytes, control: SignedChannel) -> None:
    host, _, port = control.url.removeprefix("http://").rpartition(":")
    with socket.create_connection((host, int(port)), 5) as sock:
        sock.sendall(noise)
        sock.shutdown(socket.SHUT_WR)
        with suppress(ConnectionResetError):
            sock.recv(100)
    assert control.call("GET", "/control/v1/stacks").status == 200


def test_without_a_program_there_is_nothing_to_signal(
    master: FakeMaster, start: Callable[..., RunningStarter], tmp_path: Path
) -> None:
    start("true")
    master.meet()
    master.expect("exited", 0)
    url = "http://" + master.expect("register", 0)["control"]
    with closing(SignedChannel(url, Signer(SECRET), "client/7/c1")) as channel:
        answer = channel.call("POST", "/control/v1/signal", json.dumps({"signal": 15}).encode())
        assert (answer.status, answer.error()) == (404, "no program of worker:0 is running")
        assert channel.call("GET", "/control/v1/stacks").status == 404
        assert channel.call("GET", "/control/v1/logs?stream=stdout").status == 200


class Endpoint:
    """A control server in this process, with one route that does what a test says."""

    def __init__(self) -> None:
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.inbox: SimpleQueue[InboxMessage] = SimpleQueue()
        self.url = f"http://127.0.0.1:{self.listener.getsockname()[1]}"
        self.route: Route = lambda request: ControlReply(200, {})
        routes: dict[str, Route] = {"GET /x": lambda request: self.route(request)}
        self.server = ControlServer(self.listener, Signer(SECRET), "c1", routes, self.inbox)
        self.thread = threading.Thread(target=self.server.run)
        self.thread.start()

    def connect(self, stack: ExitStack, data: bytes = b"") -> socket.socket:
        sock = stack.enter_context(socket.create_connection(self.listener.getsockname(), 30))
        if data:
            sock.sendall(data)
        return sock

    def call(self, actor: str = "client/1/c1", timeout_s: float = 30.0) -> int:
        with closing(SignedChannel(self.url, Signer(SECRET), actor)) as channel:
            return channel.call("GET", "/x", timeout_s=timeout_s).status

    def close(self) -> None:
        self.listener.shutdown(socket.SHUT_RDWR)
        self.thread.join()
        self.listener.close()
        assert self.inbox.empty(), "nothing that came may end the starter"


@pytest.fixture
def endpoint() -> Iterator[Endpoint]:
    with closing(Endpoint()) as one:
        yield one


def is_closed(sock: socket.socket) -> bool:
    """Wait until the endpoint has closed a connection."""
    try:
        return sock.recv(1) == b""
    except ConnectionResetError:
        return True


def test_many_strangers_close_each_other_and_nobody_else(endpoint: Endpoint) -> None:
    started, go_on = threading.Event(), threading.Event()

    def hold(request: ControlRequest) -> ControlReply:
        started.set()
        assert go_on.wait(60)
        return ControlReply(200, {})

    endpoint.route = hold
    statuses: list[int] = []
    ours = threading.Thread(target=lambda: statuses.append(endpoint.call("client/2/c1")))
    ours.start()
    assert started.wait(30)
    endpoint.route = lambda request: ControlReply(200, {})
    with ExitStack() as stack:
        strangers = [endpoint.connect(stack) for _ in range(5 * MAX_UNAUTHENTICATED)]
        assert endpoint.call() == 200
        assert is_closed(strangers[0])
        assert len(endpoint.server._callers) <= MAX_UNAUTHENTICATED
    go_on.set()
    ours.join()
    assert statuses == [200]


def test_who_trickles_has_no_more_time(endpoint: Endpoint, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(control_server, "REQUEST_TIMEOUT_S", 0.5)
    with ExitStack() as stack:
        silent = endpoint.connect(stack)
        slow = endpoint.connect(stack, b"G")
        slow.settimeout(0.01)

        def dropped() -> bool:
            try:
                slow.send(b"E")
                return slow.recv(1) == b""
            except TimeoutError:
                return False
            except OSError:
                return True

        eventually(dropped, 30, "the caller is dropped")
        assert is_closed(silent)


@pytest.mark.parametrize(
    "error", [OverflowError("too large"), RecursionError(), MemoryError(), OSError(24, "no file")]
)
def test_a_bug_in_a_route_ends_one_connection_only(endpoint: Endpoint, error: Exception) -> None:
    def broken(request: ControlRequest) -> ControlReply:
        raise error

    endpoint.route = broken
    with pytest.raises(UnansweredError):
        endpoint.call()
    endpoint.route = lambda request: ControlReply(200, {})
    assert endpoint.call() == 200


def test_a_system_without_threads_is_survived(
    endpoint: Endpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patched:
        patched.setattr(threads, "start", refuse)
        with pytest.raises(UnansweredError):
            endpoint.call()
    assert endpoint.call() == 200
