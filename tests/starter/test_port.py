from __future__ import annotations

import socket
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from ytf.starter.port import TaskPort
from ytf.wire.bind import NoFreePortError


@pytest.fixture
def take() -> Iterator[Callable[[str], TaskPort]]:
    ports: list[TaskPort] = []

    def make(policy: str) -> TaskPort:
        port = TaskPort(policy)
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
def test_a_held_port_is_the_programs_alone(family: int, take: Callable[[str], TaskPort]) -> None:
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


def test_a_held_port_survives_the_attempt(take: Callable[[str], TaskPort]) -> None:
    port = take("hold")
    port.before_program()
    number = port.number
    assert port.take() == number


def test_two_starters_never_hold_the_same_port(take: Callable[[str], TaskPort]) -> None:
    numbers = [take("hold").number for _ in range(50)]
    assert len(set(numbers)) == 50


def test_a_released_port_is_free_for_any_program(take: Callable[[str], TaskPort]) -> None:
    port = take("release")
    assert port.number
    with pytest.raises(OSError, match="in use"):
        bind(port.number, socket.SO_REUSEPORT)
    port.before_program()
    bind(port.number).close()


def test_a_released_port_is_taken_again(take: Callable[[str], TaskPort]) -> None:
    port = take("release")
    port.before_program()
    number = port.number
    assert port.take() == number


def test_a_stolen_port_is_replaced(take: Callable[[str], TaskPort]) -> None:
    port = take("release")
    port.before_program()
    number = port.number
    assert number
    with bind(number):
        assert port.take() not in (number, None)


def test_ports_lie_where_no_outgoing_connection_takes_them(take: Callable[[str], TaskPort]) -> None:
    first = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    if first < 16000:
        pytest.skip("this machine leaves no room below its ephemeral ports")
    assert all(15000 <= (take("release").number or 0) < first for _ in range(20))


def test_none_is_none(take: Callable[[str], TaskPort]) -> None:
    assert take("none").number is None


def test_a_port_of_a_range_is_taken_and_kept(free_range: tuple[int, int]) -> None:
    port = TaskPort("hold", free_range)
    number = port.take()
    assert number is not None
    assert free_range[0] <= number <= free_range[1]
    assert port.take() == number
    port.close()


def test_every_port_of_a_range_is_used_before_it_is_full(free_range: tuple[int, int]) -> None:
    first, last = free_range
    ports = [TaskPort("release", free_range) for _ in range(last - first + 1)]
    try:
        assert sorted(port.take() or 0 for port in ports) == list(range(first, last + 1))
        with pytest.raises(NoFreePortError) as caught:
            TaskPort("release", free_range).take()
        text = str(caught.value)
        assert (
            f"all ports of task_ports ({first}-{last}) are taken on {socket.gethostname()}" in text
        )
    finally:
        for port in ports:
            port.close()
