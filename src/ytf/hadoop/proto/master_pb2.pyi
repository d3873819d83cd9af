from ytf.hadoop.proto import ids_pb2 as _ids_pb2
from ytf.hadoop.proto import records_pb2 as _records_pb2
from ytf.hadoop.proto import security_pb2 as _security_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class TaggedConstraint(_message.Message):
    __slots__ = ("allocation_tags", "constraint")
    ALLOCATION_TAGS_FIELD_NUMBER: _ClassVar[int]
    CONSTRAINT_FIELD_NUMBER: _ClassVar[int]
    allocation_tags: _containers.RepeatedScalarFieldContainer[str]
    constraint: _records_pb2.PlacementConstraint
    def __init__(self, allocation_tags: _Optional[_Iterable[str]] = ..., constraint: _Optional[_Union[_records_pb2.PlacementConstraint, _Mapping]] = ...) -> None: ...

class RegisterRequest(_message.Message):
    __slots__ = ("host", "rpc_port", "tracking_url", "constraints")
    HOST_FIELD_NUMBER: _ClassVar[int]
    RPC_PORT_FIELD_NUMBER: _ClassVar[int]
    TRACKING_URL_FIELD_NUMBER: _ClassVar[int]
    CONSTRAINTS_FIELD_NUMBER: _ClassVar[int]
    host: str
    rpc_port: int
    tracking_url: str
    constraints: _containers.RepeatedCompositeFieldContainer[TaggedConstraint]
    def __init__(self, host: _Optional[str] = ..., rpc_port: _Optional[int] = ..., tracking_url: _Optional[str] = ..., constraints: _Optional[_Iterable[_Union[TaggedConstraint, _Mapping]]] = ...) -> None: ...

class RegisterResponse(_message.Message):
    __slots__ = ("maximum_capability", "client_token_key", "access", "previous_containers", "queue", "previous_node_tokens", "resource_types")
    MAXIMUM_CAPABILITY_FIELD_NUMBER: _ClassVar[int]
    CLIENT_TOKEN_KEY_FIELD_NUMBER: _ClassVar[int]
    ACCESS_FIELD_NUMBER: _ClassVar[int]
    PREVIOUS_CONTAINERS_FIELD_NUMBER: _ClassVar[int]
    QUEUE_FIELD_NUMBER: _ClassVar[int]
    PREVIOUS_NODE_TOKENS_FIELD_NUMBER: _ClassVar[int]
    RESOURCE_TYPES_FIELD_NUMBER: _ClassVar[int]
    maximum_capability: _records_pb2.Resource
    client_token_key: bytes
    access: _containers.RepeatedCompositeFieldContainer[_records_pb2.AccessRule]
    previous_containers: _containers.RepeatedCompositeFieldContainer[_records_pb2.Container]
    queue: str
    previous_node_tokens: _containers.RepeatedCompositeFieldContainer[_records_pb2.NodeToken]
    resource_types: _containers.RepeatedCompositeFieldContainer[_records_pb2.ResourceType]
    def __init__(self, maximum_capability: _Optional[_Union[_records_pb2.Resource, _Mapping]] = ..., client_token_key: _Optional[bytes] = ..., access: _Optional[_Iterable[_Union[_records_pb2.AccessRule, _Mapping]]] = ..., previous_containers: _Optional[_Iterable[_Union[_records_pb2.Container, _Mapping]]] = ..., queue: _Optional[str] = ..., previous_node_tokens: _Optional[_Iterable[_Union[_records_pb2.NodeToken, _Mapping]]] = ..., resource_types: _Optional[_Iterable[_Union[_records_pb2.ResourceType, _Mapping]]] = ...) -> None: ...

class BlacklistRequest(_message.Message):
    __slots__ = ("additions", "removals")
    ADDITIONS_FIELD_NUMBER: _ClassVar[int]
    REMOVALS_FIELD_NUMBER: _ClassVar[int]
    additions: _containers.RepeatedScalarFieldContainer[str]
    removals: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, additions: _Optional[_Iterable[str]] = ..., removals: _Optional[_Iterable[str]] = ...) -> None: ...

class AllocateRequest(_message.Message):
    __slots__ = ("asks", "releases", "blacklist", "response_id", "progress", "scheduling_requests", "tracking_url")
    ASKS_FIELD_NUMBER: _ClassVar[int]
    RELEASES_FIELD_NUMBER: _ClassVar[int]
    BLACKLIST_FIELD_NUMBER: _ClassVar[int]
    RESPONSE_ID_FIELD_NUMBER: _ClassVar[int]
    PROGRESS_FIELD_NUMBER: _ClassVar[int]
    SCHEDULING_REQUESTS_FIELD_NUMBER: _ClassVar[int]
    TRACKING_URL_FIELD_NUMBER: _ClassVar[int]
    asks: _containers.RepeatedCompositeFieldContainer[_records_pb2.ResourceRequest]
    releases: _containers.RepeatedCompositeFieldContainer[_ids_pb2.ContainerId]
    blacklist: BlacklistRequest
    response_id: int
    progress: float
    scheduling_requests: _containers.RepeatedCompositeFieldContainer[_records_pb2.SchedulingRequest]
    tracking_url: str
    def __init__(self, asks: _Optional[_Iterable[_Union[_records_pb2.ResourceRequest, _Mapping]]] = ..., releases: _Optional[_Iterable[_Union[_ids_pb2.ContainerId, _Mapping]]] = ..., blacklist: _Optional[_Union[BlacklistRequest, _Mapping]] = ..., response_id: _Optional[int] = ..., progress: _Optional[float] = ..., scheduling_requests: _Optional[_Iterable[_Union[_records_pb2.SchedulingRequest, _Mapping]]] = ..., tracking_url: _Optional[str] = ...) -> None: ...

class PreemptedContainer(_message.Message):
    __slots__ = ("container",)
    CONTAINER_FIELD_NUMBER: _ClassVar[int]
    container: _ids_pb2.ContainerId
    def __init__(self, container: _Optional[_Union[_ids_pb2.ContainerId, _Mapping]] = ...) -> None: ...

class StrictPreemption(_message.Message):
    __slots__ = ("containers",)
    CONTAINERS_FIELD_NUMBER: _ClassVar[int]
    containers: _containers.RepeatedCompositeFieldContainer[PreemptedContainer]
    def __init__(self, containers: _Optional[_Iterable[_Union[PreemptedContainer, _Mapping]]] = ...) -> None: ...

class NegotiablePreemption(_message.Message):
    __slots__ = ("containers",)
    CONTAINERS_FIELD_NUMBER: _ClassVar[int]
    containers: _containers.RepeatedCompositeFieldContainer[PreemptedContainer]
    def __init__(self, containers: _Optional[_Iterable[_Union[PreemptedContainer, _Mapping]]] = ...) -> None: ...

class Preemption(_message.Message):
    __slots__ = ("strict", "negotiable")
    STRICT_FIELD_NUMBER: _ClassVar[int]
    NEGOTIABLE_FIELD_NUMBER: _ClassVar[int]
    strict: StrictPreemption
    negotiable: NegotiablePreemption
    def __init__(self, strict: _Optional[_Union[StrictPreemption, _Mapping]] = ..., negotiable: _Optional[_Union[NegotiablePreemption, _Mapping]] = ...) -> None: ...

class RejectedRequest(_message.Message):
    __slots__ = ("reason", "request")
    REASON_FIELD_NUMBER: _ClassVar[int]
    REQUEST_FIELD_NUMBER: _ClassVar[int]
    reason: int
    request: _records_pb2.SchedulingRequest
    def __init__(self, reason: _Optional[int] = ..., request: _Optional[_Union[_records_pb2.SchedulingRequest, _Mapping]] = ...) -> None: ...

class AllocateResponse(_message.Message):
    __slots__ = ("command", "response_id", "allocated", "completed", "headroom", "updated_nodes", "num_cluster_nodes", "preemption", "node_tokens", "master_token", "application_priority", "previous_containers", "rejected")
    COMMAND_FIELD_NUMBER: _ClassVar[int]
    RESPONSE_ID_FIELD_NUMBER: _ClassVar[int]
    ALLOCATED_FIELD_NUMBER: _ClassVar[int]
    COMPLETED_FIELD_NUMBER: _ClassVar[int]
    HEADROOM_FIELD_NUMBER: _ClassVar[int]
    UPDATED_NODES_FIELD_NUMBER: _ClassVar[int]
    NUM_CLUSTER_NODES_FIELD_NUMBER: _ClassVar[int]
    PREEMPTION_FIELD_NUMBER: _ClassVar[int]
    NODE_TOKENS_FIELD_NUMBER: _ClassVar[int]
    MASTER_TOKEN_FIELD_NUMBER: _ClassVar[int]
    APPLICATION_PRIORITY_FIELD_NUMBER: _ClassVar[int]
    PREVIOUS_CONTAINERS_FIELD_NUMBER: _ClassVar[int]
    REJECTED_FIELD_NUMBER: _ClassVar[int]
    command: int
    response_id: int
    allocated: _containers.RepeatedCompositeFieldContainer[_records_pb2.Container]
    completed: _containers.RepeatedCompositeFieldContainer[_records_pb2.ContainerStatus]
    headroom: _records_pb2.Resource
    updated_nodes: _containers.RepeatedCompositeFieldContainer[_records_pb2.NodeReport]
    num_cluster_nodes: int
    preemption: Preemption
    node_tokens: _containers.RepeatedCompositeFieldContainer[_records_pb2.NodeToken]
    master_token: _security_pb2.Token
    application_priority: _records_pb2.Priority
    previous_containers: _containers.RepeatedCompositeFieldContainer[_records_pb2.Container]
    rejected: _containers.RepeatedCompositeFieldContainer[RejectedRequest]
    def __init__(self, command: _Optional[int] = ..., response_id: _Optional[int] = ..., allocated: _Optional[_Iterable[_Union[_records_pb2.Container, _Mapping]]] = ..., completed: _Optional[_Iterable[_Union[_records_pb2.ContainerStatus, _Mapping]]] = ..., headroom: _Optional[_Union[_records_pb2.Resource, _Mapping]] = ..., updated_nodes: _Optional[_Iterable[_Union[_records_pb2.NodeReport, _Mapping]]] = ..., num_cluster_nodes: _Optional[int] = ..., preemption: _Optional[_Union[Preemption, _Mapping]] = ..., node_tokens: _Optional[_Iterable[_Union[_records_pb2.NodeToken, _Mapping]]] = ..., master_token: _Optional[_Union[_security_pb2.Token, _Mapping]] = ..., application_priority: _Optional[_Union[_records_pb2.Priority, _Mapping]] = ..., previous_containers: _Optional[_Iterable[_Union[_records_pb2.Container, _Mapping]]] = ..., rejected: _Optional[_Iterable[_Union[RejectedRequest, _Mapping]]] = ...) -> None: ...

class FinishRequest(_message.Message):
    __slots__ = ("diagnostics", "tracking_url", "final_status")
    DIAGNOSTICS_FIELD_NUMBER: _ClassVar[int]
    TRACKING_URL_FIELD_NUMBER: _ClassVar[int]
    FINAL_STATUS_FIELD_NUMBER: _ClassVar[int]
    diagnostics: str
    tracking_url: str
    final_status: int
    def __init__(self, diagnostics: _Optional[str] = ..., tracking_url: _Optional[str] = ..., final_status: _Optional[int] = ...) -> None: ...

class FinishResponse(_message.Message):
    __slots__ = ("unregistered",)
    UNREGISTERED_FIELD_NUMBER: _ClassVar[int]
    unregistered: bool
    def __init__(self, unregistered: _Optional[bool] = ...) -> None: ...

class StartContainerRequest(_message.Message):
    __slots__ = ("launch", "container_token")
    LAUNCH_FIELD_NUMBER: _ClassVar[int]
    CONTAINER_TOKEN_FIELD_NUMBER: _ClassVar[int]
    launch: _records_pb2.LaunchContext
    container_token: _security_pb2.Token
    def __init__(self, launch: _Optional[_Union[_records_pb2.LaunchContext, _Mapping]] = ..., container_token: _Optional[_Union[_security_pb2.Token, _Mapping]] = ...) -> None: ...

class StartContainersRequest(_message.Message):
    __slots__ = ("requests",)
    REQUESTS_FIELD_NUMBER: _ClassVar[int]
    requests: _containers.RepeatedCompositeFieldContainer[StartContainerRequest]
    def __init__(self, requests: _Optional[_Iterable[_Union[StartContainerRequest, _Mapping]]] = ...) -> None: ...

class ContainerFailure(_message.Message):
    __slots__ = ("container", "exception")
    CONTAINER_FIELD_NUMBER: _ClassVar[int]
    EXCEPTION_FIELD_NUMBER: _ClassVar[int]
    container: _ids_pb2.ContainerId
    exception: _records_pb2.SerializedException
    def __init__(self, container: _Optional[_Union[_ids_pb2.ContainerId, _Mapping]] = ..., exception: _Optional[_Union[_records_pb2.SerializedException, _Mapping]] = ...) -> None: ...

class StartContainersResponse(_message.Message):
    __slots__ = ("succeeded", "failed")
    SUCCEEDED_FIELD_NUMBER: _ClassVar[int]
    FAILED_FIELD_NUMBER: _ClassVar[int]
    succeeded: _containers.RepeatedCompositeFieldContainer[_ids_pb2.ContainerId]
    failed: _containers.RepeatedCompositeFieldContainer[ContainerFailure]
    def __init__(self, succeeded: _Optional[_Iterable[_Union[_ids_pb2.ContainerId, _Mapping]]] = ..., failed: _Optional[_Iterable[_Union[ContainerFailure, _Mapping]]] = ...) -> None: ...

class StopContainersRequest(_message.Message):
    __slots__ = ("containers",)
    CONTAINERS_FIELD_NUMBER: _ClassVar[int]
    containers: _containers.RepeatedCompositeFieldContainer[_ids_pb2.ContainerId]
    def __init__(self, containers: _Optional[_Iterable[_Union[_ids_pb2.ContainerId, _Mapping]]] = ...) -> None: ...

class StopContainersResponse(_message.Message):
    __slots__ = ("succeeded", "failed")
    SUCCEEDED_FIELD_NUMBER: _ClassVar[int]
    FAILED_FIELD_NUMBER: _ClassVar[int]
    succeeded: _containers.RepeatedCompositeFieldContainer[_ids_pb2.ContainerId]
    failed: _containers.RepeatedCompositeFieldContainer[ContainerFailure]
    def __init__(self, succeeded: _Optional[_Iterable[_Union[_ids_pb2.ContainerId, _Mapping]]] = ..., failed: _Optional[_Iterable[_Union[ContainerFailure, _Mapping]]] = ...) -> None: ...

class GetContainerStatusesRequest(_message.Message):
    __slots__ = ("containers",)
    CONTAINERS_FIELD_NUMBER: _ClassVar[int]
    containers: _containers.RepeatedCompositeFieldContainer[_ids_pb2.ContainerId]
    def __init__(self, containers: _Optional[_Iterable[_Union[_ids_pb2.ContainerId, _Mapping]]] = ...) -> None: ...

class GetContainerStatusesResponse(_message.Message):
    __slots__ = ("statuses", "failed")
    STATUSES_FIELD_NUMBER: _ClassVar[int]
    FAILED_FIELD_NUMBER: _ClassVar[int]
    statuses: _containers.RepeatedCompositeFieldContainer[_records_pb2.ContainerStatus]
    failed: _containers.RepeatedCompositeFieldContainer[ContainerFailure]
    def __init__(self, statuses: _Optional[_Iterable[_Union[_records_pb2.ContainerStatus, _Mapping]]] = ..., failed: _Optional[_Iterable[_Union[ContainerFailure, _Mapping]]] = ...) -> None: ...

class SignalContainerRequest(_message.Message):
    __slots__ = ("container", "command")
    CONTAINER_FIELD_NUMBER: _ClassVar[int]
    COMMAND_FIELD_NUMBER: _ClassVar[int]
    container: _ids_pb2.ContainerId
    command: int
    def __init__(self, container: _Optional[_Union[_ids_pb2.ContainerId, _Mapping]] = ..., command: _Optional[int] = ...) -> None: ...

class SignalContainerResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...
