"""Writes a job's state and what its tasks use in the text format of Prometheus, 0.0.4."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from ytf.specs.status import JobState, JobStatus, TaskState, TaskStatus
from ytf.specs.usage import GpuUsage, TaskUsage

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

_MB = 1024 * 1024
_Labels = dict[str, str]
_Sample = tuple[_Labels, float | None]

_OF_USAGE: tuple[tuple[str, str, str, Callable[[TaskUsage], float | None]], ...] = (
    ("cpu_seconds_total", "counter", "Processor time of all processes.", lambda u: u.cpu_s),
    ("cpu_cores", "gauge", "Processor cores in use.", lambda u: u.cpu_cores),
    ("cpu_cores_peak", "gauge", "The most cores in use so far.", lambda u: u.peak_cpu_cores),
    ("memory_bytes", "gauge", "Resident memory of all processes.", lambda u: u.memory_bytes),
    ("memory_peak_bytes", "gauge", "The most memory so far.", lambda u: u.peak_memory_bytes),
    ("threads", "gauge", "Threads of all processes.", lambda u: u.threads),
    ("processes", "gauge", "Processes.", lambda u: u.processes),
    (
        "disk_read_bytes_total",
        "counter",
        "Bytes that were read from disks.",
        lambda u: u.disk_read_bytes,
    ),
    (
        "disk_written_bytes_total",
        "counter",
        "Bytes that were written to disks.",
        lambda u: u.disk_written_bytes,
    ),
    (
        "network_received_bytes_total",
        "counter",
        "Bytes that its TCP connections received.",
        lambda u: u.network_received_bytes,
    ),
    (
        "network_sent_bytes_total",
        "counter",
        "Bytes that its TCP connections sent.",
        lambda u: u.network_sent_bytes,
    ),
)

_OF_GPU: tuple[tuple[str, str, Callable[[GpuUsage], float]], ...] = (
    ("gpu_busy_ratio", "How busy the GPU is, from 0 to 1.", lambda g: g.busy),
    ("gpu_memory_bytes", "Used memory of the GPU.", lambda g: g.memory_bytes),
    ("gpu_memory_total_bytes", "Memory of the GPU.", lambda g: g.total_memory_bytes),
)


def metrics(status: JobStatus) -> str:
    """All metrics of one job. The figures are of tasks whose programs run."""
    return "".join(_lines(status))


def _lines(status: JobStatus) -> Iterator[str]:
    job: _Labels = {"job": status.id}
    about = {"name": status.name, "user": status.user, "queue": status.queue}
    yield from _metric("job_info", "gauge", "The job; always 1.", [({**job, **about}, 1)])
    yield from _metric(
        "job_state",
        "gauge",
        "1 for the state that the job is in.",
        [({**job, "state": s.value}, float(s is status.state)) for s in JobState],
    )
    yield from _metric(
        "job_start_time_seconds", "gauge", "When it started.", [(job, status.started)]
    )
    yield from _of_tasks(status, "attempt", "Which attempt of the task it is.", lambda t: t.attempt)
    yield from _metric(
        "task_state",
        "gauge",
        "1 for the state that the task is in.",
        [
            ({**_labels(status, task), "state": state.value}, float(state is task.state))
            for task in status.tasks
            for state in TaskState
        ],
    )
    yield from _of_tasks(
        status,
        "memory_asked_bytes",
        "The memory that its container was requested with.",
        lambda t: None if t.memory_mb is None else t.memory_mb * _MB,
    )
    yield from _of_tasks(
        status,
        "vcores_asked",
        "The virtual cores that its container was requested with.",
        lambda t: t.vcores,
    )
    running = [
        (_labels(status, task), task.live_usage)
        for task in status.tasks
        if task.live_usage is not None
    ]
    for name, kind, text, value in _OF_USAGE:
        yield from _metric(f"task_{name}", kind, text, [(who, value(u)) for who, u in running])
    for name, text, of_gpu in _OF_GPU:
        samples: list[_Sample] = [
            ({**who, "gpu": str(number)}, of_gpu(gpu))
            for who, usage in running
            for number, gpu in enumerate(usage.gpus)
        ]
        yield from _metric(f"task_{name}", "gauge", text, samples)
    reported: list[_Sample] = [
        ({**who, "metric": name}, value)
        for who, usage in running
        for name, value in usage.metrics.items()
    ]
    yield from _metric("task_metric", "gauge", "What the program reports of itself.", reported)


def _of_tasks(
    status: JobStatus, name: str, text: str, value: Callable[[TaskStatus], float | None]
) -> Iterator[str]:
    samples: list[_Sample] = [(_labels(status, task), value(task)) for task in status.tasks]
    yield from _metric(f"task_{name}", "gauge", text, samples)


def _labels(status: JobStatus, task: TaskStatus) -> _Labels:
    return {"job": status.id, "group": task.group, "index": str(task.index)}


def _metric(name: str, kind: str, text: str, samples: list[_Sample]) -> Iterator[str]:
    """One metric; nothing if it has no samples."""
    known = [(labels, value) for labels, value in samples if value is not None]
    if not known:
        return
    yield f"# HELP ytf_{name} {text}\n# TYPE ytf_{name} {kind}\n"
    for labels, value in known:
        inner = ",".join(f'{key}="{_escaped(each)}"' for key, each in labels.items())
        yield f"ytf_{name}{{{inner}}} {value!r}\n"


def _escaped(label: str) -> str:
    return label.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
