from __future__ import annotations

import socket
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from ytf.starter.port import Port, listen


@pytest.fixture
def take() -> Iterator[Callable[[str], Port]]:
    ports: list[Port] = []

    def make(policy: str) -> Port:
        port = Port(policy)
        port.take()
        ports.append(port)
        return port

    yield make
    for port in ports:
        port.close()


def bind(number: int, *options: int, family: int = socket.AF_INET) -> socket.socket:
    sock = socket.socket(family)
    try:
        for option in options:
            sock.setsockopt(socket.SOL_SOCKET, option, 1)
        sock.bind(("::" if family == socket.AF_INET6 else "0.0.0.0", number))
        sock.listen()
    except OSError:
        sock.close()
        raise
    return sock


@pytest.mark.parametrize("family", [socket.AF_INET, socket.AF_INET6])
def test_a_held_port_is_the_programs_alone(family: int, take: Callable[[str], Port]) -> None:
    port = take("hold")
    port.before_program()
    assert port.number
    with pytest.raises(OSError, match="in use"):
        bind(port.number, socket.SO_REUSEADDR)
    with bind(port.number, socket.SO_REUSEPORT, family=family) as program:
        program.settimeout(5)
        # Every connection comes to the program, none to the holder.
        for _ in range(20):
            with socket.create_connection(("127.0.0.1", port.number), 5):
                program.accept()[0].close()


def test_a_held_port_survives_the_attempt(take: Callable[[str], Port]) -> None:
    port = take("hold")
    port.before_program()
    number = port.number
    assert port.take() == number


def test_two_starters_never_hold_the_same_port(take: Callable[[str], Port]) -> None:
    numbers = [take("hold").number for _ in range(50)]
    assert len(set(numbers)) == 50


def test_a_released_port_is_free_for_any_program(take: Callable[[str], Port]) -> None:
    port = take("release")
    assert port.number
    with pytest.raises(OSError, match="in use"):
        bind(port.number, socket.SO_REUSEPORT)
    port.before_program()
    bind(port.number).close()


def test_a_released_port_is_taken_again(take: Callable[[str], Port]) -> None:
    port = take("release")
    port.before_program()
    number = port.number
    assert port.take() == number


def test_a_stolen_port_is_replaced(take: Callable[[str], Port]) -> None:
    port = take("release")
    port.before_program()
    number = port.number
    assert number
    with bind(number):
        assert port.take() not in (number, None)


def test_ports_lie_where_no_outgoing_connection_takes_them(take: Callable[[str], Port]) -> None:
    first = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    if first < 16000:
        pytest.skip("this machine leaves no room below its ephemeral ports")
    assert all(15000 <= (take("release").number or 0) < first for _ in range(20))


def test_none_is_none(take: Callable[[str], Port]) -> None:
    assert take("none").number is None


@pytest.mark.parametrize("host", [None, "127.0.0.1", "a-name-nobody-knows.invalid"])
def test_a_listener_is_reached_over_ipv4(host: str | None) -> None:
    with listen(host) as sock, socket.create_connection(("127.0.0.1", sock.getsockname()[1]), 5):
        sock.accept()[0].close()


def test_a_listener_of_one_address_is_not_reached_at_another() -> None:
    with (
        listen("127.0.0.1") as sock,
        pytest.raises(ConnectionRefusedError),
        socket.create_connection(("127.0.0.2", sock.getsockname()[1]), 5),
    ):
        pass


def test_an_address_that_is_not_ours_is_refused() -> None:
    with pytest.raises(OSError, match="assign"):
        listen("192.0.2.1")
