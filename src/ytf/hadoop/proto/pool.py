"""Message classes from the compiled descriptors, in a pool of their own.

Generated code would tie us to one major version of protobuf, and registering
in the default pool could clash with TensorFlow or a user's program. Classes
made at import from a descriptor set in a private pool do neither: they work
with every protobuf from 3.20 on.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from google.protobuf import descriptor_pool, message_factory
from google.protobuf.descriptor import Descriptor
from google.protobuf.message import Message

from ytf.hadoop.proto.wire import read_delimited

_BEFORE_4_22 = "GetPrototype"
_COMPILED = Path(__file__).with_name("hadoop.binpb")


def bind(file: str, namespace: dict[str, object]) -> None:
    """Put the classes of ``<file>.proto`` into a module's namespace.

    What they look like to the type checker is in the stub beside the module.
    """
    messages = _POOL.FindFileByName(f"ytf/hadoop/proto/{file}.proto").message_types_by_name
    for name, descriptor in messages.items():
        namespace[name] = _CLASS_OF(descriptor)


def _load() -> descriptor_pool.DescriptorPool:
    """A pool with all files of the set, in its order: each after those it imports."""
    pool = descriptor_pool.DescriptorPool()
    compiled = _COMPILED.read_bytes()
    at = 0
    # A set is its files, each behind the tag of field 1. Cut by hand: importing
    # protobuf's own messages for it would cost every command some milliseconds.
    while at < len(compiled):
        file, at = read_delimited(compiled, at + 1)
        pool.AddSerializedFile(file)
    return pool


def _class_maker(pool: descriptor_pool.DescriptorPool) -> Callable[[Descriptor], type[Message]]:
    """The function of this protobuf that makes a class: it was renamed in 4.22."""
    if hasattr(message_factory, "GetMessageClass"):
        return message_factory.GetMessageClass
    make: Callable[[Descriptor], type[Message]]
    make = getattr(message_factory.MessageFactory(pool), _BEFORE_4_22)
    return make


_POOL = _load()
_CLASS_OF = _class_maker(_POOL)
