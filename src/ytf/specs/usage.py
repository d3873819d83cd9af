"""What a task's program uses: the figures of one sample, and the most so far.

A starter measures them (``ytf.starter.usage_meter``) and sends them with its
heartbeats and with the report of the program's exit. The field names are a
contract with readers of ``--json``. Every value is bounded, because what
starters send is kept. What a program reports of itself (``metrics``) goes with them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated

import msgspec

_Amount = Annotated[float, msgspec.Meta(ge=0, le=1e12)]
_Bytes = Annotated[int, msgspec.Meta(ge=0, le=2**62)]
_Rate = Annotated[float, msgspec.Meta(ge=0, le=1e15)]
_Count = Annotated[int, msgspec.Meta(ge=0, le=2**31 - 1)]
_Share = Annotated[float, msgspec.Meta(ge=0, le=1)]
_Metric = Annotated[float, msgspec.Meta(ge=-1e300, le=1e300)]
_MetricName = Annotated[str, msgspec.Meta(pattern=r"^[A-Za-z_][A-Za-z0-9_./-]{0,63}$")]


class GpuUsage(msgspec.Struct, frozen=True, kw_only=True):
    """One GPU of a task. ``busy`` is from 0 to 1. The memory is all that is used on it."""

    busy: _Share
    memory_bytes: _Bytes
    total_memory_bytes: _Bytes


class TaskUsage(msgspec.Struct, frozen=True, kw_only=True):
    """What the program of one attempt uses, ``elapsed_s`` after its start.

    Of a program that has ended: what it used in all. Totals include processes
    that have ended. ``peak_…`` are the most of any sample of all attempts.
    """

    attempt: _Count = 0
    elapsed_s: _Amount
    cpu_s: _Amount
    """Processor time so far."""
    cpu_cores: _Amount
    """Processor cores in use since the sample before."""
    peak_cpu_cores: _Amount
    memory_bytes: _Bytes
    """Resident memory of all processes, as YARN counts it. In a cgroup of its own: the memory
    that is not a cache of files."""
    peak_memory_bytes: _Bytes
    threads: _Count
    peak_threads: _Count
    processes: _Count
    disk_read_bytes: _Bytes
    disk_written_bytes: _Bytes
    disk_read_bytes_per_s: _Rate = 0.0
    disk_written_bytes_per_s: _Rate = 0.0
    network_received_bytes: _Bytes | None = None
    """By its TCP connections, also to processes on the same node; None where the node does not
    tell. In a network namespace of its own: by its interfaces."""
    network_sent_bytes: _Bytes | None = None
    network_received_bytes_per_s: _Rate = 0.0
    network_sent_bytes_per_s: _Rate = 0.0
    gpus: Annotated[tuple[GpuUsage, ...], msgspec.Meta(max_length=64)] = ()
    peak_gpu_memory_bytes: _Bytes = 0
    """Of all its GPUs together."""
    metrics: Annotated[dict[_MetricName, _Metric], msgspec.Meta(max_length=32)] = {}
    """What the program last reported of itself (``YTF_METRICS_FILE``)."""

    def with_peaks_of(self, other: TaskUsage | None) -> TaskUsage:
        """The same, with the higher peaks of both."""
        if other is None:
            return self
        return msgspec.structs.replace(
            self,
            peak_cpu_cores=max(self.peak_cpu_cores, other.peak_cpu_cores),
            peak_memory_bytes=max(self.peak_memory_bytes, other.peak_memory_bytes),
            peak_threads=max(self.peak_threads, other.peak_threads),
            peak_gpu_memory_bytes=max(self.peak_gpu_memory_bytes, other.peak_gpu_memory_bytes),
        )

    def as_ended(self) -> TaskUsage:
        """The same of a program that has ended: totals and peaks, and nothing in use."""
        return msgspec.structs.replace(
            self,
            cpu_cores=0.0,
            memory_bytes=0,
            threads=0,
            processes=0,
            disk_read_bytes_per_s=0.0,
            disk_written_bytes_per_s=0.0,
            network_received_bytes_per_s=0.0,
            network_sent_bytes_per_s=0.0,
            gpus=(),
        )

    def is_newer_than(self, other: TaskUsage) -> bool:
        """Whether this is of a later attempt, or of a later moment of the same one."""
        return (self.attempt, self.elapsed_s) > (other.attempt, other.elapsed_s)


def metrics_text(metrics: Mapping[str, float]) -> str:
    """Metrics in one line: ``step 100, loss 0.3``."""
    return ", ".join(f"{name} {value:.6g}" for name, value in metrics.items())


class UsageHistory(msgspec.Struct, frozen=True, kw_only=True):
    """How a task's usage changed: lists of equal length, one value per interval.

    Each value is the highest of its interval, None where there is none. The
    first interval begins at ``start`` (seconds since 1970). Series that were
    always empty are left out.
    """

    start: float
    interval_s: float
    series: dict[str, list[float | None]]
