"""Requests to the daemons' web servers and ports, to see whether they are ready."""

from __future__ import annotations

import http.client
import json
import socket
from typing import Any
from urllib.parse import urlencode

from ytf.minicluster.daemons import HOST, NAME_NODE, Daemon

# A first request may load a thousand classes on a busy machine.
_TIMEOUT_S = 30.0
# For requests that must cope with a daemon that hangs.
_SHORT_TIMEOUT_S = 10.0
UNREACHABLE = (OSError, http.client.HTTPException)
"""What a request raises if the daemon does not run or is not ready."""


def get_json(daemon: Daemon, path: str, timeout_s: float = _TIMEOUT_S) -> Any:
    """The JSON document at a path of a daemon's web server.

    Raises one of ``UNREACHABLE`` if there is none. A status other than 2xx is an ``OSError``.
    """
    return request(daemon, "GET", path, timeout_s=timeout_s)


def request(
    daemon: Daemon,
    method: str,
    path: str,
    body: object = None,
    timeout_s: float = _TIMEOUT_S,
) -> Any:
    """Send a request, with a JSON body if there is one; return the decoded JSON answer.

    Returns None if the answer is empty or not JSON.
    """
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
    # A standby answers with a page instead of JSON. To our callers that means "not yet".
    try:
        return json.loads(data) if data.startswith((b"{", b"[")) else None
    except json.JSONDecodeError as exc:
        raise OSError(f"{daemon.name} did not answer {path} with JSON: {exc}") from exc


def running_nodes(rm: Daemon) -> dict[str, float]:
    """The nodes in state RUNNING: id (``localhost:1234``) → time of the last health report.

    The time is in seconds and set by the NodeManager itself. A killed
    NodeManager is RUNNING until it expires. One that was restarted and has
    registered again has a time after its start.
    """
    answer = get_json(rm, "/ws/v1/cluster/nodes?states=RUNNING")
    nodes = ((answer or {}).get("nodes") or {}).get("node") or []
    # This REST API writes a list of one as an object.
    listed = nodes if isinstance(nodes, list) else [nodes]
    # A node may be RUNNING without resources for a moment: the scheduler does not know it yet.
    return {
        node["id"]: node["lastHealthUpdate"] / 1000
        for node in listed
        if node["availMemoryMB"] + node["usedMemoryMB"] > 0
    }


def role(daemon: Daemon) -> str:
    """The HA state of a ResourceManager or NameNode: ``ACTIVE``, ``STANDBY`` or an earlier state.

    One without a partner is ``ACTIVE``.
    """
    if daemon.kind is NAME_NODE:
        return str(_bean(daemon, "NameNode", "NameNodeStatus", _SHORT_TIMEOUT_S)["State"]).upper()
    answer = get_json(daemon, "/ws/v1/cluster/info", _SHORT_TIMEOUT_S) or {
        "clusterInfo": {"haState": ""}
    }
    return str(answer["clusterInfo"]["haState"])


def hdfs_is_writable(name_node: Daemon) -> bool:
    """Whether a DataNode is live and the NameNode has left safe mode."""
    state = _bean(name_node, "NameNode", "FSNamesystemState")
    if int(state["NumLiveDataNodes"]) < 1:
        return False
    return not _bean(name_node, "NameNode", "NameNodeInfo")["Safemode"]


def registrations(data_node: Daemon) -> set[int]:
    """The RPC ports of the NameNodes with which a DataNode has registered."""
    # The attribute is missing until the DataNode has found a NameNode.
    info = _bean(data_node, "DataNode", "DataNodeInfo").get("BPServiceActorInfo")
    actors = json.loads(info) if info else []
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
    """Make a directory in HDFS that belongs to a user."""
    as_user = {"user.name": user}
    made = urlencode({"op": "MKDIRS", "permission": permission, **as_user})
    request(name_node, "PUT", f"/webhdfs/v1{path}?{made}")


def accepts(daemon: Daemon, port_name: str) -> bool:
    """True if a daemon accepts a connection at one of its ports, else raises ``OSError``."""
    with socket.create_connection((HOST, daemon.ports[port_name]), _SHORT_TIMEOUT_S):
        return True


def zookeeper_serves(zookeeper: Daemon) -> bool:
    """Whether a ZooKeeper answers."""
    with socket.create_connection((HOST, zookeeper.ports["client"]), _TIMEOUT_S) as connection:
        connection.sendall(b"srvr")
        return b"Mode:" in connection.recv(4096)
