from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class StateChange(_message.Message):
    __slots__ = ("source",)
    SOURCE_FIELD_NUMBER: _ClassVar[int]
    source: int
    def __init__(self, source: _Optional[int] = ...) -> None: ...

class TransitionRequest(_message.Message):
    __slots__ = ("change",)
    CHANGE_FIELD_NUMBER: _ClassVar[int]
    change: StateChange
    def __init__(self, change: _Optional[_Union[StateChange, _Mapping]] = ...) -> None: ...

class TransitionResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class ServiceStatusRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class ServiceStatusResponse(_message.Message):
    __slots__ = ("state", "ready", "not_ready_reason")
    STATE_FIELD_NUMBER: _ClassVar[int]
    READY_FIELD_NUMBER: _ClassVar[int]
    NOT_READY_REASON_FIELD_NUMBER: _ClassVar[int]
    state: int
    ready: bool
    not_ready_reason: str
    def __init__(self, state: _Optional[int] = ..., ready: _Optional[bool] = ..., not_ready_reason: _Optional[str] = ...) -> None: ...
