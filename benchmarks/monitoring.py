"""What it costs to know what programs use: the master, and each starter.

    python -m benchmarks.monitoring [--starters 1000] [--seconds 30]

The master: one process plays all starters, as in ``benchmarks.rendezvous``, once
with heartbeats that tell what programs use and once without. The difference is
what monitoring costs. The starter: a sample of a small and of a large program,
and the pace that follows from its cost.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import resource
import secrets
import signal
import subprocess
import sys
import time
from collections.abc import Callable

from benchmarks.rendezvous import DEADLINE_S, Starter, cpu_s, memory_mb, serving
from benchmarks.table import Row, print_table
from ytf.starter.process_usage import read_usage
from ytf.starter.usage_meter import BUDGET, UsageMeter, pause_s
from ytf.wire.signing import Signer

CPU_LIMIT = 5.0
MEMORY_LIMIT_KB = 20.0
_STEADY_S = 12.0
"""Two holds: the burst of the rendezvous is over, and the history of every task has begun."""


def silent(polls: int) -> dict[str, object]:
    """What a heartbeat said before there was monitoring."""
    return {"idle_s": 0.0, "output_lost_at": None}


def telling(polls: int) -> dict[str, object]:
    """A heartbeat with all figures, each other than in the one before."""
    grown = 1_000_003 * polls
    usage = {
        "attempt": 1,
        "elapsed_s": 5.0 * polls,
        "cpu_s": 4.71 * polls,
        "cpu_cores": 0.942 + polls % 7,
        "peak_cpu_cores": 7.942,
        "memory_bytes": 3_221_225_472 + grown,
        "peak_memory_bytes": 5_368_709_120,
        "threads": 87,
        "peak_threads": 94,
        "processes": 3,
        "disk_read_bytes": 77 * grown,
        "disk_written_bytes": 13 * grown,
        "disk_read_bytes_per_s": 15400046.2,
        "disk_written_bytes_per_s": 2600007.8,
        "network_received_bytes": 901 * grown,
        "network_sent_bytes": 899 * grown,
        "network_received_bytes_per_s": 180200540.6,
        "network_sent_bytes_per_s": 179800539.4,
        "gpus": [
            {"busy": 0.97, "memory_bytes": 16_000_000_000, "total_memory_bytes": 17_071_734_784}
        ],
        "peak_gpu_memory_bytes": 16_000_000_000,
    }
    return {**silent(polls), "usage": usage}


async def heartbeats(
    count: int, seconds: float, condition: Callable[[int], dict[str, object]]
) -> tuple[float, float, float]:
    """The master's CPU share in per cent, its memory in MB, and the heartbeats in a second."""
    secret = secrets.token_bytes(32)
    signer, everyone, left = Signer(secret), asyncio.get_running_loop().create_future(), count

    def started() -> None:
        nonlocal left
        left -= 1
        if not left:
            everyone.set_result(None)

    starters = [Starter(i, signer, started, condition) for i in range(count)]
    with serving("master", count, secret) as (pid, port):
        for starter in starters:
            starter.begin(port)
            await asyncio.sleep(0)
        await asyncio.wait_for(everyone, DEADLINE_S)
        await asyncio.sleep(_STEADY_S)
        polls, begun, cpu = sum(s.polls for s in starters), time.monotonic(), cpu_s(pid)
        await asyncio.sleep(seconds)
        elapsed = time.monotonic() - begun
        share = 100 * (cpu_s(pid) - cpu) / elapsed
        rate = (sum(s.polls for s in starters) - polls) / elapsed
        memory = memory_mb(pid, "VmRSS")
        for starter in starters:
            starter.close()
    return share, memory, rate


def master_rows(count: int, seconds: float) -> list[Row]:
    """What monitoring costs a master of so many tasks."""
    before, memory_before, _ = asyncio.run(heartbeats(count, seconds, silent))
    after, memory_after, rate = asyncio.run(heartbeats(count, seconds, telling))
    kb = (memory_after - memory_before) * 1024 / count
    return [
        Row(f"{count} tasks: heartbeats", rate, "/s"),
        Row(f"{count} tasks: CPU share of all heartbeats", after, "%"),
        Row(f"{count} tasks: CPU share of monitoring", after - before, "%", CPU_LIMIT),
        Row(f"{count} tasks: memory of monitoring for each", kb, "KB", MEMORY_LIMIT_KB),
    ]


def starter_rows(name: str, forks: int, threads: int) -> list[Row]:
    """What sampling costs the starter of a program with so many processes and threads."""
    code = (
        "import os, threading, time\n"
        f"for _ in range({forks}): os.fork()\n"
        f"for _ in range({threads}): threading.Thread(target=time.sleep, args=(999,)).start()\n"
        "time.sleep(999)"
    )
    expected = 2**forks * (threads + 1)
    me = os.getpid()
    with subprocess.Popen([sys.executable, "-c", code], start_new_session=True) as program:
        try:
            while read_usage(me).threads < expected:
                time.sleep(0.05)
            meter = UsageMeter(lambda: read_usage(me), 0.0)
            samples = 20
            before = time.thread_time()
            for number in range(1, samples + 1):
                meter.sample_if_due(number * 1e6)
            cost_s = (time.thread_time() - before) / samples
        finally:
            os.killpg(program.pid, signal.SIGKILL)
    return [
        Row(f"{name}: a sample", 1000 * cost_s, "ms"),
        Row(f"{name}: a sample every", pause_s(cost_s), "s"),
        Row(f"{name}: share of a core", 100 * cost_s / pause_s(cost_s), "%", 100 * BUDGET),
    ]


def main() -> int:
    """Print the table; 1 if a limit is not kept."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--starters", type=int, default=1000)
    parser.add_argument("--seconds", type=float, default=30.0)
    args = parser.parse_args()
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    rows = starter_rows("a program of one process", 0, 0)
    rows += starter_rows("a program of 16 processes with 144 threads", 4, 8)
    rows += starter_rows("a program of 256 processes", 8, 0)
    rows += master_rows(args.starters, args.seconds)
    return 0 if print_table(rows) else 1


if __name__ == "__main__":
    sys.exit(main())
