from ytf.hadoop.proto import ids_pb2 as _ids_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Token(_message.Message):
    __slots__ = ("identifier", "password", "kind", "service")
    IDENTIFIER_FIELD_NUMBER: _ClassVar[int]
    PASSWORD_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    SERVICE_FIELD_NUMBER: _ClassVar[int]
    identifier: bytes
    password: bytes
    kind: str
    service: str
    def __init__(self, identifier: _Optional[bytes] = ..., password: _Optional[bytes] = ..., kind: _Optional[str] = ..., service: _Optional[str] = ...) -> None: ...

class CredentialsEntry(_message.Message):
    __slots__ = ("alias", "token", "secret")
    ALIAS_FIELD_NUMBER: _ClassVar[int]
    TOKEN_FIELD_NUMBER: _ClassVar[int]
    SECRET_FIELD_NUMBER: _ClassVar[int]
    alias: str
    token: Token
    secret: bytes
    def __init__(self, alias: _Optional[str] = ..., token: _Optional[_Union[Token, _Mapping]] = ..., secret: _Optional[bytes] = ...) -> None: ...

class Credentials(_message.Message):
    __slots__ = ("tokens", "secrets")
    TOKENS_FIELD_NUMBER: _ClassVar[int]
    SECRETS_FIELD_NUMBER: _ClassVar[int]
    tokens: _containers.RepeatedCompositeFieldContainer[CredentialsEntry]
    secrets: _containers.RepeatedCompositeFieldContainer[CredentialsEntry]
    def __init__(self, tokens: _Optional[_Iterable[_Union[CredentialsEntry, _Mapping]]] = ..., secrets: _Optional[_Iterable[_Union[CredentialsEntry, _Mapping]]] = ...) -> None: ...

class MasterTokenIdentifier(_message.Message):
    __slots__ = ("attempt", "key_id")
    ATTEMPT_FIELD_NUMBER: _ClassVar[int]
    KEY_ID_FIELD_NUMBER: _ClassVar[int]
    attempt: _ids_pb2.ApplicationAttemptId
    key_id: int
    def __init__(self, attempt: _Optional[_Union[_ids_pb2.ApplicationAttemptId, _Mapping]] = ..., key_id: _Optional[int] = ...) -> None: ...

class ContainerTokenIdentifier(_message.Message):
    __slots__ = ("container", "node_address", "submitter", "expires_ms")
    CONTAINER_FIELD_NUMBER: _ClassVar[int]
    NODE_ADDRESS_FIELD_NUMBER: _ClassVar[int]
    SUBMITTER_FIELD_NUMBER: _ClassVar[int]
    EXPIRES_MS_FIELD_NUMBER: _ClassVar[int]
    container: _ids_pb2.ContainerId
    node_address: str
    submitter: str
    expires_ms: int
    def __init__(self, container: _Optional[_Union[_ids_pb2.ContainerId, _Mapping]] = ..., node_address: _Optional[str] = ..., submitter: _Optional[str] = ..., expires_ms: _Optional[int] = ...) -> None: ...
