"""How long a caller waits, how often it tries, and how much it takes."""

from __future__ import annotations

import msgspec

from ytf.hadoop.conf import Configuration
from ytf.hadoop.rpc.frames import MAX_RESPONSE_BYTES


class RpcSettings(msgspec.Struct, frozen=True, kw_only=True):
    """What of a cluster's ``ipc.*`` settings a connection keeps to."""

    connect_timeout_s: float = 20.0
    """For a connection and its negotiation (``ipc.client.connect.timeout``)."""
    call_timeout_s: float = 120.0
    """From a call to its answer (``ipc.client.rpc-timeout.ms``)."""
    ping_interval_s: float = 60.0
    """Between signs of life while an answer is awaited (``ipc.ping.interval``)."""
    max_response_bytes: int = MAX_RESPONSE_BYTES
    """Longer answers end the connection (``ipc.maximum.response.length``)."""
    caller: str = "ytf"
    """Named in the server's audit log as the context of every call."""


class Patience(msgspec.Struct, frozen=True, kw_only=True):
    """How long to go on when no address answers.

    Each is tried once in any case; after that, rounds begin anew with a pause
    between them until ``total_s`` have passed since the call was made.
    """

    total_s: float = 0.0
    pause_s: float = 1.0


def rpc_settings(conf: Configuration, *, caller: str = "ytf") -> RpcSettings:
    """The cluster's own limits and timeouts."""
    timeout_s = conf.get_seconds("ipc.client.rpc-timeout.ms")
    return RpcSettings(
        connect_timeout_s=conf.get_seconds("ipc.client.connect.timeout"),
        # 0 means "forever" to Hadoop; nothing of ours waits that long.
        call_timeout_s=timeout_s if timeout_s > 0 else RpcSettings().call_timeout_s,
        ping_interval_s=max(1.0, conf.get_seconds("ipc.ping.interval")),
        max_response_bytes=conf.get_bytes("ipc.maximum.response.length"),
        caller=caller,
    )


def master_patience(conf: Configuration) -> Patience:
    """How long a master looks for a ResourceManager before it gives up."""
    return Patience(
        total_s=conf.get_seconds("yarn.resourcemanager.connect.max-wait.ms"),
        pause_s=conf.get_seconds("yarn.client.failover-sleep-base-ms"),
    )
