"""Connects a local directory with its snapshots in HDFS: restores it, then syncs it.

One engine serves one attempt at a task. Calls block; each of them raises ``OSError`` if the
file system fails, and may be called again. What was uploaded before is not uploaded again.
"""

from __future__ import annotations

import contextlib
import json
import time
import zlib
from collections.abc import Callable
from typing import NamedTuple

from ytf.storage.checkpoint_sync.local_directory import (
    ChangedError,
    DamagedFileError,
    FileReader,
    LocalDirectory,
    PinnedFiles,
    Tell,
    UnreadableError,
    is_being_written,
)
from ytf.storage.checkpoint_sync.snapshot import (
    DirectoryHistory,
    FileVersion,
    Snapshot,
    SyncedFile,
    is_growing,
)
from ytf.storage.checkpoint_sync.store import BrokenSnapshotError, CheckpointStore

OPEN_INTERVALS = 10
"""For how many intervals after its last change a file that is open for writing is left alone."""
REWRITE_BYTES_PER_S = 4 << 20
"""How much of a file that grows is uploaded again and again, on average: it is sent whole."""
FOREVER_NS = 1 << 63
"""A cut that leaves nothing out: for a program that has ended as it should."""
MOST_TOLD = 10
"""How many names that are left out are told at once."""


class _View(NamedTuple):
    """A look at the directory: when it began, and the versions that were there."""

    began_ns: int
    pins: PinnedFiles


class SyncEngine:
    """Keeps a directory in sync with the snapshots of a store.

    ``interval_s``: how long a version must be unchanged to count as whole. A program may put
    another in its place meanwhile.
    """

    def __init__(
        self,
        directory: LocalDirectory,
        make_store: Callable[[], CheckpointStore],
        interval_s: float,
        tell: Tell,
        now_ns: Callable[[], int] = time.time_ns,
    ) -> None:
        self._directory = directory
        self._make_store = make_store
        self._interval_ns = round(interval_s * 1e9)
        self._tell = tell
        self._now_ns = now_ns
        self._history = DirectoryHistory()
        self._view: _View | None = None
        self._uploaded: dict[str, SyncedFile] = {}
        self._unreadable: set[str] = set()
        self._skipped: set[str] = set()
        self._memory_trouble = ""
        self._rewritten: dict[str, float] = {}
        self.store = make_store()

    def claim(self) -> None:
        """Become the one writer of the directory in HDFS; see ``CheckpointStore.claim``."""
        store = self._make_store()
        store.claim()
        self.store = store

    def restore(self) -> None:
        """Make the local directory equal to the last snapshot, if there is one.

        If nobody else has published since this container did, what it had not published
        by then comes first: a snapshot may be older than the files here because HDFS failed.
        """
        url = self.store.uri()
        if not self.store.has_snapshot:
            self._tell(f"nothing was synced to {url} so far: nothing is restored")
            return
        digest, cut_ns = self._state()
        if digest == digest_of(self.store.snapshot):
            self.sync_now(self._now_ns() - self._interval_ns if cut_ns is None else cut_ns)
        snapshot = self.store.snapshot
        try:
            changed = self._directory.restore(snapshot, self.store.read, self._tell)
        except (FileNotFoundError, DamagedFileError) as exc:
            raise BrokenSnapshotError(
                f"the last snapshot in {url} cannot be restored: {exc}",
                hint="bring the file back, or sync to another directory; without the directory "
                ".ytf-sync there, nothing is restored and nothing is removed",
            ) from exc
        self._forget_view()
        self._remember(None)
        size = sum(file.size for file in snapshot.values())
        how = "restored" if changed else "is already here"
        self._tell(f"the last snapshot of {url} {how}: {len(snapshot)} files, {size} bytes")

    def sync(self) -> int:
        """Publish the directory as the last call saw it; returns how many files are new in it.

        What was seen an interval ago and is unchanged since then is whole. Then look at
        the directory again, for the next call.
        """
        self.store.settle()
        view, new = self._view, 0
        if view is not None and self._now_ns() >= view.began_ns + self._interval_ns:
            new = self._publish(view, view.began_ns)
            view = None
        if view is None:
            self._look()
        return new

    def sync_now(self, cut_ns: int) -> int:
        """Publish what is there and was written up to a time; returns how many files are new.

        For a directory that no program writes to. ``FOREVER_NS`` for everything in it.
        """
        self.store.settle()
        view = self._look()
        return self._publish(view, cut_ns, is_last=True)

    def finish(self, cut_ns: int) -> None:
        """Publish for the last time: the program has ended, and the cut says what of it counts."""
        self._remember(cut_ns)
        if cut_ns < FOREVER_NS and self._view is not None and self._view.began_ns <= cut_ns:
            self._publish(self._view, self._view.began_ns)
        self.sync_now(cut_ns)
        self._remember(cut_ns)

    def start_over(self) -> None:
        """Claim again, after ``RemovedError``: what was there is gone, so all is uploaded anew."""
        self._uploaded = {}
        self._forget_view()
        self.claim()

    # Looking and publishing

    def _look(self) -> _View:
        """Scan the directory, and keep the versions of the files that have changed."""
        if self._view is not None:
            self._view.pins.release()
            self._view = None
        began_ns = self._now_ns()
        scan = self._directory.scan()
        self._tell_skipped()
        self._history.update(scan, self.store.snapshot, began_ns, self._now_ns())
        pins = self._directory.pin(self._history.uploads(self.store.snapshot, FOREVER_NS))
        self._view = _View(began_ns, pins)
        return self._view

    def _tell_skipped(self) -> None:
        """Tell what a scan has left out, each name once."""
        skipped = self._directory.skipped
        new = sorted(set(skipped) - self._skipped)
        self._skipped.update(new)
        for name in new[:MOST_TOLD]:
            self._tell(f"{name} is not synced: {skipped[name]}")
        if len(new) > MOST_TOLD:
            self._tell(f"{len(new) - MOST_TOLD} more like these are not synced")

    def _forget_view(self) -> None:
        """The directory is another one now: what was seen of the last one does not count."""
        if self._view is not None:
            self._view.pins.release()
        self._view, self._history = None, DirectoryHistory()

    def _publish(self, view: _View, cut_ns: int, *, is_last: bool = False) -> int:
        """Publish what a look at the directory has shown, as it was at the cut.

        An empty directory is not published: it is one that the program has not filled yet.
        """
        if not self._history.scan:
            return 0
        cut_ns = self._upload_versions(view, cut_ns, is_last)
        snapshot = self._history.snapshot(self.store.snapshot, self._uploaded, cut_ns)
        keep = [file.upload for file in self._uploaded.values()]
        if not self.store.has_snapshot and not snapshot:
            return 0
        if digest_of(snapshot) == digest_of(self.store.snapshot):
            self.store.complete(keep)
            return 0
        new = [name for name, file in snapshot.items() if self._uploaded.get(name) is file]
        self.store.publish(snapshot, keep)
        for name in new:
            del self._uploaded[name]
        self._remember(None)
        return len(new)

    def _upload_versions(self, view: _View, cut_ns: int, is_last: bool) -> int:
        """Upload what a snapshot needs; returns the cut up to which it has everything."""
        scan = self._history.scan
        self._uploaded = {
            name: file
            for name, file in self._uploaded.items()
            if name in scan and file.is_version(scan[name])
        }
        for name in self._history.uploads({**self.store.snapshot, **self._uploaded}, cut_ns):
            if is_growing(name):
                self._upload_growing(view, name, is_last)
            elif self._history.written_at(name) <= cut_ns:
                try:
                    self._upload_whole(view, name)
                except ChangedError:
                    cut_ns = self._history.written_at(name) - 1
        return cut_ns

    def _upload_growing(self, view: _View, name: str, is_last: bool) -> None:
        version = view.pins.version(name)
        if version is None or (not is_last and self._is_too_early(name, version)):
            return
        self._history.has_grown(name, version)
        # One that was cut off meanwhile has its turn later.
        with contextlib.suppress(ChangedError):
            self._upload(view, name, version)
            self._rewritten[name] = time.monotonic()

    def _upload_whole(self, view: _View, name: str) -> None:
        """Upload a version; raises ``ChangedError`` if it is not, or may not be, whole."""
        age_ns = self._now_ns() - self._history.written_at(name)
        may_be_open = age_ns < OPEN_INTERVALS * self._interval_ns
        if may_be_open and is_being_written(view.pins.path(name)):
            raise ChangedError
        self._upload(view, name, self._history.scan[name])

    def _upload(self, view: _View, name: str, version: FileVersion) -> None:
        reader = FileReader(view.pins.path(name), name, version)
        try:
            upload = self.store.upload(reader.pieces(), version.mode)
        except UnreadableError as exc:
            if name not in self._unreadable:
                self._unreadable.add(name)
                self._tell(f"{name} is not synced: {exc}")
            return
        self._uploaded[name] = SyncedFile(
            size=version.size,
            mtime_ns=version.mtime_ns,
            mode=version.mode,
            crc=reader.crc,
            upload=upload,
        )

    def _is_too_early(self, name: str, version: FileVersion) -> bool:
        """Whether a file that grows was uploaded too short a time ago for its size."""
        if not is_growing(name) or name not in self._rewritten:
            return False
        return time.monotonic() < self._rewritten[name] + version.size / REWRITE_BYTES_PER_S

    # What the container remembers

    def _remember(self, cut_ns: int | None) -> None:
        """Note what is published, for a later attempt here. Nothing else depends on it."""
        digest = digest_of(self.store.snapshot) if self.store.has_snapshot else None
        try:
            self._directory.remember(json.dumps({"digest": digest, "cut_ns": cut_ns}))
        except OSError as exc:
            if self._memory_trouble != str(exc):
                self._memory_trouble = str(exc)
                self._tell(
                    f"cannot note what is synced: {exc}; the next attempt in this container "
                    "begins with the last snapshot"
                )

    def _state(self) -> tuple[int | None, int | None]:
        text = self._directory.remembered()
        if not text:
            return None, None
        value = json.loads(text)
        return value["digest"], value["cut_ns"]


def digest_of(snapshot: Snapshot) -> int:
    """Return a number that is the same for equal snapshots, wherever their bytes are."""
    rows = sorted((name, file.size, file.mtime_ns, file.crc) for name, file in snapshot.items())
    return zlib.crc32(repr(rows).encode("utf-8", "replace"))
