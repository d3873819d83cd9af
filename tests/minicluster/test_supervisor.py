"""When a daemon serves, by its role and its ports. Needs no JVM."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from ytf.minicluster import ClusterOptions, probes
from ytf.minicluster.daemons import HOST, Daemon
from ytf.minicluster.directory import ClusterDirectory, ClusterRecord
from ytf.minicluster.supervisor import DaemonSupervisor, is_true


class Daemons(DaemonSupervisor):
    """Daemons that all run, whose web servers say what ``states`` has for them."""

    def __init__(self, place: Path, monkeypatch: pytest.MonkeyPatch, held: ExitStack) -> None:
        super().__init__(ClusterDirectory(place), ClusterRecord.new(ClusterOptions(ha=True)))
        self.states: dict[str, str] = {}
        self._held = held
        monkeypatch.setattr(probes, "get_json", self._get_json)
        monkeypatch.setattr(probes, "hdfs_is_writable", lambda _: True)

    def pid(self, name: str) -> int | None:
        return 1

    def listen(self, name: str) -> None:
        """Let a daemon take its clients' calls."""
        listener = self._held.enter_context(socket.socket())
        listener.bind((HOST, self.daemon(name).ports["rpc"]))
        listener.listen()

    def does_serve(self, name: str) -> bool:
        return is_true(lambda: self.serves(name))

    def _get_json(self, daemon: Daemon, path: str, timeout_s: float = 0.0) -> object:
        if daemon.name not in self.states:
            raise ConnectionRefusedError
        state = self.states[daemon.name]
        return {"clusterInfo": {"haState": state}, "beans": [{"State": state.lower()}]}


@pytest.fixture
def daemons(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Daemons]:
    with ExitStack() as held:
        yield Daemons(tmp_path, monkeypatch, held)


def test_a_resource_manager_serves_when_clients_can_call_it(daemons: Daemons) -> None:
    assert not daemons.does_serve("rm")
    # Its web server comes first.
    daemons.states["rm"] = "INITIALIZING"
    assert not daemons.does_serve("rm")
    daemons.states["rm"] = "ACTIVE"
    assert not daemons.does_serve("rm")
    daemons.listen("rm")
    assert daemons.does_serve("rm")


def test_a_resource_manager_stands_by_once_the_other_one_is_active(daemons: Daemons) -> None:
    daemons.states = {"rm": "STANDBY", "rm2": "STANDBY"}
    assert not daemons.does_serve("rm")
    daemons.states["rm2"] = "ACTIVE"
    assert daemons.does_serve("rm")


@pytest.mark.parametrize("state", ["ACTIVE", "STANDBY"])
def test_a_name_node_serves_when_clients_can_call_it(state: str, daemons: Daemons) -> None:
    daemons.states["nn"] = state
    assert not daemons.does_serve("nn")
    daemons.listen("nn")
    assert daemons.does_serve("nn")
