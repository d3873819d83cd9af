"""Writes the journal of a job: its events, durable before they have any effect (docs/adr/0004).

Each master attempt writes numbered segments into a directory of its own. A
segment is one file that is never changed::

    0001/claim  0001/00000001.segment  0001/00000002.segment
    0002/claim  0002/00000001.segment  0002/00000001.snapshot  0002/00000002.segment

**Group commit.** While a thread writes one segment, all new entries are
collected for the next one, in order.

**Fencing.** A new attempt first claims its directory and then reads. An old one
looks for a higher directory *after* a segment is durable and before it
acknowledges the entries. So either the new attempt reads that segment, or the
old attempt finds the claim and never acknowledges it.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections import deque
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from async_timeout import timeout

from ytf.errors import InternalError, RefusedError, UnreachableError
from ytf.journal.format import (
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
from ytf.journal.reader import Replay, read_journal
from ytf.storage.blobs import Blobs

__all__ = ["Entry", "FencedError", "Journal", "JournalError", "Replay"]

_log = logging.getLogger(__name__)

_LONGEST_RETRY_S = 5.0
_SLOW_S = 2.5
"""How long a write may take before it counts as trouble with the disk."""

_T = TypeVar("_T")


class JournalError(UnreachableError):
    """The journal could not be read, or could not be written in time.

    Entries that were given to :meth:`Journal.append` are kept in order and
    written later. It does no harm if the same report is repeated.
    """


class FencedError(RefusedError):
    """A newer master has taken over the job. This one must end and answer nothing more."""


class _Batch:
    """The entries of one segment."""

    def __init__(self) -> None:
        self.lines: list[bytes] = []
        self.data: bytes | None = None
        """The encoded segment. After the first try to write it, its content is fixed."""
        self.queued_at = time.monotonic()
        self.done: asyncio.Future[OSError | None] = asyncio.Future()


class _Snapshot:
    """A snapshot, which is written after all entries before it."""

    def __init__(self, state: bytes) -> None:
        self.state = state
        self.queued_at = time.monotonic()
        self.done: asyncio.Future[OSError | None] = asyncio.Future()


class Journal:
    """The journal of one master attempt: :meth:`open`, :meth:`replay` once, then append.

    Use it in one event loop only. ``last_error`` is the last error of the disk,
    None after a successful write.
    """

    def __init__(self, blobs: Blobs, attempt: int, *, timeout_s: float, retry_s: float) -> None:
        self.attempt = attempt
        self.last_error: OSError | None = None
        self._blobs = blobs
        self._timeout_s = timeout_s
        self._retry_s = retry_s
        self._fenced = False
        self._is_late = False
        self._read: tuple[Replay, tuple[Span, ...]] | None = None
        self._ready = False
        self._sequence = 0
        self._queue: deque[_Batch | _Snapshot] = deque()
        self._writer: asyncio.Task[None] | None = None
        self._closing = asyncio.Event()
        # A thread of its own: in the loop's default pool, other slow calls would delay writes.
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="journal")

    @classmethod
    async def open(
        cls, blobs: Blobs, attempt: int, *, timeout_s: float = 5.0, retry_s: float = 0.1
    ) -> Journal:
        """Claim an attempt. From now on nothing of a lower attempt is acknowledged.

        ``timeout_s`` is how long an append waits for a disk that fails,
        ``retry_s`` the pause before the second try; later pauses are longer.
        Raises :class:`FencedError` if the attempt or a higher one was claimed
        before, :class:`JournalError` if the disk fails.
        """
        journal = cls(blobs, attempt, timeout_s=timeout_s, retry_s=retry_s)
        try:
            await journal._in_thread(journal._claim)
        except OSError as exc:
            raise journal._failure("claimed", exc) from exc
        return journal

    async def replay(self) -> Replay:
        """The history of earlier attempts: all that they acknowledged, perhaps a little more.

        Before it returns, this attempt's first segment records which segments
        it has read. After a :class:`JournalError` it may be called again.
        """
        try:
            if self._read is None:
                self._read = await self._in_thread(
                    lambda: read_journal(self._blobs, below=self.attempt)
                )
            replay, spans = self._read
            if self.attempt > 1 and not self._ready:
                opening = Header(kind=SEGMENT, attempt=self.attempt, sequence=1, replayed=spans)
                await self._in_thread(self._commit, 1, encode_segment(opening, ()))
                self._sequence = 1
        except OSError as exc:
            raise self._failure("replayed", exc) from exc
        self._ready = True
        return replay

    async def append(self, entries: Iterable[Entry]) -> None:
        """Append entries; returns when they are durable.

        Their order is fixed by the first await, and does not change any more.
        After a :class:`JournalError`, or when the caller is cancelled, they are
        still written as soon as the disk allows. After a
        :class:`FencedError` they are not. Only the first append waits for a disk
        that fails. Until it has caught up, those after it raise at once, so that
        the caller is not held up by each of them.
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
        """Write a snapshot that replaces all entries appended so far, and remove these.

        ``state`` must be current: it covers exactly the entries that were given
        to :meth:`append` before. After a :class:`JournalError` there may be no
        snapshot, but no entry is lost.
        """
        self._check_usable()
        item = _Snapshot(state)
        self._queue.append(item)
        await self._durable(item)

    def trouble(self) -> str:
        """Why entries are not durable by now; empty if they are, or may be in a moment."""
        if not self._queue or self._fenced:
            return ""
        if self.last_error is not None:
            # Without the name of the file, which is another one at every try.
            return self.last_error.strerror or str(self.last_error)
        is_slow = time.monotonic() - self._queue[0].queued_at > _SLOW_S
        return "its writes are not answered" if is_slow else ""

    async def caught_up(self, timeout_s: float) -> bool:
        """Wait until all entries so far are durable; returns whether they are."""
        if not self._queue:
            return True
        last = self._queue[-1].done
        await asyncio.wait((last,), timeout=timeout_s)
        return last.done() and last.result() is None

    async def close(self) -> None:
        """Write all queued entries and close. Idempotent; nothing may be appended after it.

        Raises :class:`JournalError` if entries could not be written. A fenced
        journal raises nothing: its entries do not count any more.
        """
        self._closing.set()
        try:
            if self._writer is not None:
                await asyncio.wait((self._writer,), timeout=self._timeout_s)
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
        """Wait until the writer has written an item, at the longest for the timeout."""
        if self._writer is None or self._writer.done():
            self._writer = asyncio.create_task(self._write_queue(), name="journal writer")
        writer = self._writer
        await asyncio.wait(
            (item.done, writer),
            timeout=0 if self._is_late else self._timeout_s,
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
        self._is_late = True
        raise self._failure("written", self.last_error) from self.last_error

    async def _write_queue(self) -> None:
        """Write all queued items, however long the disk takes; end when none is left."""
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
                    # The entries after it are smaller, and may fit on a full disk.
                    self._complete(item, exc)
                elif self._closing.is_set():
                    return
                else:
                    with contextlib.suppress(asyncio.TimeoutError):
                        async with timeout(pause_s):
                            await self._closing.wait()
                    pause_s = min(2 * pause_s, _LONGEST_RETRY_S)
            else:
                self.last_error = None
                self._is_late = False
                pause_s = self._retry_s
                self._complete(item, None)

    def _complete(self, item: _Batch | _Snapshot, error: OSError | None) -> None:
        self._queue.popleft()
        item.done.set_result(error)

    async def _write_segment(self, batch: _Batch) -> None:
        sequence = self._sequence + 1
        if batch.data is None:
            header = Header(kind=SEGMENT, attempt=self.attempt, sequence=sequence)
            batch.data = encode_segment(header, batch.lines)
        await self._in_thread(self._commit, sequence, batch.data)
        self._sequence = sequence

    async def _in_thread(self, function: Callable[..., _T], *arguments: object) -> _T:
        return await asyncio.get_running_loop().run_in_executor(self._thread, function, *arguments)

    # The methods below block, and run in the journal's thread.

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
        """Write a segment; returns when it is durable and no newer attempt has claimed.

        Fencing needs the second check only. The first one keeps an old master
        from writing segments that will never count.
        """
        self._refuse_if_fenced()
        name = blob_name(self.attempt, sequence, SEGMENT)
        try:
            self._blobs.write(name, data)
        except FileExistsError as exc:
            # An earlier try wrote the blob and failed after that.
            if self._blobs.read(name) != data:
                raise self._fence() from exc
        self._refuse_if_fenced()

    def _write_snapshot(self, state: bytes) -> None:
        """Write a snapshot; if no newer attempt has claimed, remove the blobs that it replaces."""
        self._refuse_if_fenced()
        header = Header(kind=SNAPSHOT, attempt=self.attempt, sequence=self._sequence)
        # A snapshot with the same number covers the same entries.
        with contextlib.suppress(FileExistsError):
            self._blobs.write(
                blob_name(self.attempt, self._sequence, SNAPSHOT), encode_snapshot(header, state)
            )
        # A newer attempt that claims after this check finds the snapshot. One that
        # claimed before it may be reading the blobs that would be removed.
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
        """Mark the journal as fenced; returns the error to raise."""
        self._fenced = True
        return FencedError(
            f"master attempt {self.attempt} is no longer in charge: "
            "a newer attempt has taken over its journal",
            hint="nothing needs to be done: the newer master runs the job",
        )

    def _failure(self, action: str, error: OSError | None) -> JournalError:
        why = error or f"the disk has not answered for {self._timeout_s:g} s"
        return JournalError(
            f"the journal of master attempt {self.attempt} could not be {action}: {why}",
            hint="make sure that the disk of the job's staging directory has space and is writable",
        )
