"""The real commands against a real cluster, and a look at what they leave behind.

What a test waits for is a file that its programs make in ``$GATE``, or what
YARN says; never time.
"""

from __future__ import annotations

import json
import os
import subprocess
import sysconfig
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ytf.hadoop.conf import Configuration
from ytf.hadoop.security.login import current_user
from ytf.storage.hdfs import HdfsFiles
from ytf.testing.hadoop import Cluster
from ytf.testing.waiting import eventually

BIN = Path(sysconfig.get_path("scripts"))
HERE = 'echo $$ > "$GATE/.$YTF_TASK"; mv "$GATE/.$YTF_TASK" "$GATE/$YTF_TASK.$YTF_ATTEMPT"; '
"""A program says that it runs, and as which process."""
HOLD = 'until [ -e "$GATE/go" ]; do sleep 0.05; done; '
"""A program waits for :meth:`Yarn.open_gate`."""
SMALL = ("--framework", "none", "-m", "128")

_OURS = ("YTF_", "HADOOP_", "YARN_", "DTF_", "TF_")


@dataclass(frozen=True)
class Yarn:
    """The commands of one user, whose layers are shared by all tests of a run."""

    cluster: Cluster
    home: Path
    work: Path

    @property
    def files(self) -> HdfsFiles:
        """The cluster's HDFS."""
        return HdfsFiles.open(self.cluster.hdfs_url, Configuration.load(self.cluster.conf_dir))

    def run(self, *argv: str, code: int | None = 0) -> subprocess.CompletedProcess[str]:
        """A command to its end, which must be ``code`` unless that is None."""
        done = subprocess.run(
            [str(BIN / argv[0]), *argv[1:]],
            cwd=self.work,
            env=self._environ(),
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        said = f"{argv} ended with {done.returncode}:\n{done.stdout}\n{done.stderr}"
        assert code is None or done.returncode == code, said
        return done

    def submit(self, requirement: str, command: str, *options: str) -> str:
        """Submit a job; its id."""
        argv = ("--backend", "yarn", *SMALL, *options, "-r", requirement, command)
        done = self.run("ytf-submit", *argv)
        assert done.stdout.startswith("application_"), done.stderr
        return done.stdout.strip()

    def status(self, job: str) -> dict[str, Any]:
        """``ytf status --json``."""
        told: dict[str, Any] = json.loads(self.run("ytf", "status", job, "--json").stdout)
        return told

    def wait(self, job: str, state: str) -> dict[str, Any]:
        """The status once the job's state is this one."""

        def found() -> dict[str, Any]:
            status = self.status(job)
            return status if status["state"] == state else {}

        return eventually(found, 60, lambda: f"{job} is {self.status(job)}")

    def wait_running(self, tasks: Sequence[str], attempt: int = 1) -> dict[str, int]:
        """The processes of the programs, once all of them have said :data:`HERE`."""
        paths = {task: self.work / "gate" / f"{task}.{attempt}" for task in tasks}
        eventually(lambda: all(map(Path.exists, paths.values())), 60, f"{tasks} to run")
        return {task: int(path.read_text()) for task, path in paths.items()}

    def open_gate(self) -> None:
        """Let the programs end."""
        (self.work / "gate" / "go").touch()

    def master(self, job: str) -> int:
        """The process of a job's master."""
        found = [pid for pid, command in _processes() if _is_master(command, job)]
        assert len(found) == 1, found
        return found[0]

    def nothing_is_left(self, job: str) -> None:
        """Neither staging, nor containers, nor processes of the job."""
        assert job not in self.staged()
        eventually(lambda: not _of(job), 10, lambda: f"processes left: {_of(job)}")

    def staged(self) -> list[str]:
        """The jobs that have a staging directory."""
        return [each.name for each in self.files.list(f"{self._ytf()}/jobs")]

    def layers(self) -> dict[str, int]:
        """What lies in the layer store, and since when."""
        found: dict[str, int] = {}
        root = f"{self._ytf()}/layers/{self._user()}"
        for folder in self.files.list(root):
            if folder.name != "uses":
                found |= {each.path: each.mtime_ms for each in self.files.list(folder.path)}
        return found

    def _ytf(self) -> str:
        return f"/user/{self._user()}/.ytf"

    def _user(self) -> str:
        return current_user(self._environ())

    def _environ(self) -> dict[str, str]:
        kept = {k: v for k, v in os.environ.items() if not k.startswith(_OURS)}
        return kept | self.cluster.environ | {"YTF_HOME": str(self.home)}


def _processes() -> list[tuple[int, str]]:
    found = []
    for proc in Path("/proc").iterdir():
        if proc.name.isdecimal():
            try:
                command = (proc / "cmdline").read_bytes().replace(b"\0", b" ").decode()
            except (FileNotFoundError, ProcessLookupError, UnicodeDecodeError):
                continue
            found.append((int(proc.name), command))
    return found


def _is_master(command: str, job: str) -> bool:
    return "ytf.master --backend yarn" in command and job in command and " -I -S " in command


def _of(job: str) -> list[tuple[int, str]]:
    """The processes that run in containers of a job: their paths have its id."""
    return [(pid, command) for pid, command in _processes() if f"appcache/{job}" in command]
