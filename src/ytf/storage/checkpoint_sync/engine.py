"""Connects a local directory with its snapshots in HDFS: restores it, then syncs it.

One engine serves one attempt at a task. Calls block; each of them raises ``OSError`` if the
file system fails, and may be called again. What was uploaded before is not uploaded again.
"""

from __future__ import annotations

import json
import time
import zlib
from collections.abc import Callable

from ytf.storage.checkpoint_sync.local_directory import (
    ChangedError,
    DamagedFileError,
    FileReader,
    LocalDirectory,
    Tell,
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


class CheckpointSync:
    """Keeps a directory in sync with the snapshots of a store.

    ``interval_s``: how long a file must be unchanged to count as whole.
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
        self._uploaded: dict[str, SyncedFile] = {}
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
            self.sync(self._now_ns() - self._interval_ns if cut_ns is None else cut_ns)
        snapshot = self.store.snapshot
        try:
            changed = self._directory.restore(snapshot, self.store.read, self._tell)
        except (FileNotFoundError, DamagedFileError) as exc:
            raise BrokenSnapshotError(
                f"the last snapshot in {url} cannot be restored: {exc}",
                hint="bring the file back, or sync to another directory; without the directory "
                ".ytf-sync there, nothing is restored and nothing is removed",
            ) from exc
        self._remember(None)
        size = sum(file.size for file in snapshot.values())
        how = "restored" if changed else "is already here"
        self._tell(f"the last snapshot of {url} {how}: {len(snapshot)} files, {size} bytes")

    def sync(self, cut_ns: int | None = None, *, is_last: bool = False) -> int:
        """Publish the directory as it was at the cut; returns how many files are new in it.

        Without a cut, files count that have not been changed for the interval. An empty
        directory is not published: it is one that the program has not filled yet.
        """
        self.store.settle()
        now_ns = self._now_ns()
        if cut_ns is None:
            cut_ns = now_ns - self._interval_ns
        scan = self._directory.scan()
        if not scan:
            return 0
        self._history.update(scan, self.store.snapshot, now_ns)
        cut_ns = self._upload_versions(cut_ns, now_ns, is_last)
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

    def finish(self, cut_ns: int) -> None:
        """Publish for the last time: the program has ended, and the cut says what of it counts.

        ``FOREVER_NS`` for all that is there.
        """
        self._remember(cut_ns)
        self.sync(cut_ns, is_last=True)
        self._remember(cut_ns)

    def start_over(self) -> None:
        """Claim again, after ``RemovedError``: what was there is gone, so all is uploaded anew."""
        self._uploaded = {}
        self.claim()

    # Uploading

    def _upload_versions(self, cut_ns: int, now_ns: int, is_last: bool) -> int:
        """Upload what a snapshot needs; returns the cut up to which it has everything."""
        scan = self._history.scan
        self._uploaded = {
            name: file
            for name, file in self._uploaded.items()
            if name in scan and file.is_version(scan[name])
        }
        known = {**self.store.snapshot, **self._uploaded}
        wanted = {
            name: scan[name]
            for name in self._history.uploads(known, cut_ns)
            if is_last or not self._is_too_early(name, scan[name])
        }
        if not wanted:
            return cut_ns
        with self._directory.pinned(wanted) as paths:
            for name, version in wanted.items():
                written_ns = self._history.written_at(name)
                growing = is_growing(name)
                if not growing and written_ns > cut_ns:
                    continue
                recent = now_ns - written_ns < OPEN_INTERVALS * self._interval_ns
                reader = FileReader(paths[name], name, version)
                try:
                    if not growing and recent and is_being_written(paths[name]):
                        raise ChangedError
                    self._upload(name, version, reader)
                except ChangedError:
                    if not growing:
                        cut_ns = min(cut_ns, written_ns - 1)
                except PermissionError as exc:
                    if exc.filename != str(paths[name]):
                        raise
                    self._tell(f"{name} is not synced: it cannot be read")
        return cut_ns

    def _upload(self, name: str, version: FileVersion, reader: FileReader) -> None:
        upload = self.store.upload(reader.pieces(), version.mode)
        self._uploaded[name] = SyncedFile(
            size=version.size,
            mtime_ns=version.mtime_ns,
            mode=version.mode,
            crc=reader.crc,
            upload=upload,
        )
        self._rewritten[name] = time.monotonic()

    def _is_too_early(self, name: str, version: FileVersion) -> bool:
        """Whether a file that grows was uploaded too short a time ago for its size."""
        if not is_growing(name) or name not in self._rewritten:
            return False
        return time.monotonic() < self._rewritten[name] + version.size / REWRITE_BYTES_PER_S

    # What the container remembers

    def _remember(self, cut_ns: int | None) -> None:
        digest = digest_of(self.store.snapshot) if self.store.has_snapshot else None
        self._directory.remember(json.dumps({"digest": digest, "cut_ns": cut_ns}))

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
