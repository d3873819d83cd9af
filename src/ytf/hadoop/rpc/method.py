"""What can be called: a method's name, its two messages, and whether it may be repeated."""

from __future__ import annotations

from typing import Generic, TypeVar

import msgspec
from google.protobuf.message import Message

Request = TypeVar("Request", bound=Message)
Answer = TypeVar("Answer", bound=Message)


class Method(msgspec.Struct, Generic[Request, Answer], frozen=True):
    """One method of a protocol.

    ``repeatable`` promises that doing it twice is the same as doing it once, so
    that a call whose outcome is unknown may simply be made again.
    """

    name: str
    request: type[Request]
    answer: type[Answer]
    repeatable: bool
