"""NameNode failover by the roles of the NameNodes. Needs no JVM."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.hadoop.rpc.server import JavaError, Received, RpcServer
from ytf.errors import UnreachableError
from ytf.hadoop.conf import Address
from ytf.hadoop.proto import ha_pb2
from ytf.hadoop.security.login import Login
from ytf.minicluster import ClusterError, ClusterOptions, admin
from ytf.minicluster.daemons import Daemon
from ytf.minicluster.directory import ClusterDirectory, ClusterRecord
from ytf.minicluster.supervisor import ACTIVE, STANDBY, DaemonSupervisor


class Pair(DaemonSupervisor):
    """Two NameNodes that are as told; ``hung`` ones run and say nothing."""

    def __init__(self, place: Path, options: ClusterOptions) -> None:
        self.running = dict.fromkeys(ClusterRecord.new(options).daemons, 1)
        super().__init__(ClusterDirectory(place), ClusterRecord.new(options))
        self.roles: dict[str, str] = {}
        self.told: list[str] = []

    def pid(self, name: str) -> int | None:
        return self.running.get(name)

    def role(self, daemon: Daemon) -> str | None:
        return self.roles.get(daemon.name)

    def kill(self, name: str, number: int = 9) -> None:
        self.told.append(f"kill {name}")

    async def transition(self, address: Address, *_: object, active: bool, **__: object) -> None:
        [name] = [n for n, d in self.record.daemons.items() if address.port in d.ports.values()]
        if name not in self.roles:
            raise UnreachableError(f"{name} does not answer")
        self.told.append(f"{name} {ACTIVE if active else STANDBY}")


@pytest.fixture
def pair(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Pair:
    pair = Pair(tmp_path, ClusterOptions(ha=True))
    monkeypatch.setattr(admin, "transition", pair.transition)
    return pair


@pytest.mark.parametrize(
    ("roles", "told"),
    [
        ({"nn": ACTIVE, "nn2": STANDBY}, ["nn STANDBY", "nn2 ACTIVE"]),
        ({"nn": STANDBY, "nn2": ACTIVE}, ["nn2 STANDBY", "nn ACTIVE"]),
        ({"nn": STANDBY, "nn2": STANDBY}, ["nn ACTIVE"]),
    ],
)
def test_the_one_that_stands_by_takes_over(
    pair: Pair, roles: dict[str, str], told: list[str]
) -> None:
    pair.roles = roles
    admin.fail_over(pair)
    assert pair.told == told


def test_a_dead_one_is_left_alone_and_a_hung_one_killed(pair: Pair) -> None:
    pair.roles = {"nn2": STANDBY}
    admin.fail_over(pair)
    assert pair.told == ["kill nn", "nn2 ACTIVE"]
    pair.told.clear()
    del pair.running["nn"]
    admin.fail_over(pair)
    assert pair.told == ["nn2 ACTIVE"]


def test_nobody_to_take_over(pair: Pair, tmp_path: Path) -> None:
    pair.roles = {"nn": ACTIVE}
    with pytest.raises(ClusterError, match="no standby NameNode") as caught:
        admin.fail_over(pair)
    assert caught.value.hint == "start it: ytf cluster restart nn2"
    assert pair.told == []
    with pytest.raises(ClusterError, match="only one NameNode"):
        admin.fail_over(Pair(tmp_path, ClusterOptions()))


def test_one_is_active_but_never_two(pair: Pair) -> None:
    pair.roles = {"nn": STANDBY, "nn2": ACTIVE}
    admin.ensure_active(pair, "nn", 1.0)
    assert pair.told == []
    pair.roles = {"nn": STANDBY}
    admin.ensure_active(pair, "nn", 1.0)
    assert pair.told == ["nn ACTIVE"]
    with pytest.raises(ClusterError, match="in vain for nn2 to stand by"):
        admin.ensure_active(pair, "nn2", 0.0)


@pytest.mark.parametrize(
    ("active", "method"), [(True, "transitionToActive"), (False, "transitionToStandby")]
)
async def test_a_daemon_changes_its_role(active: bool, method: str) -> None:
    async def answer(received: Received) -> ha_pb2.TransitionResponse:
        return ha_pb2.TransitionResponse()

    async with RpcServer({method: answer}) as server:
        await admin.transition(server.address, Login(user="alice"), active=active)
    assert [each.method.method for each in server.received] == [method]


async def test_a_namenode_that_does_not_take_calls_yet_is_asked_again() -> None:
    refusals = [JavaError("org.apache.hadoop.ipc.RetriableException", "NameNode still not started")]

    async def answer(received: Received) -> ha_pb2.TransitionResponse:
        if refusals:
            raise refusals.pop()
        return ha_pb2.TransitionResponse()

    async with RpcServer({"transitionToActive": answer}) as server:
        await admin.transition(server.address, Login(user="alice"), active=True)
    assert len(server.received) == 2
