"""The directory of a cluster: the paths in it, and ``cluster.json``, its record.

Any later command finds a cluster again by its record.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import msgspec

from ytf.decoding import decode_json
from ytf.errors import NotFoundError, SettingsError
from ytf.minicluster.daemons import Daemon, daemon_kinds, free_ports
from ytf.minicluster.options import ClusterOptions


@dataclass(frozen=True)
class ClusterDirectory:
    """The paths of a cluster. All its files are below ``root``."""

    root: Path

    @property
    def record(self) -> Path:
        """The file of the :class:`ClusterRecord`. The cluster exists if this file does."""
        return self.root / "cluster.json"

    @property
    def client_conf(self) -> Path:
        """The Hadoop configuration of clients: ``HADOOP_CONF_DIR``."""
        return self.root / "conf" / "client"

    def conf(self, daemon: str) -> Path:
        """The configuration directory of one daemon."""
        return self.root / "conf" / daemon

    def data(self, daemon: str) -> Path:
        """The data directory of one daemon."""
        return self.root / "data" / daemon

    @property
    def shared_edits(self) -> Path:
        """The edit log that two NameNodes share."""
        return self.data("edits")

    @property
    def logs(self) -> Path:
        """The directory of the daemons' logs."""
        return self.root / "logs"

    def log(self, daemon: str) -> Path:
        """A daemon's log, with its stdout and stderr in it."""
        return self.logs / f"{daemon}.log"

    def pid(self, daemon: str) -> Path:
        """The file with a daemon's pid."""
        return self.root / "run" / f"{daemon}.pid"


@dataclass(frozen=True, kw_only=True)
class ClusterRecord:
    """The options of a cluster, and the ports its daemons keep over restarts."""

    options: ClusterOptions
    ports: dict[str, dict[str, int]]

    @classmethod
    def new(cls, options: ClusterOptions) -> ClusterRecord:
        """The record of a new cluster, on ports that are free now."""
        wanted = [
            (name, port) for name, kind in daemon_kinds(options).items() for port in kind.port_names
        ]
        ports: dict[str, dict[str, int]] = {}
        for (name, port_name), port in zip(wanted, free_ports(len(wanted)), strict=True):
            ports.setdefault(name, {})[port_name] = port
        return cls(options=options, ports=ports)

    @property
    def daemons(self) -> dict[str, Daemon]:
        """Every daemon by its name, in the order in which they are started."""
        return {
            name: Daemon(name, kind, self.ports[name])
            for name, kind in daemon_kinds(self.options).items()
        }

    def write(self, file: Path) -> None:
        """Write it to a file, atomically."""
        new = file.with_suffix(".new")
        new.write_bytes(msgspec.json.format(msgspec.json.encode(self)))
        new.replace(file)

    @classmethod
    def read(cls, file: Path) -> ClusterRecord:
        """Read it from a file.

        Raises ``NotFoundError`` if there is no such file, and ``SettingsError``
        if it is not the record of a cluster.
        """
        try:
            return decode_json(file.read_bytes(), cls)
        except FileNotFoundError:
            raise NotFoundError(
                f"there is no cluster in {file.parent}", hint="start one with: ytf cluster up"
            ) from None
        except msgspec.DecodeError as exc:
            raise SettingsError(
                f"{file} is not the record of a cluster: {exc}",
                hint="another version of ytf may have made it; end that cluster's processes and "
                f"remove {file.parent}",
            ) from exc
