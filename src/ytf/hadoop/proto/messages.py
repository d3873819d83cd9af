"""Makes the classes of our protobuf messages, and encodes and decodes them.

Generated code would require one major version of protobuf, and the default
pool could clash with TensorFlow or a user's program. So :func:`bind` makes the
classes at import, from a descriptor set in a private pool. That works with
every protobuf since 3.20.

Bytes from a peer may be hostile. The protobuf runtimes raise different errors
for malformed ones (and upb returns invalid text as ``bytes``), so decode all of
them with :func:`parse` and :func:`text`.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar, cast

from google.protobuf.message import DecodeError, EncodeError, Message

from ytf.errors import InternalError

if TYPE_CHECKING:
    from google.protobuf.descriptor import Descriptor
    from google.protobuf.descriptor_pool import DescriptorPool

    ClassOf = Callable[[Descriptor], type[Message]]

M = TypeVar("M", bound=Message)

_COMPILED = Path(__file__).with_name("hadoop.binpb")
_BEFORE_4_22 = "GetPrototype"

_MAX_VARINT_BYTES = 5
"""A length is at most 32 bits: five groups of seven."""

_REFUSALS = (DecodeError, ValueError, IndexError, KeyError, struct.error, RecursionError)
"""The errors of the runtimes for malformed bytes: not only DecodeError."""


class MalformedMessageError(ValueError):
    """The bytes of a peer violate its protocol. This error never leaves ``hadoop``."""


def parse(kind: type[M], data: bytes) -> M:
    """Decode all of ``data`` as a message; raises :class:`MalformedMessageError`."""
    name = kind.DESCRIPTOR.name
    try:
        message = kind.FromString(data)
    except _REFUSALS as exc:
        raise MalformedMessageError(f"{len(data)} bytes that are no {name}: {exc}") from exc
    # Not all runtimes check required fields when they parse.
    if not message.IsInitialized():
        raise MalformedMessageError(f"a {name} that lacks a required field")
    return message


def serialize(message: Message) -> bytes:
    """Encode a message of ours. A missing required field is a bug of ours."""
    try:
        return message.SerializeToString()
    except EncodeError as exc:
        raise InternalError(f"a {type(message).__name__} is incomplete: {exc}") from exc


def text(value: str | bytes) -> str:
    """A string field of a peer's message, also if it is not UTF-8."""
    return value if isinstance(value, str) else value.decode("utf-8", "replace")


def delimited(data: bytes) -> bytes:
    """``data`` with its length before it as a varint."""
    return varint(len(data)) + data


def varint(value: int) -> bytes:
    """Encode a number below 2**32 as protobuf does."""
    groups = bytearray()
    while value > 0x7F:
        groups.append(value & 0x7F | 0x80)
        value >>= 7
    groups.append(value)
    return bytes(groups)


def read_delimited(data: bytes, start: int) -> tuple[bytes, int]:
    """The delimited bytes at ``start``, and their end; raises :class:`MalformedMessageError`."""
    length, shift, at = 0, 0, start
    while True:
        if at >= len(data) or at - start >= _MAX_VARINT_BYTES:
            raise MalformedMessageError(f"no length at byte {start} of {len(data)}")
        group = data[at]
        at += 1
        length |= (group & 0x7F) << shift
        shift += 7
        if group < 0x80:
            break
    if length > len(data) - at:
        raise MalformedMessageError(f"a length of {length} where {len(data) - at} bytes are left")
    return data[at : at + length], at + length


def bind(file: str, namespace: dict[str, object]) -> None:
    """Put the classes of ``<file>.proto`` into a module's namespace.

    The stub beside the module has their types.
    """
    messages = _POOL.FindFileByName(f"ytf/hadoop/proto/{file}.proto").message_types_by_name
    for name, descriptor in messages.items():
        namespace[name] = _CLASS_OF(descriptor)


def _load() -> tuple[DescriptorPool, ClassOf]:
    """A pool with all our files, and the function that makes a class of a descriptor."""
    try:
        return _load_quickly()
    except (ImportError, AttributeError, TypeError):
        return _load_anywhere()


def _load_quickly() -> tuple[DescriptorPool, ClassOf]:
    """The same with protobuf's C core alone, which its wheels contain since 4.21.

    ``google.protobuf.descriptor_pool`` would also load the whole Python
    implementation that the core replaces, which costs every command and every
    master 0.14 s of CPU. The core is not a public API: if it has changed,
    ``_load_anywhere`` is used.
    """
    from google._upb import _message as core

    pool = cast("DescriptorPool", core.DescriptorPool())
    classes: dict[str, type[Message]] = {}
    for name, file in _files():
        pool.AddSerializedFile(file)
        # All of them, used or not: the core alone cannot make a class later.
        for descriptor in _with_nested(pool.FindFileByName(name).message_types_by_name.values()):
            members = {"DESCRIPTOR": descriptor, "__module__": __name__}
            made = core.MessageMeta(descriptor.name, (Message,), members)
            classes[descriptor.full_name] = cast("type[Message]", made)
    return pool, lambda descriptor: classes[descriptor.full_name]


def _load_anywhere() -> tuple[DescriptorPool, ClassOf]:
    """The same with protobuf's public API, of which one name changed in 4.22."""
    from google.protobuf import descriptor_pool, message_factory

    pool = descriptor_pool.DescriptorPool()
    for _, file in _files():
        pool.AddSerializedFile(file)
    if hasattr(message_factory, "GetMessageClass"):
        return pool, message_factory.GetMessageClass
    make: ClassOf = getattr(message_factory.MessageFactory(pool), _BEFORE_4_22)
    return pool, make


def _files() -> Iterator[tuple[str, bytes]]:
    """The names and bytes of the files in the set. Each comes after those it imports.

    The set is split by hand, because importing protobuf's own messages would
    cost more. It consists of its files, each after the tag of field 1. A file
    begins with its name in the same way.
    """
    compiled = _COMPILED.read_bytes()
    at = 0
    while at < len(compiled):
        file, at = read_delimited(compiled, at + 1)
        name, _ = read_delimited(file, 1)
        yield name.decode(), file


def _with_nested(messages: Iterable[Descriptor]) -> Iterator[Descriptor]:
    for message in messages:
        yield message
        yield from _with_nested(message.nested_types)


_POOL, _CLASS_OF = _load()
