"""What the tasks of a job use, as a table: now, or in all once the job has ended."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ytf.cli import tables
from ytf.specs.amounts import short_bytes
from ytf.specs.status import JobStatus, TaskStatus
from ytf.specs.usage import TaskUsage

_MB = 1024 * 1024

SORT_KEYS: dict[str, Callable[[TaskUsage], float]] = {
    "cpu": lambda u: u.cpu_cores or u.cpu_s,
    "memory": lambda u: u.memory_bytes or u.peak_memory_bytes,
    "disk": lambda u: (
        u.disk_read_bytes_per_s + u.disk_written_bytes_per_s
        or u.disk_read_bytes + u.disk_written_bytes
    ),
    "network": lambda u: (
        u.network_received_bytes_per_s + u.network_sent_bytes_per_s
        or (u.network_received_bytes or 0) + (u.network_sent_bytes or 0)
    ),
}
"""What tasks can be sorted by, highest first. ``task`` is the order of the job."""
BY_TASK = "task"

_Column = tuple[str, Callable[[TaskUsage], str]]


def _known(amount: float | None, write: Callable[[float], str]) -> str:
    return "" if amount is None else write(amount)


_NOW: tuple[_Column, ...] = (
    ("%cpu", lambda u: f"{100 * u.cpu_cores:.0f}"),
    ("mem", lambda u: short_bytes(u.memory_bytes)),
    ("peak", lambda u: short_bytes(u.peak_memory_bytes)),
    ("asked", lambda u: ""),
    ("thr", lambda u: str(u.threads)),
    ("rd/s", lambda u: short_bytes(u.disk_read_bytes_per_s)),
    ("wr/s", lambda u: short_bytes(u.disk_written_bytes_per_s)),
    (
        "in/s",
        lambda u: (
            "" if u.network_received_bytes is None else short_bytes(u.network_received_bytes_per_s)
        ),
    ),
    (
        "out/s",
        lambda u: "" if u.network_sent_bytes is None else short_bytes(u.network_sent_bytes_per_s),
    ),
)
_GPU_NOW: tuple[_Column, ...] = (
    (
        "%gpu",
        lambda u: f"{100 * sum(g.busy for g in u.gpus) / len(u.gpus):.0f}" if u.gpus else "",
    ),
    ("gmem", lambda u: short_bytes(sum(g.memory_bytes for g in u.gpus)) if u.gpus else ""),
)
_IN_ALL: tuple[_Column, ...] = (
    ("cpu s", lambda u: f"{u.cpu_s:.0f}"),
    ("peak%", lambda u: f"{100 * u.peak_cpu_cores:.0f}"),
    ("peak", lambda u: short_bytes(u.peak_memory_bytes)),
    ("asked", lambda u: ""),
    ("thr", lambda u: str(u.peak_threads)),
    ("read", lambda u: short_bytes(u.disk_read_bytes)),
    ("writ", lambda u: short_bytes(u.disk_written_bytes)),
    ("in", lambda u: _known(u.network_received_bytes, short_bytes)),
    ("out", lambda u: _known(u.network_sent_bytes, short_bytes)),
)
_GPU_IN_ALL: tuple[_Column, ...] = (
    ("gmem", lambda u: _known(u.peak_gpu_memory_bytes or None, short_bytes)),
)
_DROP = ("out/s", "out", "in/s", "in", "thr", "wr/s", "writ", "rd/s", "read")
"""The columns that a narrow terminal does without, the first ones first."""


def usage_table(status: JobStatus, sort: str, width: int | None = None) -> str:
    """A header and a line for each task; at most ``width`` columns wide if that can be.

    A task of which nothing is known comes last. Once the job is over, peaks and
    totals are shown in place of what is used now.
    """
    over = status.state.is_final
    has_gpus = any(task.usage and task.usage.peak_gpu_memory_bytes for task in status.tasks)
    columns = _IN_ALL if over else _NOW
    if has_gpus:
        columns += _GPU_IN_ALL if over else _GPU_NOW
    headers = ["task", "state", *(name for name, _ in columns)]
    rows = [_row(task, columns, over) for task in sorted_tasks(status.tasks, sort)]
    drop = [name for name in _DROP if name in headers]
    if width is not None:
        headers, rows = tables.fit(headers, rows, width, drop=drop, cut=("task",))
    return tables.plain(*_right_aligned(headers, rows))


def sorted_tasks(tasks: Sequence[TaskStatus], sort: str) -> list[TaskStatus]:
    """The tasks, highest first by one of ``SORT_KEYS``, or in the order of the job."""
    if sort == BY_TASK:
        return list(tasks)
    key = SORT_KEYS[sort]
    return sorted(tasks, key=lambda task: 1.0 if task.usage is None else -key(task.usage))


def _row(task: TaskStatus, columns: Sequence[_Column], over: bool) -> list[str]:
    usage = task.usage if over else task.live_usage
    cells = ["" if usage is None else write(usage) for _, write in columns]
    asked = [name for name, _ in columns].index("asked")
    cells[asked] = "" if task.memory_mb is None else short_bytes(task.memory_mb * _MB)
    return [f"{task.group}:{task.index}", task.state.value, *cells]


def _right_aligned(
    headers: Sequence[str], rows: Sequence[Sequence[str]]
) -> tuple[list[str], list[list[str]]]:
    """All columns but the first two with their figures below each other."""
    lines = [list(headers), *([cell or "-" for cell in row] for row in rows)]
    for place in range(2, len(headers)):
        width = max(len(line[place]) for line in lines)
        for line in lines:
            line[place] = line[place].rjust(width)
    return lines[0], lines[1:]
