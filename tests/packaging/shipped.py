"""Layers as a node has them: packed, and unpacked with tar."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from pathlib import Path

from ytf.packaging.cache import LayerCache
from ytf.packaging.layers import Content, Layer


class Node:
    """A directory into which layers are unpacked, each by its digest."""

    def __init__(self, root: Path, cache: Path) -> None:
        self.root = root
        self._cache = LayerCache(cache)
        self.places: dict[str, str] = {}

    def localize(self, contents: Sequence[Content]) -> list[Layer]:
        """Unpack the layers of these contents, as a NodeManager does: by tar, with a link."""
        layers = []
        for what in contents:
            layer = self._cache.describe(what)
            place = self.root / "filecache" / layer.digest[:12]
            if not place.is_dir():
                place.mkdir(parents=True)
                packed = self._cache.archive(what)
                subprocess.run(["tar", "-xzf", packed.path, "-C", place], check=True, timeout=60)
            link = self.root / f"layer-{layer.digest[:12]}"
            if not link.is_symlink():
                link.symlink_to(place)
            self.places[layer.digest] = str(link)
            layers.append(layer)
        return layers
