"""Changes the role of a daemon of a highly available pair (``HAServiceProtocol``)."""

from __future__ import annotations

from ytf.hadoop.conf import Address
from ytf.hadoop.proto import ha_pb2 as pb
from ytf.hadoop.rpc.client import RpcClient
from ytf.hadoop.rpc.connection import Method, RpcSettings
from ytf.hadoop.security.login import Login

PROTOCOL = "org.apache.hadoop.ha.HAServiceProtocol"

_TO_ACTIVE = Method("transitionToActive", pb.TransitionRequest, pb.TransitionResponse, True)
_TO_STANDBY = Method("transitionToStandby", pb.TransitionRequest, pb.TransitionResponse, True)
_BY_USER = 0


async def transition(
    address: Address, login: Login, *, active: bool, settings: RpcSettings | None = None
) -> None:
    """Make a daemon active or standby. Idempotent. For pairs without automatic failover."""
    method = _TO_ACTIVE if active else _TO_STANDBY
    async with RpcClient([address], PROTOCOL, login, settings=settings) as rpc:
        await rpc.call(method, pb.TransitionRequest(change=pb.StateChange(source=_BY_USER)))
