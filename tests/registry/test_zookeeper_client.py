"""Clients of ZooKeeper, and servers that say what no ZooKeeper would."""

from __future__ import annotations

import socket
import struct
import threading

import pytest
from kazoo.exceptions import ConnectionLoss

from tests.starter.zookeeper_servers import framed, granting, received, server
from ytf.registry.zookeeper_client import LONGEST_FRAME, end_client, make_client, was_too_long


@pytest.mark.parametrize("size", [LONGEST_FRAME + 1, 2**31 - 1])
def test_a_message_that_is_too_long_ends_the_connection_before_it_is_read(size: int) -> None:
    sent = threading.Event()

    def behave(connection: socket.socket) -> None:
        xid = received(connection)[:4]
        connection.sendall(struct.pack(">i", size) + xid + struct.pack(">qi", 1, 0))
        sent.set()
        assert connection.recv(1) == b"", "the client has gone"

    with server(granting(behave)) as address:
        client = make_client([address])
        try:
            client.start(60)
            asked = client.get_async("/a")
            with pytest.raises(ConnectionLoss):
                asked.get(timeout=60)
            assert sent.wait(60)
            assert was_too_long(client)
        finally:
            end_client(client)


def test_a_message_of_the_most_bytes_is_read() -> None:
    def behave(connection: socket.socket) -> None:
        xid = received(connection)[:4]
        size = LONGEST_FRAME - 16 - 4 - 68
        data = struct.pack(">i", size) + bytes(size)
        connection.sendall(framed(xid + struct.pack(">qi", 1, 0) + data + bytes(68)))
        received(connection)

    with server(granting(behave)) as address:
        client = make_client([address])
        try:
            client.start(60)
            data, _ = client.get_async("/a").get(timeout=60)
            assert len(data) == LONGEST_FRAME - 16 - 4 - 68
            assert not was_too_long(client)
        finally:
            end_client(client)
