"""The text for Prometheus, read back as its server reads it."""

from __future__ import annotations

import re
from typing import Any

from tests.specs.usages import task_usage
from ytf.specs.ids import JobId
from ytf.specs.status import JobState, JobStatus, TaskState, TaskStatus
from ytf.specs.usage import GpuUsage
from ytf.web.prometheus_text import metrics

HOSTILE = 'a\\b"c\nd} 1\n# TYPE x counter'

_HEAD = re.compile(r"# (HELP|TYPE) ([a-zA-Z_:][a-zA-Z0-9_:]*) (.+)")
_LABEL = r'[a-zA-Z_][a-zA-Z0-9_]*="(?:[^"\\\n]|\\["\\n])*"'
_SAMPLE = re.compile(rf"([a-zA-Z_:][a-zA-Z0-9_:]*)\{{({_LABEL}(?:,{_LABEL})*)\}} (\S+)")
_PAIR = re.compile(r'([a-z]+)="((?:[^"\\]|\\.)*)"')


def read(text: str) -> dict[str, list[tuple[dict[str, str], float]]]:
    """Parse the format; every line must be one of it, each metric declared once and together."""
    assert text.endswith("\n")
    found: dict[str, list[tuple[dict[str, str], float]]] = {}
    declared = ""
    for line in text[:-1].split("\n"):
        head = _HEAD.fullmatch(line)
        if head is not None:
            if head[1] == "HELP":
                assert head[2] not in found
                found[head[2]] = []
                declared = head[2]
            else:
                assert head[2] == declared
                assert head[3] in ("gauge", "counter")
                assert (head[3] == "counter") == declared.endswith("_total")
            continue
        sample = _SAMPLE.fullmatch(line)
        assert sample is not None, line
        assert sample[1] == declared
        unescaped = {
            name: re.sub(r"\\(.)", lambda m: {"n": "\n"}.get(m[1], m[1]), value)
            for name, value in _PAIR.findall(sample[2])
        }
        found[declared].append((unescaped, float(sample[3])))
    assert all(found.values()), "no metric without samples"
    return found


def status(*tasks: TaskStatus, **changes: Any) -> JobStatus:
    usual: dict[str, Any] = {"name": "n", "user": "u", "queue": "q", "started": 5.5}
    return JobStatus(
        id=JobId("job_1"),
        backend="local",
        state=JobState.RUNNING,
        tasks=tasks,
        **{**usual, **changes},
    )


def task(index: int, state: TaskState = TaskState.RUNNING, **more: Any) -> TaskStatus:
    return TaskStatus(group="worker", index=index, state=state, attempt=1, **more)


def test_a_job_and_its_tasks() -> None:
    gpu = GpuUsage(busy=0.75, memory_bytes=5, total_memory_bytes=9)
    found = read(
        metrics(
            status(
                task(
                    0,
                    memory_mb=2,
                    vcores=3,
                    usage=task_usage(gpus=(gpu, gpu), metrics={"loss": 0.5}),
                ),
                task(1, usage=task_usage(network_received_bytes=None)),
                task(2, TaskState.FAILED, usage=task_usage()),
                task(3, usage=task_usage(attempt=0)),
            )
        )
    )
    who = {"job": "job_1", "group": "worker", "index": "0"}
    assert found["ytf_job_start_time_seconds"] == [({"job": "job_1"}, 5.5)]
    assert found["ytf_task_cpu_seconds_total"] == [(who, 12.5), ({**who, "index": "1"}, 12.5)]
    assert found["ytf_task_memory_asked_bytes"] == [(who, 2 * 1024 * 1024)]
    assert found["ytf_task_memory_peak_bytes"][0] == (who, 200 * 1024 * 1024)
    assert found["ytf_task_network_received_bytes_total"] == [(who, 3000)]
    assert found["ytf_task_gpu_busy_ratio"] == [
        ({**who, "gpu": "0"}, 0.75),
        ({**who, "gpu": "1"}, 0.75),
    ]
    assert found["ytf_task_metric"] == [({**who, "metric": "loss"}, 0.5)]
    running = [labels for labels, value in found["ytf_job_state"] if value == 1]
    assert running == [{"job": "job_1", "state": "RUNNING"}]
    failed = {**who, "index": "2", "state": "FAILED"}
    assert (failed, 1.0) in found["ytf_task_state"]
    assert [value for _, value in found["ytf_task_attempt"]] == [1.0] * 4


def test_names_cannot_break_out_of_their_labels() -> None:
    found = read(metrics(status(name=HOSTILE, user=HOSTILE)))
    ((labels, _),) = found["ytf_job_info"]
    assert (labels["name"], labels["user"]) == (HOSTILE, HOSTILE)


def test_a_job_without_tasks() -> None:
    assert "ytf_task_state" not in read(metrics(status(started=None)))
