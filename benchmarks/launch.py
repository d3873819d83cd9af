"""How long a job takes from its command to its programs on a real YARN, beside skein.

    python -m benchmarks.launch [--repeat 5] [--env VENV]

A Hadoop is started on this machine, with Hadoop's own heartbeat settings and its
native library, and skein is installed in an environment of its own. The two take
turns. Times are of the whole way, from the start of the client's process;
skein's driver runs already, ytf's layers are in HDFS and on the nodes, but where
the table says otherwise. Medians. ``--env`` names a virtual environment (1.4 GB
with TensorFlow) for the last rows: what a cold node takes to localize it.
"""

from __future__ import annotations

import argparse
import getpass
import statistics
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from benchmarks.cluster_probes import DEADLINE_S, ClusterProbes
from benchmarks.launch_breakdown import Breakdown, measure_breakdown, print_breakdown
from benchmarks.launchers import Launcher, Submitted, Ytf, application_class_path, skein_driver
from benchmarks.table import Row, print_table
from ytf.minicluster import ClusterOptions, MiniCluster
from ytf.minicluster.options import DEFAULT_VERSION
from ytf.testing.waiting import eventually

FEW, MANY = 4, 16
MIB = 1024 * 1024
HEARTBEAT = "yarn.resourcemanager.nodemanagers.heartbeat-interval-ms"
HEARTBEAT_MS = 1000
SKEIN_VENV = Path(__file__).parent.parent / ".cache" / "skein"


@dataclass(frozen=True)
class Run:
    """One job: how long its parts took, in seconds."""

    submitted: Submitted
    told: float
    started: float
    finished: float
    last_start: float
    last_end: float


class Bench:
    """Runs the same command by whichever launcher."""

    def __init__(self, probes: ClusterProbes, scratch: Path) -> None:
        self._probes = probes
        self._scratch = scratch
        self._runs = 0

    def run(self, launcher: Launcher, tasks: int, *options: str) -> Run:
        """A job of ``tasks`` commands that note their beginning and their end."""
        stamps = self._stamps()
        note = f'echo "$EPOCHREALTIME" >>{stamps}/$$'
        submitted = launcher.submit(tasks, f"{note}; sleep 1; {note}", *options)
        told = self._probes.ended(submitted.job)
        times = [list(map(float, p.read_text().split())) for p in stamps.iterdir()]
        assert len(times) == tasks, f"{len(times)} of {tasks} commands ran"
        last_start, last_end = (max(column) for column in zip(*times, strict=True))
        return Run(
            submitted=submitted,
            told=submitted.told - submitted.began,
            started=last_start - submitted.began,
            finished=told["finishedTime"] / 1000 - last_end,
            last_start=last_start,
            last_end=last_end,
        )

    def resting(self, launcher: Launcher) -> tuple[float, int]:
        """The resident MB of a master whose job runs, and the bytes of the job's own files."""
        stamps = self._stamps()
        job = launcher.submit(1, f"echo >{stamps}/$$; exec sleep 600").job
        eventually(lambda: any(stamps.iterdir()), DEADLINE_S, f"{job} to run")
        # At rest: what starting it took is over.
        time.sleep(5)
        found = self._probes.master_mb(job), self._probes.bytes_below(launcher.staging(job))
        self._probes.kill(job)
        return found

    def _stamps(self) -> Path:
        self._runs += 1
        place = self._scratch / f"run-{self._runs}"
        place.mkdir()
        return place


def compare(
    bench: Bench, probes: ClusterProbes, ytf: Ytf, skein: Launcher, repeat: int
) -> list[Row]:
    """The rows in which both take part, and where ytf's time goes."""
    runs: dict[tuple[str, int], list[Run]] = {}
    breakdowns: dict[int, list[Breakdown]] = {FEW: [], MANY: []}
    uploads: list[int] = []
    launchers: tuple[Launcher, ...] = (ytf, skein)
    for launcher in launchers:
        # The first run of each warms the nodes, and does not count.
        bench.run(launcher, FEW)
    for turn in range(repeat):
        for launcher in launchers:
            for tasks in (FEW, MANY):
                stored = probes.bytes_of_layers(ytf.layers)
                run = bench.run(launcher, tasks)
                runs.setdefault((launcher.name, tasks), []).append(run)
                if launcher is ytf:
                    uploads.append(probes.bytes_of_layers(ytf.layers) - stored)
                    breakdowns[tasks].append(
                        measure_breakdown(probes, ytf, run.submitted, run.last_start)
                    )
        print(f"turn {turn + 1} of {repeat} is done", file=sys.stderr)

    def median(name: str, tasks: int, part: str) -> float:
        return float(statistics.median(getattr(run, part) for run in runs[name, tasks]))

    few, many = median("skein", FEW, "started"), median("skein", MANY, "started")
    ending = median("skein", FEW, "finished")
    master_mb, own = bench.resting(ytf)
    skein_mb, skein_own = bench.resting(skein)
    for tasks, found in breakdowns.items():
        print_breakdown(tasks, found)
    return [
        Row("submit → last of 4 commands", median("ytf", FEW, "started"), "s", 0.3 * few, few),
        Row("submit → last of 16 commands", median("ytf", MANY, "started"), "s", 0.2 * many, many),
        Row(
            "client's start → id printed",
            median("ytf", FEW, "told"),
            "s",
            0.6,
            median("skein", FEW, "told"),
        ),
        Row("last exit → FINISHED", median("ytf", FEW, "finished"), "s", 0.5 * ending, ending),
        Row("master, resident at rest", master_mb, "MB", 60, skein_mb),
        Row("second submit: uploaded to the layer store", max(uploads) / MIB, "MB", 0),
        Row("second submit: the job's own files", own / MIB, "MB", None, skein_own / MIB),
    ]


def cold(bench: Bench, probes: ClusterProbes, ytf: Ytf, what: str, *options: str) -> list[Row]:
    """What nodes take to localize what they have never seen."""
    probes.forget_localized()
    run = bench.run(ytf, 1, *options)
    launched = probes.launches(run.submitted.job)
    localizing = [each.localized - each.asked for each in launched]
    size = probes.bytes_of_layers(ytf.layers)
    return [
        Row(f"cold node: localize {what}", max(localizing), "s"),
        Row(f"cold node: submit → command, {what}", run.started, "s"),
        Row(f"layers in HDFS with {what}", size / MIB, "MB"),
    ]


def main() -> int:
    """Print the tables; 1 if a limit is not kept."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else None)
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument("--env", metavar="VENV", type=Path)
    args = parser.parse_args()
    user = getpass.getuser()
    options = ClusterOptions(
        properties={
            "yarn.application.classpath": application_class_path(DEFAULT_VERSION),
            HEARTBEAT: str(HEARTBEAT_MS),
        }
    )
    with tempfile.TemporaryDirectory() as place:
        scratch = Path(place)
        with MiniCluster(scratch / "cluster", options, stop_with_owner=True) as cluster:
            probes, bench = (
                ClusterProbes(cluster, user),
                Bench(ClusterProbes(cluster, user), scratch),
            )
            ytf = Ytf(cluster, scratch / "home", user)
            with skein_driver(cluster, SKEIN_VENV, scratch / "skein", user) as skein:
                rows = compare(bench, probes, ytf, skein, args.repeat)
            rows += cold(bench, probes, ytf, "ytf's runtime")
            if args.env is not None:
                rows += cold(bench, probes, ytf, str(args.env), "--env", str(args.env.resolve()))
    print(
        f"\nHadoop {options.version}, {options.nodes} nodes on this machine, a node's heartbeat"
        f" {HEARTBEAT_MS} ms (Hadoop's default), medians of {args.repeat}"
    )
    return 0 if print_table(rows, value="ytf", peer="skein") else 1


if __name__ == "__main__":
    sys.exit(main())
