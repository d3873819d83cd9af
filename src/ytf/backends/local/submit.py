"""Submits a local job: stages its files, starts its node, and waits for its first master.

A submission that fails leaves no process and no file.
"""

from __future__ import annotations

import contextlib
import errno
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
from ytf.backends.local.directories import JobDirectories, map_write_errors
from ytf.backends.local.files import DISK_FULL_BYTES, free_bytes, remove_tree
from ytf.backends.local.finalize import remove_leftovers, staging_lock
from ytf.backends.local.records import reserve_record_space
from ytf.backends.local.staging import stage_upload
from ytf.backends.registry_access import check_registry_access
from ytf.errors import RefusedError, SettingsError, UnreachableError
from ytf.hadoop.conf import Configuration
from ytf.specs.codec import to_json
from ytf.specs.ids import JobId

if TYPE_CHECKING:
    from ytf.backends.api import Plan

_READY_TIMEOUT_S = 30.0
"""How long a new master may take to accept the job."""
_PID_TIMEOUT_S = 5.0
"""How long a new node may take to send its pid."""
_NODE_END_TIMEOUT_S = 15.0
"""How long a node may take to end after SIGTERM before it is killed."""
_LOG_LINES = 5
"""Lines of the master's log that go into an error message."""
_PACKAGES = Path(__file__).resolve().parents[3]
"""The directory that holds the ``ytf`` package."""

# A task may submit a job. These variables are the task's own and not those of the new job.
_TASK_VARIABLES = (
    "YTF_STARTER", "YTF_JOB_ID", "YTF_CONTAINER_ID", "YTF_TASK", "YTF_ATTEMPT", "YTF_GENERATION",
    "YTF_TASK_PORT", "YTF_TASK_HOST", "YTF_CLUSTER_SPEC_FILE", "YTF_METRICS_FILE",
    "YTF_STARTED_BY", "YTF_NODE_FD", "YTF_READY_FD",
)  # fmt: skip


def submit(home: JobDirectories, plan: Plan, *, master: Sequence[str]) -> JobId:
    """Stage a job, start its node, and return once its master has accepted it.

    An error or Ctrl-C on the way leaves neither process nor file.
    """
    home.ensure()
    job = _make_staging(home)
    staging = home.staging(job)
    with staging_lock(staging):
        node = _NodeProcess()
        try:
            with map_write_errors(staging):
                _write_files(home, job, plan)
                _check_room(staging)
            with map_write_errors(home.logs(job)):
                node.start(staging, home.logs(job) / "master.log", master)
            # While the master starts: it takes as long.
            check_registry_access(plan)
            try:
                node.wait_until_ready(home.logs(job) / "master.log")
            except RefusedError:
                # Others may have filled the disk since; then the log, too, is incomplete.
                with map_write_errors(staging):
                    _check_room(staging)
                raise
        except BaseException:
            try:
                node.stop()
            finally:
                remove_leftovers(staging)
                remove_tree(str(home.job_history(job)))
            raise
        finally:
            node.close()
    return job


def _make_staging(home: JobDirectories) -> JobId:
    """Make the staging directory of a new job id."""
    while True:
        stamp = time.strftime("%Y%m%d%H%M%S")
        job = JobId(f"local_{stamp}_{secrets.token_hex(2)}")
        with map_write_errors(home.jobs), contextlib.suppress(FileExistsError):
            home.staging(job).mkdir(mode=0o700)
            return job


def _write_files(home: JobDirectories, job: JobId, plan: Plan) -> None:
    staging = home.staging(job)
    home.logs(job).mkdir(mode=0o700, parents=True)
    if plan.keeps_results:
        home.results(job).mkdir(mode=0o700)
    (staging / "containers").mkdir(mode=0o700)
    (staging / "journal").mkdir(mode=0o700)
    if plan.uploads:
        (staging / "files").mkdir(mode=0o700)
        for upload in plan.uploads:
            stage_upload(upload, staging / "files")
    about = {
        "id": job,
        "user": plan.user,
        "submitted_at": time.time(),
        "backend": plan.backend,
    }
    _write_private(staging / "spec.json", to_json(plan.spec))
    _write_private(staging / "job.json", json.dumps(about))
    _write_private(staging / "secret", secrets.token_hex(32))
    reserve_record_space(str(staging), len(plan.spec.tasks()))


def _check_room(staging: Path) -> None:
    """Raise ``OSError`` if the disk has no room for a journal and logs: the job could not start."""
    if free_bytes(str(staging)) < DISK_FULL_BYTES:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(staging))


def _write_private(path: Path, text: str) -> None:
    with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
        file.write(text)


def _job_environment() -> dict[str, str]:
    """The submitter's variables for the job.

    Its tasks have other working directories, and libraries of HDFS look for the
    configuration where ``HADOOP_CONF_DIR`` says only.
    """
    environ = {name: value for name, value in os.environ.items() if name not in _TASK_VARIABLES}
    try:
        found = Configuration.find(environ)
    except SettingsError:
        return environ  # a job that needs no Hadoop runs all the same
    return environ if found is None else {**environ, "HADOOP_CONF_DIR": str(found.absolute())}


class _NodeProcess:
    """A new node, as its submitter sees it.

    The submitter reads lines from a pipe: ``node PID`` from the node, then
    ``ready`` or ``failed: REASON`` from the first master. The pipe is closed
    when the first master ends.
    """

    def __init__(self) -> None:
        self._pipe: int | None = None
        self._received = b""
        self._pid: int | None = None
        self._ticks: int | None = None

    def start(self, staging: Path, log: Path, master: Sequence[str]) -> None:
        """Start the node in its own session; it detaches itself."""
        # -I and -S (isolated, without site) keep the node small and its start fast.
        code = (
            f"import sys; sys.path.append({str(_PACKAGES)!a}); "
            "from ytf.backends.local.node.node import main; main(sys.argv[1:])"
        )
        self._pipe, writer = os.pipe()
        try:
            with open(log, "ab") as output:
                subprocess.run(
                    [sys.executable, "-I", "-S", "-c", code, str(staging), str(writer), *master],
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=output,
                    cwd="/",
                    env=_job_environment(),
                    start_new_session=True,
                    pass_fds=(writer,),
                    check=False,
                )
        finally:
            os.close(writer)

    def wait_until_ready(self, log: Path) -> None:
        """Wait until the master accepts the job; ``RefusedError`` if it refuses it or dies."""
        deadline = time.monotonic() + _READY_TIMEOUT_S
        while True:
            line = self._read_line(deadline)
            if line is None:
                raise RefusedError(
                    f"the master ended before it accepted the job: {_last_lines(log)}",
                    hint="if that does not say what to correct, please report it as a bug",
                )
            if line.startswith("node "):
                self._remember_pid(line)
            elif line.startswith("failed: "):
                raise RefusedError(f"the job was not accepted: {line.removeprefix('failed: ')}")
            else:
                return

    def stop(self) -> None:
        """Stop the node and all it started; returns when the node is dead."""
        if self._pipe is None:
            return
        deadline = time.monotonic() + _PID_TIMEOUT_S
        while self._pid is None:
            line = self._read_line(deadline)
            if line is None:
                return
            if line.startswith("node "):
                self._remember_pid(line)
        if self._ticks is None:
            return
        with contextlib.suppress(ProcessLookupError):
            os.kill(self._pid, signal.SIGTERM)
        deadline = time.monotonic() + _NODE_END_TIMEOUT_S
        while processes.alive(self._pid, self._ticks):
            if time.monotonic() > deadline:
                processes.kill([self._pid])
            time.sleep(0.01)

    def close(self) -> None:
        """Close the pipe."""
        if self._pipe is not None:
            os.close(self._pipe)
            self._pipe = None

    def _remember_pid(self, line: str) -> None:
        self._pid = int(line.split()[1])
        self._ticks = processes.start_ticks(self._pid)

    def _read_line(self, deadline: float) -> str | None:
        """Return the next line of the pipe, None at its end; ``UnreachableError`` if late."""
        assert self._pipe is not None
        poll = select.poll()
        poll.register(self._pipe, select.POLLIN)
        while b"\n" not in self._received:
            left_s = deadline - time.monotonic()
            if left_s <= 0 or not poll.poll(left_s * 1000):
                raise UnreachableError("the new job's master did not answer in time")
            chunk = os.read(self._pipe, 4096)
            if not chunk:
                return None
            self._received += chunk
        line, _, self._received = self._received.partition(b"\n")
        return line.decode("utf-8", "replace")


def _last_lines(log: Path) -> str:
    """Return the end of a log, which is about to be removed with the job."""
    lines = log.read_text("utf-8", "replace").splitlines()
    return " / ".join(line.strip() for line in lines[-_LOG_LINES:] if line.strip())
