"""What anyone may ask of the ResourceManager (``ApplicationClientProtocol``)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ytf.hadoop.addresses import RmService, rm_addresses
from ytf.hadoop.conf import Configuration
from ytf.hadoop.proto import client_pb2 as pb
from ytf.hadoop.proto.wire import text
from ytf.hadoop.rpc.failover import Service
from ytf.hadoop.rpc.method import Method
from ytf.hadoop.rpc.settings import Patience, RpcSettings, rpc_settings
from ytf.hadoop.security.login import Login, current_user
from ytf.hadoop.yarn import decode
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
)
from ytf.hadoop.yarn.resources import Resource, ResourceType
from ytf.hadoop.yarn.submission import Submission

if TYPE_CHECKING:
    from typing_extensions import Self

PROTOCOL = "org.apache.hadoop.yarn.api.ApplicationClientProtocolPB"

# Submitting the same application twice, and killing one twice, is once to the
# ResourceManager; all else only looks. An id that nobody uses costs nothing.
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

_LETS_IN = frozenset({1, 2})


class ClientProtocol:
    """A client's connection to the ResourceManager, whichever of them is active.

    Every method may raise ``UnreachableError``, ``OutcomeUnknownError`` and
    ``RefusedError`` (see :mod:`ytf.hadoop.rpc.errors`). Close it, or use it
    with ``async with``.
    """

    def __init__(self, service: Service) -> None:
        self._service = service

    @classmethod
    def from_conf(
        cls,
        conf: Configuration,
        *,
        user: str | None = None,
        settings: RpcSettings | None = None,
        patience: Patience | None = None,
        caller: str = "ytf",
    ) -> ClientProtocol:
        """One for the cluster of a configuration, as ``user`` or whoever we are."""
        login = Login(user=user or current_user(secure=conf.secure), secure=conf.secure)
        addresses = rm_addresses(conf, RmService.CLIENT)
        settings = settings or rpc_settings(conf, caller=caller)
        return cls(Service(addresses, PROTOCOL, login, settings=settings, patience=patience))

    async def new_application(self) -> NewApplication:
        """An id for a new application, and the most a container may have."""
        answer = await self._service.call(_NEW, pb.GetNewApplicationRequest())
        return NewApplication(
            ApplicationId.from_message(answer.application),
            Resource.from_message(answer.maximum_capability),
        )

    async def submit(self, submission: Submission) -> None:
        """Submit an application. Idempotent.

        The ResourceManager has it when this returns, but has looked at little:
        follow :meth:`report` until it is ACCEPTED (or FAILED: no such queue).
        After a failover ``ApplicationNotFoundError`` there means: submit again.
        """
        await self._service.call(
            _SUBMIT, pb.SubmitApplicationRequest(context=submission.to_message())
        )

    async def kill(self, application: ApplicationId, reason: str = "") -> bool:
        """Kill an application; true once it is dead, until then call again. Idempotent."""
        request = pb.KillApplicationRequest(application=application.to_message())
        if reason:
            request.diagnostics = reason
        return (await self._service.call(_KILL, request)).completed

    async def report(self, application: ApplicationId) -> ApplicationReport:
        """How an application is; raises ``ApplicationNotFoundError``."""
        request = pb.GetApplicationReportRequest(application=application.to_message())
        return decode.application_report((await self._service.call(_REPORT, request)).report)

    async def applications(
        self,
        *,
        types: Sequence[str] = (),
        states: Sequence[ApplicationState] = (),
        users: Sequence[str] = (),
        tags: Sequence[str] = (),
        limit: int | None = None,
    ) -> list[ApplicationReport]:
        """The applications the ResourceManager still knows. What is not given is not asked for."""
        request = pb.GetApplicationsRequest(types=types, states=states, users=users, tags=tags)
        if limit is not None:
            request.limit = limit
        answer = await self._service.call(_LIST, request)
        return list(map(decode.application_report, answer.applications))

    async def attempts(self, application: ApplicationId) -> list[AttemptReport]:
        """The masters an application has had."""
        request = pb.GetAttemptsRequest(application=application.to_message())
        answer = await self._service.call(_ATTEMPTS, request)
        return list(map(decode.attempt_report, answer.attempts))

    async def nodes(self, *states: NodeState) -> list[NodeReport]:
        """The nodes in the given states; in any, if none is given."""
        request = pb.GetClusterNodesRequest(states=states)
        answer = await self._service.call(_NODES, request)
        return list(map(decode.node_report, answer.nodes))

    async def metrics(self) -> ClusterMetrics:
        """How many nodes there are: the cheapest question there is."""
        answer = await self._service.call(_METRICS, pb.GetClusterMetricsRequest())
        return decode.cluster_metrics(answer.metrics)

    async def queue(self, name: str, *, recursive: bool = False) -> QueueInfo | None:
        """A queue by its name or path, if there is one; ``recursive`` with all below it."""
        request = pb.GetQueueInfoRequest(
            name=name, include_applications=False, include_children=recursive, recursive=recursive
        )
        answer = await self._service.call(_QUEUE, request)
        return decode.queue_info(answer.queue) if answer.HasField("queue") else None

    async def queues_to_submit_to(self) -> list[str]:
        """The queues into which this user may submit; who may administer one may do so, too."""
        answer = await self._service.call(_QUEUE_ACLS, pb.GetQueueAclsRequest())
        return [text(acl.queue) for acl in answer.acls if _LETS_IN & set(acl.permissions)]

    async def resource_types(self) -> list[ResourceType]:
        """What the cluster counts; raises ``NoSuchMethodError`` before Hadoop 3.0."""
        answer = await self._service.call(_TYPES, pb.GetResourceTypesRequest())
        return list(map(decode.resource_type, answer.types))

    async def node_labels(self) -> list[NodeLabel]:
        """The labels nodes may have."""
        answer = await self._service.call(_LABELS, pb.GetNodeLabelsRequest())
        return [NodeLabel(text(label.name), label.exclusive) for label in answer.labels]

    async def close(self) -> None:
        """Close the connection."""
        await self._service.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        await self.close()
