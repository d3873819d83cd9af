"""Plain data from the events of a YAML parser.

Scalars follow YAML 1.2's core schema, so that ``no`` is a word, ``1e3`` a
number and ``12:30:00`` none; a number with leading zeros, which the two
versions of YAML read differently, stays text. Anchors, aliases and merge keys
(``<<``) work; a text that would blow up through them is refused.

This module imports PyYAML and is itself imported only where YAML is read.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from yaml.events import (
    AliasEvent,
    CollectionEndEvent,
    CollectionStartEvent,
    DocumentStartEvent,
    Event,
    MappingStartEvent,
    NodeEvent,
    ScalarEvent,
)

from ytf.errors import InternalError, SpecError
from ytf.specs.text import whole_number
from ytf.specs.wording import shown

MAX_NODES = 1_000_000
"""The most nodes there may be once every alias is written out."""
MAX_DEPTH = 32

INT = re.compile(r"[-+]?(?:0|[1-9][0-9]*)\Z", re.ASCII)
FLOAT = re.compile(
    r"""[-+]?(?:\.[0-9]+|[0-9]+\.[0-9]*)(?:[eE][-+]?[0-9]+)?\Z
    |[-+]?[0-9]+[eE][-+]?[0-9]+\Z
    |[-+]?\.(?:inf|Inf|INF)\Z
    |\.(?:nan|NaN|NAN)\Z""",
    re.ASCII | re.VERBOSE,
)
_WORDS: dict[str, bool | None] = {
    **dict.fromkeys(("", "~", "null", "Null", "NULL")),
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
}
_MERGE = "<<"


def build(events: Iterable[Event]) -> object:
    """The data of the only document in a stream, or None if there is no document."""
    return _Builder(iter(events)).stream()


class _Builder:
    def __init__(self, events: Iterator[Event]) -> None:
        self._events = events
        self._anchors: dict[str, tuple[object, int]] = {}
        """What an anchor stands for, and how many nodes that is."""
        self._nodes = 0

    def stream(self) -> object:
        data: object = None
        documents = 0
        for event in self._events:
            if isinstance(event, DocumentStartEvent):
                documents += 1
                if documents > 1:
                    raise _error(event, "there is more than one document")
            elif isinstance(event, NodeEvent):
                data = self._node(event, 0)
        return data

    def _node(self, event: Event, depth: int) -> object:
        before = self._nodes
        self._nodes += 1
        data: object
        if isinstance(event, AliasEvent):
            data = self._alias(event)
        elif isinstance(event, ScalarEvent):
            data = _scalar(event)
        elif isinstance(event, CollectionStartEvent):
            data = self._collection(event, depth + 1)
        else:
            raise InternalError(f"the YAML parser gave {event!r} where a node begins")
        if self._nodes > MAX_NODES:
            raise _error(event, "too large for a job spec, with its aliases written out")
        if isinstance(event, (ScalarEvent, CollectionStartEvent)) and event.anchor is not None:
            self._anchors[event.anchor] = data, self._nodes - before
        return data

    def _alias(self, event: AliasEvent) -> object:
        if event.anchor is None or event.anchor not in self._anchors:
            raise _error(event, f"no anchor {shown(event.anchor)} ends before this alias")
        data, nodes = self._anchors[event.anchor]
        self._nodes += nodes
        return data

    def _collection(self, event: CollectionStartEvent, depth: int) -> object:
        if event.tag is not None:
            raise _tagged(event, event.tag)
        if depth > MAX_DEPTH:
            raise _error(event, "nested too deeply for a job spec")
        if isinstance(event, MappingStartEvent):
            return self._mapping(depth)
        return [self._node(item, depth) for item in self._until_end()]

    def _mapping(self, depth: int) -> dict[object, object]:
        own: dict[object, object] = {}
        merged: list[object] = []
        for event in self._until_end():
            if not isinstance(event, ScalarEvent):
                raise _error(event, "a key must be plain text or a number")
            key = self._node(event, depth)
            value_event = next(self._events)
            value = self._node(value_event, depth)
            if key == _MERGE and event.implicit[0]:
                merged += value if isinstance(value, list) else [value]
                if not all(isinstance(mapping, dict) for mapping in merged):
                    raise _error(value_event, "only mappings can be merged with '<<'")
            elif key in own:
                raise _error(event, f"duplicate: the key {shown(key)} is there twice")
            else:
                own[key] = value
        inherited: dict[object, object] = {}
        for mapping in reversed(merged):
            if isinstance(mapping, dict):
                inherited.update(mapping)
        return {**inherited, **own}

    def _until_end(self) -> Iterator[Event]:
        """The events that begin an item; the caller takes the rest of each item itself."""
        for event in self._events:
            if isinstance(event, CollectionEndEvent):
                return
            yield event


def _scalar(event: ScalarEvent) -> str | int | float | bool | None:
    if event.tag is not None:
        raise _tagged(event, event.tag)
    text = event.value
    is_plain = event.implicit[0]
    if not is_plain:
        return text
    if text in _WORDS:
        return _WORDS[text]
    if INT.match(text):
        return whole_number(text)
    if FLOAT.match(text):
        # Infinity and NaN have a dot in YAML, in Python none.
        return float(text.replace(".", "") if text[-1].isalpha() else text)
    return text


def _tagged(event: Event, tag: str) -> SpecError:
    return _error(event, f"tags such as {shown(tag)} have no meaning in a job spec")


def _error(event: Event, message: str) -> SpecError:
    mark = event.start_mark
    where = f"line {mark.line + 1}, column {mark.column + 1}" if mark is not None else None
    return SpecError(message, where=where)
