"""``ApplicationClient``: submits, kills and looks at applications, nodes and queues.

For clients of the ResourceManager. The protocol is ``ApplicationClientProtocol``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ytf.hadoop.conf import Address, Configuration, RmService, rm_addresses
from ytf.hadoop.proto import client_pb2 as pb
from ytf.hadoop.proto.messages import text
from ytf.hadoop.rpc.client import RetryPolicy, RpcClient, rpc_settings
from ytf.hadoop.rpc.connection import Method, RpcSettings
from ytf.hadoop.security.login import Login, current_user
from ytf.hadoop.yarn import decode
from ytf.hadoop.yarn.contexts import ApplicationSubmissionContext
from ytf.hadoop.yarn.ids import ApplicationId
from ytf.hadoop.yarn.records import (
    ApplicationReport,
    ApplicationState,
    AttemptReport,
    ClusterMetrics,
    NewApplication,
    NodeLabel,
    NodeReport,
    NodeState,
    QueueInfo,
    Resource,
    ResourceType,
)

if TYPE_CHECKING:
    from typing_extensions import Self

PROTOCOL = "org.apache.hadoop.yarn.api.ApplicationClientProtocolPB"

# All methods are repeatable. Submitting or killing the same application twice has the
# effect of once. The others only read, and an unused application id costs nothing.
_NEW = Method("getNewApplication", pb.GetNewApplicationRequest, pb.GetNewApplicationResponse, True)
_SUBMIT = Method(
    "submitApplication", pb.SubmitApplicationRequest, pb.SubmitApplicationResponse, True
)
_KILL = Method("forceKillApplication", pb.KillApplicationRequest, pb.KillApplicationResponse, True)
_REPORT = Method(
    "getApplicationReport", pb.GetApplicationReportRequest, pb.GetApplicationReportResponse, True
)
_LIST = Method("getApplications", pb.GetApplicationsRequest, pb.GetApplicationsResponse, True)
_ATTEMPTS = Method("getApplicationAttempts", pb.GetAttemptsRequest, pb.GetAttemptsResponse, True)
_NODES = Method("getClusterNodes", pb.GetClusterNodesRequest, pb.GetClusterNodesResponse, True)
_METRICS = Method(
    "getClusterMetrics", pb.GetClusterMetricsRequest, pb.GetClusterMetricsResponse, True
)
_QUEUE = Method("getQueueInfo", pb.GetQueueInfoRequest, pb.GetQueueInfoResponse, True)
_QUEUE_ACLS = Method("getQueueUserAcls", pb.GetQueueAclsRequest, pb.GetQueueAclsResponse, True)
_TYPES = Method(
    "getResourceTypeInfo", pb.GetResourceTypesRequest, pb.GetResourceTypesResponse, True
)
_LABELS = Method("getClusterNodeLabels", pb.GetNodeLabelsRequest, pb.GetNodeLabelsResponse, True)

_SUBMIT_OR_ADMINISTER = frozenset({1, 2})


class ApplicationClient:
    """A client of the active ResourceManager.

    Every method may raise ``UnreachableError``, ``OutcomeUnknownError`` and
    ``RefusedError`` (see :mod:`ytf.hadoop.rpc.errors`). Close it, or use it
    with ``async with``.
    """

    def __init__(self, rpc: RpcClient) -> None:
        self._rpc = rpc

    @classmethod
    def from_conf(
        cls,
        conf: Configuration,
        *,
        user: str | None = None,
        settings: RpcSettings | None = None,
        retry_policy: RetryPolicy | None = None,
        caller: str = "ytf",
        address: Address | None = None,
    ) -> ApplicationClient:
        """A client for the cluster of a configuration. The default user is the current one.

        With an ``address`` only the ResourceManager there is called, active or not.
        """
        login = Login(user=user or current_user(secure=conf.secure), secure=conf.secure)
        addresses = rm_addresses(conf, RmService.CLIENT) if address is None else [address]
        settings = settings or rpc_settings(conf, caller=caller)
        return cls(
            RpcClient(addresses, PROTOCOL, login, settings=settings, retry_policy=retry_policy)
        )

    async def new_application(self) -> NewApplication:
        """Get an id for a new application, and the largest resources of a container."""
        answer = await self._rpc.call(_NEW, pb.GetNewApplicationRequest())
        return NewApplication(
            ApplicationId.from_message(answer.application),
            Resource.from_message(answer.maximum_capability),
        )

    async def submit(self, context: ApplicationSubmissionContext) -> None:
        """Submit an application. Idempotent.

        When this returns, the ResourceManager has stored the application but
        not yet checked it: call :meth:`report` until it is ACCEPTED (or FAILED,
        e.g. for an unknown queue). If that raises ``ApplicationNotFoundError``
        after a failover, submit again.
        """
        await self._rpc.call(_SUBMIT, pb.SubmitApplicationRequest(context=context.to_message()))

    async def kill(self, application: ApplicationId, reason: str = "") -> bool:
        """Kill an application. Repeat the call until it returns true. Idempotent."""
        request = pb.KillApplicationRequest(application=application.to_message())
        if reason:
            request.diagnostics = reason
        return (await self._rpc.call(_KILL, request)).completed

    async def report(self, application: ApplicationId) -> ApplicationReport:
        """The report of an application; raises ``ApplicationNotFoundError``."""
        request = pb.GetApplicationReportRequest(application=application.to_message())
        return decode.application_report((await self._rpc.call(_REPORT, request)).report)

    async def applications(
        self,
        *,
        types: Sequence[str] = (),
        states: Sequence[ApplicationState] = (),
        users: Sequence[str] = (),
        tags: Sequence[str] = (),
        limit: int | None = None,
    ) -> list[ApplicationReport]:
        """The applications that the ResourceManager still knows, by the given filters."""
        request = pb.GetApplicationsRequest(types=types, states=states, users=users, tags=tags)
        if limit is not None:
            request.limit = limit
        answer = await self._rpc.call(_LIST, request)
        return list(map(decode.application_report, answer.applications))

    async def attempts(self, application: ApplicationId) -> list[AttemptReport]:
        """The attempts of an application."""
        request = pb.GetAttemptsRequest(application=application.to_message())
        answer = await self._rpc.call(_ATTEMPTS, request)
        return list(map(decode.attempt_report, answer.attempts))

    async def nodes(self, *states: NodeState) -> list[NodeReport]:
        """The nodes in the given states; in any state if none is given."""
        request = pb.GetClusterNodesRequest(states=states)
        answer = await self._rpc.call(_NODES, request)
        return list(map(decode.node_report, answer.nodes))

    async def metrics(self) -> ClusterMetrics:
        """The number of nodes by state: the cheapest of all calls."""
        answer = await self._rpc.call(_METRICS, pb.GetClusterMetricsRequest())
        return decode.cluster_metrics(answer.metrics)

    async def queue(self, name: str, *, recursive: bool = False) -> QueueInfo | None:
        """A queue by its name or path, if it exists; with ``recursive`` all queues below it too."""
        request = pb.GetQueueInfoRequest(
            name=name, include_applications=False, include_children=recursive, recursive=recursive
        )
        answer = await self._rpc.call(_QUEUE, request)
        return decode.queue_info(answer.queue) if answer.HasField("queue") else None

    async def queues_to_submit_to(self) -> list[str]:
        """The queues to which this user may submit. An administrator of a queue may do so too."""
        answer = await self._rpc.call(_QUEUE_ACLS, pb.GetQueueAclsRequest())
        return [
            text(acl.queue) for acl in answer.acls if _SUBMIT_OR_ADMINISTER & set(acl.permissions)
        ]

    async def resource_types(self) -> list[ResourceType]:
        """The cluster's resource types; raises ``NoSuchMethodError`` before Hadoop 3.0."""
        answer = await self._rpc.call(_TYPES, pb.GetResourceTypesRequest())
        return list(map(decode.resource_type, answer.types))

    async def node_labels(self) -> list[NodeLabel]:
        """The cluster's node labels."""
        answer = await self._rpc.call(_LABELS, pb.GetNodeLabelsRequest())
        return [NodeLabel(text(label.name), label.exclusive) for label in answer.labels]

    async def close(self) -> None:
        """Close the connection."""
        await self._rpc.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        await self.close()
