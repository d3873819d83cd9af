"""Ends a cluster with the process that started it, however that ends.

A process of its own watches a pipe from the other. The end of its input is the
end of the other, or its word that all is well and nothing is left to do.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

_WATCH = "import sys; from ytf.testing.hadoop.lifeline import watch; watch(sys.argv[1])"


class Lifeline:
    """The other end: hold it as long as the cluster shall live."""

    def __init__(self, cluster: Path) -> None:
        self._watcher = subprocess.Popen(
            [sys.executable, "-c", _WATCH, str(cluster)],
            stdin=subprocess.PIPE,
            # A Ctrl-C on the terminal is not meant for it.
            start_new_session=True,
        )

    def cut(self) -> None:
        """End the watch; whatever of the cluster still runs is stopped."""
        self._watcher.communicate()


def watch(directory: str) -> None:
    """Wait for the end of the input, then stop the cluster, if it is still there."""
    from ytf.testing.hadoop.cluster import Cluster

    sys.stdin.buffer.read()
    Cluster(Path(directory)).stop()
