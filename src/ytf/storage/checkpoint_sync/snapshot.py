"""Decides which versions of files make a whole snapshot of a directory. Pure, no I/O.

A program writes files in some order, and a later one may mean that earlier ones are
complete: TensorFlow's ``checkpoint`` names a checkpoint whose files were written before.
So a snapshot is the directory as it was at one time, the *cut*: every version that was
written up to it, and no later one. Of a file that was written again after the cut, the
snapshot has the version that was synced last. A file that vanished stays in the snapshots
up to the time at which it was first missed, which is never too early.

A cut is the beginning of a scan of the directory. A file that is written while the scan
goes on is younger, and so is everything that means that it is complete.

Files that only grow, such as TensorBoard's, are taken as they are: what they have is right
at any length.
"""

from __future__ import annotations

import fnmatch
import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import PurePosixPath
from typing import Any

from ytf.wire.untrusted import read_json

GROWING = ("*.tfevents.*", "*.log")
"""Names of files to which programs only append."""

AREA = ".ytf-sync"
"""The directory of the store itself beside the plain files: no file of a snapshot is in it."""
MOST_FILES = 20_000
"""How many files a directory may have: all their names are in each manifest."""
MANIFEST_LIMIT = 16 << 20
"""How many bytes a manifest may have: more are not read."""
_VERSION = 1
_UPLOAD = re.compile(r"(?:previous-\d{1,10}/)*files/\d{1,10}")


@dataclass(frozen=True, slots=True, kw_only=True)
class FileVersion:
    """One version of a local file, as a scan of the directory shows it."""

    size: int
    mtime_ns: int
    inode: int
    mode: int


Scan = Mapping[str, FileVersion]
"""The files of a directory, by their paths in it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SyncedFile:
    """One file of a snapshot.

    ``upload`` is where its bytes are until they are moved to their plain name, as a path in
    the directory of the manifest; "" if they are known to be at the plain name. ``replaces``:
    the file that has the plain name until then is an earlier version, not somebody else's.
    """

    size: int
    mtime_ns: int
    mode: int
    crc: int
    upload: str = ""
    replaces: bool = False

    def is_version(self, version: FileVersion) -> bool:
        """Whether this is that version of a local file."""
        return (self.size, self.mtime_ns) == (version.size, version.mtime_ns)


Snapshot = Mapping[str, SyncedFile]


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotManifest:
    """A whole snapshot, and the plain files that are to be removed because of it."""

    files: Snapshot
    removed: tuple[str, ...] = ()


class BadManifestError(ValueError):
    """The bytes are no manifest, or name files outside the directory."""


def encode(manifest: SnapshotManifest) -> bytes:
    """Return the bytes of a manifest."""
    files = {name: asdict(file) for name, file in manifest.files.items()}
    return json.dumps(
        {"version": _VERSION, "files": files, "removed": manifest.removed}, sort_keys=True
    ).encode("ascii")


def decode(data: bytes) -> SnapshotManifest:
    """Read a manifest; raises :class:`BadManifestError`. No path in it leads out of a directory."""
    try:
        value = read_json(data)
        if value["version"] != _VERSION:
            raise BadManifestError(f"its version is {value['version']!r}, not {_VERSION}")
        files = {_checked(name): _file(each) for name, each in value["files"].items()}
        return SnapshotManifest(
            files=files, removed=tuple(_checked(name) for name in value["removed"])
        )
    except (ValueError, KeyError, TypeError, AttributeError) as exc:
        raise BadManifestError(f"it is no manifest of a snapshot: {exc}") from exc


def _file(value: Mapping[str, Any]) -> SyncedFile:
    file = SyncedFile(**value)
    for number in (file.size, file.mtime_ns, file.mode, file.crc):
        if type(number) is not int or number < 0:
            raise BadManifestError(f"{number!r} is not a number")
    if file.upload and not _UPLOAD.fullmatch(file.upload):
        raise BadManifestError(f"{file.upload!r} is not the place of an upload")
    return file


def _checked(name: str) -> str:
    path = PurePosixPath(name)
    if not name or path.is_absolute() or ".." in path.parts or str(path) != name or "\0" in name:
        raise BadManifestError(f"{name!r} is not the path of a file in the directory")
    if path.parts[0] == AREA:
        raise BadManifestError(f"{name!r} is in the directory of the store itself")
    return name


def is_growing(name: str) -> bool:
    """Whether programs only append to a file of this name."""
    last = name.rpartition("/")[2]
    return any(fnmatch.fnmatchcase(last, pattern) for pattern in GROWING)


class DirectoryHistory:
    """What the scans of a directory have shown so far: when files changed, and vanished."""

    def __init__(self) -> None:
        self.scan: Scan = {}
        """The last one."""
        self._written: dict[str, int] = {}
        self._missing: dict[str, int] = {}

    def update(self, scan: Scan, synced: Iterable[str], began_ns: int, ended_ns: int) -> None:
        """Take a scan that took this time; ``synced`` are the files of the last snapshot."""
        written: dict[str, int] = {}
        for name, version in scan.items():
            if version == self.scan.get(name):
                written[name] = self._written[name]
            else:
                # A time in the future would keep a file out of snapshots until then.
                written[name] = min(version.mtime_ns, began_ns)
        missing = (name for name in synced if name not in scan)
        self._missing = {name: self._missing.get(name, ended_ns) for name in missing}
        self.scan, self._written = scan, written

    def has_grown(self, name: str, version: FileVersion) -> None:
        """Take a newer version of a file to which programs only append."""
        self.scan = {**self.scan, name: version}

    def written_at(self, name: str) -> int:
        """When the present version of a file was written."""
        return self._written[name]

    def uploads(self, synced: Snapshot, cut_ns: int) -> list[str]:
        """Return the files of which a snapshot needs a new version, in the order of writing."""
        changed = [
            name
            for name, version in self.scan.items()
            if not (name in synced and synced[name].is_version(version))
            and (is_growing(name) or self._written[name] <= cut_ns)
        ]
        return sorted(changed, key=lambda name: (self._written[name], name))

    def snapshot(self, synced: Snapshot, uploaded: Snapshot, cut_ns: int) -> Snapshot:
        """Return the directory as it was at the cut, as far as its versions are known.

        ``synced`` is the last snapshot, ``uploaded`` the versions that have come since.
        """
        files: dict[str, SyncedFile] = {}
        for name, version in self.scan.items():
            new, old = uploaded.get(name), synced.get(name)
            if old is not None and old.is_version(version):
                files[name] = old
            elif new is not None and (
                is_growing(name) or (new.is_version(version) and self._written[name] <= cut_ns)
            ):
                files[name] = new
            elif old is not None:
                files[name] = old
        folders = {folder for name in files for folder in _folders(name)}
        missed_later = {
            name: old
            for name, old in synced.items()
            if name not in self.scan
            and self._missing[name] > cut_ns
            # A file in the place of its directory, or the other way round: it was gone before.
            and name not in folders
            and files.keys().isdisjoint(_folders(name))
        }
        return {**files, **missed_later}


def in_writing_order(files: Snapshot) -> list[str]:
    """Return the names so that what means that others are complete comes after them."""
    return sorted(files, key=lambda name: (files[name].mtime_ns, _rank(name), name))


def _folders(name: str) -> list[str]:
    """Return the directories that a file is in."""
    parts = name.split("/")
    return ["/".join(parts[:count]) for count in range(1, len(parts))]


def _rank(name: str) -> int:
    """TensorFlow's order: data, index, ``checkpoint``; for files of the same moment."""
    if name.rpartition("/")[2] == "checkpoint":
        return 2
    return 1 if name.endswith(".index") else 0
