"""How long the local backend takes to start and to end a job, and how big its processes are.

    python -m benchmarks.launch_local [--repeat 9]

Times are of the whole way: from starting the ``ytf-submit`` process to the last
of four commands running, and from the last command's end to ``--wait``
returning. Medians.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from benchmarks.table import Row, print_table
from ytf.testing.leaks import no_leaks
from ytf.testing.waiting import eventually

TASKS = 4
STAMP = 'printf "%s\\n" "$EPOCHREALTIME"'
"""bash's own clock: no process is started to read it."""


class Bench:
    """Runs jobs below a ``YTF_HOME`` of its own."""

    def __init__(self, home: Path, tasks: int = TASKS) -> None:
        self._home = home
        self._tasks = tasks
        self._env = {**os.environ, "YTF_HOME": str(home), "YTF_BACKEND": "local"}
        self._bin = Path(sys.executable).parent

    def submit(self, command: str, *options: str) -> tuple[str, float, float]:
        """Submit a job: its id, and when the client began and returned."""
        began = time.time()
        done = subprocess.run(
            [
                str(self._bin / "ytf-submit"),
                *("--framework", "none", "-r", f"worker:{self._tasks}"),
                *options,
                command,
            ],
            env=self._env,
            check=True,
            capture_output=True,
            text=True,
        )
        return done.stdout.strip(), began, time.time()

    def ytf(self, *words: str) -> float:
        """How long one ``ytf`` command takes."""
        began = time.monotonic()
        subprocess.run(
            [str(self._bin / "ytf"), *words], env=self._env, check=True, capture_output=True
        )
        return time.monotonic() - began

    def stamps(self, job: str) -> list[float]:
        """What the tasks printed."""
        logs = (self._home / "history" / job / "logs").glob("worker-*/1/stdout")
        return [float(line) for log in logs for line in log.read_text().split()]

    def sizes(self, *words: str) -> tuple[float, float]:
        """Resident MB of the master and of the biggest starter of a job that waits."""
        job, _, _ = self.submit("sleep 60", *words)
        staging = self._home / "jobs" / job
        eventually(lambda: self.ytf_state(job) == "RUNNING", 30, lambda: f"{job} does not run")
        master = json.loads((staging / "master.json").read_text())["pid"]
        found = (
            resident_mb(master),
            max(resident_mb(pid) for pid in self.processes(job, "YTF_STARTER=")),
        )
        self.ytf("kill", job)
        return found

    def ytf_state(self, job: str) -> str:
        """The job's state."""
        told = subprocess.run(
            [str(self._bin / "ytf"), "status", job, "--json"],
            env=self._env,
            check=True,
            capture_output=True,
        )
        return str(json.loads(told.stdout)["state"])

    def processes(self, job: str, mark: str) -> list[int]:
        """The processes of a job's containers, but programs, with a mark in variables or words."""
        found = []
        for entry in Path("/proc").iterdir():
            if entry.name.isdigit():
                try:
                    environ = (entry / "environ").read_bytes()
                    words = (entry / "cmdline").read_bytes()
                except OSError:
                    continue
                if mark.encode() in environ + words and job.encode() in environ and b"ytf" in words:
                    found.append(int(entry.name))
        return found


def resident_mb(pid: int) -> float:
    """``VmRSS`` of a process."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) / 1024
    raise LookupError(pid)


def main() -> int:
    """Print the table; 1 if a limit is not kept."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeat", type=int, default=9)
    repeat = parser.parse_args().repeat
    with tempfile.TemporaryDirectory() as place, no_leaks(Path(place)):
        bench = Bench(Path(place))
        helps = [bench.ytf("--help") for _ in range(repeat)]
        accepted, started, ended = [], [], []
        for _ in range(repeat):
            job, began, returned = bench.submit(f"{STAMP}; sleep 0.5; {STAMP}", "--wait")
            stamps = sorted(bench.stamps(job))
            started.append(stamps[TASKS - 1] - began)
            ended.append(returned - stamps[-1])
        for _ in range(repeat):
            _, began, returned = bench.submit("true")
            accepted.append(returned - began)
        master_mb, starter_mb = bench.sizes()
    rows = [
        Row("ytf --help", statistics.median(helps), "s", 0.15),
        Row("ytf-submit until accepted", statistics.median(accepted), "s"),
        Row("submit to the last of 4 commands", statistics.median(started), "s", 0.7),
        Row("last exit to --wait returning", statistics.median(ended), "s", 0.3),
        Row("master, resident", master_mb, "MB", 60),
        Row("starter, resident", starter_mb, "MB", 14),
    ]
    return 0 if print_table(rows) else 1


if __name__ == "__main__":
    sys.exit(main())
