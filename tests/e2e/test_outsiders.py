"""Processes without the job's secret reach the ports of a running job: it must not notice.

The attacks stay on 127.0.0.1 and are bounded in number.
"""

from __future__ import annotations

import contextlib
import json
import resource
import signal
import socket
import threading
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.e2e.harness import BIN, FOREVER, HERE, HOLD, Job, Ytf, kill
from ytf.backends.master_api import signed_call
from ytf.processes import used_memory
from ytf.testing.waiting import eventually
from ytf.wire.signing import Signer, body_digest, request_header

Address = tuple[str, int]

MANY_DIGITS = b"9" * 5000
DEEP = b"[" * 60_000


@dataclass
class Ports:
    """A running job, and where it can be reached."""

    job: Job
    master: Address
    starters: list[Address]
    containers: list[str]
    secret: bytes

    @property
    def all(self) -> list[Address]:
        return [self.master, *self.starters]


def running(job: Job, *tasks: str) -> Ports:
    """Wait until the programs run; returns the job's ports."""
    job.wait_running(*tasks)
    url = json.loads((job.staging / "master.json").read_bytes())["url"]
    secret = (job.staging / "secret").read_bytes()
    found = signed_call(url, secret, "GET", "/client/v1/starters", b"", 30).json()
    return Ports(
        job,
        address_of(url.removeprefix("http://")),
        [address_of(each["control"]) for each in found],
        [each["container"] for each in found],
        secret,
    )


def address_of(text: str) -> Address:
    host, _, port = text.rpartition(":")
    return host, int(port)


def send(address: Address, data: bytes) -> bytes:
    """Send bytes as a stranger does, half-close, and read what comes back; it may be a reset."""
    answer = b""
    with contextlib.suppress(OSError), socket.create_connection(address, 30) as sock:
        sock.sendall(data)
        sock.shutdown(socket.SHUT_WR)
        while piece := sock.recv(65536):
            answer += piece
    return answer


def signed(
    secret: bytes,
    method: str,
    path: str,
    actor: str,
    counter: int,
    body: bytes,
    length: bytes | None = None,
) -> bytes:
    digest = body_digest(body)
    signature = Signer(secret).sign_request(method, path, actor, counter, digest)
    auth = request_header(actor, counter, digest, signature)
    size = b"%d" % len(body) if length is None else length
    head = f"{method} {path} HTTP/1.1\r\nYtf-Auth: {auth}\r\nContent-Length: ".encode()
    return head + size + b"\r\n\r\n" + body


def unsigned_requests() -> list[bytes]:
    zeros = b"0" * 64
    paths = [b"/starter/v1/register", b"/client/v1/kill", b"/control/v1/signal", b"/", b"/x/y"]
    requests = [b"", b"\r\n\r\n", b"\x16\x03\x01\x02\x00", b"\x00" * 40_000, DEEP]
    for path in paths:
        line = b"POST " + path + b" HTTP/1.1\r\n"
        auth = b"Ytf-Auth: c/poll " + MANY_DIGITS + b" " + zeros + b" " + zeros + b"\r\n"
        requests += [
            line + b"Content-Length: " + MANY_DIGITS + b"\r\n\r\n",
            line + b"Content-Length: -1\r\n\r\n",
            line + b"Content-Length: \xb2\r\n\r\n",
            line + b"Content-Length: 2\r\n" + auth + b"\r\n{}",
            line + b"Content-Length: 60000\r\n\r\n" + DEEP,
            line + b"Ytf-Auth: " + b"a " * 7000 + b"\r\n\r\n",
            line + b"A: " + b"x" * 100_000 + b"\r\n\r\n",
            b"GET " + path + b"?version=" + MANY_DIGITS + b" HTTP/1.1\r\n\r\n",
        ]
    return requests


def signed_requests(ports: Ports) -> list[tuple[Address, bytes]]:
    """What a program of the job could send, which can read the secret."""
    big = b'{"signal": ' + MANY_DIGITS + b', "attempt": 1e999, "url": 7}'
    bodies = [b"", b"{}", b"7", DEEP, b'{"a":' * 10_000, big, b'{"signal": NaN}', b"\xff" * 100]
    master = [
        (f"/starter/v1/{name}", f"{ports.containers[0]}/report")
        for name in ("register", "started", "exited", "poll")
    ] + [("/client/v1/kill", "client/x")]
    found: list[tuple[Address, bytes]] = []
    counter = 10
    for body in bodies:
        counter += 1
        for path, actor in master:
            found.append((ports.master, signed(ports.secret, "POST", path, actor, counter, body)))
        for address, container in zip(ports.starters, ports.containers, strict=True):
            for name in ("master", "signal"):
                counter += 1
                path, actor = f"/control/v1/{name}", f"client/x/{container}"
                request = signed(ports.secret, "POST", path, actor, counter, body)
                found.append((address, request))
            counter += 1
            digits = MANY_DIGITS.decode()
            for query in (f"offset={digits}", f"limit={digits}", f"attempt={digits}", "offset=-9"):
                counter += 1
                path = f"/control/v1/logs?stream=stdout&{query}"
                found.append((address, signed(ports.secret, "GET", path, actor, counter, b"")))
            lie = signed(ports.secret, "POST", "/control/v1/signal", actor, counter + 1, b"{}")
            found += [(address, lie[:-1] + b"]"), (address, lie)]
            counter += 1
    return found


REQUESTS = st.lists(
    st.one_of(
        st.binary(max_size=80),
        st.sampled_from(
            [b"GET /", b"POST /control/v1/signal", b"POST /starter/v1/poll", b" HTTP/1.1", b"\r\n"]
        ),
        st.sampled_from(
            [b"\r\n\r\n", b"Content-Length: ", b"Ytf-Auth: c/poll ", MANY_DIGITS, DEEP]
        ),
        st.sampled_from([b" " + b"0" * 64, b"1", b"\r\nTransfer-Encoding: chunked", b"{}"]),
    ),
    max_size=12,
).map(b"".join)


@pytest.fixture
def ports(ytf: Ytf) -> Ports:
    job = ytf.submit("worker:2", f"{HERE}{HOLD}true")
    return running(job, "worker:0", "worker:1")


def ends_well(ports: Ports, ytf: Ytf) -> str:
    """Let the programs end: the job succeeds with the first master; returns the master's log."""
    ytf.open_gate()
    status = ports.job.end("SUCCEEDED", timeout_s=60)
    assert [task.attempt for task in status.tasks] == [1, 1]
    log = ports.job.master_log()
    assert "started master attempt 2" not in log
    return log


def starter_logs(job: Job) -> list[Path]:
    return sorted(job.history.glob("logs/*/starter.log"))


def test_no_bytes_end_a_job(ports: Ports, ytf: Ytf) -> None:
    for address in ports.all:
        for data in unsigned_requests():
            answer = send(address, data)
            assert b" 500 " not in answer[:20]
            assert not answer.startswith(b"HTTP/1.1 200")

    @settings(max_examples=60, deadline=None, database=None)
    @given(REQUESTS)
    def fuzz(data: bytes) -> None:
        for address in ports.all:
            assert b" 500 " not in send(address, data)[:20]

    fuzz()
    log = ends_well(ports, ytf)
    assert "bug" not in log
    for path in starter_logs(ports.job):
        assert "bug" not in path.read_text()


def test_no_signed_bytes_end_a_job(ports: Ports, ytf: Ytf) -> None:
    for address, data in signed_requests(ports):
        answer = send(address, data)
        assert answer[:13] in (
            b"", b"HTTP/1.1 200 ", b"HTTP/1.1 400 ", b"HTTP/1.1 401 ", b"HTTP/1.1 404 "
        ), (data[:100], answer[:200])  # fmt: skip
    log = ends_well(ports, ytf)
    assert "bug" not in log
    for path in starter_logs(ports.job):
        assert "bug" not in path.read_text()


class Impostor:
    """Listens on a dead master's port and gives each call the next answer."""

    def __init__(self, address: Address, answers: Sequence[bytes]) -> None:
        self._answers = answers
        self.served = 0
        self._listener = socket.create_server(address)
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        while True:
            try:
                sock, _ = self._listener.accept()
            except OSError:
                return
            with sock, contextlib.suppress(OSError):
                sock.settimeout(5)
                sock.recv(65536)
                sock.sendall(self._answers[self.served % len(self._answers)])
            self.served += 1

    def close(self) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._thread.join()


def impostors_answers() -> list[bytes]:
    ok = b"HTTP/1.1 200 OK\r\n"
    zeros = b"0" * 64
    return [
        ok + b"Content-Length: " + MANY_DIGITS + b"\r\n\r\n",
        ok + b"Content-Length: 60000\r\n\r\n" + DEEP,
        ok + b"Content-Length: 60000\r\nYtf-Auth: " + zeros + b" " + zeros + b"\r\n\r\n" + DEEP,
        b"HTTP/1.1 401 no\r\nContent-Length: " + MANY_DIGITS + b"\r\n\r\n",
        b"HTTP/1.1 409 no\r\nContent-Length: 2\r\n\r\n{}",
        b"HTTP/1.1 " + MANY_DIGITS + b"\r\n\r\n",
        b"\xff\xfe\r\n\r\n",
        b"",
        ok + b"A: " + b"x" * 100_000,
        ok + b"Content-Length: 50000000\r\n\r\n" + b"x" * 3_000_000,
    ]


def test_whoever_answers_on_a_dead_masters_port_ends_no_job(ytf: Ytf) -> None:
    job = ytf.submit("worker:4", f"{HERE}{HOLD}true")
    ports = running(job, *(f"worker:{i}" for i in range(4)))
    node, master = job.node(), job.master()
    starters = [job.starter(f"worker:{i}") for i in range(4)]
    kill(node, signum=signal.SIGSTOP)  # so that no new master comes meanwhile
    try:
        kill(master)
        answers = impostors_answers()

        def listen() -> Impostor | None:
            with contextlib.suppress(OSError):
                return Impostor(ports.master, answers)
            return None

        impostor = eventually(listen, 30, "the dead master's port is free")
        assert impostor is not None
        with contextlib.closing(impostor):
            eventually(lambda: impostor.served > 2 * len(answers), 120, "the starters call")
        assert max(map(used_memory, starters)) < 32 << 20
    finally:
        kill(node, signum=signal.SIGCONT)
    ytf.open_gate()
    status = job.end("SUCCEEDED", timeout_s=60)
    assert [task.attempt for task in status.tasks] == [1] * 4
    for path in starter_logs(job):
        text = path.read_text()
        assert "bug" not in text
        assert len(text) < 10_000


@pytest.fixture
def crowd() -> Iterator[ExitStack]:
    """Connections of strangers; this process may have as many as the system allows."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (before[1], before[1]))
    with ExitStack() as stack:
        yield stack
    resource.setrlimit(resource.RLIMIT_NOFILE, before)


def hold(stack: ExitStack, address: Address, count: int, data: bytes = b"") -> None:
    """Open connections, send as much of ``data`` as is taken at once, and keep them open."""
    for _ in range(count):
        with contextlib.suppress(OSError):
            sock = stack.enter_context(socket.create_connection(address, 30))
            sock.setblocking(False)
            rest = data
            while rest:
                rest = rest[sock.send(rest) :]


@pytest.mark.parametrize(
    "data",
    [
        b"POST /starter/v1/register HTTP/1.1\r\nContent-Length: 1048576\r\n\r\n" + b"x" * 1_000_000,
        b"POST /x HTTP/1.1\r\nContent-Length: 1048576\r\n\r\n" + b"x" * 1_000_000,
        b"GET / HTTP/1.1\r\nA: " + b"x" * 16_000,
    ],
    ids=["body", "unsigned", "head"],
)
def test_memory_is_not_for_strangers(ports: Ports, ytf: Ytf, crowd: ExitStack, data: bytes) -> None:
    before = used_memory(ports.job.master())
    for address in ports.all:
        hold(crowd, address, 1500 if address == ports.master else 100, data)
    assert ports.job.status().state.value == "RUNNING"
    # 1,500 connections took it 1,400 MB further.
    assert used_memory(ports.job.master()) - before < 64 << 20
    for task in ("worker:0", "worker:1"):
        assert used_memory(ports.job.starter(task)) < 24 << 20
    ends_well(ports, ytf)


def test_descriptors_are_not_for_strangers(ytf: Ytf, crowd: ExitStack) -> None:
    program = f"{HERE}{HOLD}true"
    options = ("--framework", "none", "-r", "worker:2", program)
    limited = ("/bin/sh", "-c", 'ulimit -n 256 && exec "$@"', "sh")
    done = ytf.run(*limited, str(BIN / "ytf-submit"), *options)
    ports = running(Job(ytf, done.stdout.strip()), "worker:0", "worker:1")
    for address in ports.all:
        hold(crowd, address, 2000)
    descriptors = len(list(Path(f"/proc/{ports.job.master()}/fd").iterdir()))
    assert descriptors < 256 - 50
    log = ends_well(ports, ytf)
    assert "Too many open files" not in log


def test_refused_requests_do_not_fill_the_logs(ports: Ports, ytf: Ytf) -> None:
    wrong = signed(b"wrong", "POST", "/control/v1/signal", "client/x/c", 1, b"{}")
    too_long = b"POST /control/v1/signal HTTP/1.1\r\nContent-Length: " + MANY_DIGITS + b"\r\n\r\n"
    for address in ports.all:
        for _ in range(500):
            send(address, wrong)
            send(address, too_long)
    log = ends_well(ports, ytf)
    assert len(log) < 50_000
    for path in starter_logs(ports.job):
        text = path.read_text()
        assert "control endpoint" in text
        assert len(text) < 50_000


def test_a_kill_gets_through_while_strangers_connect(ytf: Ytf, crowd: ExitStack) -> None:
    ports = running(ytf.submit("worker:2", f"{HERE}{FOREVER}"), "worker:0", "worker:1")
    for address in ports.all:
        hold(crowd, address, 1500, b"GET / HTTP/1.1\r\n")
    ytf.run("ytf", "kill", ports.job.id)
    ports.job.end("KILLED", timeout_s=60)
