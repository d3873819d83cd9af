"""Decodes protobuf messages of YARN to the records of :mod:`ytf.hadoop.yarn.records`."""

from __future__ import annotations

from collections.abc import Iterable

from ytf.hadoop.proto import client_pb2, master_pb2, records_pb2
from ytf.hadoop.proto.ids_pb2 import ContainerId as ContainerIdMessage
from ytf.hadoop.proto.messages import text
from ytf.hadoop.security.credentials import Token
from ytf.hadoop.yarn.ids import ApplicationId, AttemptId, ContainerId, NodeId
from ytf.hadoop.yarn.records import (
    AllocateResponse,
    ApplicationReport,
    ApplicationState,
    AttemptReport,
    AttemptState,
    ClusterMetrics,
    Container,
    ContainerFailure,
    ContainerState,
    ContainerStatus,
    FinalApplicationStatus,
    LogStatus,
    MasterCommand,
    NodeReport,
    NodeState,
    NodeToken,
    QueueInfo,
    QueueState,
    RegisterResponse,
    Resource,
    ResourceType,
    ResourceUsage,
)

_EMPTY_TEXTS = ("", "N/A", "<Not set>", "<DEFAULT_PARTITION>")
"""Java's records have these texts for an empty value."""


def container_ids(messages: Iterable[ContainerIdMessage]) -> tuple[ContainerId, ...]:
    """The ids of several containers."""
    return tuple(map(ContainerId.from_message, messages))


def container(message: records_pb2.Container) -> Container:
    """An allocated container."""
    return Container(
        id=ContainerId.from_message(message.id),
        node=NodeId.from_message(message.node),
        node_http_address=text(message.node_http_address),
        resource=Resource.from_message(message.resource),
        priority=message.priority.priority,
        allocation_request_id=message.allocation_request_id,
        token=Token.from_message(message.container_token),
    )


def container_status(message: records_pb2.ContainerStatus) -> ContainerStatus:
    """The status of a container."""
    return ContainerStatus(
        container=ContainerId.from_message(message.container),
        state=ContainerState(message.state),
        exit_status=message.exit_status,
        diagnostics=_text_or_empty(message.diagnostics).strip(),
    )


def container_failure(message: master_pb2.ContainerFailure) -> ContainerFailure:
    """The error for one container of a call."""
    return ContainerFailure(
        container=ContainerId.from_message(message.container),
        class_name=text(message.exception.class_name),
        message=text(message.exception.message).strip(),
    )


def node_token(message: records_pb2.NodeToken) -> NodeToken:
    """The token for a NodeManager."""
    return NodeToken(NodeId.from_message(message.node), Token.from_message(message.token))


def node_report(message: records_pb2.NodeReport) -> NodeReport:
    """The report of a node."""
    leaving = message.HasField("decommissioning_timeout_s")
    return NodeReport(
        node=NodeId.from_message(message.node),
        http_address=text(message.http_address),
        rack=text(message.rack),
        used=Resource.from_message(message.used),
        capability=Resource.from_message(message.capability),
        containers=message.num_containers,
        state=NodeState(message.state),
        health=text(message.health_report),
        labels=tuple(map(text, message.labels)),
        decommissioning_timeout_s=message.decommissioning_timeout_s if leaving else None,
    )


def resource_type(message: records_pb2.ResourceType) -> ResourceType:
    """A resource type of the cluster."""
    return ResourceType(text(message.name), text(message.units))


def application_report(message: client_pb2.ApplicationReport) -> ApplicationReport:
    """The report of an application."""
    has = message.HasField
    return ApplicationReport(
        id=ApplicationId.from_message(message.application),
        name=text(message.name),
        type=text(message.type),
        user=text(message.user),
        queue=text(message.queue),
        state=ApplicationState(message.state),
        final_status=FinalApplicationStatus(message.final_status),
        diagnostics=_text_or_empty(message.diagnostics),
        progress=message.progress,
        host=_text_or_empty(message.host),
        rpc_port=message.rpc_port if has("rpc_port") else -1,
        tracking_url=_text_or_empty(message.tracking_url),
        original_tracking_url=_text_or_empty(message.original_tracking_url),
        attempt=AttemptId.from_message(message.current_attempt) if has("current_attempt") else None,
        tags=tuple(map(text, message.tags)),
        priority=message.priority.priority,
        submitted_ms=max(0, message.submit_ms),
        started_ms=max(0, message.start_ms),
        launched_ms=max(0, message.launch_ms),
        finished_ms=max(0, message.finish_ms),
        usage=_usage(message.usage) if has("usage") else None,
        log_status=LogStatus(message.log_aggregation_status),
        node_label_expression=_text_or_empty(message.node_label_expression),
        unmanaged=message.unmanaged,
        client_token=(
            Token.from_message(message.client_to_master_token)
            if has("client_to_master_token")
            else None
        ),
        master_token=Token.from_message(message.master_token) if has("master_token") else None,
    )


def attempt_report(message: client_pb2.AttemptReport) -> AttemptReport:
    """The report of an attempt."""
    has_container = message.HasField("master_container")
    return AttemptReport(
        id=AttemptId.from_message(message.attempt),
        state=AttemptState(message.state),
        diagnostics=_text_or_empty(message.diagnostics),
        host=_text_or_empty(message.host),
        tracking_url=_text_or_empty(message.tracking_url),
        original_tracking_url=_text_or_empty(message.original_tracking_url),
        container=ContainerId.from_message(message.master_container) if has_container else None,
        started_ms=max(0, message.start_ms),
        finished_ms=max(0, message.finish_ms),
    )


def cluster_metrics(message: client_pb2.ClusterMetrics) -> ClusterMetrics:
    """The number of nodes by state."""
    return ClusterMetrics(
        nodes=message.node_managers,
        active=message.active,
        lost=message.lost,
        unhealthy=message.unhealthy,
        decommissioned=message.decommissioned,
        decommissioning=message.decommissioning,
        shutdown=message.shutdown,
    )


def queue_info(message: client_pb2.QueueInfo) -> QueueInfo:
    """A queue and the queues below it."""
    statistics = message.statistics
    # The partition of the queue without a label. Only the CapacityScheduler sends it.
    settings = [part.configuration for part in message.partitions if not text(part.partition)]
    return QueueInfo(
        name=text(message.name),
        path=text(message.path) or text(message.name),
        state=QueueState(message.state),
        capacity=message.capacity,
        maximum_capacity=message.maximum_capacity,
        used_capacity=message.current_capacity,
        labels=tuple(map(text, message.accessible_labels)),
        default_label=text(message.default_label_expression),
        maximum=Resource.from_message(settings[0].effective_max) if settings else None,
        max_master_share=settings[0].max_master_percentage if settings else None,
        running=statistics.running,
        pending=statistics.pending,
        available=(
            Resource(statistics.available_memory_mb, statistics.available_vcores)
            if message.HasField("statistics")
            else None
        ),
        children=tuple(map(queue_info, message.children)),
    )


def register_response(message: master_pb2.RegisterResponse) -> RegisterResponse:
    """The answer to the registration of a master."""
    return RegisterResponse(
        maximum=Resource.from_message(message.maximum_capability),
        queue=text(message.queue),
        resource_types=tuple(map(resource_type, message.resource_types)),
        previous_containers=tuple(map(container, message.previous_containers)),
        node_tokens=tuple(map(node_token, message.previous_node_tokens)),
        client_token_key=message.client_token_key,
    )


def allocate_response(message: master_pb2.AllocateResponse) -> AllocateResponse:
    """The answer to a heartbeat."""
    strict, negotiable = message.preemption.strict, message.preemption.negotiable
    has = message.HasField
    return AllocateResponse(
        allocated=tuple(map(container, message.allocated)),
        completed=tuple(map(container_status, message.completed)),
        previous_containers=tuple(map(container, message.previous_containers)),
        updated_nodes=tuple(map(node_report, message.updated_nodes)),
        node_tokens=tuple(map(node_token, message.node_tokens)),
        preempted=container_ids(each.container for each in strict.containers),
        preemptable=container_ids(each.container for each in negotiable.containers),
        rejected=tuple(each.request.allocation_request_id for each in message.rejected),
        headroom=Resource.from_message(message.headroom),
        cluster_nodes=message.num_cluster_nodes,
        command=MasterCommand(message.command) if has("command") else None,
        master_token=Token.from_message(message.master_token) if has("master_token") else None,
    )


def _usage(message: client_pb2.ResourceUsage) -> ResourceUsage:
    return ResourceUsage(
        used_containers=message.used_containers,
        used=Resource.from_message(message.used),
        needed=Resource.from_message(message.needed),
        memory_mb_seconds=message.memory_seconds,
        vcore_seconds=message.vcore_seconds,
    )


def _text_or_empty(value: str) -> str:
    found = text(value)
    return "" if found in _EMPTY_TEXTS else found
