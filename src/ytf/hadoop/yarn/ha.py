"""Which ResourceManager of a pair is the active one (``HAServiceProtocol``)."""

from __future__ import annotations

from ytf.hadoop.address import Address
from ytf.hadoop.proto import ha_pb2 as pb
from ytf.hadoop.proto.wire import text
from ytf.hadoop.rpc.failover import Service
from ytf.hadoop.rpc.method import Method
from ytf.hadoop.rpc.settings import RpcSettings
from ytf.hadoop.security.login import Login
from ytf.hadoop.yarn.records import ServiceState, ServiceStatus

PROTOCOL = "org.apache.hadoop.ha.HAServiceProtocol"

_STATUS = Method("getServiceStatus", pb.ServiceStatusRequest, pb.ServiceStatusResponse, True)
_TO_ACTIVE = Method("transitionToActive", pb.TransitionRequest, pb.TransitionResponse, True)
_TO_STANDBY = Method("transitionToStandby", pb.TransitionRequest, pb.TransitionResponse, True)
_BY_USER = 0


async def service_status(
    address: Address, login: Login, settings: RpcSettings | None = None
) -> ServiceStatus:
    """What the daemon at an admin address is; raises as every call does."""
    async with Service([address], PROTOCOL, login, settings=settings) as service:
        answer = await service.call(_STATUS, pb.ServiceStatusRequest())
    return ServiceStatus(
        state=ServiceState(answer.state), ready=answer.ready, reason=text(answer.not_ready_reason)
    )


async def transition(
    address: Address, login: Login, *, active: bool, settings: RpcSettings | None = None
) -> None:
    """Make a daemon the active one, or a standby. Idempotent. For pairs without ZooKeeper."""
    method = _TO_ACTIVE if active else _TO_STANDBY
    async with Service([address], PROTOCOL, login, settings=settings) as service:
        await service.call(method, pb.TransitionRequest(change=pb.StateChange(source=_BY_USER)))
