"""A session with a real ZooKeeper, and with servers that say what no ZooKeeper would."""

from __future__ import annotations

import os
import random
import socket
import struct
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tests.starter.zookeeper_servers import GRANTED, Behave, framed, granting, received, server
from tests.zookeeper_reader import Reader, reading
from ytf.minicluster import ZooKeeperEnsemble
from ytf.minicluster.daemons import free_ports
from ytf.starter import zookeeper_session
from ytf.starter.zookeeper_session import (
    LONGEST_EVENT,
    LONGEST_FRAME,
    MOST_EVENTS,
    NODE_EXISTS,
    ConnectionLostError,
    ZooKeeperError,
    ZooKeeperSession,
)
from ytf.testing.waiting import eventually

SESSION_S = 30.0


@pytest.fixture
def zk(zookeeper: ZooKeeperEnsemble) -> Iterator[Reader]:
    with reading(zookeeper.addresses) as reader:
        reader.client.create("/s", b"")
        yield reader
        reader.client.delete("/s", recursive=True)


@pytest.fixture
def session(zookeeper: ZooKeeperEnsemble) -> Iterator[ZooKeeperSession]:
    made = ZooKeeperSession(zookeeper.addresses, SESSION_S)
    made.connect()
    yield made
    made.close()


@contextmanager
def session_with(behave: Behave) -> Iterator[ZooKeeperSession]:
    """A session with such a server, not connected yet."""
    with server(behave) as address:
        session = ZooKeeperSession([address], SESSION_S)
        yield session
        session.drop()


def test_what_a_node_is_made_of(zk: Reader, session: ZooKeeperSession) -> None:
    assert session.exists("/s/a") is None
    session.create("/s/a", b"one")
    stat = session.exists("/s/a")
    assert stat is not None
    assert (stat.owner, stat.length) == (session.id, 3)
    assert zk.exists("/s/a").ephemeralOwner == session.id
    session.set("/s/a", "zwei ✓".encode())
    data, after = session.get("/s/a")
    assert data.decode() == "zwei ✓"
    assert after.changed > stat.changed
    with pytest.raises(ZooKeeperError, match="exists already") as caught:
        session.create("/s/a", b"")
    assert caught.value.code == NODE_EXISTS
    session.delete("/s/a")
    assert zk.exists("/s/a") is None
    with pytest.raises(ZooKeeperError, match="no such znode"):
        session.delete("/s/a")


def test_changes_are_told_once_for_each_look(zk: Reader, session: ZooKeeperSession) -> None:
    session.exists("/s/a")
    zk.client.create("/s/a", b"x")
    session.receive()
    assert session.take_events() == {"/s/a"}
    assert session.take_events() == set()
    assert session.exists("/s/a") is not None
    zk.client.set("/s/a", b"y")
    # It comes before the answer to a later call.
    eventually(lambda: session.get("/s/a")[0] == b"y")
    assert session.take_events() == {"/s/a"}


def test_a_node_ends_with_its_session_not_with_a_connection(
    zk: Reader, zookeeper: ZooKeeperEnsemble
) -> None:
    session = ZooKeeperSession(zookeeper.addresses, SESSION_S)
    session.connect()
    first = session.id
    session.create("/s/a", b"")
    session.drop()
    with pytest.raises(ConnectionLostError, match="no connection"):
        session.exists("/s/a")
    session.connect()
    assert session.id == first
    stat = session.exists("/s/a")
    assert stat is not None
    assert stat.owner == first
    session.close()
    assert zk.exists("/s/a") is None


def test_an_expired_session_is_replaced(zk: Reader, zookeeper: ZooKeeperEnsemble) -> None:
    session = ZooKeeperSession(zookeeper.addresses, SESSION_S)
    session.connect()
    first = session.id
    other = ZooKeeperSession(zookeeper.addresses, SESSION_S)
    other.id, other._password = first, session._password
    other.connect()
    other.close()
    session.drop()
    with pytest.raises(ConnectionLostError, match="the session has expired"):
        session.connect()
    session.connect()
    assert session.id not in (0, first)
    session.close()


def test_it_stays_alive(zookeeper: ZooKeeperEnsemble, monkeypatch: pytest.MonkeyPatch) -> None:
    session = ZooKeeperSession(zookeeper.addresses, SESSION_S)
    session.connect()
    assert 0 < session.keep_alive() <= SESSION_S / 3
    session._sent_at -= SESSION_S / 3
    assert session.keep_alive() == session._granted_s / 3, "it has said so"
    session._heard_at = 0.0
    session.receive()
    assert session._heard_at > 0, "and was answered"
    session._heard_at -= SESSION_S
    with pytest.raises(ConnectionLostError, match="no answer for"):
        session.keep_alive()
    session.close()


def test_every_server_is_tried_and_named() -> None:
    refused = f"127.0.0.1:{free_ports(1)[0]}"

    with server(lambda connection: None) as alone:
        session = ZooKeeperSession([refused, alone, "no-such-host.invalid:2181"], SESSION_S)
        with pytest.raises(ConnectionLostError) as caught:
            session.connect()
    said = str(caught.value)
    assert f"{refused}: Connection refused" in said
    assert f"{alone}: it accepts connections, but gives no session" in said
    assert "no-such-host.invalid:2181: the name is not known" in said


def test_a_server_that_says_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(zookeeper_session, "CONNECT_S", 0.2)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        address = f"127.0.0.1:{listener.getsockname()[1]}"
        with pytest.raises(ConnectionLostError, match="no answer in time"):
            ZooKeeperSession([address], SESSION_S).connect()


@pytest.mark.parametrize(
    "answer",
    [
        struct.pack(">i", -1),
        struct.pack(">i", 0),
        struct.pack(">i", LONGEST_FRAME + 1),
        struct.pack(">i", 2**31 - 1),
        framed(b"x"),
        framed(GRANTED[:25]),
        framed(struct.pack(">iiqi", 0, 30_000, 7, 2**31 - 1)),
        framed(struct.pack(">iiqi", 0, 0, 0, 16) + bytes(16)),
        framed(struct.pack(">iiqi", 0, -5, 7, 16) + bytes(16)),
    ],
)
def test_nonsense_instead_of_a_session(answer: bytes) -> None:
    def behave(connection: socket.socket) -> None:
        received(connection)
        connection.sendall(answer)

    with session_with(behave) as session:
        with pytest.raises(ConnectionLostError):
            session.connect()
        assert session.id == 0


@pytest.mark.parametrize(
    "answer",
    [
        b"",
        framed(b""),
        framed(b"short"),
        framed(struct.pack(">iqi", 99, 1, 0) + bytes(68)),
        framed(struct.pack(">iqi", 1, 1, 0)),
        framed(struct.pack(">iqi", 1, 1, 0) + bytes(67)),
        framed(struct.pack(">iqi", -1, 1, 0)),
        framed(struct.pack(">iqi", -1, 1, 0) + struct.pack(">iii", 1, 3, 2**31 - 1)) + framed(b"x"),
    ],
)
def test_nonsense_instead_of_an_answer(answer: bytes) -> None:
    def behave(connection: socket.socket) -> None:
        received(connection)
        connection.sendall(answer)

    with session_with(granting(behave)) as session:
        session.connect()
        with pytest.raises(ConnectionLostError):
            session.exists("/s")
        session.connect()
        with pytest.raises(ConnectionLostError):
            session.get("/s")


def test_any_bytes_at_all_only_end_the_connection() -> None:
    chance = random.Random(os.environ.get("PYTEST_CURRENT_TEST"))

    def behave(connection: socket.socket) -> None:
        received(connection)
        size = chance.choice([4, 16, 20, 100, 3000])
        data = chance.randbytes(size)
        connection.sendall(data if chance.random() < 0.5 else framed(data))

    with session_with(granting(behave)) as session:
        for _ in range(300):
            session.connect()
            with pytest.raises((ConnectionLostError, ZooKeeperError)):
                session.get("/s")


@pytest.mark.parametrize(
    "sent",
    [
        # The answer to a call that was answered already, and to none.
        framed(struct.pack(">iqi", 0, 1, -101)),
        framed(struct.pack(">iqi", 5, 1, 0)),
        framed(struct.pack(">iqi", -1, 1, 0) + bytes(LONGEST_EVENT)),
    ],
)
def test_what_nobody_asked_for_ends_the_connection(sent: bytes) -> None:
    with session_with(granting(lambda connection: connection.sendall(sent))) as session:
        session.connect()
        with pytest.raises(ConnectionLostError, match=r"no call|more events"):
            session.receive()


def test_events_do_not_pile_up() -> None:
    def event(path: bytes) -> bytes:
        return framed(struct.pack(">iqiiii", -1, 1, 0, 3, 3, len(path)) + path)

    def behave(connection: socket.socket) -> None:
        connection.sendall(b"".join(event(b"/%d" % each) for each in range(MOST_EVENTS + 1)))

    with session_with(granting(behave)) as session:
        session.connect()
        for _ in range(MOST_EVENTS):
            session.receive()
        assert session.take_events() == set(), "nobody watches these"
        with pytest.raises(ConnectionLostError, match="more events"):
            session.receive()


def test_answers_to_pings_do_not_pile_up() -> None:
    """A task that trains for hours makes no call; its session lives on pings alone."""
    answer = framed(struct.pack(">iqi", -2, 1, 0))

    def behave(connection: socket.socket) -> None:
        for _ in range(MOST_EVENTS + 10):
            assert received(connection) == struct.pack(">ii", -2, 11)
            connection.sendall(answer)
        # From here on nobody has asked.
        connection.sendall(answer * (MOST_EVENTS + 1))

    with session_with(granting(behave)) as session:
        session.connect()
        for _ in range(MOST_EVENTS + 10):
            session._sent_at -= SESSION_S / 3
            session.keep_alive()
            session.receive()
        for _ in range(MOST_EVENTS):
            session.receive()
        with pytest.raises(ConnectionLostError, match="more events"):
            session.receive()


def test_a_server_that_never_ends_its_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    done = threading.Event()

    def behave(connection: socket.socket) -> None:
        connection.sendall(struct.pack(">i", LONGEST_FRAME))
        while not done.wait(0.05):
            connection.sendall(b"x")

    with session_with(granting(behave)) as session:
        session.connect()
        session._granted_s = 0.6
        began = time.monotonic()
        with pytest.raises(ConnectionLostError, match="no answer in time"):
            session.exists("/s")
        done.set()
        assert time.monotonic() - began < 60
