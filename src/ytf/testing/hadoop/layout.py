"""Where the files of one cluster lie."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Layout:
    """The directories of a cluster; everything it has is below ``root``."""

    root: Path

    @property
    def record(self) -> Path:
        """What the cluster was made with: its presence means that there is one."""
        return self.root / "cluster.json"

    @property
    def client_conf(self) -> Path:
        """The Hadoop configuration for clients: ``HADOOP_CONF_DIR``."""
        return self.root / "conf" / "client"

    def conf(self, daemon: str) -> Path:
        """The configuration of one daemon."""
        return self.root / "conf" / daemon

    def data(self, daemon: str) -> Path:
        """What a daemon keeps."""
        return self.root / "data" / daemon

    @property
    def shared_edits(self) -> Path:
        """Where two NameNodes write what happens to HDFS, for the other to read."""
        return self.data("edits")

    @property
    def logs(self) -> Path:
        """Every daemon's log."""
        return self.root / "logs"

    def log(self, daemon: str) -> Path:
        """A daemon's log; what it prints itself goes there, too."""
        return self.logs / f"{daemon}.log"

    def pid(self, daemon: str) -> Path:
        """Which process a daemon is."""
        return self.root / "run" / f"{daemon}.pid"
