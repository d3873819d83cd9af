"""Keeps what programs use, for the master: the newest figures, and a bounded history.

The registry knows the figures of each starter's last heartbeat. They are not
events: nothing of them is in the journal, and a new master begins a new
history. What a task used in all comes with the events of its end.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterator

from ytf.machine.state import MachineState, Task
from ytf.registry.api import ProgramCondition
from ytf.specs.ids import ContainerId, TaskId
from ytf.specs.usage import TaskUsage, UsageHistory

POINTS = 120
"""How many values of each series are kept."""
FIRST_INTERVAL_S = 5.0
_NONE = -1.0
"""Stands for a missing value: it is lower than all others."""
_ALWAYS = frozenset({"cpu_cores", "memory_bytes"})
"""The series that are kept even if they are zero; the others use no memory before."""
_Series = dict[str, "array[float]"]

_FindCondition = Callable[[ContainerId], ProgramCondition | None]


class UsageMonitor:
    """Copies the usage figures of heartbeats from the registry into bounded histories.

    ``condition`` finds what the last heartbeat of a container's starter said.
    """

    def __init__(self, condition: _FindCondition) -> None:
        self._condition = condition
        self._latest: dict[ContainerId, TaskUsage] = {}
        self._histories: dict[TaskId, BoundedHistory] = {}

    def take(self, state: MachineState, now: float) -> Iterator[None]:
        """Add the newest figures of all containers to the histories, one at each step.

        The caller may let others run between two steps. ``now`` is in seconds
        since 1970.
        """
        for container_id in self._latest.keys() - state.containers.keys():
            del self._latest[container_id]
        for container_id, container in list(state.containers.items()):
            yield
            before = self._latest.get(container_id)
            usage = self.latest(container_id)
            if usage is None or usage is before:
                continue
            self._latest[container_id] = usage
            history = self._histories.get(container.task)
            if history is None:
                history = self._histories[container.task] = BoundedHistory(now)
            history.add(usage, now)

    def latest(self, container: ContainerId) -> TaskUsage | None:
        """The newest figures of a container, also of a program in it that has ended."""
        known = self._condition(container)
        if known is not None and known.usage is not None:
            return known.usage
        return self._latest.get(container)

    def of_running(self, task: Task) -> TaskUsage | None:
        """What a task's program uses now; None if it has ended, or that is not known of it."""
        if task.state.is_final or task.container is None:
            return None
        known = self._condition(task.container)
        if known is None or known.usage is None or known.usage.attempt != task.attempt:
            return None
        return known.usage.with_peaks_of(task.usage)

    def history(self, task: TaskId) -> UsageHistory | None:
        """How the usage of a task changed; None if nothing is known of it."""
        found = self._histories.get(task)
        return None if found is None else found.read()


class BoundedHistory:
    """The history of one task: at most :data:`POINTS` values, in intervals that grow.

    When there is no room, pairs of intervals become one. A value is the highest
    of its interval.
    """

    __slots__ = ("_interval_s", "_series", "_start")

    def __init__(self, start: float) -> None:
        self._start = start
        self._interval_s = FIRST_INTERVAL_S
        self._series: _Series = {}

    def add(self, usage: TaskUsage, at: float) -> None:
        """Add a sample that was taken at ``at``."""
        place = max(0, int((at - self._start) / self._interval_s))
        while place >= POINTS:
            self._interval_s *= 2
            place //= 2
            for name, values in self._series.items():
                half = array("f", map(max, values[::2], values[1::2]))
                self._series[name] = half + array("f", [_NONE]) * (POINTS - len(half))
        for name, value in _values(usage):
            series = self._series.get(name)
            if series is None:
                if not value and name not in _ALWAYS:
                    continue
                series = self._series[name] = array("f", [_NONE]) * POINTS
            series[place] = max(series[place], value)

    def read(self) -> UsageHistory:
        """The history, without the empty end."""
        length = max(
            (i + 1 for values in self._series.values() for i, v in enumerate(values) if v >= 0),
            default=0,
        )
        return UsageHistory(
            start=self._start,
            interval_s=self._interval_s,
            series={
                name: [None if v < 0 else round(v, 3) for v in values[:length]]
                for name, values in self._series.items()
            },
        )


def _values(usage: TaskUsage) -> Iterator[tuple[str, float]]:
    yield "cpu_cores", usage.cpu_cores
    yield "memory_bytes", usage.memory_bytes
    yield "threads", usage.threads
    yield "disk_read_bytes_per_s", usage.disk_read_bytes_per_s
    yield "disk_written_bytes_per_s", usage.disk_written_bytes_per_s
    yield "network_received_bytes_per_s", usage.network_received_bytes_per_s
    yield "network_sent_bytes_per_s", usage.network_sent_bytes_per_s
    if usage.gpus:
        yield "gpu_busy", sum(gpu.busy for gpu in usage.gpus) / len(usage.gpus)
        yield "gpu_memory_bytes", sum(gpu.memory_bytes for gpu in usage.gpus)
