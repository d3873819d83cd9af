"""Renders what the tasks of a job use: a table of small plots on the job's page.

The plots are SVG without script or style attributes, which the page's policy
forbids.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ytf.specs.amounts import short_bytes
from ytf.specs.ids import TaskId, task_id
from ytf.specs.status import JobStatus, TaskStatus
from ytf.specs.usage import TaskUsage, UsageHistory, metrics_text
from ytf.web.markup import Markup, join, tag

FindHistory = Callable[[TaskId], UsageHistory | None]

MOST_PLOTS = 100
"""How many tasks are shown; ``api/usage`` has them all."""
_WIDTH, _HEIGHT = 120, 24
_COLUMNS: tuple[str, ...] = ("Task", "CPU", "Memory", "Disk", "Network")


def usage_section(status: JobStatus, history: FindHistory) -> Markup:
    """The section of the page; it is there, if empty, also before anything is known."""
    known = [task for task in status.tasks if task.usage is not None]
    if not known:
        return tag("section", id="usage")
    usages = [task.usage for task in known if task.usage is not None]
    columns = _COLUMNS
    if any(usage.peak_gpu_memory_bytes for usage in usages):
        columns += ("GPU",)
    if any(usage.metrics for usage in usages):
        columns += ("Metrics",)
    head = tag("thead", tag("tr", *(tag("th", name, scope="col") for name in columns)))
    rows = [
        _row(task, task.usage, history(task_id(task.group, task.index)), columns)
        for task in known[:MOST_PLOTS]
        if task.usage is not None
    ]
    parts = [tag("h2", "Usage"), tag("table", head, tag("tbody", *rows), class_="usage")]
    if len(known) > MOST_PLOTS:
        left = f"{len(known) - MOST_PLOTS} more tasks are in "
        parts.append(tag("p", left, tag("a", "api/usage", href="api/usage"), "."))
    return tag("section", *parts, id="usage")


def _row(
    task: TaskStatus, usage: TaskUsage, history: UsageHistory | None, columns: Sequence[str]
) -> Markup:
    series = {} if history is None else history.series
    live = task.live_usage is not None

    def plot(name: str, *others: str) -> Markup:
        return _plot(name, [series[each] for each in (name, *others) if each in series])

    of = "" if task.memory_mb is None else f" of {short_bytes(task.memory_mb * 1024 * 1024)}"
    cells = {
        "Task": tag("b", f"{task.group}:{task.index}"),
        "CPU": join(
            plot("cpu_cores"),
            tag("span", f"{usage.cpu_cores:.2f} cores" if live else f"{usage.cpu_s:.0f} s"),
            tag("small", f" peak {usage.peak_cpu_cores:.2f}"),
        ),
        "Memory": join(
            plot("memory_bytes"),
            tag("span", f"{short_bytes(usage.memory_bytes)}{of}" if live else ""),
            tag("small", f" peak {short_bytes(usage.peak_memory_bytes)}{'' if live else of}"),
        ),
        "Disk": join(
            plot("disk_read_bytes_per_s", "disk_written_bytes_per_s"),
            tag("small", f"read {short_bytes(usage.disk_read_bytes)}, "),
            tag("small", f"written {short_bytes(usage.disk_written_bytes)}"),
        ),
        "Network": _network(usage, plot),
        "GPU": _gpu(usage, plot, live),
        "Metrics": tag("small", metrics_text(usage.metrics)),
    }
    shown = (tag("td", cells[name], data_label=name) for name in columns)
    return tag("tr", *shown)


def _network(usage: TaskUsage, plot: Callable[..., Markup]) -> Markup:
    if usage.network_received_bytes is None or usage.network_sent_bytes is None:
        return tag("small", "not known")
    return join(
        plot("network_received_bytes_per_s", "network_sent_bytes_per_s"),
        tag("small", f"received {short_bytes(usage.network_received_bytes)}, "),
        tag("small", f"sent {short_bytes(usage.network_sent_bytes)}"),
    )


def _gpu(usage: TaskUsage, plot: Callable[..., Markup], live: bool) -> Markup:
    if not usage.peak_gpu_memory_bytes:
        return Markup("")
    peak = tag("small", f" peak memory {short_bytes(usage.peak_gpu_memory_bytes)}")
    if not (live and usage.gpus):
        return join(plot("gpu_busy"), peak)
    busy = 100 * sum(gpu.busy for gpu in usage.gpus) / len(usage.gpus)
    memory = sum(gpu.memory_bytes for gpu in usage.gpus)
    return join(plot("gpu_busy"), tag("span", f"{busy:.0f} %, {short_bytes(memory)}"), peak)


def _plot(name: str, lines: Sequence[Sequence[float | None]]) -> Markup:
    """A plot of several lines, from 0 to the highest of their values; empty if there is none."""
    most = max((v for line in lines for v in line if v is not None), default=0.0)
    if not most:
        return Markup("")
    points = max(len(line) for line in lines)
    shapes = [
        tag("polyline", points=run, class_=f"line{number}", vector_effect="non-scaling-stroke")
        for number, line in enumerate(lines)
        for run in _runs(line, points, most)
    ]
    return tag(
        "svg",
        *shapes,
        viewBox=f"0 0 {_WIDTH} {_HEIGHT}",
        preserveAspectRatio="none",
        class_="plot",
        role="img",
        aria_label=f"{name.replace('_', ' ')} over time",
    )


def _runs(line: Sequence[float | None], points: int, most: float) -> list[str]:
    """The coordinates of each piece of a line without a gap."""
    runs: list[list[str]] = [[]]
    for place, value in enumerate(line):
        if value is None:
            runs.append([])
            continue
        x = _WIDTH * (place + 0.5) / points
        y = _HEIGHT - 1 - (_HEIGHT - 2) * value / most
        if not runs[-1]:
            runs[-1].append(f"{_WIDTH * place / points:.0f},{y:.0f}")
        runs[-1].append(f"{x:.0f},{y:.0f}")
    return [" ".join(run) for run in runs if run]
