"""A stand-in for a node: unpacks layers with tar."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from pathlib import Path

from ytf.packaging.layer_cache import LayerCache
from ytf.packaging.layers import Layer, LayerContent


class FakeNode:
    """A directory with unpacked layers, by digest."""

    def __init__(self, root: Path, cache: Path) -> None:
        self.root = root
        self._cache = LayerCache(cache)
        self.places: dict[str, str] = {}

    def localize(self, contents: Sequence[LayerContent]) -> list[Layer]:
        """Unpack the layers of these contents with tar and link to them, as a NodeManager does."""
        layers = []
        for content in contents:
            layer = self._cache.describe(content)
            place = self.root / "filecache" / layer.digest[:12]
            if not place.is_dir():
                place.mkdir(parents=True)
                packed = self._cache.archive(content)
                subprocess.run(["tar", "-xzf", packed.path, "-C", place], check=True, timeout=60)
            link = self.root / f"layer-{layer.digest[:12]}"
            if not link.is_symlink():
                link.symlink_to(place)
            self.places[layer.digest] = str(link)
            layers.append(layer)
        return layers
