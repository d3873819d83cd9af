from __future__ import annotations

from ytf.web.unauthenticated import UnauthenticatedConnections


class Fake:
    def __init__(self) -> None:
        self.aborted = False

    def abort(self) -> None:
        self.aborted = True


def test_the_oldest_goes_when_there_are_too_many() -> None:
    unauthenticated = UnauthenticatedConnections(3, 100)
    connections = [Fake() for _ in range(5)]
    for connection in connections:
        unauthenticated.add(connection)
    assert [c.aborted for c in connections] == [True, True, False, False, False]
    assert (len(unauthenticated), unauthenticated.shed) == (3, 2)


def test_the_oldest_goes_when_they_hold_too_much() -> None:
    unauthenticated = UnauthenticatedConnections(10, 100)
    connections = [Fake() for _ in range(3)]
    for connection in connections:
        unauthenticated.add(connection)
    unauthenticated.hold(connections[0], 60)
    unauthenticated.hold(connections[1], 30)
    unauthenticated.hold(connections[0], 50)
    assert unauthenticated.bytes == 80
    unauthenticated.hold(connections[2], 30)
    assert [c.aborted for c in connections] == [True, False, False]
    assert unauthenticated.bytes == 60


def test_who_is_authenticated_or_gone_does_not_count() -> None:
    unauthenticated = UnauthenticatedConnections(1, 100)
    first, second = Fake(), Fake()
    unauthenticated.add(first)
    unauthenticated.hold(first, 90)
    unauthenticated.discard(first)
    unauthenticated.discard(first)
    unauthenticated.hold(first, 1000)
    unauthenticated.add(second)
    assert not first.aborted
    assert (len(unauthenticated), unauthenticated.bytes) == (1, 0)
    assert unauthenticated.close_oldest()
    assert not unauthenticated.close_oldest()
