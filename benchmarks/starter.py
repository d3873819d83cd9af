"""How long a starter takes from its start to being registered, and how big it is then.

    python -m benchmarks.starter [--repeat 15]

Each starter is a process of its own, one after the other, against a real
registry in this process. Medians.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import statistics
import sys
import tempfile
import time
from pathlib import Path

from benchmarks.launch_local import resident_mb
from benchmarks.table import Row, print_table
from ytf.backends.launch import starter_command
from ytf.machine.events import StarterRegistered, TaskExited, TaskStarted
from ytf.registry.api import Order
from ytf.registry.rest import RestRegistry
from ytf.web.request_auth import RequestVerifier
from ytf.web.server import HttpServer

SECRET = b"benchmark"


class Sink:
    """Notes when a starter registers."""

    def __init__(self) -> None:
        self.registered: asyncio.Queue[float] = asyncio.Queue()

    async def report(self, event: StarterRegistered | TaskStarted | TaskExited) -> Order:
        """Take a report in."""
        if isinstance(event, StarterRegistered):
            self.registered.put_nowait(time.monotonic())
        return Order(attempt=1, generation=1)

    def note(self, text: str, *, is_warning: bool = False) -> None:
        """Ignore it."""


async def measure(repeat: int, directory: Path) -> list[Row]:
    """Start ``repeat`` starters, one after the other."""
    secret_file = directory / "secret"
    secret_file.write_bytes(SECRET)
    server = HttpServer(RequestVerifier(SECRET))
    registry = RestRegistry(server, attempt=1)
    sink = Sink()
    await registry.start(sink)
    url = f"http://127.0.0.1:{await server.listen('127.0.0.1')}"
    times, sizes = [], []
    for number in range(repeat):
        given = {
            "job": "local_benchmark",
            "container": f"container_{number}",
            "attempt": 1,
            "generation": 1,
            "master": url,
            "master_file": None,
            "secret_file": str(secret_file),
            "host": "127.0.0.1",
            "log_dir": str(directory / "logs"),
            "port": "hold",
            "wait_for_peers": True,
            "framework": "tensorflow",
            "registry": "rest",
            "grace_s": 1,
            "master_silence_s": 60,
            "log_limit_mb": 16,
            "heartbeat_timeout_s": 30,
            "parent": None,
        }
        env = {
            **os.environ,
            "DTF_TASK_PROGRAM": "true",
            "DTF_TASK_JOB_NAME": "worker",
            "DTF_TASK_INDEX": str(number),
            "YTF_STARTER": json.dumps(given),
        }
        began = time.monotonic()
        process = await asyncio.create_subprocess_exec(
            *starter_command(sys.executable),
            env=env,
            cwd=directory,
            stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.DEVNULL,
        )
        times.append(await asyncio.wait_for(sink.registered.get(), 30) - began)
        sizes.append(resident_mb(process.pid))
        process.terminate()
        await process.wait()
    await registry.close()
    await server.close()
    return [
        Row("starter: start to registered", 1000 * statistics.median(times), "ms", 80),
        Row("starter: resident when registered", statistics.median(sizes), "MB", 14),
    ]


def main() -> int:
    """Print the table; 1 if a limit is not kept."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeat", type=int, default=15)
    repeat = parser.parse_args().repeat
    with tempfile.TemporaryDirectory() as place:
        rows = asyncio.run(measure(repeat, Path(place)))
    return 0 if print_table(rows) else 1


if __name__ == "__main__":
    sys.exit(main())
