from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class CallerContext(_message.Message):
    __slots__ = ("context",)
    CONTEXT_FIELD_NUMBER: _ClassVar[int]
    context: str
    def __init__(self, context: _Optional[str] = ...) -> None: ...

class RequestHeader(_message.Message):
    __slots__ = ("kind", "op", "call_id", "client_id", "retry_count", "caller_context")
    KIND_FIELD_NUMBER: _ClassVar[int]
    OP_FIELD_NUMBER: _ClassVar[int]
    CALL_ID_FIELD_NUMBER: _ClassVar[int]
    CLIENT_ID_FIELD_NUMBER: _ClassVar[int]
    RETRY_COUNT_FIELD_NUMBER: _ClassVar[int]
    CALLER_CONTEXT_FIELD_NUMBER: _ClassVar[int]
    kind: int
    op: int
    call_id: int
    client_id: bytes
    retry_count: int
    caller_context: CallerContext
    def __init__(self, kind: _Optional[int] = ..., op: _Optional[int] = ..., call_id: _Optional[int] = ..., client_id: _Optional[bytes] = ..., retry_count: _Optional[int] = ..., caller_context: _Optional[_Union[CallerContext, _Mapping]] = ...) -> None: ...

class ResponseHeader(_message.Message):
    __slots__ = ("call_id", "status", "server_version", "exception_class", "error_message", "error_detail", "client_id", "retry_count")
    CALL_ID_FIELD_NUMBER: _ClassVar[int]
    STATUS_FIELD_NUMBER: _ClassVar[int]
    SERVER_VERSION_FIELD_NUMBER: _ClassVar[int]
    EXCEPTION_CLASS_FIELD_NUMBER: _ClassVar[int]
    ERROR_MESSAGE_FIELD_NUMBER: _ClassVar[int]
    ERROR_DETAIL_FIELD_NUMBER: _ClassVar[int]
    CLIENT_ID_FIELD_NUMBER: _ClassVar[int]
    RETRY_COUNT_FIELD_NUMBER: _ClassVar[int]
    call_id: int
    status: int
    server_version: int
    exception_class: str
    error_message: str
    error_detail: int
    client_id: bytes
    retry_count: int
    def __init__(self, call_id: _Optional[int] = ..., status: _Optional[int] = ..., server_version: _Optional[int] = ..., exception_class: _Optional[str] = ..., error_message: _Optional[str] = ..., error_detail: _Optional[int] = ..., client_id: _Optional[bytes] = ..., retry_count: _Optional[int] = ...) -> None: ...

class UserInformation(_message.Message):
    __slots__ = ("effective_user", "real_user")
    EFFECTIVE_USER_FIELD_NUMBER: _ClassVar[int]
    REAL_USER_FIELD_NUMBER: _ClassVar[int]
    effective_user: str
    real_user: str
    def __init__(self, effective_user: _Optional[str] = ..., real_user: _Optional[str] = ...) -> None: ...

class ConnectionContext(_message.Message):
    __slots__ = ("user", "protocol")
    USER_FIELD_NUMBER: _ClassVar[int]
    PROTOCOL_FIELD_NUMBER: _ClassVar[int]
    user: UserInformation
    protocol: str
    def __init__(self, user: _Optional[_Union[UserInformation, _Mapping]] = ..., protocol: _Optional[str] = ...) -> None: ...

class MethodHeader(_message.Message):
    __slots__ = ("method", "protocol", "version")
    METHOD_FIELD_NUMBER: _ClassVar[int]
    PROTOCOL_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    method: str
    protocol: str
    version: int
    def __init__(self, method: _Optional[str] = ..., protocol: _Optional[str] = ..., version: _Optional[int] = ...) -> None: ...

class SaslAuth(_message.Message):
    __slots__ = ("method", "mechanism", "protocol", "server_id", "challenge")
    METHOD_FIELD_NUMBER: _ClassVar[int]
    MECHANISM_FIELD_NUMBER: _ClassVar[int]
    PROTOCOL_FIELD_NUMBER: _ClassVar[int]
    SERVER_ID_FIELD_NUMBER: _ClassVar[int]
    CHALLENGE_FIELD_NUMBER: _ClassVar[int]
    method: str
    mechanism: str
    protocol: str
    server_id: str
    challenge: bytes
    def __init__(self, method: _Optional[str] = ..., mechanism: _Optional[str] = ..., protocol: _Optional[str] = ..., server_id: _Optional[str] = ..., challenge: _Optional[bytes] = ...) -> None: ...

class SaslMessage(_message.Message):
    __slots__ = ("version", "state", "token", "auths")
    VERSION_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    TOKEN_FIELD_NUMBER: _ClassVar[int]
    AUTHS_FIELD_NUMBER: _ClassVar[int]
    version: int
    state: int
    token: bytes
    auths: _containers.RepeatedCompositeFieldContainer[SaslAuth]
    def __init__(self, version: _Optional[int] = ..., state: _Optional[int] = ..., token: _Optional[bytes] = ..., auths: _Optional[_Iterable[_Union[SaslAuth, _Mapping]]] = ...) -> None: ...
