"""Where the time of a ytf job's start on YARN goes, step by step."""

from __future__ import annotations

import json
import statistics
from collections.abc import Sequence

from benchmarks.cluster_probes import ClusterProbes
from benchmarks.launchers import Submitted, Ytf

Breakdown = dict[str, float]
"""Step → when it was done, in seconds since the client's process was started."""


def measure_breakdown(
    probes: ClusterProbes, ytf: Ytf, submitted: Submitted, last_start: float
) -> Breakdown:
    """A job that is over. Clocks are one: client, daemons and containers share the machine."""
    launched = probes.launches(submitted.job)
    master = next(each for each in launched if each.is_master)
    tasks = [each for each in launched if not each.is_master]
    told = json.loads(ytf.events(submitted.job))

    def last(event: str) -> float:
        return max(float(each["at"]) for each in told if each["event"] == event)

    done = {
        "client: submitted to the ResourceManager": probes.report(submitted.job)["startedTime"]
        / 1000,
        "YARN: the master's node is told": master.asked,
        "YARN: the master's files are there": master.localized,
        "YARN: the master's process is started": master.running,
        "master: registered, and asks": last("master-started"),
        "YARN: the last container is allocated": last("container-allocated"),
        "master: the last node is told": max(each.asked for each in tasks),
        "YARN: the last task's files are there": max(each.localized for each in tasks),
        "YARN: the last starter's process is started": max(each.running for each in tasks),
        "starter: the last has registered": last("starter-registered"),
        "starter: the last command runs": last_start,
    }
    return {step: at - submitted.began for step, at in done.items()}


def print_breakdown(tasks: int, anatomies: Sequence[Breakdown]) -> None:
    """Each step's end and its own share, as medians over the runs of jobs of one size."""
    print(f"\nwhere the time of ytf goes with {tasks} tasks (medians, from the client's start)")
    before = 0.0
    for step in anatomies[0]:
        at = statistics.median(each[step] for each in anatomies)
        print(f"  {at:6.2f} s  +{max(at - before, 0.0):.2f}  {step}")
        before = max(before, at)
