"""Questions to the daemons, most by their own HTTP, and what their answers mean."""

from __future__ import annotations

import http.client
import json
import socket
from typing import Any
from urllib.parse import urlencode

from ytf.testing.hadoop.daemons import NAME_NODE, Daemon
from ytf.testing.hadoop.ports import HOST

# A first request may load a thousand classes on a busy machine.
_TIMEOUT_S = 30.0
# Whoever wants to know a role has to cope with a daemon that hangs.
_SOON_S = 10.0
UNREACHABLE = (OSError, http.client.HTTPException)
"""What a daemon that is not there yet, or no more, answers."""


def get_json(daemon: Daemon, path: str, timeout_s: float = _TIMEOUT_S) -> Any:
    """The JSON document at a path of a daemon's web address.

    Raises one of ``UNREACHABLE`` if there is none; any status but 2xx is an ``OSError``.
    """
    return request(daemon, "GET", path, timeout_s=timeout_s)


def request(
    daemon: Daemon,
    method: str,
    path: str,
    body: object = None,
    timeout_s: float = _TIMEOUT_S,
) -> Any:
    """Send a request, with a JSON body if there is one; the decoded answer, None if empty."""
    connection = http.client.HTTPConnection(HOST, daemon.ports["web"], timeout=timeout_s)
    headers = {"Accept": "application/json"}
    encoded = None
    if body is not None:
        encoded = json.dumps(body).encode()
        headers["Content-Type"] = "application/json"
    try:
        connection.request(method, path, encoded, headers)
        answer = connection.getresponse()
        data = answer.read()
    finally:
        connection.close()
    if not 200 <= answer.status < 300:
        raise OSError(
            f"{daemon.kind.title} {daemon.name} answered {answer.status} to {method} {path}: "
            f"{data.decode(errors='replace')[:1000]}"
        )
    # A standby or a page in place of JSON is "not yet" to whoever asks.
    try:
        return json.loads(data) if data.startswith((b"{", b"[")) else None
    except json.JSONDecodeError as exc:
        raise OSError(f"{daemon.name} did not answer {path} with JSON: {exc}") from exc


def running_nodes(rm: Daemon) -> dict[str, float]:
    """The nodes that the ResourceManager has as RUNNING: id (``localhost:1234``) → health's time.

    The time, in seconds, is when the NodeManager itself last looked at its
    health. A killed one is RUNNING until it expires; one that has come back
    has a time after its start.
    """
    answer = get_json(rm, "/ws/v1/cluster/nodes?states=RUNNING")
    nodes = ((answer or {}).get("nodes") or {}).get("node") or []
    # A list of one is an object in this REST.
    listed = nodes if isinstance(nodes, list) else [nodes]
    # For a moment a node is RUNNING and has nothing: the scheduler has not heard of it.
    return {
        node["id"]: node["lastHealthUpdate"] / 1000
        for node in listed
        if node["availMemoryMB"] + node["usedMemoryMB"] > 0
    }


def role(daemon: Daemon) -> str:
    """What a ResourceManager or a NameNode says it is: ``ACTIVE``, ``STANDBY``, not yet either.

    One that is not of a pair is active.
    """
    if daemon.kind is NAME_NODE:
        return str(_bean(daemon, "NameNode", "NameNodeStatus", _SOON_S)["State"]).upper()
    answer = get_json(daemon, "/ws/v1/cluster/info", _SOON_S) or {"clusterInfo": {"haState": ""}}
    return str(answer["clusterInfo"]["haState"])


def hdfs_is_writable(name_node: Daemon) -> bool:
    """Whether a DataNode is live and the NameNode out of safe mode."""
    state = _bean(name_node, "NameNode", "FSNamesystemState")
    if int(state["NumLiveDataNodes"]) < 1:
        return False
    return not _bean(name_node, "NameNode", "NameNodeInfo")["Safemode"]


def registrations(data_node: Daemon) -> set[int]:
    """The ports of the NameNodes that know a DataNode, as it says itself."""
    # The attribute is missing while the DataNode has nobody to talk to yet.
    told = _bean(data_node, "DataNode", "DataNodeInfo").get("BPServiceActorInfo")
    actors = json.loads(told) if told else []
    return {
        int(actor["NamenodeAddress"].rpartition(":")[2])
        for actor in actors
        if actor["ActorState"] == "RUNNING"
    }


def _bean(daemon: Daemon, service: str, name: str, timeout_s: float = _TIMEOUT_S) -> dict[str, Any]:
    query = f"/jmx?qry=Hadoop:service={service},name={name}"
    beans = get_json(daemon, query, timeout_s)["beans"]
    if not beans:
        raise OSError(f"{daemon.name} has no {name} yet")
    found: dict[str, Any] = beans[0]
    return found


def make_directory(name_node: Daemon, path: str, user: str, permission: str) -> None:
    """Make a directory in HDFS, as its superuser, and give it to a user."""
    as_user = {"user.name": user}
    made = urlencode({"op": "MKDIRS", "permission": permission, **as_user})
    request(name_node, "PUT", f"/webhdfs/v1{path}?{made}")


def accepts(daemon: Daemon, port_name: str) -> bool:
    """True if a daemon takes a connection at one of its ports, else raises an ``OSError``."""
    with socket.create_connection((HOST, daemon.ports[port_name]), _SOON_S):
        return True


def zookeeper_serves(zookeeper: Daemon) -> bool:
    """Whether a ZooKeeper answers."""
    with socket.create_connection((HOST, zookeeper.ports["client"]), _TIMEOUT_S) as connection:
        connection.sendall(b"srvr")
        return b"Mode:" in connection.recv(4096)
