"""Reads a job's journal, and decides which of its segments count (docs/adr/0004).

A master replays first, and its first segment records which segments it has
replayed. An old master that is still alive may go on writing into its own
directory, but segments that its successor has not read never count. So the
newest attempt with a readable beginning is the *head*. The history is the head's
snapshot, or the spans that its segment 1 lists, and then the head's own segments
up to the first one that is missing or torn. All other blobs are ignored.

Damage is reported and never fatal: a segment is acknowledged only once it is
durable, so a torn or missing *last* segment has no acknowledged entry.
"""

from __future__ import annotations

import msgspec

from ytf.journal.format import (
    SEGMENT,
    SNAPSHOT,
    Entry,
    Header,
    Span,
    TornError,
    attempts_in,
    blob_name,
    decode_segment,
    decode_snapshot,
    directory,
    sequences_in,
)
from ytf.storage.blobs import ReadableBlobs


class Replay(msgspec.Struct, frozen=True, kw_only=True):
    """A job's history: the newest snapshot, if there is one, and all entries after it.

    ``torn`` lists the damaged blobs, for the log.
    """

    snapshot: bytes | None = None
    entries: list[Entry] = msgspec.field(default_factory=list)
    torn: list[str] = msgspec.field(default_factory=list)


def read_journal(blobs: ReadableBlobs, *, below: int) -> tuple[Replay, tuple[Span, ...]]:
    """The history that the attempts before ``below`` wrote, and the spans it was read from.

    Blocks. Raises :class:`OSError` if the disk cannot be read.
    """
    reader = _Reader(blobs)
    for attempt in reversed(attempts_in(blobs.list())):
        if attempt < below and reader.read_head(attempt):
            break
    return reader.replay(), tuple(reader.spans)


class _Reader:
    """Reads the history of one head."""

    def __init__(self, blobs: ReadableBlobs) -> None:
        self._blobs = blobs
        self._snapshot: bytes | None = None
        self._entries: list[Entry] = []
        self._torn: list[str] = []
        self.spans: list[Span] = []

    def replay(self) -> Replay:
        return Replay(snapshot=self._snapshot, entries=self._entries, torn=self._torn)

    def read_head(self, attempt: int) -> bool:
        """Read an attempt and the spans it has replayed; False if its beginning is unreadable."""
        names = self._blobs.list(directory(attempt))
        last = max(sequences_in(names, SEGMENT), default=0)
        for snapshot in reversed(sequences_in(names, SNAPSHOT)):
            if self._read_snapshot(attempt, snapshot):
                self._read_segments(Span(attempt=attempt, snapshot=snapshot, last=last))
                return True
        first = self._read_segment(attempt, 1) if last else None
        if first is None:
            return False
        for span in first[0].replayed:
            if span.snapshot is None or self._read_snapshot(span.attempt, span.snapshot):
                self._read_segments(span)
        self._read_segments(Span(attempt=attempt, snapshot=None, last=last))
        return True

    def _read_segments(self, span: Span) -> None:
        """Read the segments of a span, up to the first one that is missing or torn."""
        start = span.snapshot or 0
        sequence = start
        while sequence < span.last:
            segment = self._read_segment(span.attempt, sequence + 1)
            if segment is None:
                break
            self._entries += segment[1]
            sequence += 1
        if sequence > start or span.snapshot is not None:
            self.spans.append(Span(attempt=span.attempt, snapshot=span.snapshot, last=sequence))

    def _read_snapshot(self, attempt: int, sequence: int) -> bool:
        name = blob_name(attempt, sequence, SNAPSHOT)
        try:
            self._snapshot = decode_snapshot(self._blobs.read(name))
        except (FileNotFoundError, TornError):
            self._torn.append(name)
            return False
        return True

    def _read_segment(self, attempt: int, sequence: int) -> tuple[Header, list[Entry]] | None:
        name = blob_name(attempt, sequence, SEGMENT)
        try:
            return decode_segment(self._blobs.read(name))
        except (FileNotFoundError, TornError):
            self._torn.append(name)
            return None
