"""Who starts jobs on a cluster: ytf, and skein for comparison. Both by their own commands."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import yaml

from ytf.minicluster import MiniCluster
from ytf.minicluster.releases import fetch

TASK_MEMORY_MB = 128
ENDED_S = 300.0
"""How long a job may run."""
SKEIN = "skein==0.8.2"
"""The last one there is."""


@dataclass(frozen=True)
class Submitted:
    """A job, when its command was started, and when it had printed the job's id."""

    job: str
    began: float
    told: float


class Launcher(Protocol):
    """One way to run the same command in some containers."""

    name: str

    def submit(self, tasks: int, command: str, *options: str) -> Submitted:
        """Start a job; returns once its id is printed."""
        ...

    def staging(self, job: str) -> str:
        """The directory in HDFS where a job's own files are."""
        ...


class Ytf:
    """``ytf-submit``, with a ``YTF_HOME`` of its own."""

    name = "ytf"

    def __init__(self, cluster: MiniCluster, home: Path, user: str) -> None:
        self._environ = {**os.environ, **cluster.environ, "YTF_HOME": str(home)}
        self._bin = Path(sys.executable).parent
        self.home = f"/user/{user}/.ytf"
        """In HDFS."""
        self.layers = f"{self.home}/layers/{user}"

    def submit(self, tasks: int, command: str, *options: str) -> Submitted:
        """See :class:`Launcher`."""
        words = ("--backend", "yarn", "--framework", "none", "-m", str(TASK_MEMORY_MB), *options)
        argv = [str(self._bin / "ytf-submit"), *words, "-r", f"worker:{tasks}", command]
        return _submit(argv, self._environ)

    def staging(self, job: str) -> str:
        """See :class:`Launcher`."""
        return f"{self.home}/jobs/{job}"

    def wait(self, job: str) -> None:
        """Wait for the end of a job."""
        argv = [str(self._bin / "ytf"), "logs", "-f", job]
        subprocess.run(argv, env=self._environ, check=True, capture_output=True, timeout=ENDED_S)

    def events(self, job: str) -> bytes:
        """The job's events as JSON."""
        argv = [str(self._bin / "ytf"), "events", job, "--json"]
        return subprocess.run(argv, env=self._environ, check=True, capture_output=True).stdout


class Skein:
    """``skein application submit``, with its driver running already: its best case."""

    name = "skein"

    def __init__(self, program: Path, environ: dict[str, str], scratch: Path, user: str) -> None:
        self._program = program
        self._environ = environ
        self._scratch = scratch
        self._user = user

    def submit(self, tasks: int, command: str, *options: str) -> Submitted:
        """See :class:`Launcher`."""
        service = {
            "instances": tasks,
            "resources": {"memory": f"{TASK_MEMORY_MB} MiB", "vcores": 1},
            "script": command,
        }
        spec = self._scratch / "spec.yaml"
        spec.write_text(yaml.safe_dump({"name": "benchmark", "services": {"worker": service}}))
        return _submit(
            [str(self._program), "application", "submit", str(spec), *options], self._environ
        )

    def staging(self, job: str) -> str:
        """See :class:`Launcher`."""
        return f"/user/{self._user}/.skein/{job}"


def application_class_path(version: str) -> str:
    """What a Java master needs on nodes whose Hadoop has no directory of its own."""
    return f"$HADOOP_CONF_DIR,{_jars(version)}"


@contextmanager
def skein_driver(cluster: MiniCluster, venv: Path, scratch: Path, user: str) -> Iterator[Skein]:
    """skein ready to submit, in a virtual environment that is made if it is not there."""
    program = venv / "bin" / "skein"
    if not program.exists():
        print(f"installing {SKEIN} into {venv} ...", file=sys.stderr)
        subprocess.run([sys.executable, "-m", "venv", str(venv)], check=True)
        python = str(venv / "bin" / "python")
        subprocess.run([python, "-m", "pip", "install", "--quiet", SKEIN], check=True)
    # It asks this command for the class path.
    yarn = scratch / "bin" / "yarn"
    yarn.parent.mkdir(parents=True)
    yarn.write_text(f"#!/bin/sh\necho '{cluster.conf_dir}:{_jars(cluster.options.version)}'\n")
    yarn.chmod(0o755)
    environ = {
        **os.environ,
        **cluster.environ,
        "PATH": f"{yarn.parent}:{os.environ['PATH']}",
        "SKEIN_CONFIG": str(scratch / "config"),
    }

    def skein(*words: str) -> None:
        subprocess.run([str(program), *words], env=environ, check=True, capture_output=True)

    skein("config", "gencerts")
    skein("driver", "start", "--log", str(scratch / "driver.log"))
    try:
        yield Skein(program, environ, scratch, user)
    finally:
        skein("driver", "stop")


def _jars(version: str) -> str:
    return fetch(version, lambda text: print(text, file=sys.stderr)).jar_path()


def _submit(argv: list[str], environ: dict[str, str]) -> Submitted:
    began = time.time()
    with subprocess.Popen(
        argv, env=environ, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        job = process.stdout.readline().strip()
        told = time.time()
        _, said = process.communicate()
    if process.returncode or not job:
        raise RuntimeError(f"{argv[0]} ended with {process.returncode}: {said}")
    return Submitted(job, began, told)
