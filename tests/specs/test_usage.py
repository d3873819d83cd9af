"""Usage: what is accepted of a starter, how attempts are combined, how amounts are written."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from tests.specs.usages import task_usage
from ytf.specs.usage import GpuUsage, TaskUsage

DECODER = msgspec.json.Decoder(TaskUsage)


def decode(**changes: Any) -> TaskUsage:
    return DECODER.decode(msgspec.json.encode({**msgspec.to_builtins(task_usage()), **changes}))


@pytest.mark.parametrize(
    "changes",
    [
        {"cpu_s": -1},
        {"cpu_cores": "much"},
        {"memory_bytes": 2**63},
        {"memory_bytes": -1},
        {"memory_bytes": 1.5},
        {"threads": 2**31},
        {"disk_read_bytes_per_s": 1e16},
        {"elapsed_s": None},
        {"gpus": [{"busy": 1.1, "memory_bytes": 0, "total_memory_bytes": 0}]},
        {"gpus": [{"busy": 1, "memory_bytes": 0, "total_memory_bytes": 0}] * 65},
    ],
)
def test_values_that_cannot_be_are_refused(changes: dict[str, Any]) -> None:
    with pytest.raises(msgspec.ValidationError):
        decode(**changes)


def test_numbers_that_are_none_are_refused() -> None:
    good = msgspec.json.encode(task_usage())
    for bad in (b"NaN", b"Infinity", b"1e999"):
        with pytest.raises(msgspec.DecodeError):
            DECODER.decode(good.replace(b'"cpu_s":12.5', b'"cpu_s":' + bad))


def test_what_a_node_does_not_tell_may_be_missing() -> None:
    assert decode(network_received_bytes=None).network_received_bytes is None


def test_the_peaks_of_all_attempts_are_kept() -> None:
    first = task_usage(peak_memory_bytes=9, peak_cpu_cores=2.0, peak_threads=1)
    second = task_usage(attempt=2, peak_memory_bytes=5, peak_cpu_cores=1.0, peak_threads=7)
    both = second.with_peaks_of(first)
    assert (both.attempt, both.peak_memory_bytes, both.peak_cpu_cores) == (2, 9, 2.0)
    assert both.peak_threads == 7
    assert second.with_peaks_of(None) is second
    assert second.is_newer_than(first)
    assert not first.is_newer_than(second)
    assert task_usage(elapsed_s=2.0).is_newer_than(task_usage(elapsed_s=1.0))


def test_a_program_that_has_ended_uses_nothing() -> None:
    gpu = GpuUsage(busy=1.0, memory_bytes=5, total_memory_bytes=9)
    ended = task_usage(gpus=(gpu,), peak_gpu_memory_bytes=5).as_ended()
    assert (ended.memory_bytes, ended.threads, ended.cpu_cores, ended.gpus) == (0, 0, 0.0, ())
    assert (ended.cpu_s, ended.disk_written_bytes, ended.peak_gpu_memory_bytes) == (12.5, 2000, 5)
