"""Runs real jobs with the real commands, and finds their processes, for end-to-end tests.

Tests wait for a file that their programs make in ``$GATE``, for a process in
``/proc``, or for a job's record. They never wait for a fixed time.
"""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import sysconfig
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import yaml

from ytf.specs.status import JobEvent, JobStatus, TaskStatus
from ytf.testing.waiting import eventually

BIN = Path(sysconfig.get_path("scripts"))

HERE = 'touch "$GATE/$YTF_TASK.$YTF_ATTEMPT"; '
"""Makes the file for which :meth:`Job.wait_running` waits."""
HOLD = 'until [ -e "$GATE/go" ]; do sleep 0.02; done; '
"""Waits until :meth:`Ytf.open_gate` is called."""
FOREVER = "while :; do sleep 0.05; done"

_OURS = ("YTF_", "HADOOP_", "YARN_", "DTF_", "TF_")


def without_colours(text: str) -> str:
    """What a command printed for a terminal, as plain text."""
    return re.sub(r"\x1b\[\d*m", "", text)


@dataclass(frozen=True)
class Process:
    """A live process, read from ``/proc``."""

    pid: int
    parent: int
    command: str
    environ: Mapping[str, str]

    @property
    def is_starter(self) -> bool:
        """Whether it is a starter, or the reaper that one forked."""
        return "YTF_STARTER" in self.environ and "ytf.starter" in self.command


def process(pid: int) -> Process | None:
    """Return a process; None if it is gone, a zombie, or not readable."""
    proc = Path("/proc", str(pid))
    try:
        stat = (proc / "stat").read_text()
        command = (proc / "cmdline").read_bytes()
        environ = (proc / "environ").read_bytes()
    except (FileNotFoundError, ProcessLookupError, PermissionError):
        return None
    fields = stat[stat.rindex(")") + 2 :].split()
    if fields[0] in "ZX":
        return None
    pairs = (os.fsdecode(entry).partition("=") for entry in environ.split(b"\0"))
    words = os.fsdecode(command.replace(b"\0", b" ")).strip()
    return Process(pid, int(fields[1]), words, {name: value for name, _, value in pairs if name})


def is_alive(pid: int) -> bool:
    """Return whether a process lives; a zombie does not."""
    return process(pid) is not None


def kill(first: int, *others: int, signum: int = signal.SIGKILL) -> None:
    """Send a signal to each process, by default SIGKILL.

    The first must exist; the others may end as a result of its death.
    """
    os.kill(first, signum)
    for pid in others:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signum)


def stop(*pids: int) -> None:
    """SIGSTOP: what is killed after it did nothing about the death of the others."""
    for pid in pids:
        os.kill(pid, signal.SIGSTOP)


def wait_dead(*pids: int, timeout_s: float = 60.0) -> None:
    """Return when none of the processes lives."""
    eventually(
        lambda: not any(map(is_alive, pids)),
        timeout_s,
        lambda: f"dead: {[p for p in pids if is_alive(p)]}",
    )


@dataclass(frozen=True)
class Done:
    """A command that has ended."""

    code: int
    stdout: str
    stderr: str


class Ytf:
    """Runs the commands with the test's own ``YTF_HOME``, working directory and gate."""

    def __init__(self, home: Path, work: Path, gate: Path) -> None:
        self.home = home
        self.work = work
        self.gate = gate
        inherited = {k: v for k, v in os.environ.items() if not k.startswith(_OURS)}
        self.env = {**inherited, "YTF_HOME": str(home), "GATE": str(gate), "YTF_BACKEND": "local"}
        self.started: list[subprocess.Popen[str]] = []

    # -- commands

    def run(self, *words: str, code: int = 0, stdin: str = "", timeout_s: float = 100.0) -> Done:
        """Run a command to its end; its exit code must be ``code``."""
        ended = subprocess.run(
            [str(BIN / words[0]), *words[1:]],
            input=stdin,
            capture_output=True,
            text=True,
            encoding="utf-8",
            env=self.env,
            cwd=self.work,
            timeout=timeout_s,
            check=False,
        )
        assert ended.returncode == code, (
            f"{words} exited {ended.returncode}\n{ended.stdout}\n{ended.stderr}"
        )
        return Done(ended.returncode, ended.stdout, ended.stderr)

    def start(self, *words: str) -> subprocess.Popen[str]:
        """Start a command in its own session; the fixture ends it."""
        started = subprocess.Popen(
            [str(BIN / words[0]), *words[1:]],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            encoding="utf-8",
            env=self.env,
            cwd=self.work,
            start_new_session=True,
        )
        self.started.append(started)
        return started

    def submit(self, requirement: str, command: str, *options: str) -> Job:
        """``ytf-submit`` a program without a framework; returns when the job is accepted."""
        done = self.run("ytf-submit", "--framework", "none", "-r", requirement, *options, command)
        return Job(self, done.stdout.strip())

    def submit_spec(self, **spec: Any) -> Job:
        """``ytf submit FILE`` with a spec of these fields."""
        file = self.work / "job.yaml"
        file.write_text(yaml.safe_dump({"framework": "none", **spec}), encoding="utf-8")
        return Job(self, self.run("ytf", "submit", str(file)).stdout.strip())

    # -- the gate

    def open_gate(self) -> None:
        """Let programs that run ``HOLD`` go on."""
        self.tell("go")

    def tell(self, name: str, text: str = "") -> None:
        """Make a file in the gate, for programs to read."""
        new = self.gate / f"{name}.new"
        new.write_text(text, encoding="utf-8")
        new.rename(self.gate / name)

    def told(self, name: str, timeout_s: float = 60.0) -> str:
        """Wait for a file in the gate and return its text. Programs must rename it into place."""
        path = self.gate / name
        eventually(path.exists, timeout_s, f"a program makes {name}; {self._diagnosis()}")
        return path.read_text(encoding="utf-8")

    def _diagnosis(self) -> str:
        logs = sorted(self.home.glob("history/*/logs/**/*"))
        return "\n".join(
            f"{p.relative_to(self.home)}: {p.read_text(errors='replace')[-500:]}"
            for p in logs
            if p.is_file()
        )

    # -- processes

    def processes(self) -> list[Process]:
        """Return all live processes with this ``YTF_HOME``, including the commands."""
        found = (process(int(name)) for name in os.listdir("/proc") if name.isdigit())
        home = str(self.home)
        return [p for p in found if p is not None and p.environ.get("YTF_HOME") == home]


class Job:
    """A submitted job."""

    def __init__(self, ytf: Ytf, job_id: str) -> None:
        assert job_id.startswith("local_")
        assert len(job_id.split()) == 1
        self.ytf = ytf
        self.id = job_id
        self.staging = ytf.home / "jobs" / job_id
        self.history = ytf.home / "history" / job_id
        self.record = self.history / "record.json"

    def status(self) -> JobStatus:
        """``ytf status --json``."""
        text = self.ytf.run("ytf", "status", self.id, "--json").stdout
        return msgspec.json.decode(text, type=JobStatus)

    def events(self) -> list[JobEvent]:
        """``ytf events --json``."""
        text = self.ytf.run("ytf", "events", self.id, "--json").stdout
        return msgspec.json.decode(text, type=list[JobEvent])

    def logs(self, *which: str) -> list[str]:
        """The lines of ``ytf logs``."""
        return self.ytf.run("ytf", "logs", self.id, *which).stdout.splitlines()

    def end(self, state: str, timeout_s: float = 60.0) -> JobStatus:
        """Wait until the job is recorded; return its status, which must have this state."""
        eventually(self.record.exists, timeout_s, self._diagnosis)
        status = self.status()
        assert status.state.value == state, self._diagnosis()
        return status

    def wait_running(self, *tasks: str, attempt: int = 1) -> None:
        """Wait until the programs of these tasks have run ``HERE``."""
        for task in tasks:
            self.ytf.told(f"{task}.{attempt}")

    def wait_events(self, event: str, count: int = 1, task: str | None = None) -> None:
        """Wait until the job has at least ``count`` events of this kind."""

        def enough() -> bool:
            found = [e for e in self.events() if e.event == event and task in (None, e.task)]
            return len(found) >= count

        eventually(enough, describe=self._diagnosis)

    def _diagnosis(self) -> str:
        status = self.ytf.run("ytf", "status", self.id).stdout
        return f"{status}\n{self.ytf.run('ytf', 'events', self.id).stdout}\n{self.master_log()}"

    def master_log(self) -> str:
        """Return the log of the node and the masters."""
        return (self.history / "logs" / "master.log").read_text(errors="replace")

    # -- processes

    def node(self) -> int:
        """Return the pid of the node."""
        return self._one("the node", lambda p: "ytf.backends.local.node" in p.command)

    def master(self) -> int:
        """Return the pid of the current master."""

        def known() -> int | None:
            try:
                address = msgspec.json.decode((self.staging / "master.json").read_bytes())
            except FileNotFoundError:
                return None
            pid = int(address["pid"])
            return pid if is_alive(pid) else None

        return eventually(known, describe="a master runs") or 0

    def starter(self, task: str) -> int:
        """Return the pid of a task's starter."""
        node = self.node()
        group, _, index = task.partition(":")
        return self._one(
            f"the starter of {task}",
            lambda p: (
                p.is_starter
                and p.parent == node
                and p.environ.get("DTF_TASK_JOB_NAME") == group
                and p.environ.get("DTF_TASK_INDEX") == index
            ),
        )

    def container(self, task: str) -> list[int]:
        """Return all pids of a task's container: starter, reaper, program and its descendants."""
        found = [self.starter(task)]
        everyone = self.ytf.processes()
        for pid in found:
            found += [p.pid for p in everyone if p.parent == pid]
        return found

    def program(self, task: str) -> int:
        """Return the pid of a task's program."""
        reapers = {p.pid for p in self.ytf.processes() if p.is_starter}
        return self._one(
            f"the program of {task}",
            lambda p: p.environ.get("YTF_TASK") == task and p.parent in reapers,
        )

    def pids(self) -> list[int]:
        """Return the pids of all live processes of the job."""
        return [
            p.pid
            for p in self.ytf.processes()
            if self.id in (p.environ.get("YTF_JOB_ID"), *p.command.split("/"))
            or f"jobs/{self.id}" in p.command
        ]

    def _one(self, what: str, fits: Any) -> int:
        def found() -> int | None:
            pids = [
                p.pid
                for p in self.ytf.processes()
                if fits(p)
                and (p.environ.get("YTF_JOB_ID") == self.id or f"jobs/{self.id}" in p.command)
            ]
            return pids[0] if len(pids) == 1 else None

        return eventually(found, describe=f"{what} of {self.id}") or 0


def task(status: JobStatus, name: str) -> TaskStatus:
    """Return one task of a status, by ``group:index``."""
    return next(t for t in status.tasks if f"{t.group}:{t.index}" == name)


def states(status: JobStatus) -> dict[str, str]:
    """Return the state of each task, by ``group:index``."""
    return {f"{t.group}:{t.index}": t.state.value for t in status.tasks}


def listening_ports() -> set[int]:
    """Return all TCP ports of this machine that are open for connections."""
    found = set()
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        for line in Path(table).read_text().splitlines()[1:]:
            _, local, _, state = line.split()[:4]
            if state == "0A":
                found.add(int(local.rpartition(":")[2], 16))
    return found


def ports_of(records: Sequence[Path]) -> set[int]:
    """Return the ports of the tasks of recorded jobs."""
    found: set[int] = set()
    for record in records:
        status = msgspec.json.decode(record.read_bytes())["status"]
        found |= {t["port"] for t in status["tasks"] if t.get("port")}
    return found
