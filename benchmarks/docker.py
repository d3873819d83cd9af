"""How much longer a task in a docker image takes than a native one, on the local backend.

    python -m benchmarks.docker [--repeat 9]

One task. From starting ``ytf-submit`` to its command running, and from the
command's end to ``--wait`` returning; the native and the docker job take turns.
Medians. The engine is podman with an image of busybox, which the node has.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from tests import engine as engines

from benchmarks.table import Row, print_table
from ytf.testing.leaks import no_leaks

STAMP = "cat /proc/uptime"
"""A clock that busybox has, too: the machine's, in hundredths of a second."""


def _uptime() -> float:
    return float(Path("/proc/uptime").read_text().split()[0])


def _times(home: Path, env: dict[str, str], *options: str) -> tuple[float, float]:
    """Run one job; returns how long its command took to begin, and ``--wait`` to return."""
    began = _uptime()
    done = subprocess.run(
        [
            str(Path(sys.executable).parent / "ytf-submit"),
            *("--wait", "--framework", "none", "-r", "worker:1", *options),
            f"{STAMP}; sleep 0.5; {STAMP}",
        ],
        env=env,
        check=True,
        capture_output=True,
        text=True,
    )
    returned = _uptime()
    log = home / "history" / done.stdout.strip() / "logs" / "worker-0" / "1" / "stdout"
    first, last = (float(line.split()[0]) for line in log.read_text().splitlines())
    return first - began, returned - last


def main() -> int:
    """Print the table; 1 if a limit is not kept."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeat", type=int, default=9)
    repeat = parser.parse_args().repeat
    native, docker = [], []
    with tempfile.TemporaryDirectory() as place, engines.started() as engine:
        home = Path(place, "home")
        env = {**os.environ, **engine.settings, "YTF_HOME": str(home), "YTF_BACKEND": "local"}
        image = ("--docker_engine", "podman", "--docker_image", engines.IMAGE)
        with no_leaks(home):
            for _ in range(repeat):
                native.append(_times(home, env))
                docker.append(_times(home, env, *image))
                time.sleep(0.1)
    rows = []
    medians = {}
    for name, found in (("native", native), ("docker", docker)):
        for what, values in zip(("start", "end"), zip(*found, strict=True), strict=True):
            medians[name, what] = statistics.median(values)
            rows.append(Row(f"{what} of a {name} task", medians[name, what], "s"))
    more = {what: medians["docker", what] - medians["native", what] for what in ("start", "end")}
    rows.append(Row("a docker task starts later by", more["start"], "s", 1.0))
    rows.append(Row("and ends later by", more["end"], "s", 1.0))
    return 0 if print_table(rows) else 1


if __name__ == "__main__":
    sys.exit(main())
