"""What a submitter is told while layers go to HDFS."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from ytf.backends.api import Tell
from ytf.packaging.archives import Archive
from ytf.packaging.layers import Layer

_BIG = 8 << 20
"""Layers above this take long enough to be told of one by one."""


class Uploading:
    """Counts what goes, and tells of what takes long. Calls come from several threads."""

    def __init__(self, tell: Tell) -> None:
        self._tell = tell
        self._lock = threading.Lock()
        self._began = time.monotonic()
        self._sizes: dict[str, int] = {}

    def packing(self, archive: Callable[[Layer], Archive]) -> Callable[[Layer], Archive]:
        """The same, but the user hears of it."""

        def told(layer: Layer) -> Archive:
            if layer.size > _BIG:
                self._tell(f"packing {layer.name} ({_amount(layer.size)})")
            return archive(layer)

        return told

    def progress(self, layer: Layer, sent: int, size: int) -> None:
        """Some of a layer is in HDFS now."""
        with self._lock:
            self._sizes[layer.digest] = size
        if sent == 0 and size > _BIG:
            self._tell(f"uploading {layer.name} ({_amount(size)})")

    def done(self) -> None:
        """Sum up, if anything went."""
        if self._sizes:
            took = time.monotonic() - self._began
            count = len(self._sizes)
            layers = "1 layer" if count == 1 else f"{count} layers"
            total = _amount(sum(self._sizes.values()))
            self._tell(
                f"uploaded {layers}, {total}, in {took:.0f} s;"
                " the next job that needs the same uploads nothing"
            )


def _amount(size: int) -> str:
    return f"{size / 1e6:.1f} MB"
