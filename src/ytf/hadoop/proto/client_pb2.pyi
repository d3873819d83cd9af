from ytf.hadoop.proto import ids_pb2 as _ids_pb2
from ytf.hadoop.proto import records_pb2 as _records_pb2
from ytf.hadoop.proto import security_pb2 as _security_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class LogAggregation(_message.Message):
    __slots__ = ("include", "exclude", "rolled_include", "rolled_exclude")
    INCLUDE_FIELD_NUMBER: _ClassVar[int]
    EXCLUDE_FIELD_NUMBER: _ClassVar[int]
    ROLLED_INCLUDE_FIELD_NUMBER: _ClassVar[int]
    ROLLED_EXCLUDE_FIELD_NUMBER: _ClassVar[int]
    include: str
    exclude: str
    rolled_include: str
    rolled_exclude: str
    def __init__(self, include: _Optional[str] = ..., exclude: _Optional[str] = ..., rolled_include: _Optional[str] = ..., rolled_exclude: _Optional[str] = ...) -> None: ...

class TimeoutSetting(_message.Message):
    __slots__ = ("type", "timeout_s")
    TYPE_FIELD_NUMBER: _ClassVar[int]
    TIMEOUT_S_FIELD_NUMBER: _ClassVar[int]
    type: int
    timeout_s: int
    def __init__(self, type: _Optional[int] = ..., timeout_s: _Optional[int] = ...) -> None: ...

class SubmissionContext(_message.Message):
    __slots__ = ("application", "name", "queue", "priority", "master", "cancel_tokens_when_complete", "unmanaged", "max_attempts", "resource", "type", "keep_containers", "tags", "attempt_failures_validity_ms", "log_aggregation", "node_label_expression", "master_requests", "timeouts")
    APPLICATION_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    QUEUE_FIELD_NUMBER: _ClassVar[int]
    PRIORITY_FIELD_NUMBER: _ClassVar[int]
    MASTER_FIELD_NUMBER: _ClassVar[int]
    CANCEL_TOKENS_WHEN_COMPLETE_FIELD_NUMBER: _ClassVar[int]
    UNMANAGED_FIELD_NUMBER: _ClassVar[int]
    MAX_ATTEMPTS_FIELD_NUMBER: _ClassVar[int]
    RESOURCE_FIELD_NUMBER: _ClassVar[int]
    TYPE_FIELD_NUMBER: _ClassVar[int]
    KEEP_CONTAINERS_FIELD_NUMBER: _ClassVar[int]
    TAGS_FIELD_NUMBER: _ClassVar[int]
    ATTEMPT_FAILURES_VALIDITY_MS_FIELD_NUMBER: _ClassVar[int]
    LOG_AGGREGATION_FIELD_NUMBER: _ClassVar[int]
    NODE_LABEL_EXPRESSION_FIELD_NUMBER: _ClassVar[int]
    MASTER_REQUESTS_FIELD_NUMBER: _ClassVar[int]
    TIMEOUTS_FIELD_NUMBER: _ClassVar[int]
    application: _ids_pb2.ApplicationId
    name: str
    queue: str
    priority: _records_pb2.Priority
    master: _records_pb2.LaunchContext
    cancel_tokens_when_complete: bool
    unmanaged: bool
    max_attempts: int
    resource: _records_pb2.Resource
    type: str
    keep_containers: bool
    tags: _containers.RepeatedScalarFieldContainer[str]
    attempt_failures_validity_ms: int
    log_aggregation: LogAggregation
    node_label_expression: str
    master_requests: _containers.RepeatedCompositeFieldContainer[_records_pb2.ResourceRequest]
    timeouts: _containers.RepeatedCompositeFieldContainer[TimeoutSetting]
    def __init__(self, application: _Optional[_Union[_ids_pb2.ApplicationId, _Mapping]] = ..., name: _Optional[str] = ..., queue: _Optional[str] = ..., priority: _Optional[_Union[_records_pb2.Priority, _Mapping]] = ..., master: _Optional[_Union[_records_pb2.LaunchContext, _Mapping]] = ..., cancel_tokens_when_complete: _Optional[bool] = ..., unmanaged: _Optional[bool] = ..., max_attempts: _Optional[int] = ..., resource: _Optional[_Union[_records_pb2.Resource, _Mapping]] = ..., type: _Optional[str] = ..., keep_containers: _Optional[bool] = ..., tags: _Optional[_Iterable[str]] = ..., attempt_failures_validity_ms: _Optional[int] = ..., log_aggregation: _Optional[_Union[LogAggregation, _Mapping]] = ..., node_label_expression: _Optional[str] = ..., master_requests: _Optional[_Iterable[_Union[_records_pb2.ResourceRequest, _Mapping]]] = ..., timeouts: _Optional[_Iterable[_Union[TimeoutSetting, _Mapping]]] = ...) -> None: ...

class GetNewApplicationRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class GetNewApplicationResponse(_message.Message):
    __slots__ = ("application", "maximum_capability")
    APPLICATION_FIELD_NUMBER: _ClassVar[int]
    MAXIMUM_CAPABILITY_FIELD_NUMBER: _ClassVar[int]
    application: _ids_pb2.ApplicationId
    maximum_capability: _records_pb2.Resource
    def __init__(self, application: _Optional[_Union[_ids_pb2.ApplicationId, _Mapping]] = ..., maximum_capability: _Optional[_Union[_records_pb2.Resource, _Mapping]] = ...) -> None: ...

class SubmitApplicationRequest(_message.Message):
    __slots__ = ("context",)
    CONTEXT_FIELD_NUMBER: _ClassVar[int]
    context: SubmissionContext
    def __init__(self, context: _Optional[_Union[SubmissionContext, _Mapping]] = ...) -> None: ...

class SubmitApplicationResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class KillApplicationRequest(_message.Message):
    __slots__ = ("application", "diagnostics")
    APPLICATION_FIELD_NUMBER: _ClassVar[int]
    DIAGNOSTICS_FIELD_NUMBER: _ClassVar[int]
    application: _ids_pb2.ApplicationId
    diagnostics: str
    def __init__(self, application: _Optional[_Union[_ids_pb2.ApplicationId, _Mapping]] = ..., diagnostics: _Optional[str] = ...) -> None: ...

class KillApplicationResponse(_message.Message):
    __slots__ = ("completed",)
    COMPLETED_FIELD_NUMBER: _ClassVar[int]
    completed: bool
    def __init__(self, completed: _Optional[bool] = ...) -> None: ...

class ResourceUsage(_message.Message):
    __slots__ = ("used_containers", "reserved_containers", "used", "reserved", "needed", "memory_seconds", "vcore_seconds")
    USED_CONTAINERS_FIELD_NUMBER: _ClassVar[int]
    RESERVED_CONTAINERS_FIELD_NUMBER: _ClassVar[int]
    USED_FIELD_NUMBER: _ClassVar[int]
    RESERVED_FIELD_NUMBER: _ClassVar[int]
    NEEDED_FIELD_NUMBER: _ClassVar[int]
    MEMORY_SECONDS_FIELD_NUMBER: _ClassVar[int]
    VCORE_SECONDS_FIELD_NUMBER: _ClassVar[int]
    used_containers: int
    reserved_containers: int
    used: _records_pb2.Resource
    reserved: _records_pb2.Resource
    needed: _records_pb2.Resource
    memory_seconds: int
    vcore_seconds: int
    def __init__(self, used_containers: _Optional[int] = ..., reserved_containers: _Optional[int] = ..., used: _Optional[_Union[_records_pb2.Resource, _Mapping]] = ..., reserved: _Optional[_Union[_records_pb2.Resource, _Mapping]] = ..., needed: _Optional[_Union[_records_pb2.Resource, _Mapping]] = ..., memory_seconds: _Optional[int] = ..., vcore_seconds: _Optional[int] = ...) -> None: ...

class ApplicationReport(_message.Message):
    __slots__ = ("application", "user", "queue", "name", "host", "rpc_port", "client_to_master_token", "state", "tracking_url", "diagnostics", "start_ms", "finish_ms", "final_status", "usage", "original_tracking_url", "current_attempt", "progress", "type", "master_token", "tags", "log_aggregation_status", "unmanaged", "priority", "node_label_expression", "master_node_label_expression", "launch_ms", "submit_ms")
    APPLICATION_FIELD_NUMBER: _ClassVar[int]
    USER_FIELD_NUMBER: _ClassVar[int]
    QUEUE_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    HOST_FIELD_NUMBER: _ClassVar[int]
    RPC_PORT_FIELD_NUMBER: _ClassVar[int]
    CLIENT_TO_MASTER_TOKEN_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    TRACKING_URL_FIELD_NUMBER: _ClassVar[int]
    DIAGNOSTICS_FIELD_NUMBER: _ClassVar[int]
    START_MS_FIELD_NUMBER: _ClassVar[int]
    FINISH_MS_FIELD_NUMBER: _ClassVar[int]
    FINAL_STATUS_FIELD_NUMBER: _ClassVar[int]
    USAGE_FIELD_NUMBER: _ClassVar[int]
    ORIGINAL_TRACKING_URL_FIELD_NUMBER: _ClassVar[int]
    CURRENT_ATTEMPT_FIELD_NUMBER: _ClassVar[int]
    PROGRESS_FIELD_NUMBER: _ClassVar[int]
    TYPE_FIELD_NUMBER: _ClassVar[int]
    MASTER_TOKEN_FIELD_NUMBER: _ClassVar[int]
    TAGS_FIELD_NUMBER: _ClassVar[int]
    LOG_AGGREGATION_STATUS_FIELD_NUMBER: _ClassVar[int]
    UNMANAGED_FIELD_NUMBER: _ClassVar[int]
    PRIORITY_FIELD_NUMBER: _ClassVar[int]
    NODE_LABEL_EXPRESSION_FIELD_NUMBER: _ClassVar[int]
    MASTER_NODE_LABEL_EXPRESSION_FIELD_NUMBER: _ClassVar[int]
    LAUNCH_MS_FIELD_NUMBER: _ClassVar[int]
    SUBMIT_MS_FIELD_NUMBER: _ClassVar[int]
    application: _ids_pb2.ApplicationId
    user: str
    queue: str
    name: str
    host: str
    rpc_port: int
    client_to_master_token: _security_pb2.Token
    state: int
    tracking_url: str
    diagnostics: str
    start_ms: int
    finish_ms: int
    final_status: int
    usage: ResourceUsage
    original_tracking_url: str
    current_attempt: _ids_pb2.ApplicationAttemptId
    progress: float
    type: str
    master_token: _security_pb2.Token
    tags: _containers.RepeatedScalarFieldContainer[str]
    log_aggregation_status: int
    unmanaged: bool
    priority: _records_pb2.Priority
    node_label_expression: str
    master_node_label_expression: str
    launch_ms: int
    submit_ms: int
    def __init__(self, application: _Optional[_Union[_ids_pb2.ApplicationId, _Mapping]] = ..., user: _Optional[str] = ..., queue: _Optional[str] = ..., name: _Optional[str] = ..., host: _Optional[str] = ..., rpc_port: _Optional[int] = ..., client_to_master_token: _Optional[_Union[_security_pb2.Token, _Mapping]] = ..., state: _Optional[int] = ..., tracking_url: _Optional[str] = ..., diagnostics: _Optional[str] = ..., start_ms: _Optional[int] = ..., finish_ms: _Optional[int] = ..., final_status: _Optional[int] = ..., usage: _Optional[_Union[ResourceUsage, _Mapping]] = ..., original_tracking_url: _Optional[str] = ..., current_attempt: _Optional[_Union[_ids_pb2.ApplicationAttemptId, _Mapping]] = ..., progress: _Optional[float] = ..., type: _Optional[str] = ..., master_token: _Optional[_Union[_security_pb2.Token, _Mapping]] = ..., tags: _Optional[_Iterable[str]] = ..., log_aggregation_status: _Optional[int] = ..., unmanaged: _Optional[bool] = ..., priority: _Optional[_Union[_records_pb2.Priority, _Mapping]] = ..., node_label_expression: _Optional[str] = ..., master_node_label_expression: _Optional[str] = ..., launch_ms: _Optional[int] = ..., submit_ms: _Optional[int] = ...) -> None: ...

class GetApplicationReportRequest(_message.Message):
    __slots__ = ("application",)
    APPLICATION_FIELD_NUMBER: _ClassVar[int]
    application: _ids_pb2.ApplicationId
    def __init__(self, application: _Optional[_Union[_ids_pb2.ApplicationId, _Mapping]] = ...) -> None: ...

class GetApplicationReportResponse(_message.Message):
    __slots__ = ("report",)
    REPORT_FIELD_NUMBER: _ClassVar[int]
    report: ApplicationReport
    def __init__(self, report: _Optional[_Union[ApplicationReport, _Mapping]] = ...) -> None: ...

class GetApplicationsRequest(_message.Message):
    __slots__ = ("types", "states", "users", "queues", "limit", "tags", "scope")
    TYPES_FIELD_NUMBER: _ClassVar[int]
    STATES_FIELD_NUMBER: _ClassVar[int]
    USERS_FIELD_NUMBER: _ClassVar[int]
    QUEUES_FIELD_NUMBER: _ClassVar[int]
    LIMIT_FIELD_NUMBER: _ClassVar[int]
    TAGS_FIELD_NUMBER: _ClassVar[int]
    SCOPE_FIELD_NUMBER: _ClassVar[int]
    types: _containers.RepeatedScalarFieldContainer[str]
    states: _containers.RepeatedScalarFieldContainer[int]
    users: _containers.RepeatedScalarFieldContainer[str]
    queues: _containers.RepeatedScalarFieldContainer[str]
    limit: int
    tags: _containers.RepeatedScalarFieldContainer[str]
    scope: int
    def __init__(self, types: _Optional[_Iterable[str]] = ..., states: _Optional[_Iterable[int]] = ..., users: _Optional[_Iterable[str]] = ..., queues: _Optional[_Iterable[str]] = ..., limit: _Optional[int] = ..., tags: _Optional[_Iterable[str]] = ..., scope: _Optional[int] = ...) -> None: ...

class GetApplicationsResponse(_message.Message):
    __slots__ = ("applications",)
    APPLICATIONS_FIELD_NUMBER: _ClassVar[int]
    applications: _containers.RepeatedCompositeFieldContainer[ApplicationReport]
    def __init__(self, applications: _Optional[_Iterable[_Union[ApplicationReport, _Mapping]]] = ...) -> None: ...

class AttemptReport(_message.Message):
    __slots__ = ("attempt", "host", "rpc_port", "tracking_url", "diagnostics", "state", "master_container", "original_tracking_url", "start_ms", "finish_ms")
    ATTEMPT_FIELD_NUMBER: _ClassVar[int]
    HOST_FIELD_NUMBER: _ClassVar[int]
    RPC_PORT_FIELD_NUMBER: _ClassVar[int]
    TRACKING_URL_FIELD_NUMBER: _ClassVar[int]
    DIAGNOSTICS_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    MASTER_CONTAINER_FIELD_NUMBER: _ClassVar[int]
    ORIGINAL_TRACKING_URL_FIELD_NUMBER: _ClassVar[int]
    START_MS_FIELD_NUMBER: _ClassVar[int]
    FINISH_MS_FIELD_NUMBER: _ClassVar[int]
    attempt: _ids_pb2.ApplicationAttemptId
    host: str
    rpc_port: int
    tracking_url: str
    diagnostics: str
    state: int
    master_container: _ids_pb2.ContainerId
    original_tracking_url: str
    start_ms: int
    finish_ms: int
    def __init__(self, attempt: _Optional[_Union[_ids_pb2.ApplicationAttemptId, _Mapping]] = ..., host: _Optional[str] = ..., rpc_port: _Optional[int] = ..., tracking_url: _Optional[str] = ..., diagnostics: _Optional[str] = ..., state: _Optional[int] = ..., master_container: _Optional[_Union[_ids_pb2.ContainerId, _Mapping]] = ..., original_tracking_url: _Optional[str] = ..., start_ms: _Optional[int] = ..., finish_ms: _Optional[int] = ...) -> None: ...

class GetAttemptsRequest(_message.Message):
    __slots__ = ("application",)
    APPLICATION_FIELD_NUMBER: _ClassVar[int]
    application: _ids_pb2.ApplicationId
    def __init__(self, application: _Optional[_Union[_ids_pb2.ApplicationId, _Mapping]] = ...) -> None: ...

class GetAttemptsResponse(_message.Message):
    __slots__ = ("attempts",)
    ATTEMPTS_FIELD_NUMBER: _ClassVar[int]
    attempts: _containers.RepeatedCompositeFieldContainer[AttemptReport]
    def __init__(self, attempts: _Optional[_Iterable[_Union[AttemptReport, _Mapping]]] = ...) -> None: ...

class ClusterMetrics(_message.Message):
    __slots__ = ("node_managers", "decommissioned", "active", "lost", "unhealthy", "rebooted", "decommissioning", "shutdown")
    NODE_MANAGERS_FIELD_NUMBER: _ClassVar[int]
    DECOMMISSIONED_FIELD_NUMBER: _ClassVar[int]
    ACTIVE_FIELD_NUMBER: _ClassVar[int]
    LOST_FIELD_NUMBER: _ClassVar[int]
    UNHEALTHY_FIELD_NUMBER: _ClassVar[int]
    REBOOTED_FIELD_NUMBER: _ClassVar[int]
    DECOMMISSIONING_FIELD_NUMBER: _ClassVar[int]
    SHUTDOWN_FIELD_NUMBER: _ClassVar[int]
    node_managers: int
    decommissioned: int
    active: int
    lost: int
    unhealthy: int
    rebooted: int
    decommissioning: int
    shutdown: int
    def __init__(self, node_managers: _Optional[int] = ..., decommissioned: _Optional[int] = ..., active: _Optional[int] = ..., lost: _Optional[int] = ..., unhealthy: _Optional[int] = ..., rebooted: _Optional[int] = ..., decommissioning: _Optional[int] = ..., shutdown: _Optional[int] = ...) -> None: ...

class GetClusterMetricsRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class GetClusterMetricsResponse(_message.Message):
    __slots__ = ("metrics",)
    METRICS_FIELD_NUMBER: _ClassVar[int]
    metrics: ClusterMetrics
    def __init__(self, metrics: _Optional[_Union[ClusterMetrics, _Mapping]] = ...) -> None: ...

class GetClusterNodesRequest(_message.Message):
    __slots__ = ("states",)
    STATES_FIELD_NUMBER: _ClassVar[int]
    states: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, states: _Optional[_Iterable[int]] = ...) -> None: ...

class GetClusterNodesResponse(_message.Message):
    __slots__ = ("nodes",)
    NODES_FIELD_NUMBER: _ClassVar[int]
    nodes: _containers.RepeatedCompositeFieldContainer[_records_pb2.NodeReport]
    def __init__(self, nodes: _Optional[_Iterable[_Union[_records_pb2.NodeReport, _Mapping]]] = ...) -> None: ...

class QueueStatistics(_message.Message):
    __slots__ = ("submitted", "running", "pending", "available_memory_mb", "allocated_memory_mb", "pending_memory_mb", "available_vcores", "allocated_vcores", "pending_vcores", "allocated_containers", "pending_containers")
    SUBMITTED_FIELD_NUMBER: _ClassVar[int]
    RUNNING_FIELD_NUMBER: _ClassVar[int]
    PENDING_FIELD_NUMBER: _ClassVar[int]
    AVAILABLE_MEMORY_MB_FIELD_NUMBER: _ClassVar[int]
    ALLOCATED_MEMORY_MB_FIELD_NUMBER: _ClassVar[int]
    PENDING_MEMORY_MB_FIELD_NUMBER: _ClassVar[int]
    AVAILABLE_VCORES_FIELD_NUMBER: _ClassVar[int]
    ALLOCATED_VCORES_FIELD_NUMBER: _ClassVar[int]
    PENDING_VCORES_FIELD_NUMBER: _ClassVar[int]
    ALLOCATED_CONTAINERS_FIELD_NUMBER: _ClassVar[int]
    PENDING_CONTAINERS_FIELD_NUMBER: _ClassVar[int]
    submitted: int
    running: int
    pending: int
    available_memory_mb: int
    allocated_memory_mb: int
    pending_memory_mb: int
    available_vcores: int
    allocated_vcores: int
    pending_vcores: int
    allocated_containers: int
    pending_containers: int
    def __init__(self, submitted: _Optional[int] = ..., running: _Optional[int] = ..., pending: _Optional[int] = ..., available_memory_mb: _Optional[int] = ..., allocated_memory_mb: _Optional[int] = ..., pending_memory_mb: _Optional[int] = ..., available_vcores: _Optional[int] = ..., allocated_vcores: _Optional[int] = ..., pending_vcores: _Optional[int] = ..., allocated_containers: _Optional[int] = ..., pending_containers: _Optional[int] = ...) -> None: ...

class QueueConfiguration(_message.Message):
    __slots__ = ("capacity", "absolute_capacity", "max_capacity", "absolute_max_capacity", "max_master_percentage", "effective_min", "effective_max")
    CAPACITY_FIELD_NUMBER: _ClassVar[int]
    ABSOLUTE_CAPACITY_FIELD_NUMBER: _ClassVar[int]
    MAX_CAPACITY_FIELD_NUMBER: _ClassVar[int]
    ABSOLUTE_MAX_CAPACITY_FIELD_NUMBER: _ClassVar[int]
    MAX_MASTER_PERCENTAGE_FIELD_NUMBER: _ClassVar[int]
    EFFECTIVE_MIN_FIELD_NUMBER: _ClassVar[int]
    EFFECTIVE_MAX_FIELD_NUMBER: _ClassVar[int]
    capacity: float
    absolute_capacity: float
    max_capacity: float
    absolute_max_capacity: float
    max_master_percentage: float
    effective_min: _records_pb2.Resource
    effective_max: _records_pb2.Resource
    def __init__(self, capacity: _Optional[float] = ..., absolute_capacity: _Optional[float] = ..., max_capacity: _Optional[float] = ..., absolute_max_capacity: _Optional[float] = ..., max_master_percentage: _Optional[float] = ..., effective_min: _Optional[_Union[_records_pb2.Resource, _Mapping]] = ..., effective_max: _Optional[_Union[_records_pb2.Resource, _Mapping]] = ...) -> None: ...

class PartitionConfiguration(_message.Message):
    __slots__ = ("partition", "configuration")
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    CONFIGURATION_FIELD_NUMBER: _ClassVar[int]
    partition: str
    configuration: QueueConfiguration
    def __init__(self, partition: _Optional[str] = ..., configuration: _Optional[_Union[QueueConfiguration, _Mapping]] = ...) -> None: ...

class QueueInfo(_message.Message):
    __slots__ = ("name", "capacity", "maximum_capacity", "current_capacity", "state", "children", "accessible_labels", "default_label_expression", "statistics", "preemption_disabled", "partitions", "path")
    NAME_FIELD_NUMBER: _ClassVar[int]
    CAPACITY_FIELD_NUMBER: _ClassVar[int]
    MAXIMUM_CAPACITY_FIELD_NUMBER: _ClassVar[int]
    CURRENT_CAPACITY_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    CHILDREN_FIELD_NUMBER: _ClassVar[int]
    ACCESSIBLE_LABELS_FIELD_NUMBER: _ClassVar[int]
    DEFAULT_LABEL_EXPRESSION_FIELD_NUMBER: _ClassVar[int]
    STATISTICS_FIELD_NUMBER: _ClassVar[int]
    PREEMPTION_DISABLED_FIELD_NUMBER: _ClassVar[int]
    PARTITIONS_FIELD_NUMBER: _ClassVar[int]
    PATH_FIELD_NUMBER: _ClassVar[int]
    name: str
    capacity: float
    maximum_capacity: float
    current_capacity: float
    state: int
    children: _containers.RepeatedCompositeFieldContainer[QueueInfo]
    accessible_labels: _containers.RepeatedScalarFieldContainer[str]
    default_label_expression: str
    statistics: QueueStatistics
    preemption_disabled: bool
    partitions: _containers.RepeatedCompositeFieldContainer[PartitionConfiguration]
    path: str
    def __init__(self, name: _Optional[str] = ..., capacity: _Optional[float] = ..., maximum_capacity: _Optional[float] = ..., current_capacity: _Optional[float] = ..., state: _Optional[int] = ..., children: _Optional[_Iterable[_Union[QueueInfo, _Mapping]]] = ..., accessible_labels: _Optional[_Iterable[str]] = ..., default_label_expression: _Optional[str] = ..., statistics: _Optional[_Union[QueueStatistics, _Mapping]] = ..., preemption_disabled: _Optional[bool] = ..., partitions: _Optional[_Iterable[_Union[PartitionConfiguration, _Mapping]]] = ..., path: _Optional[str] = ...) -> None: ...

class GetQueueInfoRequest(_message.Message):
    __slots__ = ("name", "include_applications", "include_children", "recursive")
    NAME_FIELD_NUMBER: _ClassVar[int]
    INCLUDE_APPLICATIONS_FIELD_NUMBER: _ClassVar[int]
    INCLUDE_CHILDREN_FIELD_NUMBER: _ClassVar[int]
    RECURSIVE_FIELD_NUMBER: _ClassVar[int]
    name: str
    include_applications: bool
    include_children: bool
    recursive: bool
    def __init__(self, name: _Optional[str] = ..., include_applications: _Optional[bool] = ..., include_children: _Optional[bool] = ..., recursive: _Optional[bool] = ...) -> None: ...

class GetQueueInfoResponse(_message.Message):
    __slots__ = ("queue",)
    QUEUE_FIELD_NUMBER: _ClassVar[int]
    queue: QueueInfo
    def __init__(self, queue: _Optional[_Union[QueueInfo, _Mapping]] = ...) -> None: ...

class QueueAcl(_message.Message):
    __slots__ = ("queue", "permissions")
    QUEUE_FIELD_NUMBER: _ClassVar[int]
    PERMISSIONS_FIELD_NUMBER: _ClassVar[int]
    queue: str
    permissions: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, queue: _Optional[str] = ..., permissions: _Optional[_Iterable[int]] = ...) -> None: ...

class GetQueueAclsRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class GetQueueAclsResponse(_message.Message):
    __slots__ = ("acls",)
    ACLS_FIELD_NUMBER: _ClassVar[int]
    acls: _containers.RepeatedCompositeFieldContainer[QueueAcl]
    def __init__(self, acls: _Optional[_Iterable[_Union[QueueAcl, _Mapping]]] = ...) -> None: ...

class GetResourceTypesRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class GetResourceTypesResponse(_message.Message):
    __slots__ = ("types",)
    TYPES_FIELD_NUMBER: _ClassVar[int]
    types: _containers.RepeatedCompositeFieldContainer[_records_pb2.ResourceType]
    def __init__(self, types: _Optional[_Iterable[_Union[_records_pb2.ResourceType, _Mapping]]] = ...) -> None: ...

class GetNodeLabelsRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class GetNodeLabelsResponse(_message.Message):
    __slots__ = ("labels",)
    LABELS_FIELD_NUMBER: _ClassVar[int]
    labels: _containers.RepeatedCompositeFieldContainer[_records_pb2.NodeLabel]
    def __init__(self, labels: _Optional[_Iterable[_Union[_records_pb2.NodeLabel, _Mapping]]] = ...) -> None: ...
