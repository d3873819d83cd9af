from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class ApplicationId(_message.Message):
    __slots__ = ("id", "cluster_timestamp")
    ID_FIELD_NUMBER: _ClassVar[int]
    CLUSTER_TIMESTAMP_FIELD_NUMBER: _ClassVar[int]
    id: int
    cluster_timestamp: int
    def __init__(self, id: _Optional[int] = ..., cluster_timestamp: _Optional[int] = ...) -> None: ...

class ApplicationAttemptId(_message.Message):
    __slots__ = ("application", "attempt")
    APPLICATION_FIELD_NUMBER: _ClassVar[int]
    ATTEMPT_FIELD_NUMBER: _ClassVar[int]
    application: ApplicationId
    attempt: int
    def __init__(self, application: _Optional[_Union[ApplicationId, _Mapping]] = ..., attempt: _Optional[int] = ...) -> None: ...

class ContainerId(_message.Message):
    __slots__ = ("application", "attempt", "id")
    APPLICATION_FIELD_NUMBER: _ClassVar[int]
    ATTEMPT_FIELD_NUMBER: _ClassVar[int]
    ID_FIELD_NUMBER: _ClassVar[int]
    application: ApplicationId
    attempt: ApplicationAttemptId
    id: int
    def __init__(self, application: _Optional[_Union[ApplicationId, _Mapping]] = ..., attempt: _Optional[_Union[ApplicationAttemptId, _Mapping]] = ..., id: _Optional[int] = ...) -> None: ...

class NodeId(_message.Message):
    __slots__ = ("host", "port")
    HOST_FIELD_NUMBER: _ClassVar[int]
    PORT_FIELD_NUMBER: _ClassVar[int]
    host: str
    port: int
    def __init__(self, host: _Optional[str] = ..., port: _Optional[int] = ...) -> None: ...
