"""Message classes from the compiled descriptors, in a pool of their own.

Generated code would tie us to one major version of protobuf, and registering
in the default pool could clash with TensorFlow or a user's program. Classes
made at import from a descriptor set in a private pool do neither: they work
with every protobuf from 3.20 on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, cast

from google.protobuf.message import Message

from ytf.hadoop.proto.wire import read_delimited

if TYPE_CHECKING:
    from google.protobuf.descriptor import Descriptor
    from google.protobuf.descriptor_pool import DescriptorPool

    ClassOf = Callable[[Descriptor], type[Message]]

_BEFORE_4_22 = "GetPrototype"
_COMPILED = Path(__file__).with_name("hadoop.binpb")


def bind(file: str, namespace: dict[str, object]) -> None:
    """Put the classes of ``<file>.proto`` into a module's namespace.

    What they look like to the type checker is in the stub beside the module.
    """
    messages = _POOL.FindFileByName(f"ytf/hadoop/proto/{file}.proto").message_types_by_name
    for name, descriptor in messages.items():
        namespace[name] = _CLASS_OF(descriptor)


def _load() -> tuple[DescriptorPool, ClassOf]:
    """A pool with all our files, and what makes a class of a descriptor."""
    try:
        return _load_quickly()
    except (ImportError, AttributeError, TypeError):
        return _load_anywhere()


def _load_quickly() -> tuple[DescriptorPool, ClassOf]:
    """As below, by protobuf's C core alone, which its wheels have had since 4.21.

    Through ``google.protobuf.descriptor_pool`` every command and every master
    would also load the whole implementation in Python that the core replaces,
    for 0.14 s of a processor. This way is not a public one: where it is not
    as it was, there is the other.
    """
    from google._upb import _message as core

    pool = cast("DescriptorPool", core.DescriptorPool())
    classes: dict[str, type[Message]] = {}
    for name, file in _files():
        pool.AddSerializedFile(file)
        # All of them, used or not: the core alone cannot make one when it meets it later.
        for descriptor in _with_nested(pool.FindFileByName(name).message_types_by_name.values()):
            members = {"DESCRIPTOR": descriptor, "__module__": __name__}
            made = core.MessageMeta(descriptor.name, (Message,), members)
            classes[descriptor.full_name] = cast("type[Message]", made)
    return pool, lambda descriptor: classes[descriptor.full_name]


def _load_anywhere() -> tuple[DescriptorPool, ClassOf]:
    """By protobuf's public names, of which one was renamed in 4.22."""
    from google.protobuf import descriptor_pool, message_factory

    pool = descriptor_pool.DescriptorPool()
    for _, file in _files():
        pool.AddSerializedFile(file)
    if hasattr(message_factory, "GetMessageClass"):
        return pool, message_factory.GetMessageClass
    make: ClassOf = getattr(message_factory.MessageFactory(pool), _BEFORE_4_22)
    return pool, make


def _files() -> Iterator[tuple[str, bytes]]:
    """The files of the set with their names, in its order: each after those it imports.

    Cut by hand, as importing protobuf's own messages for it would cost more:
    a set is its files, each behind the tag of field 1, and so begins a file with its name.
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
