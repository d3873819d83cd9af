"""What shipping TensorFlow's environment costs: for the first time, again, and after a change.

    python -m benchmarks.packaging [--repeat 3]

A cluster with one node is started on this machine. The environment is made anew from the
packages of ``.venv-tf``, with a source directory and a small distribution of its own, which
change in between. Beside it, in the same run, ``tar | gzip -1 | put`` of the same directory.
"Submit → command" is from the start of ``ytf-submit`` to the first line of the command, with
everything that is shipped already on the node but for what changed. It needs Java.
"""

from __future__ import annotations

import argparse
import os
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from benchmarks.launchers import Ytf
from benchmarks.table import Row, print_table
from ytf.hadoop.security.login import current_user
from ytf.minicluster import ClusterOptions, MiniCluster

ROOT = Path(__file__).parents[1]
TENSORFLOW = ROOT / ".venv-tf"
FIRST_CPU_S = 15.0
AGAIN_CPU_S = 0.4
CHANGED_LINE_S = 0.4
"""How much longer than without an environment a submission may take after a changed line."""
UPGRADED_S = 3.5
STARTED_S = 120.0
PUT = """
import sys
from hdfs_native import Client, WriteOptions
with Client(sys.argv[1]).create("/peer.tar.gz", WriteOptions(overwrite=True)) as file:
    while piece := sys.stdin.buffer.read(1 << 20):
        file.write(piece)
"""


@dataclass(frozen=True)
class Shipped:
    """One submission: seconds to its id and to its command, and the client's processor time."""

    told_s: float
    started_s: float
    cpu_s: float


class Environment:
    """A copy of TensorFlow's environment that can be changed."""

    def __init__(self, place: Path) -> None:
        self.path = place / "environment"
        self._source = place / "source"
        # Links to the same files: only what is changed is written.
        shutil.copytree(TENSORFLOW, self.path, symlinks=True, copy_function=os.link)
        (self._packages,) = self.path.glob("lib/python3*/site-packages")
        (self._source / "mine").mkdir(parents=True)
        (self._packages / "mine.pth").write_text(f"{self._source}\n")
        self.change_line(0)
        self.upgrade(0)

    def change_line(self, number: int) -> None:
        """Change a line of the user's own code."""
        (self._source / "mine" / "__init__.py").write_text(f"NUMBER = {number}\n")

    def upgrade(self, number: int) -> None:
        """Put another version of a small distribution in the place of the one there is."""
        for old in self._packages.glob("small-*.dist-info"):
            shutil.rmtree(old)
        about = self._packages / f"small-{number}.dist-info"
        about.mkdir()
        (self._packages / "small.py").write_text(f"NUMBER = {number}\n" * 50_000)
        (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: small\nVersion: {number}\n")
        names = ("small.py", f"{about.name}/METADATA", f"{about.name}/RECORD")
        (about / "RECORD").write_text("".join(f"{name},,\n" for name in names))


class Bench:
    """Submits one small job after the other."""

    def __init__(self, launcher: Ytf, place: Path) -> None:
        self._launcher = launcher
        self._started = place / "started"

    def ship(self, *options: str) -> Shipped:
        """Submit a job, and wait until its command runs."""
        self._started.unlink(missing_ok=True)
        before = _children_cpu_s()
        command = f"date +%s.%N > {self._started}.new; mv {self._started}.new {self._started}"
        began = time.time()
        submitted = self._launcher.submit(1, command, *options)
        cpu_s = _children_cpu_s() - before
        deadline = time.monotonic() + STARTED_S
        while not self._started.exists():
            assert time.monotonic() < deadline, f"the command of {submitted.job} does not start"
            time.sleep(0.005)
        started_s = float(self._started.read_text()) - began
        self._launcher.wait(submitted.job)
        return Shipped(submitted.told - submitted.began, started_s, cpu_s)

    def median(
        self,
        count: int,
        change: Callable[[int], None],
        read: Callable[[Shipped], float],
        *options: str,
    ) -> float:
        """The median of what is read of submissions, each after a change."""
        found = []
        for number in range(1, count + 1):
            change(number)
            found.append(read(self.ship(*options)))
        return statistics.median(found)


def main() -> int:
    """Print the table; 1 if a limit is not kept."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeat", type=int, default=3)
    repeat = parser.parse_args().repeat
    with (
        # On the same disk as the environment, whose files are linked.
        tempfile.TemporaryDirectory(dir=ROOT / ".cache") as folder,
        MiniCluster(
            Path(folder, "cluster"), ClusterOptions(nodes=1), stop_with_owner=True
        ) as cluster,
    ):
        place = Path(folder)
        environment = Environment(place)
        bench = Bench(Ytf(cluster, place / "home", current_user()), place)
        peer_s = _put_by_tar(environment.path, cluster)
        env = ("--env", str(environment.path))
        bench.ship()  # ytf's own layers are there from now on
        first = bench.ship(*env)

        def nothing(_: int) -> None:
            pass

        again_cpu_s = bench.median(repeat, nothing, lambda s: s.cpu_s, *env)
        plain_s = bench.median(repeat, nothing, lambda s: s.started_s)
        warm_s = bench.median(repeat, nothing, lambda s: s.started_s, *env)
        line_s = bench.median(repeat, environment.change_line, lambda s: s.started_s, *env)
        upgraded_s = bench.median(repeat, environment.upgrade, lambda s: s.started_s, *env)
    rows = [
        Row("first ship: submit → id", first.told_s, "s", peer=peer_s),
        Row("first ship: the client's processor", first.cpu_s, "s", FIRST_CPU_S),
        Row("first ship: submit → command, on a node without any of it", first.started_s, "s"),
        Row("again, nothing changed: the client's processor", again_cpu_s, "s", AGAIN_CPU_S),
        Row("without an environment: submit → command", plain_s, "s"),
        Row("again, nothing changed: submit → command", warm_s, "s"),
        Row("a line changed: submit → command", line_s, "s", plain_s + CHANGED_LINE_S),
        Row("a small distribution upgraded: submit → command", upgraded_s, "s", UPGRADED_S),
    ]
    return 0 if print_table(rows, value="ytf", peer="tar | gzip -1 | put") else 1


def _put_by_tar(environment: Path, cluster: MiniCluster) -> float:
    began = time.monotonic()
    put = [sys.executable, "-c", PUT, cluster.hdfs_url]
    pack = f"tar -C {environment} -c . | gzip -1"
    with subprocess.Popen(["bash", "-c", pack], stdout=subprocess.PIPE) as packing:
        subprocess.run(put, stdin=packing.stdout, check=True)
    return time.monotonic() - began


def _children_cpu_s() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


if __name__ == "__main__":
    sys.exit(main())
