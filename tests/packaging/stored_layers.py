"""A layer store on this machine: a file system of several users, and layers to be stored."""

from __future__ import annotations

import getpass
import os
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path

from ytf.packaging.archives import Archive
from ytf.packaging.layer_cache import LayerCache
from ytf.packaging.layer_gc import RemovedLayers
from ytf.packaging.layer_store import (
    LayerStore,
)
from ytf.packaging.layers import Layer, LayerContent, LayerEntry, LayerKind, layer_content
from ytf.storage.files import FileStatus
from ytf.storage.local_files import LocalFiles

ME = getpass.getuser()


class SharedFiles(LocalFiles):
    """A file system of several users: it reports the owners it is given, not the real ones.

    The directories above those with a given owner belong to the superuser.
    """

    def __init__(self) -> None:
        self.owners: dict[str, str] = {}
        self.writes: list[str] = []
        self.bytes_read = 0

    def stat(self, path: str) -> FileStatus:
        for place, owner in self.owners.items():
            if path == place or path.startswith(f"{place}/"):
                return replace(super().stat(path), owner=owner)
        status = super().stat(path)
        if any(place.startswith(f"{path}/") for place in self.owners):
            return replace(status, owner=super().stat("/").owner)
        return status

    def read(self, path: str, offset: int = 0, length: int | None = None) -> Iterator[bytes]:
        for piece in super().read(path, offset, length):
            self.bytes_read += len(piece)
            yield piece

    def write(self, path: str, chunks: Iterable[bytes], mode: int = 0o600) -> FileStatus:
        self.writes.append(path)
        return super().write(path, chunks, mode)


class MadeLayers:
    """Layers to be stored, and how often each was packed."""

    def __init__(self, folder: Path) -> None:
        self._cache = LayerCache(folder)
        self._contents: dict[str, LayerContent] = {}
        self.packed: list[str] = []

    def layer(self, text: str, kind: LayerKind = LayerKind.DISTRIBUTION) -> Layer:
        content = layer_content(kind, text, [LayerEntry(path="x", data=text.encode() * 1000)])
        layer = self._cache.describe(content)
        self._contents[layer.digest] = content
        return layer

    def archive(self, layer: Layer) -> Archive:
        self.packed.append(layer.name)
        return self._cache.archive(self._contents[layer.digest])


def layers_in(store: LayerStore) -> list[Path]:
    """All layer files in the store."""
    return sorted(Path(store.root).rglob("*.tar.gz"))


def age(path: Path | str, by_ms: int) -> None:
    """Make a file older."""
    now = os.stat(path).st_mtime
    os.utime(path, (now - by_ms / 1000, now - by_ms / 1000))


def not_running(job: str) -> bool:
    """No job runs."""
    return False


def removed_paths(done: RemovedLayers) -> list[str]:
    """The paths of the layers that a collection removed."""
    return [layer.path for layer in done.layers]
