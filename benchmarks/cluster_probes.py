"""What the cluster itself says of a job: its ResourceManager, its nodes' logs, HDFS, the kernel."""

from __future__ import annotations

import re
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

from benchmarks.launch_local import resident_mb
from ytf.minicluster import MiniCluster
from ytf.minicluster.probes import get_json
from ytf.testing.waiting import eventually

DEADLINE_S = 180.0
_MASTER = "_01_000001"
_LINE = re.compile(
    r"(?P<at>[-0-9]+ [:0-9]+),(?P<ms>\d+) INFO .*?"
    r"(?:Start request for (?P<asked>container_\w+)"
    r"|Container (?P<moved>container_\w+) transitioned from \w+ to (?P<to>\w+))"
)


@dataclass(frozen=True)
class Launched:
    """When a node was told to start a container, had its files, and ran it."""

    container: str
    asked: float
    localized: float
    running: float

    @property
    def is_master(self) -> bool:
        """Whether it is the application's first container."""
        return self.container.endswith(_MASTER)


class ClusterProbes:
    """Knows a cluster from outside."""

    def __init__(self, cluster: MiniCluster, user: str) -> None:
        self._cluster = cluster
        self._user = user

    def report(self, job: str) -> dict[str, Any]:
        """The ResourceManager's own words."""
        found: dict[str, Any] = self._cluster.rm_rest(f"/apps/{job}")["app"]
        return found

    def ended(self, job: str) -> dict[str, Any]:
        """The same, once the application is over, which it must be in good order."""

        def over() -> dict[str, Any]:
            told = self.report(job)
            return told if told["finishedTime"] else {}

        told = eventually(over, DEADLINE_S, lambda: f"{job} is not over: {self.report(job)}")
        assert told["finalStatus"] == "SUCCEEDED", told
        return told

    def kill(self, job: str) -> None:
        """End an application, and wait until nothing of it runs."""
        path = f"/apps/{job}/state?user.name={self._user}"
        self._cluster.rm_rest(path, "PUT", {"state": "KILLED"})
        eventually(lambda: not _processes_of(job), 60, f"the processes of {job} to end")

    def master_mb(self, job: str) -> float:
        """What the biggest process in the master's container keeps resident."""
        found = _processes_of(job, _MASTER)
        return max(resident_mb(pid) for pid in found)

    def bytes_below(self, path: str) -> int:
        """How much lies in a directory of HDFS; nothing, if it is not there."""
        url = f"/webhdfs/v1{quote(path)}?op=GETCONTENTSUMMARY&user.name={self._user}"
        try:
            told = get_json(self._cluster.daemons["nn"], url)
        except OSError as error:
            if "404" in str(error):
                return 0
            raise
        return int(told["ContentSummary"]["length"])

    def bytes_of_layers(self, store: str) -> int:
        """How much all layers of a layer store have, without the small notes of who uses them."""
        return self.bytes_below(store) - self.bytes_below(f"{store}/uses")

    def launches(self, job: str) -> list[Launched]:
        """Every container of an application that ran, as the nodes' logs tell it."""
        number = job.removeprefix("application_")
        times: dict[str, dict[str, float]] = {}
        for name in self._cluster.options.node_names:
            with self._cluster.directory.log(name).open(errors="replace") as log:
                for line in log:
                    found = _LINE.match(line) if number in line else None
                    if found is not None:
                        container = found["asked"] or found["moved"]
                        times.setdefault(container, {})[found["to"] or "ASKED"] = _seconds(found)
        return [
            Launched(container, at["ASKED"], at["SCHEDULED"], at["RUNNING"])
            for container, at in times.items()
            if "RUNNING" in at
        ]

    def forget_localized(self) -> int:
        """Make every node as if it had never run anything; how many bytes they had."""
        forgotten = 0
        for name in self._cluster.options.node_names:
            self._cluster.stop_daemon(name)
            for part in ("local", "recovery"):
                place = self._cluster.directory.data(name) / part
                if place.exists():
                    forgotten += _bytes_on_disk(place)
                    # Not deleted: for half a minute ext4 looks at the inodes of files that were
                    # deleted before it makes a new one, which doubles what follows.
                    place.rename(place.with_name(f"{part}-{time.time_ns()}"))
        for name in self._cluster.options.node_names:
            self._cluster.restart(name)
        self._cluster.wait_for_nodes(self._cluster.options.nodes)
        return forgotten


def _bytes_on_disk(place: Path) -> int:
    return sum(path.lstat().st_size for path in place.rglob("*") if not path.is_dir())


def _seconds(found: re.Match[str]) -> float:
    return time.mktime(time.strptime(found["at"], "%Y-%m-%d %H:%M:%S")) + int(found["ms"]) / 1000


def _processes_of(job: str, suffix: str = "") -> list[int]:
    """The processes in an application's containers, or in the one whose id ends like this."""
    number = job.removeprefix("application_")
    variable = re.compile(rf"(?:^|\0)CONTAINER_ID=container_\w*?{number}\w*{suffix}\0")
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                environ = (entry / "environ").read_bytes().decode(errors="replace")
                zombie = not (entry / "cmdline").read_bytes()
            except OSError:
                continue
            if not zombie and variable.search(environ):
                found.append(int(entry.name))
    return found
