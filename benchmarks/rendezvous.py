"""How fast thousands of starters meet, and what their heartbeats cost the master.

    python -m benchmarks.rendezvous [--starters 1000 5000] [--seconds 15]

One process plays all starters with real connections, signatures and messages,
all at the same moment; the server is a process of its own. The rendezvous is
measured from the first connect to the last acknowledged ``started``.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import re
import resource
import secrets
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import ClassVar

from benchmarks.table import Row, print_table
from ytf.wire.signing import Signer, body_digest

RENDEZVOUS_LIMIT_S = {1000: 1.5, 5000: 8.0}
HEARTBEAT_CPU_LIMIT = 35.0
DEADLINE_S = 120.0

SERVERS: dict[str, list[str]] = {
    "master": [sys.executable, "-m", "benchmarks.rendezvous_master"],
    "registry": [sys.executable, "-m", "benchmarks.rendezvous_server"],
}
"""Commands that are given the number of starters, read the secret (hex) as a line of stdin,
print their port as a line of stdout, and end when stdin does."""

_LENGTH = re.compile(rb"Content-Length: ([0-9]+)").search

Finish = Callable[[bytes], None]


class Channel:
    """One connection of a starter: one request at a time, its answer verified.

    Sockets without asyncio's transports, because what thousands of starters
    spend on thousands of machines must not be what is measured on one.
    """

    spec: ClassVar[tuple[bytes, str]] = (b"", "")
    """The newest long body and its digest: no node hashes one cluster spec 5,000 times."""

    def __init__(self, loop: asyncio.AbstractEventLoop, signer: Signer, actor: str) -> None:
        self._loop = loop
        self._signer = signer
        self._actor = actor
        self._counter = time.time_ns()
        self._signature = ""
        self._pieces: list[bytes] = []
        self._missing = 0
        self._finish: Finish | None = None
        self._socket = socket.socket()

    def connect(self, port: int) -> None:
        """Connect; on one machine that is done at once."""
        self._socket.connect(("127.0.0.1", port))
        self._socket.setblocking(False)
        self._loop.add_reader(self._socket.fileno(), self._readable)

    def close(self) -> None:
        """Go away, if the server has not closed an idle connection before."""
        if self._socket.fileno() >= 0:
            self._loop.remove_reader(self._socket.fileno())
            self._socket.close()

    def call(self, method: str, path: str, body: bytes, finish: Finish) -> None:
        """Send a request; ``finish`` is called with the status and body of its answer."""
        self._counter += 1
        self._finish = finish
        digest = body_digest(body)
        self._signature = self._signer.sign_request(
            method, path, self._actor, self._counter, digest
        )
        head = (
            f"{method} {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: {len(body)}\r\n"
            f"Ytf-Auth: {self._actor} {self._counter} {digest} {self._signature}\r\n\r\n"
        )
        request = head.encode() + body
        assert self._socket.send(request) == len(request)

    def _readable(self) -> None:
        data = self._socket.recv(256 * 1024)
        if not data:
            self.close()
            if self._finish is not None:
                raise ConnectionError(f"the server left {self._actor} without an answer")
            return
        if not self._pieces:
            end = data.index(b"\r\n\r\n")
            length = _LENGTH(data)
            assert length is not None
            self._missing = int(length[1]) + end + 4
        self._pieces.append(data)
        self._missing -= len(data)
        if not self._missing:
            head, _, body = b"".join(self._pieces).partition(b"\r\n\r\n")
            self._pieces.clear()
            self._answered(head, body)

    def _answered(self, head: bytes, body: bytes) -> None:
        known, digest = Channel.spec
        if body != known:
            digest = body_digest(body)
            if len(body) > 10_000:
                Channel.spec = body, digest
        status = int(head[9:12])
        right = self._signer.sign_answer(self._signature, status, digest)
        assert head.endswith(right.encode()), f"the answer to {self._actor} is not signed"
        assert status == 200, body
        finish, self._finish = self._finish, None
        assert finish is not None
        finish(body)


class Starter:
    """What one starter says: register, poll, fetch the spec, started, and polls for ever.

    ``condition`` makes what a poll says of the program, from the number of polls before it.
    """

    def __init__(
        self,
        index: int,
        signer: Signer,
        started: Callable[[], None],
        condition: Callable[[int], dict[str, object]] | None = None,
    ) -> None:
        loop = asyncio.get_running_loop()
        container = f"container_1700000000000_0001_01_{index:06d}"
        self._who = {"task": f"worker:{index}", "attempt": 1, "container": container}
        self._member_port = 1024 + index
        self._report = Channel(loop, signer, f"{container}/report")
        self._poll = Channel(loop, signer, f"{container}/poll")
        self._started = started
        self._condition = condition
        self._port = 0
        self._knows: dict[str, int] = {}
        self._question = b""
        self.polls = 0

    def begin(self, port: int) -> None:
        """Connect and register; the rest follows from the answers."""
        self._port = port
        where = {"host": "node-0001.example", "port": self._member_port, "control": "10.0.0.1:4000"}
        self._report.connect(port)
        self._report.call(
            "POST",
            "/starter/v1/register",
            json.dumps({**self._who, **where}).encode(),
            self._registered,
        )

    def close(self) -> None:
        """Go away."""
        self._report.close()
        self._poll.close()

    def _registered(self, body: bytes) -> None:
        self._poll.connect(self._port)
        self._learn(order=json.loads(body)["order"]["number"], revision=0)

    def _learn(self, order: int, revision: int) -> None:
        self._knows = {"order": order, "revision": revision}
        self._question = json.dumps({**self._who, **self._knows}).encode()
        self._ask()

    def _ask(self) -> None:
        if self._condition is not None:
            body = {**self._who, **self._knows, **self._condition(self.polls)}
            self._question = json.dumps(body).encode()
        self._poll.call("POST", "/starter/v1/poll", self._question, self._heard)

    def _heard(self, body: bytes) -> None:
        self.polls += 1
        if json.loads(body)["revision"] > self._knows["revision"]:
            self._poll.call("GET", "/starter/v1/cluster", b"", self._got_spec)
        else:
            self._ask()

    def _got_spec(self, body: bytes) -> None:
        who = json.dumps(self._who).encode()
        self._report.call("POST", "/starter/v1/started", who, self._acknowledged)
        self._learn(self._knows["order"], revision=1)

    def _acknowledged(self, body: bytes) -> None:
        self._started()


@contextmanager
def serving(kind: str, starters: int, secret: bytes) -> Iterator[tuple[int, int]]:
    """A server process, ready: its pid and its port."""
    process = subprocess.Popen(
        [*SERVERS[kind], str(starters)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=Path(__file__).parent.parent,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        process.stdin.write(secret.hex() + "\n")
        process.stdin.flush()
        yield process.pid, int(process.stdout.readline())
        process.stdin.close()
        process.wait(timeout=20)
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()
        process.stdout.close()


def cpu_s(pid: int) -> float:
    """Processor time a process has used so far."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def memory_mb(pid: int, field: str) -> float:
    """``VmRSS`` (resident now) or ``VmHWM`` (at most) of a process."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith(field + ":"):
            return int(line.split()[1]) / 1024
    raise LookupError(field)


async def measure(kind: str, count: int, seconds: float) -> list[Row]:
    """Let ``count`` starters meet on a new server and send heartbeats for a while."""
    secret = secrets.token_bytes(32)
    loop = asyncio.get_running_loop()
    failures: list[object] = []
    everyone: asyncio.Future[None] = loop.create_future()

    def failed(_: asyncio.AbstractEventLoop, context: dict[str, object]) -> None:
        failures.append(context.get("exception") or context["message"])
        if not everyone.done():
            everyone.set_exception(RuntimeError(f"a starter failed: {failures[0]!r}"))

    loop.set_exception_handler(failed)
    left = count

    def started() -> None:
        nonlocal left
        left -= 1
        if not left and not everyone.done():
            everyone.set_result(None)

    signer = Signer(secret)
    starters = [Starter(i, signer, started) for i in range(count)]
    with serving(kind, count, secret) as (pid, port):
        begun, cpu = time.monotonic(), cpu_s(pid)
        for starter in starters:
            starter.begin(port)
            # Let answers be read meanwhile, as by so many processes.
            await asyncio.sleep(0)
        await asyncio.wait_for(everyone, DEADLINE_S)
        took, rendezvous_cpu = time.monotonic() - begun, cpu_s(pid) - cpu
        # One hold later, the burst of the rendezvous is over and heartbeats are steady.
        await asyncio.sleep(6)
        polls, begun, cpu = sum(s.polls for s in starters), time.monotonic(), cpu_s(pid)
        await asyncio.sleep(seconds)
        elapsed = time.monotonic() - begun
        share = 100 * (cpu_s(pid) - cpu) / elapsed
        rate = (sum(s.polls for s in starters) - polls) / elapsed
        rows = [
            Row(f"{count} starters: rendezvous", took, "s", RENDEZVOUS_LIMIT_S.get(count)),
            Row(f"{count} starters: server's CPU time of it", rendezvous_cpu, "s"),
            Row(f"{count} starters: heartbeats", rate, "/s"),
            Row(f"{count} starters: CPU share of heartbeats", share, "%", HEARTBEAT_CPU_LIMIT),
            Row(
                f"{count} starters: resident memory",
                memory_mb(pid, "VmRSS"),
                "MB",
                60 + count * 20 / 1024,
            ),
            Row(f"{count} starters: resident memory at its peak", memory_mb(pid, "VmHWM"), "MB"),
        ]
        for starter in starters:
            starter.close()
    assert not failures, failures
    return rows


def main() -> int:
    """Print the table; 1 if a limit is not kept."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--starters", type=int, nargs="+", default=[1000, 5000])
    parser.add_argument("--seconds", type=float, default=15.0)
    parser.add_argument("--server", choices=sorted(SERVERS), default="master")
    args = parser.parse_args()
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    rows: list[Row] = []
    for count in args.starters:
        rows += asyncio.run(measure(args.server, count, args.seconds))
    return 0 if print_table(rows) else 1


if __name__ == "__main__":
    sys.exit(main())
