"""Keeps whole snapshots of a directory in HDFS, for one writer at a time.

::

    run10/                          what others see: plain files
      ckpt-100.index …
      .ytf-sync/
        claim-7/                    of the writer in charge, and the last snapshot
          claim.json                who it is
          manifest-12.json          the newest manifest is the last whole snapshot
          files/31                  an upload, until it is moved to its plain name
          removed/4                 a plain file on its way to be deleted
          previous-6/               the claim of the writer before, until it is not needed

Publishing is a write-ahead log. New versions are uploaded to ``files/``; a manifest that
names them is written, which makes the snapshot the last whole one; then the uploads are
moved to their plain names. A file of a manifest is its upload if that is still there, else
the plain file. So at every moment the newest manifest has all its files.

Fencing needs no clock. A new writer makes ``claim-8`` and moves ``claim-7`` into it. Each
change that a writer makes is a file written to its claim's directory or moved out of or
into it; under the old path there is none any more, so the old writer can change nothing.
Directories are adopted from the highest number down, so that a writer which is itself being
fenced cannot adopt another. The highest claim is only ever moved into a higher one: a
writer that sees a higher claim than its own was too late.
"""

from __future__ import annotations

import contextlib
import json
import re
import uuid
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, replace

from ytf.errors import RefusedError
from ytf.storage.checkpoint_sync.snapshot import (
    AREA,
    MANIFEST_LIMIT,
    BadManifestError,
    Snapshot,
    SnapshotManifest,
    SyncedFile,
    decode,
    encode,
    in_writing_order,
)
from ytf.storage.files import ReplacingFiles, clock_ms, is_temporary
from ytf.wire.untrusted import read_json

SILENT_S = 90.0
"""After this time without a sign of life of a writer, another job may take over."""
_DIRECTORY = 0o755
_PRIVATE = 0o700
_CLAIM = re.compile(r"claim-(\d{1,10})")
_PREVIOUS = re.compile(r"previous-(\d{1,10})")
_MANIFEST = re.compile(r"manifest-(\d{1,10})\.json")
_CLAIM_LIMIT = 64 << 10
_ABANDONED_MS = 3_600_000


class FencedWriterError(RefusedError):
    """A newer writer has taken over: this one can change nothing any more."""


class TakenError(RefusedError):
    """Another job writes to the directory, and is alive."""


class RemovedError(RefusedError):
    """Somebody has removed what this writer had written."""


class BrokenSnapshotError(RefusedError):
    """The last snapshot is not whole: somebody has changed or removed files of it."""


class TooLargeError(RefusedError):
    """A manifest would be larger than what is read of one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Writer:
    """Who writes: an attempt at a task of a job. ``nonce`` is another one for each process."""

    job: str
    task: str
    attempt: int
    host: str
    nonce: str

    def __str__(self) -> str:
        return f"{self.task} (attempt {self.attempt}) of job {self.job} on {self.host}"


@dataclass(frozen=True, slots=True)
class _Publication:
    """A manifest that was written, or may have been; ``removals`` are numbered by name."""

    number: int
    files: Snapshot
    removals: dict[str, int]


class CheckpointStore:
    """The snapshots in one directory of a file system. Not thread-safe, but for ``beat``.

    All methods raise ``OSError`` while the file system fails: they may be called again
    then, after ``settle``. ``FencedWriterError`` is for good.
    """

    def __init__(self, files: ReplacingFiles, root: str, writer: Writer) -> None:
        self._files = files
        self._root = root.rstrip("/") or "/"
        self._area = f"{root.rstrip('/')}/{AREA}"
        self._writer = writer
        self._claim = ""
        self._number = 0
        self._in_doubt: _Publication | None = None
        self._removals: dict[str, int] = {}
        self._last_upload = 0
        self._last_removal = 0
        self.snapshot: Snapshot = {}
        """The last whole one."""
        self.has_snapshot = False
        self.blocked: dict[str, str] = {}
        """Files that cannot have their plain name, and why. Restoring finds them all the same."""

    def uri(self, name: str = "") -> str:
        """Return the URL of the directory, or of a plain file in it."""
        return self._files.uri(self._plain(name) if name else self._root)

    # Claiming

    def claim(self) -> None:
        """Become the one writer; every older one is fenced when this returns.

        Then ``snapshot`` is the last whole one, whoever wrote it. Raises :class:`TakenError`
        while another job writes here, :class:`FencedWriterError` if a later attempt does, and
        :class:`BrokenSnapshotError`.
        """
        self._files.mkdir(self._area, _PRIVATE)
        self._claim = self._make_claim()
        self._adopt_older()
        self._recover()

    def _make_claim(self) -> str:
        draft = f"{self._area}/draft-{uuid.uuid4().hex}"
        for directory in (draft, f"{draft}/files", f"{draft}/removed"):
            self._files.mkdir(directory, _PRIVATE)
        self._files.write(f"{draft}/claim.json", [json.dumps(asdict(self._writer)).encode()])
        while True:
            highest = max(self._claims(), default=0)
            claim = f"{self._area}/claim-{highest + 1}"
            try:
                if highest:
                    self._check_holder(f"{self._area}/claim-{highest}")
                self._files.rename(draft, claim)
            except FileExistsError:
                continue
            except FileNotFoundError:
                # The draft was moved by a first try whose answer was lost.
                if self._holder(claim) != self._writer:
                    raise
            except BaseException:
                with contextlib.suppress(OSError):
                    self._files.delete(draft)
                raise
            return claim

    def _claims(self) -> list[int]:
        return sorted(_numbers(_CLAIM, (each.name for each in self._files.list(self._area))))

    def _check_holder(self, claim: str) -> None:
        holder = self._holder(claim)
        if holder is None:
            return
        if (holder.job, holder.task) == (self._writer.job, self._writer.task):
            if holder.attempt > self._writer.attempt:
                raise self._fenced(holder)
            return
        status = self._files.stat(claim)
        if any(each.name == "ended" for each in self._files.list(claim)):
            return
        silent_s = (clock_ms(self._files, self._area) - status.mtime_ms) / 1000
        if silent_s < SILENT_S:
            raise TakenError(
                f"{self.uri()} is in use: {holder} syncs its checkpoints to it, "
                f"and gave a sign of life {max(0, round(silent_s))} s ago",
                hint="end that job, or sync to another directory",
            )

    def _holder(self, claim: str) -> Writer | None:
        try:
            data = b"".join(self._files.read(f"{claim}/claim.json", 0, _CLAIM_LIMIT))
            value = Writer(**read_json(data))
        except (FileNotFoundError, ValueError, TypeError):
            return None
        return value if type(value.attempt) is int else None

    def _adopt_older(self) -> None:
        own = _number(_CLAIM, self._claim)
        may_have_adopted = False
        while True:
            numbers = self._claims()
            if numbers and numbers[-1] > own:
                # With an older claim in it, ours may have the last snapshot: the higher adopts it.
                if not may_have_adopted:
                    self._files.delete(self._claim)
                raise self._fenced(self._holder(f"{self._area}/claim-{numbers[-1]}"))
            if own not in numbers:
                raise self._lost()
            older = [number for number in numbers if number < own]
            if not older:
                break
            may_have_adopted = True
            for number in reversed(older):
                # Not there: the call was executed before, or that writer was too late and left.
                with contextlib.suppress(FileNotFoundError):
                    self._files.rename(
                        f"{self._area}/claim-{number}", f"{self._claim}/previous-{number}"
                    )
        self._remove_drafts()

    def _remove_drafts(self) -> None:
        now_ms = self._files.stat(self._claim).mtime_ms
        for each in self._files.list(self._area):
            if not _CLAIM.fullmatch(each.name) and each.mtime_ms < now_ms - _ABANDONED_MS:
                self._files.delete(each.path)

    def _recover(self) -> None:
        """Complete what the writer before had published, and publish it as our own."""
        found = self._newest("")
        if found is None:
            self._remove_superseded()
            return
        place, manifest = found
        there = self._uploads_of(place, manifest.files)
        files = {
            name: replace(file, upload=f"{place}{file.upload}" if name in there else "")
            for name, file in manifest.files.items()
        }
        self._removals = {name: self._next_removal() for name in manifest.removed}
        self.snapshot = files
        self.has_snapshot = True
        self._place()
        self.publish(self.snapshot)

    def _newest(self, place: str) -> tuple[str, SnapshotManifest] | None:
        """Return the last manifest below our claim; ``place`` is a directory in it, with ``/``."""
        listing = self._files.list(f"{self._claim}/{place}".rstrip("/"))
        names = [each.name for each in listing]
        numbers = _numbers(_MANIFEST, names)
        if numbers:
            return place, self._read_manifest(f"{self._claim}/{place}manifest-{max(numbers)}.json")
        for number in sorted(_numbers(_PREVIOUS, names), reverse=True):
            found = self._newest(f"{place}previous-{number}/")
            if found is not None:
                return found
        return None

    def _read_manifest(self, path: str) -> SnapshotManifest:
        try:
            return decode(b"".join(self._files.read(path, 0, MANIFEST_LIMIT)))
        except BadManifestError as exc:
            raise BrokenSnapshotError(
                f"{self._files.uri(path)} cannot be used: {exc}",
                hint=f"sync to another directory, or remove {self._files.uri(self._area)}: "
                "nothing is restored then",
            ) from exc

    def _uploads_of(self, place: str, files: Snapshot) -> set[str]:
        """Return the names of the files that are still uploads, not moved to their plain names."""
        folders = {file.upload.rpartition("/")[0] for file in files.values() if file.upload}
        there: set[str] = set()
        for folder in folders:
            with contextlib.suppress(FileNotFoundError):
                listing = self._files.list(f"{self._claim}/{place}{folder}")
                there.update(f"{folder}/{each.name}" for each in listing)
        return {name for name, file in files.items() if file.upload in there}

    # Publishing

    def upload(self, pieces: Iterable[bytes], mode: int) -> str:
        """Write a file that a snapshot may name later; returns its place."""
        self._last_upload += 1
        upload = f"files/{self._last_upload}"
        with self._only_if_claimed():
            self._files.write(f"{self._claim}/{upload}", pieces, mode)
        return upload

    def publish(self, files: Snapshot, keep: Iterable[str] = ()) -> None:
        """Make this the last whole snapshot, then show its files under their plain names.

        Uploads that are neither in the snapshot nor in ``keep`` are removed. Raises
        :class:`TooLargeError`.
        """
        files = {name: self._marked(name, file) for name, file in files.items()}
        self._cancel_removals(files)
        ours = {name for name, file in self.snapshot.items() if not file.upload or file.replaces}
        removals = {name: self._removals.get(name, 0) for name in (ours | {*self._removals})}
        removals = {
            name: number or self._next_removal()
            for name, number in sorted(removals.items())
            if name not in files
        }
        manifest = encode(SnapshotManifest(files=files, removed=tuple(removals)))
        if len(manifest) > MANIFEST_LIMIT:
            raise TooLargeError(
                f"the names of the {len(files)} files that are to be synced to {self.uri()} take "
                f"{len(manifest)} bytes in a manifest, which may have {MANIFEST_LIMIT}",
                hint="let the program keep fewer files, or give them shorter names",
            )
        self._number += 1
        publication = _Publication(self._number, files, removals)
        self._in_doubt = publication
        with self._only_if_claimed():
            self._files.write(f"{self._claim}/manifest-{self._number}.json", [manifest])
        self._published(publication)
        self.complete(keep)

    def settle(self) -> None:
        """Find out whether a publication that failed was executed; to be called after an error."""
        if self._in_doubt is None:
            return
        with self._only_if_claimed():
            for each in self._files.list(self._claim):
                # Without the temporary file, no late rename can publish the manifest any more.
                if is_temporary(each.name):
                    self._files.delete(each.path)
            names = [each.name for each in self._files.list(self._claim)]
        if self._in_doubt.number in _numbers(_MANIFEST, names):
            self._published(self._in_doubt)
        self._in_doubt = None

    def complete(self, keep: Iterable[str] = ()) -> None:
        """Do what is left to do after a publication. Nothing happens if it was all done."""
        with self._only_if_claimed():
            # First: a late rename of a version that was superseded must not find its source.
            self._remove_uploads({*keep, *(file.upload for file in self.snapshot.values())})
            self._place()
            self._remove_superseded()

    def _published(self, publication: _Publication) -> None:
        self.snapshot, self.has_snapshot = publication.files, True
        self._removals = publication.removals
        self._in_doubt = None

    def _marked(self, name: str, file: SyncedFile) -> SyncedFile:
        if not file.upload:
            return file
        old = self.snapshot.get(name)
        replaces = (old is not None and (not old.upload or old.replaces)) or name in self._removals
        return replace(file, replaces=replaces)

    def _cancel_removals(self, files: Snapshot) -> None:
        """Keep a removal that may still be under way from taking a file that is new."""
        for name in [name for name in self._removals if name in files]:
            with self._only_if_claimed(), contextlib.suppress(FileExistsError):
                self._files.write(f"{self._claim}/removed/{self._removals[name]}", [])

    def _place(self) -> None:
        """Move uploads to their plain names, then remove plain files that are no longer there."""
        self._move_uploads()
        removals = list(self._removals.items())
        for name, number in removals:
            self._remove(name, number)
            del self._removals[name]
        if removals and self.blocked:
            # A file may come where a directory was, or the other way round.
            self._move_uploads()

    def _move_uploads(self) -> None:
        self.blocked = {}
        placed: dict[str, SyncedFile] = {}
        for name in in_writing_order({n: f for n, f in self.snapshot.items() if f.upload}):
            file = self.snapshot[name]
            if self._move(name, file):
                placed[name] = replace(file, upload="", replaces=False)
        self.snapshot = {**self.snapshot, **placed}

    def _move(self, name: str, file: SyncedFile) -> bool:
        source, target = f"{self._claim}/{file.upload}", self._plain(name)
        move = self._files.replace if file.replaces else self._files.rename
        try:
            try:
                move(source, target)
            except FileNotFoundError:
                if not self._is_there(source):
                    # Done by a try whose answer was lost; or we are fenced.
                    self._check_claim()
                    return True
                self._files.mkdir(target.rpartition("/")[0], _DIRECTORY)
                move(source, target)
        except (FileExistsError, IsADirectoryError, NotADirectoryError):
            self.blocked[name] = "something else has this name there"
        except RefusedError as exc:
            if isinstance(exc, (FencedWriterError, RemovedError)):
                raise
            self.blocked[name] = str(exc)
        else:
            return True
        return False

    def _remove(self, name: str, number: int) -> None:
        try:
            # One that has taken the place of the file may have files of the snapshot.
            if not self._is_directory(self._plain(name)):
                self._files.rename(self._plain(name), f"{self._claim}/removed/{number}")
        except FileExistsError:
            pass  # removed by a try whose answer was lost
        except (FileNotFoundError, NotADirectoryError):
            self._check_claim()
        self._files.delete(f"{self._claim}/removed/{number}")
        folder = name.rpartition("/")[0]
        # HDFS would remove a file that has taken the place of the directory.
        while folder and self._is_directory(self._plain(folder)):
            if not self._files.remove_empty_directory(self._plain(folder)):
                break
            folder = folder.rpartition("/")[0]

    def _remove_uploads(self, keep: set[str]) -> None:
        for each in self._files.list(f"{self._claim}/files"):
            if f"files/{each.name}" not in keep:
                self._files.delete(each.path)

    def _remove_superseded(self) -> None:
        kept = {file.upload.partition("/")[0] for file in self.snapshot.values()}
        for each in self._files.list(self._claim):
            number = _MANIFEST.fullmatch(each.name)
            is_old = number is not None and int(number[1]) < self._number
            is_adopted = _PREVIOUS.fullmatch(each.name) is not None and each.name not in kept
            if is_old or is_adopted:
                self._files.delete(each.path)

    # Reading

    def read(self, name: str) -> Iterator[bytes]:
        """Yield the bytes of a file of the snapshot."""
        file = self.snapshot[name]
        path = f"{self._claim}/{file.upload}" if file.upload else self._plain(name)
        return self._files.read(path)

    # Being alive

    def beat(self) -> None:
        """Give a sign of life: without one, another job may take over. May run in a thread."""
        with self._only_if_claimed():
            self._files.write(f"{self._claim}/alive-{uuid.uuid4().hex}", [])
            for each in self._files.list(self._claim):
                if each.name.startswith("alive-"):
                    self._files.delete(each.path)

    def release(self) -> None:
        """Let any other job take over from now on; nothing may be published after it."""
        with self._only_if_claimed(), contextlib.suppress(FileExistsError):
            self._files.write(f"{self._claim}/ended", [])

    # Internals

    def _plain(self, name: str) -> str:
        return f"{self._root.rstrip('/')}/{name}"

    def _next_removal(self) -> int:
        self._last_removal += 1
        return self._last_removal

    def _is_there(self, path: str) -> bool:
        try:
            self._files.stat(path)
        except FileNotFoundError:
            return False
        return True

    def _is_directory(self, path: str) -> bool:
        try:
            return self._files.stat(path).is_directory
        except (FileNotFoundError, NotADirectoryError):
            return False

    @contextlib.contextmanager
    def _only_if_claimed(self) -> Iterator[None]:
        try:
            yield
        except FileNotFoundError:
            self._check_claim()
            raise

    def _check_claim(self) -> None:
        """Raise :class:`FencedWriterError` or :class:`RemovedError` if our claim is gone."""
        if self._holder(self._claim) != self._writer:
            raise self._lost()

    def _lost(self) -> RefusedError:
        own = _number(_CLAIM, self._claim)
        with contextlib.suppress(FileNotFoundError):
            later = [number for number in self._claims() if number > own]
            if later:
                return self._fenced(self._holder(f"{self._area}/claim-{later[-1]}"))
        return RemovedError(
            f"{self._files.uri(self._claim)} was removed by somebody else",
            hint="everything is synced anew",
        )

    def _fenced(self, holder: Writer | None) -> FencedWriterError:
        return FencedWriterError(
            f"{holder or 'another writer'} has taken over {self.uri()}: "
            f"nothing of {self._writer.task} (attempt {self._writer.attempt}) is synced any more",
            hint="nothing needs to be done if that is a newer attempt of this job",
        )


def _numbers(pattern: re.Pattern[str], names: Iterable[str]) -> list[int]:
    return [int(found[1]) for found in map(pattern.fullmatch, names) if found]


def _number(pattern: re.Pattern[str], path: str) -> int:
    return _numbers(pattern, [path.rpartition("/")[2]])[0]
