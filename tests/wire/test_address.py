from __future__ import annotations

import socket

import pytest

from ytf.wire.address import join_address, own_address, split_address


def test_towards_a_local_master_it_is_local() -> None:
    assert own_address("http://127.0.0.1:1234") == "127.0.0.1"


def test_without_a_way_to_the_master_it_is_the_nodes_name() -> None:
    assert own_address("http://no-such-host.invalid:1") == socket.gethostname()


def test_ipv6_addresses_are_bracketed() -> None:
    assert join_address("node", 1) == "node:1"
    assert join_address("::1", 2) == "[::1]:2"


def test_an_address_is_split_into_what_it_was_joined_from() -> None:
    assert split_address("node:1") == ("node", 1)
    assert split_address("[::1]:2") == ("::1", 2)
    for wrong in ("node", "node:", ":1", "node:x", "node:70000"):
        with pytest.raises(ValueError, match="not of the form"):
            split_address(wrong)
