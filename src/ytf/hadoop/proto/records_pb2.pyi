from ytf.hadoop.proto import ids_pb2 as _ids_pb2
from ytf.hadoop.proto import security_pb2 as _security_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class StringPair(_message.Message):
    __slots__ = ("key", "value")
    KEY_FIELD_NUMBER: _ClassVar[int]
    VALUE_FIELD_NUMBER: _ClassVar[int]
    key: str
    value: str
    def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...

class BytesPair(_message.Message):
    __slots__ = ("key", "value")
    KEY_FIELD_NUMBER: _ClassVar[int]
    VALUE_FIELD_NUMBER: _ClassVar[int]
    key: str
    value: bytes
    def __init__(self, key: _Optional[str] = ..., value: _Optional[bytes] = ...) -> None: ...

class Priority(_message.Message):
    __slots__ = ("priority",)
    PRIORITY_FIELD_NUMBER: _ClassVar[int]
    priority: int
    def __init__(self, priority: _Optional[int] = ...) -> None: ...

class ResourceValue(_message.Message):
    __slots__ = ("key", "value", "units", "type")
    KEY_FIELD_NUMBER: _ClassVar[int]
    VALUE_FIELD_NUMBER: _ClassVar[int]
    UNITS_FIELD_NUMBER: _ClassVar[int]
    TYPE_FIELD_NUMBER: _ClassVar[int]
    key: str
    value: int
    units: str
    type: int
    def __init__(self, key: _Optional[str] = ..., value: _Optional[int] = ..., units: _Optional[str] = ..., type: _Optional[int] = ...) -> None: ...

class Resource(_message.Message):
    __slots__ = ("memory_mb", "vcores", "values")
    MEMORY_MB_FIELD_NUMBER: _ClassVar[int]
    VCORES_FIELD_NUMBER: _ClassVar[int]
    VALUES_FIELD_NUMBER: _ClassVar[int]
    memory_mb: int
    vcores: int
    values: _containers.RepeatedCompositeFieldContainer[ResourceValue]
    def __init__(self, memory_mb: _Optional[int] = ..., vcores: _Optional[int] = ..., values: _Optional[_Iterable[_Union[ResourceValue, _Mapping]]] = ...) -> None: ...

class ResourceType(_message.Message):
    __slots__ = ("name", "units", "type")
    NAME_FIELD_NUMBER: _ClassVar[int]
    UNITS_FIELD_NUMBER: _ClassVar[int]
    TYPE_FIELD_NUMBER: _ClassVar[int]
    name: str
    units: str
    type: int
    def __init__(self, name: _Optional[str] = ..., units: _Optional[str] = ..., type: _Optional[int] = ...) -> None: ...

class Container(_message.Message):
    __slots__ = ("id", "node", "node_http_address", "resource", "priority", "container_token", "execution_type", "allocation_request_id", "version")
    ID_FIELD_NUMBER: _ClassVar[int]
    NODE_FIELD_NUMBER: _ClassVar[int]
    NODE_HTTP_ADDRESS_FIELD_NUMBER: _ClassVar[int]
    RESOURCE_FIELD_NUMBER: _ClassVar[int]
    PRIORITY_FIELD_NUMBER: _ClassVar[int]
    CONTAINER_TOKEN_FIELD_NUMBER: _ClassVar[int]
    EXECUTION_TYPE_FIELD_NUMBER: _ClassVar[int]
    ALLOCATION_REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    id: _ids_pb2.ContainerId
    node: _ids_pb2.NodeId
    node_http_address: str
    resource: Resource
    priority: Priority
    container_token: _security_pb2.Token
    execution_type: int
    allocation_request_id: int
    version: int
    def __init__(self, id: _Optional[_Union[_ids_pb2.ContainerId, _Mapping]] = ..., node: _Optional[_Union[_ids_pb2.NodeId, _Mapping]] = ..., node_http_address: _Optional[str] = ..., resource: _Optional[_Union[Resource, _Mapping]] = ..., priority: _Optional[_Union[Priority, _Mapping]] = ..., container_token: _Optional[_Union[_security_pb2.Token, _Mapping]] = ..., execution_type: _Optional[int] = ..., allocation_request_id: _Optional[int] = ..., version: _Optional[int] = ...) -> None: ...

class ContainerStatus(_message.Message):
    __slots__ = ("container", "state", "diagnostics", "exit_status", "capability")
    CONTAINER_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    DIAGNOSTICS_FIELD_NUMBER: _ClassVar[int]
    EXIT_STATUS_FIELD_NUMBER: _ClassVar[int]
    CAPABILITY_FIELD_NUMBER: _ClassVar[int]
    container: _ids_pb2.ContainerId
    state: int
    diagnostics: str
    exit_status: int
    capability: Resource
    def __init__(self, container: _Optional[_Union[_ids_pb2.ContainerId, _Mapping]] = ..., state: _Optional[int] = ..., diagnostics: _Optional[str] = ..., exit_status: _Optional[int] = ..., capability: _Optional[_Union[Resource, _Mapping]] = ...) -> None: ...

class SerializedException(_message.Message):
    __slots__ = ("message", "trace", "class_name", "cause")
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    TRACE_FIELD_NUMBER: _ClassVar[int]
    CLASS_NAME_FIELD_NUMBER: _ClassVar[int]
    CAUSE_FIELD_NUMBER: _ClassVar[int]
    message: str
    trace: str
    class_name: str
    cause: SerializedException
    def __init__(self, message: _Optional[str] = ..., trace: _Optional[str] = ..., class_name: _Optional[str] = ..., cause: _Optional[_Union[SerializedException, _Mapping]] = ...) -> None: ...

class Url(_message.Message):
    __slots__ = ("scheme", "host", "port", "file", "user_info")
    SCHEME_FIELD_NUMBER: _ClassVar[int]
    HOST_FIELD_NUMBER: _ClassVar[int]
    PORT_FIELD_NUMBER: _ClassVar[int]
    FILE_FIELD_NUMBER: _ClassVar[int]
    USER_INFO_FIELD_NUMBER: _ClassVar[int]
    scheme: str
    host: str
    port: int
    file: str
    user_info: str
    def __init__(self, scheme: _Optional[str] = ..., host: _Optional[str] = ..., port: _Optional[int] = ..., file: _Optional[str] = ..., user_info: _Optional[str] = ...) -> None: ...

class LocalResource(_message.Message):
    __slots__ = ("url", "size", "timestamp_ms", "type", "visibility", "pattern")
    URL_FIELD_NUMBER: _ClassVar[int]
    SIZE_FIELD_NUMBER: _ClassVar[int]
    TIMESTAMP_MS_FIELD_NUMBER: _ClassVar[int]
    TYPE_FIELD_NUMBER: _ClassVar[int]
    VISIBILITY_FIELD_NUMBER: _ClassVar[int]
    PATTERN_FIELD_NUMBER: _ClassVar[int]
    url: Url
    size: int
    timestamp_ms: int
    type: int
    visibility: int
    pattern: str
    def __init__(self, url: _Optional[_Union[Url, _Mapping]] = ..., size: _Optional[int] = ..., timestamp_ms: _Optional[int] = ..., type: _Optional[int] = ..., visibility: _Optional[int] = ..., pattern: _Optional[str] = ...) -> None: ...

class NamedLocalResource(_message.Message):
    __slots__ = ("key", "value")
    KEY_FIELD_NUMBER: _ClassVar[int]
    VALUE_FIELD_NUMBER: _ClassVar[int]
    key: str
    value: LocalResource
    def __init__(self, key: _Optional[str] = ..., value: _Optional[_Union[LocalResource, _Mapping]] = ...) -> None: ...

class AccessRule(_message.Message):
    __slots__ = ("access", "acl")
    ACCESS_FIELD_NUMBER: _ClassVar[int]
    ACL_FIELD_NUMBER: _ClassVar[int]
    access: int
    acl: str
    def __init__(self, access: _Optional[int] = ..., acl: _Optional[str] = ...) -> None: ...

class RetryContext(_message.Message):
    __slots__ = ("policy", "error_codes", "max_retries", "interval_ms", "validity_ms")
    POLICY_FIELD_NUMBER: _ClassVar[int]
    ERROR_CODES_FIELD_NUMBER: _ClassVar[int]
    MAX_RETRIES_FIELD_NUMBER: _ClassVar[int]
    INTERVAL_MS_FIELD_NUMBER: _ClassVar[int]
    VALIDITY_MS_FIELD_NUMBER: _ClassVar[int]
    policy: int
    error_codes: _containers.RepeatedScalarFieldContainer[int]
    max_retries: int
    interval_ms: int
    validity_ms: int
    def __init__(self, policy: _Optional[int] = ..., error_codes: _Optional[_Iterable[int]] = ..., max_retries: _Optional[int] = ..., interval_ms: _Optional[int] = ..., validity_ms: _Optional[int] = ...) -> None: ...

class LaunchContext(_message.Message):
    __slots__ = ("local_resources", "tokens", "service_data", "environment", "command", "access", "retry", "tokens_conf")
    LOCAL_RESOURCES_FIELD_NUMBER: _ClassVar[int]
    TOKENS_FIELD_NUMBER: _ClassVar[int]
    SERVICE_DATA_FIELD_NUMBER: _ClassVar[int]
    ENVIRONMENT_FIELD_NUMBER: _ClassVar[int]
    COMMAND_FIELD_NUMBER: _ClassVar[int]
    ACCESS_FIELD_NUMBER: _ClassVar[int]
    RETRY_FIELD_NUMBER: _ClassVar[int]
    TOKENS_CONF_FIELD_NUMBER: _ClassVar[int]
    local_resources: _containers.RepeatedCompositeFieldContainer[NamedLocalResource]
    tokens: bytes
    service_data: _containers.RepeatedCompositeFieldContainer[BytesPair]
    environment: _containers.RepeatedCompositeFieldContainer[StringPair]
    command: _containers.RepeatedScalarFieldContainer[str]
    access: _containers.RepeatedCompositeFieldContainer[AccessRule]
    retry: RetryContext
    tokens_conf: bytes
    def __init__(self, local_resources: _Optional[_Iterable[_Union[NamedLocalResource, _Mapping]]] = ..., tokens: _Optional[bytes] = ..., service_data: _Optional[_Iterable[_Union[BytesPair, _Mapping]]] = ..., environment: _Optional[_Iterable[_Union[StringPair, _Mapping]]] = ..., command: _Optional[_Iterable[str]] = ..., access: _Optional[_Iterable[_Union[AccessRule, _Mapping]]] = ..., retry: _Optional[_Union[RetryContext, _Mapping]] = ..., tokens_conf: _Optional[bytes] = ...) -> None: ...

class ExecutionTypeRequest(_message.Message):
    __slots__ = ("execution_type", "enforce")
    EXECUTION_TYPE_FIELD_NUMBER: _ClassVar[int]
    ENFORCE_FIELD_NUMBER: _ClassVar[int]
    execution_type: int
    enforce: bool
    def __init__(self, execution_type: _Optional[int] = ..., enforce: _Optional[bool] = ...) -> None: ...

class ResourceRequest(_message.Message):
    __slots__ = ("priority", "resource_name", "capability", "num_containers", "relax_locality", "node_label_expression", "execution_type", "allocation_request_id")
    PRIORITY_FIELD_NUMBER: _ClassVar[int]
    RESOURCE_NAME_FIELD_NUMBER: _ClassVar[int]
    CAPABILITY_FIELD_NUMBER: _ClassVar[int]
    NUM_CONTAINERS_FIELD_NUMBER: _ClassVar[int]
    RELAX_LOCALITY_FIELD_NUMBER: _ClassVar[int]
    NODE_LABEL_EXPRESSION_FIELD_NUMBER: _ClassVar[int]
    EXECUTION_TYPE_FIELD_NUMBER: _ClassVar[int]
    ALLOCATION_REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    priority: Priority
    resource_name: str
    capability: Resource
    num_containers: int
    relax_locality: bool
    node_label_expression: str
    execution_type: ExecutionTypeRequest
    allocation_request_id: int
    def __init__(self, priority: _Optional[_Union[Priority, _Mapping]] = ..., resource_name: _Optional[str] = ..., capability: _Optional[_Union[Resource, _Mapping]] = ..., num_containers: _Optional[int] = ..., relax_locality: _Optional[bool] = ..., node_label_expression: _Optional[str] = ..., execution_type: _Optional[_Union[ExecutionTypeRequest, _Mapping]] = ..., allocation_request_id: _Optional[int] = ...) -> None: ...

class PlacementTarget(_message.Message):
    __slots__ = ("type", "key", "values")
    TYPE_FIELD_NUMBER: _ClassVar[int]
    KEY_FIELD_NUMBER: _ClassVar[int]
    VALUES_FIELD_NUMBER: _ClassVar[int]
    type: int
    key: str
    values: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, type: _Optional[int] = ..., key: _Optional[str] = ..., values: _Optional[_Iterable[str]] = ...) -> None: ...

class SimpleConstraint(_message.Message):
    __slots__ = ("scope", "targets", "min_cardinality", "max_cardinality")
    SCOPE_FIELD_NUMBER: _ClassVar[int]
    TARGETS_FIELD_NUMBER: _ClassVar[int]
    MIN_CARDINALITY_FIELD_NUMBER: _ClassVar[int]
    MAX_CARDINALITY_FIELD_NUMBER: _ClassVar[int]
    scope: str
    targets: _containers.RepeatedCompositeFieldContainer[PlacementTarget]
    min_cardinality: int
    max_cardinality: int
    def __init__(self, scope: _Optional[str] = ..., targets: _Optional[_Iterable[_Union[PlacementTarget, _Mapping]]] = ..., min_cardinality: _Optional[int] = ..., max_cardinality: _Optional[int] = ...) -> None: ...

class PlacementConstraint(_message.Message):
    __slots__ = ("simple",)
    SIMPLE_FIELD_NUMBER: _ClassVar[int]
    simple: SimpleConstraint
    def __init__(self, simple: _Optional[_Union[SimpleConstraint, _Mapping]] = ...) -> None: ...

class ResourceSizing(_message.Message):
    __slots__ = ("num_allocations", "resource")
    NUM_ALLOCATIONS_FIELD_NUMBER: _ClassVar[int]
    RESOURCE_FIELD_NUMBER: _ClassVar[int]
    num_allocations: int
    resource: Resource
    def __init__(self, num_allocations: _Optional[int] = ..., resource: _Optional[_Union[Resource, _Mapping]] = ...) -> None: ...

class SchedulingRequest(_message.Message):
    __slots__ = ("allocation_request_id", "priority", "execution_type", "allocation_tags", "sizing", "constraint")
    ALLOCATION_REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    PRIORITY_FIELD_NUMBER: _ClassVar[int]
    EXECUTION_TYPE_FIELD_NUMBER: _ClassVar[int]
    ALLOCATION_TAGS_FIELD_NUMBER: _ClassVar[int]
    SIZING_FIELD_NUMBER: _ClassVar[int]
    CONSTRAINT_FIELD_NUMBER: _ClassVar[int]
    allocation_request_id: int
    priority: Priority
    execution_type: ExecutionTypeRequest
    allocation_tags: _containers.RepeatedScalarFieldContainer[str]
    sizing: ResourceSizing
    constraint: PlacementConstraint
    def __init__(self, allocation_request_id: _Optional[int] = ..., priority: _Optional[_Union[Priority, _Mapping]] = ..., execution_type: _Optional[_Union[ExecutionTypeRequest, _Mapping]] = ..., allocation_tags: _Optional[_Iterable[str]] = ..., sizing: _Optional[_Union[ResourceSizing, _Mapping]] = ..., constraint: _Optional[_Union[PlacementConstraint, _Mapping]] = ...) -> None: ...

class NodeReport(_message.Message):
    __slots__ = ("node", "http_address", "rack", "used", "capability", "num_containers", "state", "health_report", "last_health_report_ms", "labels", "decommissioning_timeout_s", "update_type")
    NODE_FIELD_NUMBER: _ClassVar[int]
    HTTP_ADDRESS_FIELD_NUMBER: _ClassVar[int]
    RACK_FIELD_NUMBER: _ClassVar[int]
    USED_FIELD_NUMBER: _ClassVar[int]
    CAPABILITY_FIELD_NUMBER: _ClassVar[int]
    NUM_CONTAINERS_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    HEALTH_REPORT_FIELD_NUMBER: _ClassVar[int]
    LAST_HEALTH_REPORT_MS_FIELD_NUMBER: _ClassVar[int]
    LABELS_FIELD_NUMBER: _ClassVar[int]
    DECOMMISSIONING_TIMEOUT_S_FIELD_NUMBER: _ClassVar[int]
    UPDATE_TYPE_FIELD_NUMBER: _ClassVar[int]
    node: _ids_pb2.NodeId
    http_address: str
    rack: str
    used: Resource
    capability: Resource
    num_containers: int
    state: int
    health_report: str
    last_health_report_ms: int
    labels: _containers.RepeatedScalarFieldContainer[str]
    decommissioning_timeout_s: int
    update_type: int
    def __init__(self, node: _Optional[_Union[_ids_pb2.NodeId, _Mapping]] = ..., http_address: _Optional[str] = ..., rack: _Optional[str] = ..., used: _Optional[_Union[Resource, _Mapping]] = ..., capability: _Optional[_Union[Resource, _Mapping]] = ..., num_containers: _Optional[int] = ..., state: _Optional[int] = ..., health_report: _Optional[str] = ..., last_health_report_ms: _Optional[int] = ..., labels: _Optional[_Iterable[str]] = ..., decommissioning_timeout_s: _Optional[int] = ..., update_type: _Optional[int] = ...) -> None: ...

class NodeLabel(_message.Message):
    __slots__ = ("name", "exclusive")
    NAME_FIELD_NUMBER: _ClassVar[int]
    EXCLUSIVE_FIELD_NUMBER: _ClassVar[int]
    name: str
    exclusive: bool
    def __init__(self, name: _Optional[str] = ..., exclusive: _Optional[bool] = ...) -> None: ...

class NodeToken(_message.Message):
    __slots__ = ("node", "token")
    NODE_FIELD_NUMBER: _ClassVar[int]
    TOKEN_FIELD_NUMBER: _ClassVar[int]
    node: _ids_pb2.NodeId
    token: _security_pb2.Token
    def __init__(self, node: _Optional[_Union[_ids_pb2.NodeId, _Mapping]] = ..., token: _Optional[_Union[_security_pb2.Token, _Mapping]] = ...) -> None: ...
