"""Staging a job and starting its node: all of it, or nothing is left."""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import select
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ytf import processes
from ytf.backends.local.burial import locked, remove_leftovers
from ytf.backends.local.home import Home, writing
from ytf.backends.local.record import reserve_record
from ytf.backends.local.removal import remove_tree
from ytf.backends.local.uploads import stage
from ytf.errors import RefusedError, UnreachableError
from ytf.specs.codec import to_json
from ytf.specs.names import JobId

if TYPE_CHECKING:
    from ytf.client.plan import Plan

_READY_S = 30.0
"""How long a new master may take to accept the job."""
_PID_S = 5.0
_END_S = 15.0
_WORDS = 5
"""Lines of the master's log that go into an error message."""
_PACKAGES = Path(__file__).resolve().parents[3]
"""The directory that holds the ``ytf`` package."""

# Variables of the task from which a job is submitted, which are not those of the new one.
_OF_A_TASK = (
    "YTF_STARTER", "YTF_JOB_ID", "YTF_CONTAINER_ID", "YTF_TASK", "YTF_ATTEMPT", "YTF_GENERATION",
    "YTF_TASK_PORT", "YTF_TASK_HOST", "YTF_CLUSTER_SPEC_FILE", "YTF_NODE_FD", "YTF_READY_FD",
)  # fmt: skip


def submit(home: Home, plan: Plan, *, master: Sequence[str]) -> JobId:
    """Stage a job, start its node, and return once its master has accepted it.

    Whatever stops it half-way (an error, Ctrl-C) leaves neither process nor file.
    """
    home.ensure()
    job = _new_job(home)
    staging = home.staging(job)
    with locked(staging):
        node = _Node()
        try:
            with writing(staging):
                _write(home, job, plan)
            with writing(home.logs(job)):
                node.start(staging, home.logs(job) / "master.log", master)
            node.wait_until_ready(home.logs(job) / "master.log")
        except BaseException:
            try:
                node.end()
            finally:
                remove_leftovers(staging)
                remove_tree(str(home.kept(job)))
            raise
        finally:
            node.close()
    return job


def _new_job(home: Home) -> JobId:
    while True:
        stamp = time.strftime("%Y%m%d%H%M%S")
        job = JobId(f"local_{stamp}_{secrets.token_hex(2)}")
        with writing(home.jobs), contextlib.suppress(FileExistsError):
            home.staging(job).mkdir(mode=0o700)
            return job


def _write(home: Home, job: JobId, plan: Plan) -> None:
    staging = home.staging(job)
    home.logs(job).mkdir(mode=0o700, parents=True)
    (staging / "containers").mkdir(mode=0o700)
    if plan.uploads:
        (staging / "files").mkdir(mode=0o700)
        for upload in plan.uploads:
            stage(upload, staging / "files")
    about = {
        "id": job,
        "user": plan.user,
        "submitted_at": time.time(),
        "backend": plan.backend,
    }
    _private(staging / "spec.json", to_json(plan.spec))
    _private(staging / "job.json", json.dumps(about))
    _private(staging / "secret", secrets.token_hex(32))
    reserve_record(str(staging), len(plan.spec.tasks()))


def _private(path: Path, text: str) -> None:
    with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
        file.write(text)


class _Node:
    """The node while its submitter waits for it, over a pipe that ends with the first master."""

    def __init__(self) -> None:
        self._pipe: int | None = None
        self._received = b""
        self._pid: int | None = None
        self._ticks: int | None = None

    def start(self, staging: Path, log: Path, master: Sequence[str]) -> None:
        """Start it in a session of its own; it detaches itself."""
        # Isolated and without site: the node is to be small and quickly there.
        code = (
            f"import sys; sys.path.append({str(_PACKAGES)!a}); "
            "from ytf.backends.local.node import main; main(sys.argv[1:])"
        )
        self._pipe, told = os.pipe()
        environ = {name: value for name, value in os.environ.items() if name not in _OF_A_TASK}
        try:
            with open(log, "ab") as output:
                subprocess.run(
                    [sys.executable, "-I", "-S", "-c", code, str(staging), str(told), *master],
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=output,
                    cwd="/",
                    env=environ,
                    start_new_session=True,
                    pass_fds=(told,),
                    check=False,
                )
        finally:
            os.close(told)

    def wait_until_ready(self, log: Path) -> None:
        """Raises ``RefusedError`` if the master does not want the job or dies over it."""
        deadline = time.monotonic() + _READY_S
        while True:
            line = self._line(deadline)
            if line is None:
                raise RefusedError(
                    f"the master ended before it accepted the job: {_last_words(log)}",
                    hint="if that does not tell what to mend, please report it",
                )
            if line.startswith("node "):
                self._know(line)
            elif line.startswith("failed: "):
                raise RefusedError(f"the job was not accepted: {line.removeprefix('failed: ')}")
            else:
                return

    def end(self) -> None:
        """Make it and all it started go away, and return when they have."""
        if self._pipe is None:
            return
        deadline = time.monotonic() + _PID_S
        while self._pid is None:
            line = self._line(deadline)
            if line is None:
                return
            if line.startswith("node "):
                self._know(line)
        if self._ticks is None:
            return
        with contextlib.suppress(ProcessLookupError):
            os.kill(self._pid, signal.SIGTERM)
        deadline = time.monotonic() + _END_S
        while processes.alive(self._pid, self._ticks):
            if time.monotonic() > deadline:
                processes.kill([self._pid])
            time.sleep(0.01)

    def close(self) -> None:
        """Stop listening."""
        if self._pipe is not None:
            os.close(self._pipe)
            self._pipe = None

    def _know(self, line: str) -> None:
        self._pid = int(line.split()[1])
        self._ticks = processes.start_ticks(self._pid)

    def _line(self, deadline: float) -> str | None:
        """The next line from the pipe, None at its end; raises ``UnreachableError`` when late."""
        assert self._pipe is not None
        waiting = select.poll()
        waiting.register(self._pipe, select.POLLIN)
        while b"\n" not in self._received:
            left_s = deadline - time.monotonic()
            if left_s <= 0 or not waiting.poll(left_s * 1000):
                raise UnreachableError("the new job's master did not answer in time")
            chunk = os.read(self._pipe, 4096)
            if not chunk:
                return None
            self._received += chunk
        line, _, self._received = self._received.partition(b"\n")
        return line.decode("utf-8", "replace")


def _last_words(log: Path) -> str:
    """The end of a log that is about to be removed with the job."""
    lines = log.read_text("utf-8", "replace").splitlines()
    return " / ".join(line.strip() for line in lines[-_WORDS:] if line.strip())
