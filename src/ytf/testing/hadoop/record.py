"""What a cluster was made with, so that any later command finds it again."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import msgspec

from ytf.errors import NotFoundError, SettingsError
from ytf.testing.hadoop.daemons import Daemon, kinds
from ytf.testing.hadoop.options import ClusterOptions
from ytf.testing.hadoop.ports import free_ports


@dataclass(frozen=True, kw_only=True)
class Record:
    """The options, and the ports that every daemon has for good."""

    options: ClusterOptions
    ports: dict[str, dict[str, int]]

    @classmethod
    def new(cls, options: ClusterOptions) -> Record:
        """For a new cluster, on ports that are free now."""
        wanted = [(name, port) for name, kind in kinds(options).items() for port in kind.port_names]
        ports: dict[str, dict[str, int]] = {}
        for (name, port_name), port in zip(wanted, free_ports(len(wanted)), strict=True):
            ports.setdefault(name, {})[port_name] = port
        return cls(options=options, ports=ports)

    @property
    def daemons(self) -> dict[str, Daemon]:
        """Every daemon by its name, in the order of their start."""
        return {
            name: Daemon(name, kind, self.ports[name]) for name, kind in kinds(self.options).items()
        }

    def write(self, file: Path) -> None:
        """Keep it, whole or not at all."""
        new = file.with_suffix(".new")
        new.write_bytes(msgspec.json.format(msgspec.json.encode(self)))
        new.replace(file)

    @classmethod
    def read(cls, file: Path) -> Record:
        """Raises ``NotFoundError`` if there is none, ``SettingsError`` if it is not one of ours."""
        try:
            return msgspec.json.decode(file.read_bytes(), type=cls)
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
