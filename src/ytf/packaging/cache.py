"""What this machine remembers of layers, below ``$YTF_HOME/layers``.

``index/<fingerprint>`` says which layer the files with that fingerprint are;
``archives/`` keeps packed layers. Everything in it can be made again: it may
be deleted at any time, and a damaged piece is as good as none.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import tempfile
import time
from pathlib import Path

import msgspec

from ytf.home import home
from ytf.packaging.archives import SUFFIX, Archive, pack
from ytf.packaging.bytecode import compile_modules
from ytf.packaging.layers import Content, Going, Layer, describe, unstopped

_NAME = re.compile(r"(?P<digest>[0-9a-f]{64})-(?P<size>\d+)-(?P<sha256>[0-9a-f]{64})\.tar\.gz")
_KEEP_S = 14 * 86400.0


class LayerCache:
    """Names and packs layers, and does either only once for unchanged files.

    What ``going`` raises ends either half-way, and nothing is left of it.
    """

    @classmethod
    def own(cls, going: Going = unstopped) -> LayerCache:
        """The one of this user on this machine."""
        return cls(home() / "layers", going)

    def __init__(self, root: Path, going: Going = unstopped) -> None:
        self._going = going
        self._index = root / "index"
        self._archives = root / "archives"

    def describe(self, what: Content) -> Layer:
        """The layer that these files are; reads them only if they may have changed."""
        place = self._index / what.fingerprint()
        try:
            layer = msgspec.json.decode(place.read_bytes(), type=Layer)
            # Swept away in between, it is as good as never found.
            os.utime(place)
        except (FileNotFoundError, msgspec.DecodeError):
            layer = describe(what, self._going)
            self._remember(place, msgspec.json.encode(layer))
        return layer

    def archive(self, what: Content) -> Archive:
        """The packed layer; packs it if there is no archive of it here."""
        digest = self.describe(what).digest
        return self._find(digest) or self._pack(what, digest)

    def sweep(self, keep_s: float = _KEEP_S, *, dryrun: bool = False) -> list[tuple[Path, int]]:
        """Remove what nobody has used for a time, and what killed commands left.

        Answers what that was, and how many bytes. ``dryrun``: it only tells.
        """
        oldest = time.time() - keep_s
        gone = []
        for folder in (self._index, self._archives):
            for path in folder.iterdir() if folder.is_dir() else ():
                if _last_used(path) >= oldest:
                    continue
                gone.append((path, _size(path)))
                if dryrun:
                    continue
                if path.is_dir():
                    shutil.rmtree(path, ignore_errors=True)
                else:
                    path.unlink(missing_ok=True)
        return gone

    def _find(self, digest: str) -> Archive | None:
        """The archive, if there is one; it counts as used now."""
        for path in sorted(self._archives.glob(f"{digest}-*{SUFFIX}")):
            parts = _NAME.fullmatch(path.name)
            # One that a sweep has just taken is none.
            with contextlib.suppress(FileNotFoundError):
                if parts and path.stat().st_size == int(parts["size"]):
                    os.utime(path)
                    return Archive(path=path, size=int(parts["size"]), sha256=parts["sha256"])
        return None

    def _pack(self, what: Content, digest: str) -> Archive:
        self._archives.mkdir(parents=True, exist_ok=True)
        # Beside its place, so that the rename is one; named like nothing we look for.
        with tempfile.TemporaryDirectory(prefix=".packing-", dir=self._archives) as folder:
            room = Path(folder)
            modules = compile_modules(what, room, self._going)
            made = pack([*what.entries, *modules], room / f"layer{SUFFIX}", self._going)
            place = self._archives / f"{digest}-{made.size}-{made.sha256}{SUFFIX}"
            made.path.replace(place)
        return Archive(path=place, size=made.size, sha256=made.sha256)

    def _remember(self, place: Path, data: bytes) -> None:
        self._index.mkdir(parents=True, exist_ok=True)
        descriptor, temporary = tempfile.mkstemp(prefix=".", dir=self._index)
        with open(descriptor, "wb") as file:
            file.write(data)
        os.replace(temporary, place)


def _last_used(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except FileNotFoundError:
        return float("inf")


def _size(path: Path) -> int:
    """The bytes of a file, or of all files in a directory; of what just went, none."""
    files = path.rglob("*") if path.is_dir() else [path]
    sizes = []
    for file in files:
        with contextlib.suppress(FileNotFoundError):
            sizes.append(file.stat().st_size)
    return sum(sizes)
