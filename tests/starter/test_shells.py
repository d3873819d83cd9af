"""Shells at a real starter, and what others can do to them."""

from __future__ import annotations

import json
import os
import signal
import socket
from collections.abc import Callable, Iterator
from contextlib import closing
from itertools import count
from pathlib import Path

import pytest

from tests.starter.conftest import RunningStarter, command_line, is_alive
from tests.starter.fake_master import SECRET, FakeMaster
from ytf.starter.shells import MAX_SHELLS
from ytf.testing.waiting import eventually
from ytf.wire.frames import FROM_CLIENT, FROM_STARTER, FrameReader, FrameWriter
from ytf.wire.http_client import OpenedStream, SignatureRefusedError, SignedChannel
from ytf.wire.shell_messages import (
    END_OF_INPUT,
    ERRORS,
    EXIT,
    INPUT,
    OPEN,
    OUTPUT,
    ExitMessage,
    OpenMessage,
)
from ytf.wire.signing import Signer

PATH = "/control/v1/shell"
BY = b'{"by": "alice"}'
PATIENCE_S = 60.0
_actors = count()


class Shell:
    """The client's side of one stream, frame by frame."""

    def __init__(self, stream: OpenedStream, nonce: str) -> None:
        key = bytes.fromhex(Signer(SECRET).stream_key(stream.signature, nonce))
        self.sock = stream.sock
        self.sock.settimeout(PATIENCE_S)
        self.writer = FrameWriter(key, FROM_CLIENT)
        self.reader = FrameReader(key, FROM_STARTER)
        self.reader.feed(stream.received)

    def send(self, kind: int, payload: bytes = b"") -> bytes:
        frame = self.writer.frame(kind, payload)
        self.sock.sendall(frame)
        return frame

    def run(self, command: str | None) -> bytes:
        return self.send(OPEN, OpenMessage(command, None, "dumb").encode())

    def next(self) -> tuple[int, bytes] | None:
        """The next frame; None if the connection was closed."""
        while (frame := self.reader.next()) is None:
            try:
                data = self.sock.recv(65536)
            except ConnectionResetError:
                return None
            if not data:
                return None
            self.reader.feed(data)
        return frame

    def read_line(self) -> str:
        text = b""
        while not text.endswith(b"\n"):
            frame = self.next()
            assert frame is not None
            assert frame[0] == OUTPUT
            text += frame[1]
        return text.decode().strip()

    def end(self) -> ExitMessage:
        """Skip to the end."""
        while (frame := self.next()) is not None:
            if frame[0] == EXIT:
                return ExitMessage.decode(frame[1])
        raise AssertionError("the connection was closed before the end")


def connect(url: str) -> SignedChannel:
    return SignedChannel(url, Signer(SECRET), f"client/{next(_actors)}/c1")


@pytest.fixture
def starter(master: FakeMaster, start: Callable[..., RunningStarter]) -> RunningStarter:
    running = start("echo here; while :; do sleep 0.02; done", environ={"VALUE": "b\udcff c"})
    master.meet()
    master.expect("started", 0)
    return running


@pytest.fixture
def url(master: FakeMaster, starter: RunningStarter) -> str:
    return f"http://{master.expect('register', 0)['control']}"


@pytest.fixture
def open_shell(url: str) -> Iterator[Callable[[], Shell]]:
    opened: list[Shell] = []

    def open_() -> Shell:
        with closing(connect(url)) as channel:
            answer, stream = channel.open_stream("POST", PATH, BY)
        assert answer.status == 200, answer.error()
        assert stream is not None
        opened.append(Shell(stream, answer.json()["nonce"]))
        return opened[-1]

    yield open_
    for shell in opened:
        shell.sock.close()


def shell_processes(starter: RunningStarter) -> list[int]:
    return [
        pid
        for pid in starter.processes()
        if is_alive(pid) and b"shell_process" in command_line(pid)
    ]


def test_the_programs_variables_and_directory(
    starter: RunningStarter, open_shell: Callable[[], Shell]
) -> None:
    shell = open_shell()
    shell.run('printf "%s|%s|%s|$YTF_STARTER" "$VALUE" "$YTF_TASK" "$PWD"; exit 4')
    assert shell.next() == (OUTPUT, b"b\xff c|worker:0|" + os.fsencode(starter.cwd) + b"|")
    assert shell.end().exit_code == 4
    assert shell.next() is None
    # The program goes on, and nothing of the shell is left.
    assert starter.process.poll() is None
    eventually(lambda: not shell_processes(starter), describe="the end of the shell process")


def test_input_and_both_outputs(open_shell: Callable[[], Shell]) -> None:
    shell = open_shell()
    shell.run("cat; echo oops >&2")
    shell.send(INPUT, b"\0\xff")
    assert shell.next() == (OUTPUT, b"\0\xff")
    shell.send(END_OF_INPUT)
    assert shell.next() == (ERRORS, b"oops\n")
    assert shell.end().exit_code == 0


def test_the_starter_itself_stays_small(
    starter: RunningStarter, open_shell: Callable[[], Shell]
) -> None:
    shells = [open_shell() for _ in range(3)]
    for shell in shells:
        shell.run("echo on; sleep 1000")
        shell.read_line()
    status = Path(f"/proc/{starter.pid}/status").read_text()
    resident_kb = next(int(x.split()[1]) for x in status.splitlines() if x.startswith("VmRSS"))
    assert resident_kb <= 14 * 1024


def test_no_more_than_so_many(url: str, open_shell: Callable[[], Shell]) -> None:
    shells = [open_shell() for _ in range(MAX_SHELLS)]
    for shell in shells:
        shell.run("echo on; sleep 1000")
        shell.read_line()
    with closing(connect(url)) as channel:
        answer, stream = channel.open_stream("POST", PATH, BY)
        assert (answer.status, stream) == (429, None)
        assert "8 shells are open in worker:0 already" in answer.error()
        # The same connection is of use for other requests, and others have threads left.
        assert channel.call("GET", "/control/v1/streams").status == 200
    shells[0].sock.close()

    def is_open() -> bool:
        with closing(connect(url)) as channel:
            answer, stream = channel.open_stream("POST", PATH, BY)
        if stream is not None:
            stream.sock.close()
        return answer.status == 200

    eventually(is_open, describe="room for another one")


def test_there_is_none_without_a_program(
    master: FakeMaster, start: Callable[..., RunningStarter]
) -> None:
    start("exit 0")
    address = master.expect("register", 0)["control"]
    with closing(connect(f"http://{address}")) as channel:
        assert channel.open_stream("POST", PATH, BY)[0].status == 404
        master.meet()
        master.expect("exited", 0)
        answer, stream = channel.open_stream("POST", PATH, BY)
    assert (answer.status, stream) == (404, None)
    assert "no program of worker:0 is running" in answer.error()


# Who may not


def test_without_the_secret_there_is_none(starter: RunningStarter, url: str) -> None:
    for signer, actor in ((Signer(b"guessed"), "client/x/c1"), (Signer(SECRET), "client/x/c2")):
        with (
            closing(SignedChannel(url, signer, actor)) as channel,
            pytest.raises(SignatureRefusedError),
        ):
            channel.open_stream("POST", PATH, BY)
    assert shell_processes(starter) == []


def test_a_request_that_was_overheard_opens_none(starter: RunningStarter, url: str) -> None:
    """Sent again as it was; and one whose own sender does not get the answer."""
    host, _, port = url.removeprefix("http://").partition(":")
    signer, actor = Signer(SECRET), "client/overheard/c1"
    channel = SignedChannel(url, signer, actor)
    sent: list[bytes] = []
    with closing(channel):
        channel.call("GET", "/control/v1/streams")
        sock = channel._sock
        assert sock is not None
        recorder = Recorder(sock, sent)
        channel._sock = recorder  # type: ignore[assignment]
        _, stream = channel.open_stream("POST", PATH, BY)
        assert stream is not None
        # Or the wait for its end could be over before it has begun.
        eventually(lambda: shell_processes(starter), describe="the shell process")
        stream.sock.close()
    eventually(lambda: not shell_processes(starter), describe="the end of the shell process")
    with socket.create_connection((host, int(port)), PATIENCE_S) as again:
        again.sendall(b"".join(sent))
        assert again.recv(100).startswith(b"HTTP/1.1 401")
    assert shell_processes(starter) == []


class Recorder:
    """A socket that keeps what is sent through it."""

    def __init__(self, sock: socket.socket, sent: list[bytes]) -> None:
        self._sock = sock
        self._sent = sent

    def sendall(self, data: bytes) -> None:
        self._sent.append(data)
        self._sock.sendall(data)

    def __getattr__(self, name: str) -> object:
        return getattr(self._sock, name)


ATTACKS: dict[str, Callable[[bytes, bytes], bytes]] = {
    "a frame again": lambda opened, typed: typed,
    "the first frame again": lambda opened, typed: opened,
    "noise": lambda opened, typed: os.urandom(200),
    "a long frame": lambda opened, typed: b"\xff\xff\xff\xff",
    "HTTP": lambda opened, typed: b"POST /control/v1/signal HTTP/1.1\r\n\r\n",
    "a frame of another key": lambda opened, typed: FrameWriter(bytes(32), FROM_CLIENT).frame(
        INPUT, b"echo hacked\n"
    ),
}


@pytest.mark.parametrize("attack", ATTACKS)
def test_what_others_write_into_the_connection_ends_the_shell_and_nothing_else(
    starter: RunningStarter, open_shell: Callable[[], Shell], attack: str
) -> None:
    shell = open_shell()
    opened = shell.run(None)
    typed = shell.send(INPUT, b"touch marked; echo $$\n")
    pid = int(shell.read_line())
    (starter.cwd / "marked").unlink()
    shell.sock.sendall(ATTACKS[attack](opened, typed))
    assert shell.next() is None
    eventually(lambda: not is_alive(pid), describe="the end of the shell")
    assert not (starter.cwd / "marked").exists()
    eventually(lambda: "is not its client's: a frame" in starter.log.read_text())
    assert starter.process.poll() is None
    again = open_shell()
    again.run("echo fine")
    assert again.read_line() == "fine"


@pytest.mark.parametrize(
    ("kind", "payload"),
    [(INPUT, b"ls"), (OPEN, b"{}"), (OPEN, b"\xff"), (OPEN, b"[[" * 1000), (77, b""), (EXIT, b"")],
)
def test_a_client_that_makes_no_sense_is_dropped(
    starter: RunningStarter, open_shell: Callable[[], Shell], kind: int, payload: bytes
) -> None:
    shell = open_shell()
    shell.send(kind, payload)
    assert shell.next() is None
    eventually(lambda: not shell_processes(starter), describe="the end of the shell process")
    assert starter.process.poll() is None


def test_a_client_that_says_nothing_is_dropped(
    starter: RunningStarter, open_shell: Callable[[], Shell]
) -> None:
    shell = open_shell()
    end = shell.end()
    assert "did not say what to run" in end.reason
    assert shell.next() is None
    eventually(lambda: not shell_processes(starter), describe="the end of the shell process")


# Deaths


LEAVE = "setsid --fork sh -c 'echo $$ >../{0}.new; mv ../{0}.new ../{0}; exec sleep 1000'; "


def test_a_killed_shell_process_takes_its_own_along_and_no_other(
    starter: RunningStarter, open_shell: Callable[[], Shell], tmp_path: Path
) -> None:
    other = open_shell()
    other.run("echo $$; cat")
    survivor = int(other.read_line())
    [known] = shell_processes(starter)
    shell = open_shell()
    shell.run(LEAVE.format("daemon") + "env -i sleep 1000 & sleep 1000")
    eventually((tmp_path / "daemon").exists, describe="a daemon")
    daemon = int((tmp_path / "daemon").read_text())
    [process] = set(shell_processes(starter)) - {known}
    before = set(starter.processes())
    os.kill(process, signal.SIGKILL)
    assert shell.next() is None
    eventually(lambda: not is_alive(daemon), describe="the end of the daemon")
    eventually(
        lambda: len(set(starter.processes())) <= len(before) - 4,
        describe=lambda: f"{starter.processes()} of {before}",
    )
    assert is_alive(survivor)
    other.send(INPUT, b"still\n")
    assert other.read_line() == "still"
    assert starter.process.poll() is None


def test_a_starter_that_stops_tells_the_client(
    master: FakeMaster, starter: RunningStarter, open_shell: Callable[[], Shell]
) -> None:
    shell = open_shell()
    shell.run("echo $$; trap '' TERM HUP INT; while :; do sleep 0.02; done")
    pid = int(shell.read_line())
    master.order(stop=True, grace_s=5.0)
    end = shell.end()
    assert (end.signal, end.reason) == (9, "the container of worker:0 ends")
    assert starter.wait() == 0
    assert not is_alive(pid)


def test_a_stopped_shell_process_does_not_hold_the_end(
    master: FakeMaster, starter: RunningStarter, open_shell: Callable[[], Shell]
) -> None:
    shell = open_shell()
    shell.run("echo $$; sleep 1000")
    pid = int(shell.read_line())
    [process] = shell_processes(starter)
    os.kill(process, signal.SIGSTOP)
    master.order(stop=True, grace_s=1.0)
    assert starter.process.wait(PATIENCE_S) == 0
    assert not is_alive(process)
    eventually(lambda: not is_alive(pid), describe="the end of the shell")


@pytest.mark.parametrize("body", [b"", b"{}", b"[]", b'{"by": 7}', b"\xff"])
def test_a_request_that_makes_no_sense(starter: RunningStarter, url: str, body: bytes) -> None:
    with closing(connect(url)) as channel:
        answer, stream = channel.open_stream("POST", PATH, body)
    assert (answer.status, stream) == (400, None)
    assert shell_processes(starter) == []


def test_who_opens_shells_is_logged_within_limits(
    starter: RunningStarter, open_shell: Callable[[], Shell]
) -> None:
    for _ in range(15):
        shell = open_shell()
        shell.run("true")
        assert shell.end().exit_code == 0
        shell.sock.close()
        eventually(lambda: not shell_processes(starter), describe="room for the next")
    lines = starter.log.read_text().count("alice opens a shell in worker:0")
    assert 1 <= lines <= 11


def test_json_of_an_answer_has_nothing_but_a_nonce(url: str) -> None:
    with closing(connect(url)) as channel:
        answer, stream = channel.open_stream("POST", PATH, BY)
    assert stream is not None
    stream.sock.close()
    assert list(json.loads(answer.body)) == ["nonce"]
