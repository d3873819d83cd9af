"""Caches the digests and archives of layers on this machine, in ``$YTF_HOME/layers``.

``index/<fingerprint>`` holds the layer of the files with that fingerprint, or all layers
of an environment; ``archives/`` holds packed layers. All of it can be made again: it may
be deleted at any time, and a damaged file is made anew.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import tempfile
import time
from collections.abc import Iterable
from pathlib import Path
from typing import TypeVar

import msgspec

from ytf.decoding import decode_json
from ytf.home import home_directory, make_private_directory
from ytf.packaging.archives import SUFFIX, Archive, compile_modules, pack
from ytf.packaging.layers import (
    CheckCancelled,
    Layer,
    LayerContent,
    describe_layer,
    never_cancelled,
)

_FILE_NAME = re.compile(
    r"(?P<digest>[0-9a-f]{64})-(?P<size>\d+)-(?P<sha256>[0-9a-f]{64})" + re.escape(SUFFIX)
)
_T = TypeVar("_T")
_RETENTION_S = 14 * 86400.0


class LayerCache:
    """Computes digests of layers and packs them, only once for unchanged files.

    What ``check_cancelled`` raises ends either, and leaves nothing behind.
    """

    @classmethod
    def for_user(cls, check_cancelled: CheckCancelled = never_cancelled) -> LayerCache:
        """Return the cache of this user on this machine."""
        return cls(home_directory("layers"), check_cancelled)

    def __init__(self, root: Path, check_cancelled: CheckCancelled = never_cancelled) -> None:
        self._check_cancelled = check_cancelled
        self._index = root / "index"
        self._archives = root / "archives"

    def describe(self, content: LayerContent) -> Layer:
        """Return the layer of these files; reads them only if they may have changed."""
        fingerprint = content.fingerprint()
        layer = self.lookup(fingerprint, Layer)
        if layer is None:
            layer = describe_layer(content, self._check_cancelled)
            self.keep(fingerprint, layer)
        return layer

    def lookup(self, fingerprint: str, type_: type[_T]) -> _T | None:
        """Return what :meth:`keep` got for files with this fingerprint; None if it is not known."""
        place = self._index / fingerprint
        try:
            known = decode_json(place.read_bytes(), type_)
            # If another process has just removed it, this raises FileNotFoundError.
            os.utime(place)
        except (FileNotFoundError, msgspec.DecodeError):
            return None
        return known

    def keep(self, fingerprint: str, known: object) -> None:
        """Keep what was found out about files with this fingerprint."""
        make_private_directory(self._index)
        descriptor, temporary = tempfile.mkstemp(prefix=".", dir=self._index)
        with open(descriptor, "wb") as file:
            file.write(msgspec.json.encode(known))
        os.replace(temporary, self._index / fingerprint)

    def mark_used(self, fingerprints: Iterable[str]) -> None:
        """Mark what is kept under these fingerprints as used."""
        for fingerprint in fingerprints:
            with contextlib.suppress(FileNotFoundError):
                os.utime(self._index / fingerprint)

    def archive(self, content: LayerContent) -> Archive:
        """Return the packed layer; packs it if its archive is not in the cache."""
        digest = self.describe(content).digest
        return self._find(digest) or self._pack(content, digest)

    def remove_unused(
        self, retention_s: float = _RETENTION_S, *, dryrun: bool = False
    ) -> list[tuple[Path, int]]:
        """Remove what was not used for a time, and what killed processes left.

        Returns the removed paths and their sizes. ``dryrun`` removes nothing.
        """
        oldest = time.time() - retention_s
        removed = []
        for folder in (self._index, self._archives):
            for path in folder.iterdir() if folder.is_dir() else ():
                if _last_used(path) >= oldest:
                    continue
                removed.append((path, tree_size(path)))
                if dryrun:
                    continue
                if path.is_dir():
                    shutil.rmtree(path, ignore_errors=True)
                else:
                    path.unlink(missing_ok=True)
        return removed

    def _find(self, digest: str) -> Archive | None:
        """Return the archive if it is in the cache, and mark it as used."""
        for path in sorted(self._archives.glob(f"{digest}-*{SUFFIX}")):
            parts = _FILE_NAME.fullmatch(path.name)
            # Another process may have just removed it.
            with contextlib.suppress(FileNotFoundError):
                if parts and path.stat().st_size == int(parts["size"]):
                    os.utime(path)
                    return Archive(path=path, size=int(parts["size"]), sha256=parts["sha256"])
        return None

    def _pack(self, content: LayerContent, digest: str) -> Archive:
        make_private_directory(self._archives)
        # In the same directory, so that a rename is possible; _find ignores this name.
        with tempfile.TemporaryDirectory(prefix=".packing-", dir=self._archives) as temporary:
            folder = Path(temporary)
            modules = compile_modules(content, self._check_cancelled)
            made = pack(
                [*content.entries, *modules], folder / f"layer{SUFFIX}", self._check_cancelled
            )
            place = self._archives / f"{digest}-{made.size}-{made.sha256}{SUFFIX}"
            made.path.replace(place)
        return Archive(path=place, size=made.size, sha256=made.sha256)


def _last_used(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except FileNotFoundError:
        return float("inf")


def tree_size(path: Path) -> int:
    """Return the size of a file, or of all files in a directory; 0 if just removed."""
    files = path.rglob("*") if path.is_dir() else [path]
    sizes = []
    for file in files:
        with contextlib.suppress(FileNotFoundError):
            sizes.append(file.stat().st_size)
    return sum(sizes)
