"""What a program uses, for tests."""

from __future__ import annotations

from typing import Any

import msgspec

from ytf.specs.usage import TaskUsage


def task_usage(**changes: Any) -> TaskUsage:
    """The figures of a program that runs for ten minutes; ``changes`` replace some."""
    usual = TaskUsage(
        attempt=1,
        elapsed_s=600.0,
        cpu_s=12.5,
        cpu_cores=0.5,
        peak_cpu_cores=1.5,
        memory_bytes=100 * 1024 * 1024,
        peak_memory_bytes=200 * 1024 * 1024,
        threads=3,
        peak_threads=4,
        processes=2,
        disk_read_bytes=1000,
        disk_written_bytes=2000,
        disk_read_bytes_per_s=10.0,
        disk_written_bytes_per_s=20.0,
        network_received_bytes=3000,
        network_sent_bytes=4000,
        network_received_bytes_per_s=30.0,
        network_sent_bytes_per_s=40.0,
    )
    return msgspec.structs.replace(usual, **changes)
