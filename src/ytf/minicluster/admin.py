"""What an administrator does on a cluster: NameNode failover, HDFS directories, node labels.

HDFS can fail over by itself, with one more process beside each NameNode. Here
the user of the cluster does it, as on clusters without automatic failover.
"""

from __future__ import annotations

import asyncio
import getpass
from collections.abc import Sequence

from ytf.errors import YtfError
from ytf.hadoop.conf import Address
from ytf.hadoop.proto import ha_pb2 as pb
from ytf.hadoop.rpc.client import RetryPolicy, RpcClient
from ytf.hadoop.rpc.connection import Method, RpcSettings
from ytf.hadoop.security.login import Login
from ytf.minicluster import probes
from ytf.minicluster.daemons import HOST, NAME_NODE, Daemon
from ytf.minicluster.directory import ClusterRecord
from ytf.minicluster.supervisor import ACTIVE, STANDBY, ClusterError, DaemonSupervisor

_PROTOCOL = "org.apache.hadoop.ha.HAServiceProtocol"
_TO_ACTIVE = Method("transitionToActive", pb.TransitionRequest, pb.TransitionResponse, True)
_TO_STANDBY = Method("transitionToStandby", pb.TransitionRequest, pb.TransitionResponse, True)
_BY_USER = 0

# A NameNode that becomes active first reads what the other one wrote.
_PROMOTING = RpcSettings(call_timeout_s=60.0)
# It tells its role before it takes calls: on a busy machine, seconds before.
_STARTING = RetryPolicy(total_s=60.0, pause_s=0.2, silence_s=0.0)
_DEMOTING = RpcSettings(connect_timeout_s=5.0, call_timeout_s=10.0)


def ensure_active(supervisor: DaemonSupervisor, name: str, timeout_s: float) -> None:
    """Return when one of two NameNodes is active: ``name``, unless the other one is."""
    daemon = supervisor.daemon(name)
    supervisor.wait(lambda: supervisor.role(daemon) is not None, f"{name} to stand by", timeout_s)
    if supervisor.active(NAME_NODE) is None:
        _promote(supervisor, daemon)


def fail_over(supervisor: DaemonSupervisor) -> None:
    """Make the standby NameNode the active one, and the active one a standby.

    An active NameNode that does not answer is killed: the shared edits
    directory would not keep it from writing as if it were still active.
    Raises ``ClusterError`` if no NameNode can take over.
    """
    roles = {each.name: supervisor.role(each) for each in supervisor.of_kind(NAME_NODE)}
    if len(roles) < 2:
        raise ClusterError(
            "this cluster has only one NameNode", hint="two are made by: ytf cluster up --ha"
        )
    standby = next((name for name, role in roles.items() if role == STANDBY), None)
    if standby is None:
        dead = next((name for name, role in roles.items() if role != ACTIVE), "nn2")
        raise ClusterError(
            "no standby NameNode can take over", hint=f"start it: ytf cluster restart {dead}"
        )
    for name, role in roles.items():
        if role != STANDBY and supervisor.pid(name) is not None:
            _demote(supervisor, supervisor.daemon(name))
    _promote(supervisor, supervisor.daemon(standby))


def _promote(supervisor: DaemonSupervisor, name_node: Daemon) -> None:
    try:
        _transition(name_node, _PROMOTING, active=True)
    except YtfError as error:
        message = f"did not become active ({error})"
        raise supervisor.daemon_error(name_node.name, message) from error


def _demote(supervisor: DaemonSupervisor, name_node: Daemon) -> None:
    try:
        _transition(name_node, _DEMOTING, active=False)
    except YtfError:
        supervisor.kill(name_node.name)


def _transition(name_node: Daemon, settings: RpcSettings, *, active: bool) -> None:
    address = Address(HOST, name_node.ports["rpc"])
    # The user who started the cluster is HDFS's superuser.
    login = Login(user=getpass.getuser())
    asyncio.run(transition(address, login, active=active, settings=settings))


async def transition(
    address: Address, login: Login, *, active: bool, settings: RpcSettings | None = None
) -> None:
    """Make a daemon active or standby. Idempotent. For pairs without automatic failover."""
    method = _TO_ACTIVE if active else _TO_STANDBY
    retry_policy = _STARTING if active else None
    async with RpcClient(
        [address], _PROTOCOL, login, settings=settings, retry_policy=retry_policy
    ) as rpc:
        await rpc.call(method, pb.TransitionRequest(change=pb.StateChange(source=_BY_USER)))


def make_hdfs_directories(name_node: Daemon) -> None:
    """Make ``/tmp`` for all users, and the home directory of the user who runs the cluster."""
    user = getpass.getuser()
    for path, permission in (("/tmp", "1777"), ("/user", "755"), (f"/user/{user}", "700")):
        probes.make_directory(name_node, path, user, permission)


def assign_labels(record: ClusterRecord, rm: Daemon, running: Sequence[str]) -> None:
    """Add the cluster's node labels and assign each node its own."""
    labels = record.options.labels
    user = f"?user.name={getpass.getuser()}"
    known = [{"name": label, "exclusivity": True} for label in sorted(set(labels.values()))]
    probes.request(rm, "POST", f"/ws/v1/cluster/add-node-labels{user}", {"nodeLabelInfo": known})
    # By YARN's own id of the node: YARN accepts any other id too, and labels no node.
    ids = {int(node.rpartition(":")[2]): node for node in running}
    assigned = [
        {"nodeId": ids[record.ports[name]["rpc"]], "labels": [label]}
        for name, label in labels.items()
    ]
    probes.request(
        rm, "POST", f"/ws/v1/cluster/replace-node-to-labels{user}", {"nodeToLabels": assigned}
    )
