from __future__ import annotations

import json
import socket
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, suppress
from pathlib import Path

import pytest

from tests.starter.conftest import SECRET, RunningStarter, eventually
from tests.starter.fake_master import FakeMaster
from ytf.starter.auth import Signer
from ytf.starter.http import Channel, SignatureRefusedError

PROGRAM = (
    "trap 'echo usr1' USR1; printf 0123456789; echo 'no good' >&2; while :; do sleep 0.01; done"
)


@pytest.fixture
def starter(master: FakeMaster, start: Callable[..., RunningStarter]) -> RunningStarter:
    running = start(PROGRAM)
    master.meet()
    master.expect("started", 0)
    eventually(lambda: "good" in running.output(stream="stderr"), "the program's output")
    return running


@pytest.fixture
def control(master: FakeMaster, starter: RunningStarter) -> Iterator[Channel]:
    address = master.expect("register", 0)["control"]
    with closing(Channel(f"http://{address}", Signer(SECRET), "client/7/c1")) as channel:
        yield channel


def test_a_signal_reaches_the_program(control: Channel, starter: RunningStarter) -> None:
    answer = control.call("POST", "/control/v1/signal", b'{"signal": 10}')
    assert (answer.status, answer.json()) == (200, {})
    eventually(lambda: "usr1" in starter.output(), "the signal")


@pytest.mark.parametrize("body", [b"", b"{}", b"[]", b'{"signal": "TERM"}', b'{"signal": 99}'])
def test_what_is_no_signal_is_refused(control: Channel, body: bytes) -> None:
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
def test_logs(control: Channel, query: str, data: bytes) -> None:
    answer = control.call("GET", "/control/v1/logs?" + query)
    assert (answer.status, answer.body) == (200, data)
    assert answer.headers["ytf-size"] == "10"


def test_logs_of_all_attempts_in_the_container(control: Channel, starter: RunningStarter) -> None:
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
def test_nothing_but_the_two_streams_can_be_read(control: Channel, query: str) -> None:
    assert control.call("GET", "/control/v1/logs" + query).status == 400


def test_stacks_show_the_programs_processes(control: Channel, starter: RunningStarter) -> None:
    text = control.call("GET", "/control/v1/stacks").body.decode()
    assert "bash -c" in text
    assert "  thread " in text


def test_an_unknown_path(control: Channel) -> None:
    assert control.call("GET", "/control/v1/secrets").status == 404


def test_a_wrong_secret_is_refused(master: FakeMaster, starter: RunningStarter) -> None:
    url = "http://" + master.expect("register", 0)["control"]
    with (
        closing(Channel(url, Signer(b"wrong"), "client/8/c1")) as channel,
        pytest.raises(SignatureRefusedError),
    ):
        channel.call("POST", "/control/v1/signal", b'{"signal": 9}')
    assert starter.process.poll() is None


def test_a_replayed_request_is_refused(master: FakeMaster, starter: RunningStarter) -> None:
    host, _, port = master.expect("register", 0)["control"].rpartition(":")
    signer = Signer(SECRET)
    digest = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
    signature = signer.request("GET", "/control/v1/stacks", "client/9/c1", 5, digest)
    request = (
        f"GET /control/v1/stacks HTTP/1.1\r\nYtf-Auth: client/9/c1 5 {signature}\r\n\r\n".encode()
    )
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
        closing(Channel(url, Signer(SECRET), actor)) as channel,
        pytest.raises(SignatureRefusedError),
    ):
        channel.call("POST", "/control/v1/signal", b'{"signal": 9}')
    assert starter.process.poll() is None


def test_it_listens_where_the_node_said(master: FakeMaster, starter: RunningStarter) -> None:
    _, _, port = master.expect("register", 0)["control"].rpartition(":")
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.2", int(port)), 5).close()


def test_callers_that_say_nothing_keep_nobody_waiting(control: Channel) -> None:
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
def test_noise_does_not_harm(noise: bytes, control: Channel) -> None:
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
    with closing(Channel(url, Signer(SECRET), "client/7/c1")) as channel:
        answer = channel.call("POST", "/control/v1/signal", json.dumps({"signal": 15}).encode())
        assert (answer.status, answer.error()) == (404, "no program of worker:0 is running")
        assert channel.call("GET", "/control/v1/stacks").status == 404
        assert channel.call("GET", "/control/v1/logs?stream=stdout").status == 200
