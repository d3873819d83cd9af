"""Reads YAML text: builds plain data from PyYAML's parser events, for job specs (ADR 10).

Scalars follow the core schema of YAML 1.2: ``no`` is text, ``1e3`` is a number
and ``12:30:00`` is text. YAML 1.1 and 1.2 read a number with leading zeros
differently, so it stays text. Anchors, aliases and merge keys (``<<``) work. A
document that aliases would expand beyond :data:`MAX_NODES` is refused. The work is
proportional to the nodes, and long texts count as several.

Importing PyYAML takes time, so this module is imported only where YAML is read.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import yaml
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

from ytf.errors import InternalError, SpecError, shown
from ytf.specs.codec import decoded, whole_number

MAX_YAML = 8 * 1024 * 1024
"""The longest YAML text; JSON takes no more memory than its length, and has no limit."""
MAX_NODES = 1_000_000
"""The limit on nodes, with every alias counted as a copy of what it refers to."""
MAX_DEPTH = 32
_NODE_LENGTH = 64
"""So many characters of text count as one more node: an alias of a long text is a copy of it."""
_MAX_KEY = 1 << 53
"""Python's dicts become slow with many large integers, which may all have one hash."""

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


def read_yaml(text: str | bytes) -> object:
    """Return the data of a YAML text, which must be a single document."""
    if len(text) > MAX_YAML:
        raise SpecError(f"longer than the {MAX_YAML // 1024**2} MiB a job spec may have in YAML")
    try:
        # libyaml keeps its own stack, so only the builder has to limit the depth.
        loader = yaml.CSafeLoader if yaml.__with_libyaml__ else yaml.SafeLoader
        return _Builder(yaml.parse(decoded(text), Loader=loader)).stream()
    except yaml.MarkedYAMLError as exc:
        mark = exc.problem_mark
        where = f"line {mark.line + 1}, column {mark.column + 1}" if mark else None
        raise SpecError(f"not YAML: {exc.problem or exc.context}", where=where) from exc
    except yaml.YAMLError as exc:
        raise SpecError(f"not YAML: {' '.join(str(exc).split())}") from exc
    except UnicodeEncodeError as exc:
        raise SpecError("not YAML: a character that UTF-8 cannot express") from exc


class _Builder:
    def __init__(self, events: Iterator[Event]) -> None:
        self._events = events
        self._anchors: dict[str, tuple[object, int]] = {}
        """The data of each anchor, and its number of nodes."""
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
            self._nodes += len(event.value) // _NODE_LENGTH
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
            if isinstance(key, int) and abs(key) > _MAX_KEY:
                raise _error(event, "a number this large cannot be a key")
            value_event = next(self._events)
            value = self._node(value_event, depth)
            if key == _MERGE and event.implicit[0]:
                mappings = value if isinstance(value, list) else [value]
                if not all(isinstance(mapping, dict) for mapping in mappings):
                    raise _error(value_event, "only mappings can be merged with '<<'")
                merged += mappings
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
        """Yields the first event of each item. The caller consumes the rest of the item."""
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
        # YAML writes .inf and .nan; Python has no dot there.
        return float(text.replace(".", "") if text[-1].isalpha() else text)
    return text


def _tagged(event: Event, tag: str) -> SpecError:
    return _error(event, f"tags such as {shown(tag)} have no meaning in a job spec")


def _error(event: Event, message: str) -> SpecError:
    mark = event.start_mark
    where = f"line {mark.line + 1}, column {mark.column + 1}" if mark is not None else None
    return SpecError(message, where=where)
