"""The real commands against a real cluster, and a look at what they leave behind.

What a test waits for is a file that its programs make in ``$GATE``, or what
YARN says; never time.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sysconfig
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO, Any

from ytf.hadoop.conf import Configuration
from ytf.hadoop.security.login import USER_VARIABLE, current_user
from ytf.minicluster import MiniCluster
from ytf.storage.hdfs import HdfsFiles
from ytf.testing.waiting import eventually

BIN = Path(sysconfig.get_path("scripts"))
HERE = 'echo $$ > "$GATE/.$YTF_TASK"; mv "$GATE/.$YTF_TASK" "$GATE/$YTF_TASK.$YTF_ATTEMPT"; '
"""A program says that it runs, and as which process."""
HOLD = 'until [ -e "$GATE/go" ]; do sleep 0.05; done; '
"""A program waits for :meth:`Yarn.open_gate`."""
SMALL = ("--framework", "none", "-m", "128")

_OURS = ("YTF_", "HADOOP_", "YARN_", "DTF_", "TF_")
_PATIENCE_S = 100.0
"""How long a job may take: on a cold node, while others use the machine as well."""


@dataclass(frozen=True)
class Started:
    """A command that runs; ``output`` has both what it prints and what it says."""

    process: subprocess.Popen[str]
    output: IO[str]

    def job(self) -> str:
        """The id it prints; what it says before is skipped."""
        for line in self.output:
            if line.startswith("application_"):
                return line.strip()
        raise AssertionError(f"it ended with {self.process.wait()}, and printed no id")

    def end(self, code: int) -> str:
        """All that it says until it ends, with this exit code."""
        said = self.output.read()
        assert self.process.wait(60) == code, said
        return said


@dataclass(frozen=True)
class Yarn:
    """The commands of one user, whose layers are shared by all tests of a run."""

    cluster: MiniCluster
    home: Path
    work: Path
    user: str | None = None
    """Who they are to Hadoop; None: whoever runs the tests."""

    def as_user(self, name: str) -> Yarn:
        """The same for somebody else, who has a home directory in HDFS that is closed to others."""
        place = f"/user/{name}"
        self.files.mkdir(place)
        self.give(place, name)
        return replace(self, user=name)

    def give(self, path: str, user: str) -> None:
        """Let something in HDFS be somebody's."""
        self.files.client.call(
            "give", lambda client: client.set_owner(path, user, user), changes=True
        )

    def age(self, path: str, days: float) -> None:
        """Let something in HDFS be that old."""
        then = self.files.stat(path).mtime_ms - int(days * 86_400_000)
        self.files.client.call(
            "age", lambda client: client.set_times(path, then, then), changes=True
        )

    @contextmanager
    def started(self, *argv: str) -> Iterator[Started]:
        """A command that goes on; without a terminal, in a session of its own."""
        process = subprocess.Popen(
            [str(BIN / argv[0]), *argv[1:]],
            cwd=self.work,
            env=self._environ(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        assert process.stdout is not None
        try:
            yield Started(process, process.stdout)
        finally:
            process.kill()
            process.wait()
            process.stdout.close()

    @property
    def files(self) -> HdfsFiles:
        """The cluster's HDFS."""
        return HdfsFiles.open(self.cluster.hdfs_url, Configuration.load(self.cluster.conf_dir))

    def run(
        self, *argv: str, code: int | None = 0, timeout_s: float = 120, **env: str
    ) -> subprocess.CompletedProcess[str]:
        """A command to its end, which must be ``code`` unless that is None."""
        done = subprocess.run(
            [str(BIN / argv[0]), *argv[1:]],
            cwd=self.work,
            env=self._environ() | env,
            capture_output=True,
            text=True,
            timeout=timeout_s,
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

        return eventually(found, _PATIENCE_S, lambda: f"{job} is {self.status(job)}")

    def wait_running(self, tasks: Sequence[str], attempt: int = 1) -> dict[str, int]:
        """The processes of the programs, once all of them have said :data:`HERE`."""
        paths = {task: self.work / "gate" / f"{task}.{attempt}" for task in tasks}
        eventually(lambda: all(map(Path.exists, paths.values())), _PATIENCE_S, f"{tasks} to run")
        return {task: int(path.read_text()) for task, path in paths.items()}

    def wait_until_yarn_knows(self, job: str, progress: float) -> None:
        """Until YARN shows a progress, in per cent, that the master sends with its heartbeats."""

        def shown() -> float:
            return float(self.cluster.rm_rest(f"/apps/{job}")["app"]["progress"])

        eventually(lambda: shown() == progress, 60, lambda: f"the progress of {job} is {shown()}")

    def open_gate(self) -> None:
        """Let the programs end."""
        (self.work / "gate" / "go").touch()

    def master(self, job: str) -> int:
        """The process of a job's master."""
        found = [pid for pid, command in _processes() if _is_master(command, job)]
        assert len(found) == 1, found
        return found[0]

    def kill_master(self, job: str, tasks: int) -> None:
        """Kill a job's first master with 9, once YARN has heard that all tasks run.

        It hears so with the next heartbeats of their nodes. What it has not
        heard of it takes along with the master (``doneApplicationAttempt``).
        """
        # A ResourceManager that has been restarted puts its epoch first: container_e17_….
        ours = re.compile(rf"container_(e\d+_)?{job.removeprefix('application_')}_01_")

        def known() -> bool:
            # Its REST calls every container RUNNING that has not ended; its log knows better.
            said = self.cluster.directory.log("rm").read_text(encoding="utf-8", errors="replace")
            lines = [line for line in said.splitlines() if ours.search(line)]
            return sum("to RUNNING" in line for line in lines) == tasks + 1

        eventually(known, 60, "YARN to hear of all containers")
        os.kill(self.master(job), signal.SIGKILL)

    def nothing_is_left(self, job: str) -> None:
        """Neither staging, nor containers, nor processes of the job."""
        # Its master's last deed, after it has told everyone that the job is over.
        eventually(lambda: job not in self.staged(), 60, f"the staging directory of {job} to go")
        eventually(lambda: not _of(job), 60, lambda: f"processes left: {_of(job)}")

    def staged(self) -> list[str]:
        """The jobs that have a staging directory."""
        return [each.name for each in self.files.list(f"{self.root}/jobs")]

    def layers(self) -> dict[str, int]:
        """What lies in the layer store, and since when."""
        found: dict[str, int] = {}
        root = f"{self.root}/layers/{self.name}"
        for folder in self.files.list(root):
            if folder.name != "uses":
                found |= {each.path: each.mtime_ms for each in self.files.list(folder.path)}
        return found

    @property
    def root(self) -> str:
        """What the user's jobs keep in HDFS."""
        return f"/user/{self.name}/.ytf"

    @property
    def name(self) -> str:
        """Who the user is to Hadoop."""
        return current_user(self._environ())

    def _environ(self) -> dict[str, str]:
        kept = {k: v for k, v in os.environ.items() if not k.startswith(_OURS)}
        me = {} if self.user is None else {USER_VARIABLE: self.user}
        return kept | self.cluster.environ | {"YTF_HOME": str(self.home)} | me


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
