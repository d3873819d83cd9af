"""Samples what a program uses, for heartbeats, at no more than 0.2 % of a core.

A sample takes processor time in proportion to the program's processes, threads
and open files. The next one is taken so much later that sampling stays within
:data:`BUDGET`, :data:`EVERY_S` at the least.
"""

from __future__ import annotations

import time

from ytf.log import LimitedLog
from ytf.starter.network_usage import NetworkUsage
from ytf.starter.process_usage import own_high_water

TYPE_CHECKING = False
if TYPE_CHECKING:
    from queue import SimpleQueue
    from typing import Any, Callable, Dict, Mapping, Optional

    from ytf.starter.desired_state import InboxMessage
    from ytf.starter.gpu_usage import GpuSampler
    from ytf.starter.gpus import TakenGpus
    from ytf.starter.process_usage import ProcessUsage

EVERY_S = 2.5
FIRST_AFTER_S = 1.0
BUDGET = 0.002
"""The share of one core that sampling may use."""
_BLOCK = 512
"""The unit of ``ru_inblock`` and ``ru_oublock``."""

_COUNTERS = (
    "disk_read_bytes",
    "disk_written_bytes",
    "network_received_bytes",
    "network_sent_bytes",
)


def pause_s(cost_s: float, least_s: float = EVERY_S) -> float:
    """Return how long to wait after a sample that took ``cost_s`` of processor time."""
    return max(least_s, cost_s / BUDGET)


class UsageMeter:
    """Samples one program. One thread samples, any may read ``latest``.

    ``read`` returns what its processes use now, None if that is not known.
    ``memory`` returns the memory of the cgroup that the first of them shares with no
    other program, in bytes; None if there is none.
    ``latest`` is None before the first sample, then a JSON object, the fields of which are those of
    ``ytf.specs.usage.TaskUsage`` (but ``attempt``).
    """

    def __init__(
        self,
        read: Callable[[], Optional[ProcessUsage]],
        now: float,
        *,
        memory: Callable[[int], Optional[int]] = lambda first: None,
        gpus: Optional[GpuSampler] = None,
        cpu_clock: Callable[[], float] = time.thread_time,
    ) -> None:
        self.latest: Optional[Dict[str, Any]] = None
        self._read = read
        self._memory = memory
        self._gpus = gpus
        self._cpu_clock = cpu_clock
        self._network = NetworkUsage()
        self._trouble = LimitedLog()
        self._began = self._sampled_at = now
        self._due = now + FIRST_AFTER_S
        self._cpu_s = 0.0
        self._read_cpu_s = 0.0

    def sample_if_due(self, now: float) -> Optional[float]:
        """Take a sample if one is due; returns the processor time that was read then."""
        if now < self._due:
            return None
        before = self._cpu_clock()
        least_s = EVERY_S
        try:
            usage = self._read()
            if usage is None:
                least_s = FIRST_AFTER_S
                return None
            self._network.update(usage)
            self._take(usage, now)
        except Exception as exc:
            # A kernel that writes its figures otherwise: a job does not fail for that.
            self._trouble.write("what the program uses could not be read: %r" % exc)
            return None
        finally:
            self._due = now + pause_s(self._cpu_clock() - before, least_s)
        return usage.cpu_s

    def finish(self, rusage: Optional[Any], now: float) -> None:
        """Take in what Linux counted up to the end of all processes (``getrusage(2)``).

        None: it is not known. Then the last sample stays, if there was one.
        """
        if self._gpus is not None:
            self._gpus.stop()
        if rusage is None and self.latest is None:
            return
        before = self.latest or self._empty()
        after = dict(before, elapsed_s=round(now - self._began, 1))
        if rusage is None:
            self.latest = after
            return
        used_s = rusage.ru_utime + rusage.ru_stime
        after["cpu_s"] = round(max(self._cpu_s, used_s), 2)
        # The program's processes are forks of this one before they become the program, and
        # so may have had its memory. Without a sample that is the best bound there is.
        if self.latest is None or rusage.ru_maxrss * 1024 > own_high_water():
            after["peak_memory_bytes"] = max(before["peak_memory_bytes"], rusage.ru_maxrss * 1024)
        for name, blocks in (
            ("disk_read_bytes", rusage.ru_inblock),
            ("disk_written_bytes", rusage.ru_oublock),
        ):
            after[name] = max(before[name], blocks * _BLOCK)
        if self.latest is None and now > self._began:
            after["peak_cpu_cores"] = round(used_s / (now - self._began), 3)
        self.latest = after

    def _take(self, usage: ProcessUsage, now: float) -> None:
        before = self.latest or self._empty()
        passed_s = max(now - self._sampled_at, 0.001)
        # The time of a child that nobody waited for is gone with it, and one that ends during
        # the reading may be missed once: a total never shrinks, and no rate is negative.
        cores = max(0.0, usage.cpu_s - self._read_cpu_s) / passed_s
        self._cpu_s = max(self._cpu_s, usage.cpu_s)
        memory = None if usage.first is None else self._memory(usage.first)
        if memory is None:
            memory = usage.memory_bytes
        gpus = [] if self._gpus is None else list(self._gpus.latest)
        gpu_memory = sum(each["memory_bytes"] for each in gpus)  # type: ignore[misc]
        now_known: Dict[str, Any] = {
            "elapsed_s": round(now - self._began, 1),
            "cpu_s": round(self._cpu_s, 2),
            "cpu_cores": round(cores, 3),
            "peak_cpu_cores": max(before["peak_cpu_cores"], round(cores, 3)),
            "memory_bytes": memory,
            "peak_memory_bytes": max(before["peak_memory_bytes"], memory, usage.largest_bytes),
            "threads": usage.threads,
            "peak_threads": max(before["peak_threads"], usage.threads),
            "processes": usage.processes,
            "disk_read_bytes": max(before["disk_read_bytes"], usage.disk_read_bytes),
            "disk_written_bytes": max(before["disk_written_bytes"], usage.disk_written_bytes),
            "network_received_bytes": None,
            "network_sent_bytes": None,
            "gpus": gpus,
            "peak_gpu_memory_bytes": max(before["peak_gpu_memory_bytes"], gpu_memory),
        }
        if self._network.is_known:
            now_known["network_received_bytes"] = self._network.received_bytes
            now_known["network_sent_bytes"] = self._network.sent_bytes
        for name in _COUNTERS:
            more = (now_known[name] or 0) - (before[name] or 0)
            now_known[name + "_per_s"] = round(max(0, more) / passed_s, 1)
        self._read_cpu_s = usage.cpu_s
        self._sampled_at = now
        self.latest = now_known

    @staticmethod
    def _empty() -> Dict[str, Any]:
        names = ("memory_bytes", "peak_memory_bytes", "threads", "peak_threads", "processes")
        zeros: Dict[str, Any] = dict.fromkeys((*names, "peak_gpu_memory_bytes", *_COUNTERS), 0)
        # Not known before the first sample: the program may have sent something before it ended.
        zeros.update(network_received_bytes=None, network_sent_bytes=None)
        zeros.update(cpu_s=0.0, cpu_cores=0.0, peak_cpu_cores=0.0, gpus=[])
        return zeros


def gpu_meter(
    taken: Optional[TakenGpus], env: Mapping[bytes, bytes], inbox: SimpleQueue[InboxMessage]
) -> Optional[GpuSampler]:
    """Return what reads the GPUs of a program; None if it has none that can be read.

    They are those that the starter has taken or, if none, those that the
    program's variables name.
    """
    if taken is None and not env.get(b"CUDA_VISIBLE_DEVICES"):
        return None
    # Only tasks with GPUs need it.
    from ytf.starter.gpu_usage import GpuSampler, visible_gpus

    names = visible_gpus(env) if taken is None else taken.nvml_names()
    return GpuSampler(names, pause_s, inbox, time.thread_time) if names else None
