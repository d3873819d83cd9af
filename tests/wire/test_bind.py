from __future__ import annotations

import socket
from collections.abc import Callable

import pytest

from ytf.wire import bind
from ytf.wire.bind import NoFreePortError, addresses, interface_of, listen, port_numbers

HERE = ("127.0.0.1", 1)
ELSEWHERE = ("192.0.2.77", 1)


@pytest.fixture
def resolve(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Sets what the name ``node7`` resolves to, and this machine's address towards the peer."""

    def answers(*found: str, own: str | None) -> None:
        monkeypatch.setattr(bind, "_resolve", lambda name: list(found))
        monkeypatch.setattr(bind, "address_towards", lambda peer: own)

    return answers


def test_a_listener_is_reached_at_its_address_only() -> None:
    with listen("127.0.0.1", HERE) as sock:
        port = sock.getsockname()[1]
        with socket.create_connection(("127.0.0.1", port), 5):
            sock.accept()[0].close()
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(("127.0.0.2", port), 5)


def test_a_name_is_one_address_too() -> None:
    with listen("localhost", HERE) as sock:
        assert sock.getsockname()[0] == "127.0.0.1"


def test_an_address_that_is_not_ours_is_refused() -> None:
    with pytest.raises(OSError, match="assign"):
        listen("192.0.2.1", HERE)


def test_a_loopback_address_of_the_name_is_of_no_use_to_other_machines(
    resolve: Callable[..., None],
) -> None:
    resolve("127.0.1.1", own="10.0.0.5")
    assert addresses("node7", ELSEWHERE) == ["10.0.0.5"]
    resolve("127.0.1.1", "10.1.0.5", own="10.0.0.5")
    assert addresses("node7", ELSEWHERE) == ["10.1.0.5", "10.0.0.5"]


def test_a_loopback_address_serves_a_cluster_on_one_machine(resolve: Callable[..., None]) -> None:
    resolve("127.0.1.1", own="127.0.0.1")
    assert addresses("node7", HERE) == ["127.0.1.1", "127.0.0.1"]


def test_the_address_towards_the_peer_stands_in_for_one_that_is_not_ours(
    resolve: Callable[..., None], capfd: pytest.CaptureFixture[str]
) -> None:
    resolve("192.0.2.1", own="127.0.0.2")
    with listen("node7", ELSEWHERE) as sock:
        assert sock.getsockname()[0] == "127.0.0.2"
    assert (
        "node7 has the address 192.0.2.1, which is not one of this node" in capfd.readouterr().err
    )


def test_all_addresses_are_the_last_resort_and_it_says_so(
    resolve: Callable[..., None], capfd: pytest.CaptureFixture[str]
) -> None:
    resolve(own=None)
    with listen("node7", ELSEWHERE) as sock:
        assert sock.getsockname()[0] == "0.0.0.0"
    assert "listening on ALL addresses of this node" in capfd.readouterr().err


def test_a_range_is_used_to_its_end(free_range: tuple[int, int]) -> None:
    first, last = free_range
    taken = [listen("127.0.0.1", HERE, free_range) for _ in range(last - first + 1)]
    try:
        assert {sock.getsockname()[1] for sock in taken} == set(range(first, last + 1))
        with pytest.raises(NoFreePortError) as caught:
            listen("127.0.0.1", HERE, free_range)
        text = f"all ports of control_ports ({first}-{last}) are taken on {socket.gethostname()}"
        assert text in str(caught.value)
    finally:
        for sock in taken:
            sock.close()


def test_connections_of_a_dead_process_do_not_take_its_port(free_range: tuple[int, int]) -> None:
    one = (free_range[0], free_range[0])
    with listen("127.0.0.1", HERE, one) as sock, socket.create_connection(sock.getsockname(), 5):
        # The side that closes first keeps the port in TIME_WAIT.
        sock.accept()[0].close()
    listen("127.0.0.1", HERE, one).close()


def test_each_number_of_a_range_comes_once() -> None:
    assert sorted(port_numbers((7, 11))) == [7, 8, 9, 10, 11]


def test_an_address_belongs_to_an_interface() -> None:
    assert interface_of("127.0.0.1") == "lo"
    assert interface_of("192.0.2.1") is None
    assert interface_of("2001:db8::1") is None
    assert interface_of("no address") is None


def test_an_ipv6_address_belongs_to_an_interface() -> None:
    if not socket.has_ipv6 or not _has_ipv6_loopback():
        assert interface_of("::1") is None
    else:
        assert interface_of("::1") == "lo"


def _has_ipv6_loopback() -> bool:
    with socket.socket(socket.AF_INET6) as sock:
        try:
            sock.bind(("::1", 0))
        except OSError:
            return False
    return True
