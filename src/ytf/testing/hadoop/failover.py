"""Which of two NameNodes serves, and making the other one do so.

HDFS can see to it by itself, with one more process beside each NameNode. Here
whoever runs the cluster does, as where an administrator has switched that off.
"""

from __future__ import annotations

import asyncio
import getpass

from ytf.errors import YtfError
from ytf.hadoop.address import Address
from ytf.hadoop.rpc.settings import RpcSettings
from ytf.hadoop.security.login import Login
from ytf.hadoop.yarn.ha import transition
from ytf.testing.hadoop.daemons import NAME_NODE, Daemon
from ytf.testing.hadoop.errors import ClusterError
from ytf.testing.hadoop.fleet import ACTIVE, STANDBY, Fleet
from ytf.testing.hadoop.ports import HOST

# It has to read what the other one wrote.
_PROMOTING = RpcSettings(call_timeout_s=60.0)
_DEMOTING = RpcSettings(connect_timeout_s=5.0, call_timeout_s=10.0)


def ensure_active(fleet: Fleet, name: str, timeout_s: float) -> None:
    """Return when one of two NameNodes is active: this one, unless another is."""
    daemon = fleet.daemon(name)
    fleet.wait(lambda: fleet.role(daemon) is not None, f"{name} to stand by", timeout_s)
    if fleet.active(NAME_NODE) is None:
        _promote(fleet, daemon)


def fail_over(fleet: Fleet) -> None:
    """Make the NameNode that stands by the active one, and the active one a standby.

    One that does not answer is killed, so that it cannot go on as if it were
    active: the directory that both write to does not keep it from that. Raises
    ``ClusterError`` if nobody can take over.
    """
    roles = {each.name: fleet.role(each) for each in fleet.of_kind(NAME_NODE)}
    if len(roles) < 2:
        raise ClusterError(
            "this cluster has but one NameNode", hint="two are made by: ytf cluster up --ha"
        )
    heir = next((name for name, role in roles.items() if role == STANDBY), None)
    if heir is None:
        dead = next((name for name, role in roles.items() if role != ACTIVE), "nn2")
        raise ClusterError(
            "no NameNode stands by to take over", hint=f"start it: ytf cluster restart {dead}"
        )
    for name, role in roles.items():
        if role != STANDBY and fleet.pid(name) is not None:
            _demote(fleet, fleet.daemon(name))
    _promote(fleet, fleet.daemon(heir))


def _promote(fleet: Fleet, name_node: Daemon) -> None:
    try:
        _transition(name_node, _PROMOTING, active=True)
    except YtfError as error:
        raise fleet.failure(name_node.name, f"did not become active ({error})") from error


def _demote(fleet: Fleet, name_node: Daemon) -> None:
    try:
        _transition(name_node, _DEMOTING, active=False)
    except YtfError:
        fleet.kill(name_node.name)


def _transition(name_node: Daemon, settings: RpcSettings, *, active: bool) -> None:
    address = Address(HOST, name_node.ports["rpc"])
    # Whoever runs the cluster is HDFS's superuser.
    login = Login(user=getpass.getuser())
    asyncio.run(transition(address, login, active=active, settings=settings))
