"""The journal: what happened to a job, durable before anyone is told (docs/adr/0004).

Each master attempt writes into a directory of its own, as numbered, closed
segments::

    0001/claim  0001/00000001.segment  0001/00000002.segment
    0002/claim  0002/00000001.segment  0002/00000001.snapshot  0002/00000002.segment

**Group commit.** While one segment is being written, in a thread, all that
arrives goes into the next one, in order.

**Fencing.** A new attempt first claims its directory, then reads; an old one
looks for a higher directory *after* a segment is durable and before it says
so. Either the new attempt's reading finds that segment, or the old attempt
finds the claim and never acknowledges it.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections import deque
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from ytf.errors import InternalError, RefusedError, UnreachableError
from ytf.master.replay import Replay, read_journal
from ytf.master.segments import (
    SEGMENT,
    SNAPSHOT,
    Entry,
    Header,
    Span,
    attempts_in,
    blob_name,
    claim_name,
    directory,
    encode_entry,
    encode_segment,
    encode_snapshot,
    sequences_in,
)
from ytf.storage.blobs import Blobs

__all__ = ["Entry", "FencedError", "Journal", "JournalError", "Replay"]

_log = logging.getLogger(__name__)

_LONGEST_RETRY_S = 5.0

_T = TypeVar("_T")


class JournalError(UnreachableError):
    """The journal could not be read, or not be written in time.

    Entries that were given to :meth:`Journal.append` are kept, in order, and
    tried again: the same report may be repeated, or waited for, safely.
    """


class FencedError(RefusedError):
    """A newer master has taken the job over: this one must end, and may tell nobody anything."""


class _Batch:
    """Entries that will become one segment."""

    def __init__(self) -> None:
        self.lines: list[bytes] = []
        self.data: bytes | None = None
        """The segment, once a first try fixed what is in it."""
        self.done: asyncio.Future[OSError | None] = asyncio.Future()


class _Snapshot:
    """A state, to be written once all before it is."""

    def __init__(self, state: bytes) -> None:
        self.state = state
        self.done: asyncio.Future[OSError | None] = asyncio.Future()


class Journal:
    """One master attempt's journal: :meth:`open`, :meth:`replay` once, then append.

    Lives in one event loop. ``last_error`` is what the disk said when it last
    failed, None while all is well.
    """

    def __init__(self, blobs: Blobs, attempt: int, *, patience_s: float, retry_s: float) -> None:
        self.attempt = attempt
        self.last_error: OSError | None = None
        self._blobs = blobs
        self._patience_s = patience_s
        self._retry_s = retry_s
        self._fenced = False
        self._read: tuple[Replay, tuple[Span, ...]] | None = None
        self._ready = False
        self._sequence = 0
        self._queue: deque[_Batch | _Snapshot] = deque()
        self._writer: asyncio.Task[None] | None = None
        self._closing = asyncio.Event()
        # Its own: in the loop's usual threads a write would wait behind whatever else is slow.
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="journal")

    @classmethod
    async def open(
        cls, blobs: Blobs, attempt: int, *, patience_s: float = 5.0, retry_s: float = 0.1
    ) -> Journal:
        """Claim an attempt; from now on no lower one gets anything acknowledged.

        ``patience_s`` is how long an append waits for a disk that does not
        take it, ``retry_s`` the pause before the second try (each further one
        is longer). Raises :class:`FencedError` if the attempt or a higher one
        was claimed before, :class:`JournalError` if the disk fails.
        """
        journal = cls(blobs, attempt, patience_s=patience_s, retry_s=retry_s)
        try:
            await journal._in_thread(journal._claim)
        except OSError as exc:
            raise journal._failure("claimed", exc) from exc
        return journal

    async def replay(self) -> Replay:
        """What earlier attempts recorded: all they acknowledged, perhaps a little more.

        That this attempt stands on it is itself recorded before it is told.
        After a :class:`JournalError` it may be called again.
        """
        try:
            if self._read is None:
                self._read = await self._in_thread(
                    lambda: read_journal(self._blobs, below=self.attempt)
                )
            replay, spans = self._read
            if self.attempt > 1 and not self._ready:
                opening = Header(kind=SEGMENT, attempt=self.attempt, sequence=1, stands_on=spans)
                await self._in_thread(self._commit, 1, encode_segment(opening, ()))
                self._sequence = 1
        except OSError as exc:
            raise self._failure("replayed", exc) from exc
        self._ready = True
        return replay

    async def append(self, entries: Iterable[Entry]) -> None:
        """Record entries; returns when they are durable.

        They have their place in the order as soon as this is first awaited,
        and keep it whatever happens: after a :class:`JournalError`, or when
        the caller is cancelled, they are still written as soon as the disk
        allows. After a :class:`FencedError` they are not.
        """
        lines = [encode_entry(entry) for entry in entries]
        if not lines:
            return
        self._check_usable()
        last = self._queue[-1] if self._queue else None
        if not isinstance(last, _Batch) or last.data is not None:
            last = _Batch()
            self._queue.append(last)
        last.lines += lines
        await self._durable(last)

    async def snapshot(self, state: bytes) -> None:
        """Record a state that stands for all entries appended so far; older blobs go.

        ``state`` must be of the moment of the call: it covers exactly the
        entries given to :meth:`append` before. After a :class:`JournalError`
        it may be missing; nothing else is.
        """
        self._check_usable()
        item = _Snapshot(state)
        self._queue.append(item)
        await self._durable(item)

    async def close(self) -> None:
        """Write what is queued and let go. Idempotent; nothing may be appended after it.

        Raises :class:`JournalError` if entries could not be written. A fenced
        journal just closes: nothing of it counts any more.
        """
        self._closing.set()
        try:
            if self._writer is not None:
                await asyncio.wait((self._writer,), timeout=self._patience_s)
                if not self._writer.done():
                    self._writer.cancel()
                    await asyncio.wait((self._writer,))
                elif not self._writer.cancelled():
                    self._writer.result()
        finally:
            self._thread.shutdown(wait=False)
        lost = sum(len(item.lines) for item in self._queue if isinstance(item, _Batch))
        if lost and not self._fenced:
            raise self._failure(f"closed: {lost} entries are not", self.last_error)

    def _check_usable(self) -> None:
        if self._fenced:
            raise self._fence()
        if not self._ready:
            raise InternalError("the journal must be replayed before it is written")
        if self._closing.is_set():
            raise InternalError("the journal is closed")

    async def _durable(self, item: _Batch | _Snapshot) -> None:
        """Wait for the writer to be done with an item, or for patience to end."""
        if self._writer is None or self._writer.done():
            self._writer = asyncio.create_task(self._write_queue(), name="journal writer")
        writer = self._writer
        await asyncio.wait(
            (item.done, writer),
            timeout=self._patience_s,
            return_when=asyncio.FIRST_COMPLETED,
        )
        if item.done.done():
            error = item.done.result()
            if error is None:
                return
            raise self._failure("written", error) from error
        if writer.done() and not writer.cancelled():
            writer.result()
        if self._fenced:
            raise self._fence()
        raise self._failure("written", self.last_error) from self.last_error

    async def _write_queue(self) -> None:
        """Write all that is queued, however long the disk takes; end when nothing is left."""
        pause_s = self._retry_s
        while self._queue:
            item = self._queue[0]
            try:
                if isinstance(item, _Batch):
                    await self._write_segment(item)
                else:
                    await self._in_thread(self._write_snapshot, item.state)
            except FencedError:
                self._queue.clear()
                return
            except OSError as exc:
                self.last_error = exc
                _log.warning("the journal cannot be written: %s", exc)
                if isinstance(item, _Snapshot):
                    # Entries behind it may still fit where a whole state did not.
                    self._settle(item, exc)
                elif self._closing.is_set():
                    return
                else:
                    with contextlib.suppress(asyncio.TimeoutError):
                        await asyncio.wait_for(self._closing.wait(), pause_s)
                    pause_s = min(2 * pause_s, _LONGEST_RETRY_S)
            else:
                self.last_error = None
                pause_s = self._retry_s
                self._settle(item, None)

    def _settle(self, item: _Batch | _Snapshot, error: OSError | None) -> None:
        self._queue.popleft()
        item.done.set_result(error)

    async def _write_segment(self, batch: _Batch) -> None:
        sequence = self._sequence + 1
        if batch.data is None:
            header = Header(kind=SEGMENT, attempt=self.attempt, sequence=sequence)
            batch.data = encode_segment(header, batch.lines)
        await self._in_thread(self._commit, sequence, batch.data)
        self._sequence = sequence

    async def _in_thread(self, deed: Callable[..., _T], *arguments: object) -> _T:
        return await asyncio.get_running_loop().run_in_executor(self._thread, deed, *arguments)

    # What follows blocks, and runs in the journal's thread.

    def _claim(self) -> None:
        claimed = attempts_in(self._blobs.list())
        if claimed and claimed[-1] >= self.attempt:
            raise self._fence()
        try:
            self._blobs.write(claim_name(self.attempt), b"")
        except FileExistsError as exc:
            raise self._fence() from exc

    def _refuse_if_fenced(self) -> None:
        attempts = attempts_in(self._blobs.list())
        if attempts and attempts[-1] > self.attempt:
            raise self._fence()

    def _commit(self, sequence: int, data: bytes) -> None:
        """Write a segment, durable and not fenced off.

        The first look only saves an old master from writing what will never
        count; the one after it is what fencing stands on.
        """
        self._refuse_if_fenced()
        name = blob_name(self.attempt, sequence, SEGMENT)
        try:
            self._blobs.write(name, data)
        except FileExistsError as exc:
            # An earlier try failed, but only after it had done its work.
            if self._blobs.read(name) != data:
                raise self._fence() from exc
        self._refuse_if_fenced()

    def _write_snapshot(self, state: bytes) -> None:
        """Write a snapshot, and if it is in force, remove what it stands for."""
        self._refuse_if_fenced()
        header = Header(kind=SNAPSHOT, attempt=self.attempt, sequence=self._sequence)
        # One of the same number covers the same entries, so it is as good.
        with contextlib.suppress(FileExistsError):
            self._blobs.write(
                blob_name(self.attempt, self._sequence, SNAPSHOT), encode_snapshot(header, state)
            )
        # A successor that claims after this look finds the snapshot; one that
        # claimed before it may be reading what would be removed.
        self._refuse_if_fenced()
        try:
            self._remove_superseded()
        except OSError as exc:
            _log.warning("old parts of the journal could not be removed: %s", exc)

    def _remove_superseded(self) -> None:
        own = directory(self.attempt)
        names = self._blobs.list(own)
        for kind, end in ((SEGMENT, self._sequence + 1), (SNAPSHOT, self._sequence)):
            for sequence in sequences_in(names, kind):
                if sequence < end:
                    self._blobs.delete(blob_name(self.attempt, sequence, kind))
        for attempt in attempts_in(self._blobs.list()):
            if attempt < self.attempt:
                for name in self._blobs.list(directory(attempt)):
                    self._blobs.delete(f"{directory(attempt)}/{name}")

    def _fence(self) -> FencedError:
        """Stop for good; to be raised."""
        self._fenced = True
        return FencedError(
            f"master attempt {self.attempt} is no longer in charge: "
            "its journal was taken over by another",
            hint="nothing to do: the newer master goes on with the job",
        )

    def _failure(self, deed: str, error: OSError | None) -> JournalError:
        why = error or f"the disk has not answered for {self._patience_s:g} s"
        return JournalError(
            f"the journal of master attempt {self.attempt} could not be {deed}: {why}",
            hint="see that the disk of the job's staging directory has space and is writable",
        )
