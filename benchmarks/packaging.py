"""What shipping TensorFlow's environment costs: for the first time, again, and after a change.

    python -m benchmarks.packaging [--repeat 3] [--no_cluster_pack]

A cluster with one node is started on this machine. The environment is made anew from the
packages of ``.venv-tf``, with a source directory and a small distribution of its own, which
change in between. Beside it, in the same run, ``tar | gzip -1 | put`` of the same directory,
and a pex of the same packages that cluster-pack makes with its cache warm, put likewise.
"Submit → command" is from the start of ``ytf-submit`` to the first line of the command, with
everything that is shipped already on the node but for what changed; a cold node has lost all
that it had localized. It needs Java, and a network for cluster-pack.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib.metadata import distributions
from pathlib import Path, PurePosixPath

from hdfs_native import Client

from benchmarks.cluster_probes import ClusterProbes
from benchmarks.launchers import Ytf
from benchmarks.table import Row, print_table
from ytf.hadoop.security.login import current_user
from ytf.minicluster import ClusterOptions, MiniCluster

ROOT = Path(__file__).parents[1]
TENSORFLOW = ROOT / ".venv-tf"
CLUSTER_PACK = "cluster-pack==0.3.19"
OF_CLUSTER_PACK = 0.12
"""The part of cluster-pack's time that the first ship may take."""
FIRST_CPU_S = 15.0
AGAIN_CPU_S = 0.4
CHANGED_LINE_S = 0.4
"""How much longer than without an environment a submission may take after a changed line."""
UPGRADED_S = 3.5
COLD_NODE_S = 15.0
CLUSTER = ClusterOptions(nodes=1, properties={"yarn.nodemanager.delete.debug-delay-sec": "36000"})
"""Nothing is deleted between two jobs: for half a minute ext4 looks at every inode that was
deleted before it makes a new one, and an environment has a thousand links."""
_HEARTBEAT_S = 1.0
IMPORT = 1.1
"""Of the time that importing TensorFlow takes in the environment itself: the noise of one run."""
PUT = """
import sys
from hdfs_native import Client, WriteOptions
with Client(sys.argv[1]).create("/peer", WriteOptions(overwrite=True)) as file:
    while piece := sys.stdin.buffer.read(1 << 20):
        file.write(piece)
"""
PACK = """
import json, sys
from cluster_pack.packaging import pack_in_pex
pack_in_pex(json.loads(sys.argv[1]), sys.argv[2])
"""
IMPORT_TENSORFLOW = """
import time
began = time.perf_counter()
import tensorflow
print(time.perf_counter() - began)
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
        self.printed = place / "printed"
        """What the command of the last job has written into it."""

    def ship(self, *options: str, command: str = "true") -> Shipped:
        """Submit a job, and wait until its command has run."""
        for file in (self._started, self.printed):
            file.unlink(missing_ok=True)
        # The node of the job before may have unpacked gigabytes, which the kernel writes to the
        # disk for half a minute, on the same processors.
        os.sync()
        before = _children_cpu_s()
        began = time.time()
        told = f"date +%s.%N > {self._started}; {command} > {self.printed}"
        submitted = self._launcher.submit(1, told, *options)
        cpu_s = _children_cpu_s() - before
        self._launcher.wait(submitted.job)
        started_s = float(self._started.read_text()) - began
        return Shipped(submitted.told - submitted.began, started_s, cpu_s)

    def medians(self, count: int, change: Callable[[int], None], *options: str) -> Shipped:
        """The median of each figure over some submissions, each after a change.

        Nodes report once a second. Jobs that follow each other would all begin at the same
        moment of that second, and a tenth of a second more or less could cost a whole one.
        """
        (found,) = self.alternating(count, change, options)
        return found

    def alternating(
        self, count: int, change: Callable[[int], None], *ways: tuple[str, ...]
    ) -> list[Shipped]:
        """The medians of several ways to submit, which take turns: two that are compared."""
        found: list[list[Shipped]] = [[] for _ in ways]
        for number in range(1, count + 1):
            change(number)
            for shipped, options in zip(found, ways, strict=True):
                time.sleep(_HEARTBEAT_S * number / count)
                shipped.append(self.ship(*options))
        return [_median(each) for each in found]


def _median(found: list[Shipped]) -> Shipped:
    return Shipped(
        statistics.median(each.told_s for each in found),
        statistics.median(each.started_s for each in found),
        statistics.median(each.cpu_s for each in found),
    )


def main() -> int:
    """Print the table; 1 if a limit is not kept."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--no_cluster_pack", action="store_true", help="it takes minutes")
    options = parser.parse_args()
    (ROOT / ".cache").mkdir(exist_ok=True)
    with (
        # On the same disk as the environment, whose files are linked.
        tempfile.TemporaryDirectory(dir=ROOT / ".cache") as folder,
        MiniCluster(Path(folder, "cluster"), CLUSTER, stop_with_owner=True) as cluster,
    ):
        rows = []
        for row in _measure(cluster, Path(folder), options.repeat, not options.no_cluster_pack):
            print(f"{row.measure}: {row.value:.3g} {row.unit}", file=sys.stderr)
            rows.append(row)
    return 0 if print_table(rows, value="ytf", peer="peer") else 1


def _measure(
    cluster: MiniCluster, place: Path, repeat: int, with_cluster_pack: bool
) -> Iterator[Row]:
    environment = Environment(place)
    user = current_user()
    launcher = Ytf(cluster, place / "home", user)
    bench, probes = Bench(launcher, place), ClusterProbes(cluster, user)
    env = ("--env", str(environment.path))

    def nothing(_: int) -> None:
        pass

    def forget(_: int) -> None:
        probes.forget_localized()

    tar_s = _timed(lambda: _put(f"tar -C {environment.path} -c . | gzip -1", cluster))
    bench.ship()  # ytf's own layers are there from now on
    first = bench.ship(*env)
    yield Row("first ship, beside tar | gzip -1 | put", first.told_s, "s", peer=tar_s)
    yield Row("first ship: the client's processor", first.cpu_s, "s", FIRST_CPU_S)
    yield Row("first ship: submit → command, on a node without any of it", first.started_s, "s")
    stored = probes.bytes_of_layers(launcher.layers)
    again = bench.medians(repeat, nothing, *env)
    uploaded = probes.bytes_of_layers(launcher.layers) - stored
    plain = bench.medians(repeat, nothing)
    yield Row("without an environment: the client's processor", plain.cpu_s, "s")
    yield Row("again, nothing changed: the client's processor", again.cpu_s, "s", AGAIN_CPU_S)
    yield Row("again, nothing changed: uploaded", uploaded, "bytes", 0)
    yield Row("again, nothing changed: submit → command", again.started_s, "s")
    # Both wait for heartbeats of a second, so it takes more of them to see a difference.
    plain, line = bench.alternating(3 * repeat, environment.change_line, (), env)
    yield Row("without an environment: submit → command", plain.started_s, "s")
    limit = plain.started_s + CHANGED_LINE_S
    yield Row("a line changed: submit → command", line.started_s, "s", limit)
    upgraded = bench.medians(repeat, environment.upgrade, *env)
    yield Row("a small distribution upgraded: submit → id", upgraded.told_s, "s")
    yield Row(
        "a small distribution upgraded: submit → command", upgraded.started_s, "s", UPGRADED_S
    )
    cold = bench.medians(repeat, forget, *env)
    yield Row("cold node, layers stored: submit → command", cold.started_s, "s", COLD_NODE_S)
    here, there = _import_times(environment.path, bench, env)
    yield Row("import tensorflow in a task, beside here", there, "s", IMPORT * here, peer=here)
    _begin_public_store(cluster, launcher)
    bench.ship(*env)
    cold = bench.medians(repeat, forget, *env)
    yield Row(
        "cold node, layers that all may read: submit → command", cold.started_s, "s", COLD_NODE_S
    )
    if with_cluster_pack:
        pex_s = _put_pex(place, cluster)
        limit = OF_CLUSTER_PACK * pex_s
        yield Row("first ship, beside cluster-pack", first.told_s, "s", limit, peer=pex_s)


def _begin_public_store(cluster: MiniCluster, launcher: Ytf) -> None:
    """Remove the layers, and let all users read the next ones: nodes localize these in parallel."""
    hdfs = Client(cluster.hdfs_url)
    hdfs.delete(launcher.layers, True)
    store = PurePosixPath(launcher.layers).parent
    for directory in (store, *store.parents):
        hdfs.set_permission(str(directory), 0o755)


def _put(command: str, cluster: MiniCluster) -> None:
    """Put what a command prints into HDFS."""
    put = [sys.executable, "-c", PUT, cluster.hdfs_url]
    with subprocess.Popen(["bash", "-c", command], stdout=subprocess.PIPE) as packing:
        subprocess.run(put, stdin=packing.stdout, check=True)
    assert packing.returncode == 0


def _put_pex(place: Path, cluster: MiniCluster) -> float:
    """Seconds in which cluster-pack makes a pex of the same packages, and it is put."""
    venv = ROOT / ".cache" / "cluster-pack"
    python = str(venv / "bin" / "python")
    if not venv.exists():
        print(f"installing {CLUSTER_PACK} into {venv} ...", file=sys.stderr)
        subprocess.run([sys.executable, "-m", "venv", str(venv)], check=True)
        subprocess.run([python, "-m", "pip", "install", "--quiet", CLUSTER_PACK], check=True)
    (packages,) = TENSORFLOW.glob("lib/python3*/site-packages")
    # tf_keras asks for another distribution of TensorFlow than the one that is there.
    wanted = [
        f"{each.metadata['Name']}=={each.version}"
        for each in distributions(path=[str(packages)])
        if each.metadata["Name"].replace("-", "_") != "tf_keras"
    ]
    environ = {**os.environ, "PATH": f"{venv / 'bin'}:{os.environ['PATH']}"}
    environ["PEX_ROOT"] = str(venv / "pex")

    def pack() -> None:
        argv = [python, "-c", PACK, json.dumps(wanted), str(place / "peer.pex")]
        subprocess.run(argv, env=environ, check=True, stdout=subprocess.DEVNULL)

    print("cluster-pack packs, first to fill its cache ...", file=sys.stderr)
    pack()
    (place / "peer.pex").unlink()

    def pack_and_put() -> None:
        pack()
        _put(f"cat {place / 'peer.pex'}", cluster)

    return _timed(pack_and_put)


def _timed(call: Callable[[], None]) -> float:
    began = time.monotonic()
    call()
    return time.monotonic() - began


def _import_times(environment: Path, bench: Bench, env: tuple[str, ...]) -> tuple[float, float]:
    """Seconds that importing TensorFlow takes here and in a task, each the median of five."""
    script = environment.parent / "import_tensorflow.py"
    script.write_text(IMPORT_TENSORFLOW)
    repeated = f"for i in 1 2 3 4 5; do python {script}; done"
    path = f"PATH={environment / 'bin'}:$PATH"
    done = subprocess.run(
        ["bash", "-c", f"{path}; {repeated}"], check=True, capture_output=True, text=True
    )
    bench.ship(*env, "-m", "worker:1024", command=f"{{ {repeated}; }}")
    told = (done.stdout, bench.printed.read_text())
    here, there = (statistics.median(map(float, each.split())) for each in told)
    return here, there


def _children_cpu_s() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


if __name__ == "__main__":
    sys.exit(main())
