"""Who is staging a job, and at which cluster: a killed submission is told from one under way."""

from __future__ import annotations

import os
from pathlib import Path

import msgspec

from ytf import processes
from ytf.backends.yarn.home import JobHome
from ytf.hadoop.addresses import RmService, rm_addresses
from ytf.hadoop.conf import Configuration

_NAME = "submitter.json"


class Submitter(msgspec.Struct, frozen=True, kw_only=True):
    """The process that stages a job, and the ResourceManagers it will be submitted to."""

    machine: str
    """A boot of a machine, and a namespace of processes on it: within them, a pid and the
    process's start are one process, whatever containers call themselves."""
    pid: int
    start_ticks: int
    cluster: tuple[str, ...]

    @classmethod
    def current(cls, conf: Configuration) -> Submitter:
        """This process, for the cluster of a configuration."""
        pid = os.getpid()
        return cls(
            machine=_machine(),
            pid=pid,
            start_ticks=processes.start_ticks(pid) or 0,
            cluster=_cluster(conf),
        )

    @classmethod
    def of(cls, home: JobHome) -> Submitter | None:
        """The one that staged a job; None if it had not even said so."""
        try:
            return home.read(_NAME, cls)
        except FileNotFoundError:
            return None

    def declare(self, home: JobHome) -> None:
        """Leave a note in the job's staging directory."""
        home.files.write(f"{home.staging}/{_NAME}", [msgspec.json.encode(self)])

    def is_of(self, conf: Configuration) -> bool:
        """Whether the job was meant for the cluster of a configuration."""
        return self.cluster == _cluster(conf)

    def lives(self) -> bool | None:
        """Whether the process still runs; None for one of another machine."""
        if self.machine != _machine():
            return None
        return processes.alive(self.pid, self.start_ticks)


def _machine() -> str:
    boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    return f"{boot} {os.readlink('/proc/self/ns/pid')}"


def _cluster(conf: Configuration) -> tuple[str, ...]:
    return tuple(str(address) for address in rm_addresses(conf, RmService.CLIENT))
