from __future__ import annotations

import socket

from ytf.starter.address import join, own_address


def test_towards_a_local_master_it_is_local() -> None:
    assert own_address("http://127.0.0.1:1234") == "127.0.0.1"


def test_without_a_way_to_the_master_it_is_the_nodes_name() -> None:
    assert own_address("http://no-such-host.invalid:1") == socket.gethostname()


def test_ipv6_addresses_are_bracketed() -> None:
    assert join("node", 1) == "node:1"
    assert join("::1", 2) == "[::1]:2"
