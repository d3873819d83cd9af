"""A starter and a NodeManager show the same halves, byte for byte."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from tests.backends.yarn.logs.log_places import SECRET, WORKER, MadeStarter, made_starter
from tests.hadoop_logs.nodes import C, log_node
from ytf.backends.yarn.logs import places
from ytf.backends.yarn.logs.places import NodeLogs, StarterLogs
from ytf.backends.yarn.logs.streams import Half, Place, Stream
from ytf.errors import NotFoundError, UnreachableError
from ytf.starter.auth import Signer
from ytf.starter.control import AT_ONCE

FILES = {
    "worker-0.1.stdout": b"of an attempt that is over\n",
    "worker-0.2.stdout": b"x" * 2_500_000 + b"\nend\n",
    "worker-0.2.stdout.1": b"older\n",
    "worker-0.2.stderr": b"\xff\x00 not text",
}
OUT = Half(Stream(WORKER, 2, "stdout"))


@pytest.fixture
def starter(tmp_path: Path) -> Iterator[MadeStarter]:
    for name, data in FILES.items():
        (tmp_path / name).write_bytes(data)
    for other in ("prelaunch.out", "worker-0.x.stdout", "worker-01.1.stdout"):
        (tmp_path / other).write_bytes(b"not ours")
    with made_starter(tmp_path) as found:
        yield found


@pytest.fixture
def at_starter(starter: MadeStarter) -> Iterator[StarterLogs]:
    with closing(StarterLogs(starter.place, Signer(SECRET))) as logs:
        yield logs


def all_of(place: Place) -> dict[str, bytes]:
    return {half.file: b"".join(place.read(half, 0)) for half in place.sizes()}


def test_a_starter_shows_all_attempts_of_its_container(at_starter: StarterLogs) -> None:
    assert {half.file: size for half, size in at_starter.sizes().items()} == {
        name: len(data) for name, data in FILES.items()
    }
    assert all_of(at_starter) == FILES


def test_a_node_shows_the_same() -> None:
    with log_node() as node:
        node.files = {**FILES, "prelaunch.out": b"not ours"}
        assert all_of(NodeLogs(node.address, C)) == FILES


def test_from_some_place_on(at_starter: StarterLogs) -> None:
    assert b"".join(at_starter.read(OUT, 2_500_001)) == b"end\n"
    assert b"".join(at_starter.read(OUT, 2_500_005)) == b""
    assert b"".join(at_starter.read(OUT, 9_999_999)) == b""


def test_a_program_that_never_stops_writing_does_not_keep_the_reader(
    at_starter: StarterLogs, starter: MadeStarter
) -> None:
    size = 0
    for piece in at_starter.read(OUT, 0):
        size += len(piece)
        with (starter.folder / OUT.file).open("ab") as file:
            file.write(b"y" * 2_000_000)
    assert size < 5_000_000


def test_what_is_not_there(at_starter: StarterLogs) -> None:
    with pytest.raises(NotFoundError):
        list(at_starter.read(Half(Stream(WORKER, 7, "stdout")), 0))


def test_a_connection_that_was_closed_is_opened_again(
    at_starter: StarterLogs, starter: MadeStarter
) -> None:
    at_starter.sizes()
    host, _, port = starter.control.rpartition(":")
    silent = [socket.create_connection((host, int(port)), 5) for _ in range(2 * AT_ONCE)]
    assert at_starter.sizes()
    for sock in silent:
        sock.close()


def test_a_starter_that_has_gone_is_named(starter: MadeStarter) -> None:
    starter.end()
    with (
        closing(StarterLogs(starter.place, Signer(SECRET))) as logs,
        pytest.raises(UnreachableError, match=f"the starter at {starter.control} does not answer"),
    ):
        logs.sizes()


def test_a_stranger_on_its_port_is_not_believed(starter: MadeStarter) -> None:
    with (
        closing(StarterLogs(starter.place, Signer(b"another job's"))) as logs,
        pytest.raises(UnreachableError),
    ):
        logs.sizes()


def test_one_that_hangs_is_not_waited_for_long(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(places, "_LIST_S", 0.05)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        starter = MadeStarter.place_at(f"127.0.0.1:{silent.getsockname()[1]}")
        with (
            closing(StarterLogs(starter, Signer(SECRET))) as logs,
            pytest.raises(UnreachableError, match="timed out"),
        ):
            logs.sizes()
