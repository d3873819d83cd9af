"""How much longer a job takes to start through ZooKeeper than through the master alone.

    python -m benchmarks.zookeeper [--repeat 9] [--tasks 4]

From starting the ``ytf-submit`` process to the last command running, on the local
backend, with a real ZooKeeper on this machine; medians. Both registries take turns, so
that whatever else the machine does concerns both. It needs Java.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from benchmarks.launch_local import STAMP, Bench
from benchmarks.table import Row, print_table
from ytf.minicluster import ZooKeeperEnsemble
from ytf.testing.leaks import no_leaks


def main() -> int:
    """Print the table; 1 if the limit is not kept."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeat", type=int, default=9)
    parser.add_argument("--tasks", type=int, default=4)
    options = parser.parse_args()
    with _servers() as zookeeper, tempfile.TemporaryDirectory() as place, no_leaks(Path(place)):
        bench = Bench(Path(place), options.tasks)
        registries = {"rest": "rest", "zookeeper": f"zk://{zookeeper}"}
        started: dict[str, list[float]] = {name: [] for name in registries}
        for _ in range(options.repeat):
            for name, registry in registries.items():
                words = ("--registry", registry, "--wait")
                job, began, _ = bench.submit(f"{STAMP}; sleep 0.5", *words)
                started[name].append(max(bench.stamps(job)) - began)
        _, starter_mb = bench.sizes("--registry", registries["zookeeper"])
    rest, through = (statistics.median(times) for times in started.values())
    rows = [
        Row(f"submit to the last of {options.tasks} commands, REST", rest, "s"),
        Row(f"submit to the last of {options.tasks} commands, ZooKeeper", through, "s"),
        Row("ZooKeeper / REST", through / rest, "", 1.5),
        Row("starter, ZooKeeper, resident", starter_mb, "MB", 14),
    ]
    return 0 if print_table(rows) else 1


@contextmanager
def _servers() -> Iterator[str]:
    with tempfile.TemporaryDirectory() as place, ZooKeeperEnsemble(Path(place)) as servers:
        yield ",".join(servers.addresses)


if __name__ == "__main__":
    sys.exit(main())
