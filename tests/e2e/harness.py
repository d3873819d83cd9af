"""Real jobs through the real commands, and a look at the processes they are made of.

What a test waits for is a file its programs make in ``$GATE``, a process in
``/proc``, or a job's record; never time.
"""

from __future__ import annotations

import contextlib
import os
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
"""A program says that it runs: :meth:`Job.wait_running` waits for it."""
HOLD = 'until [ -e "$GATE/go" ]; do sleep 0.02; done; '
"""A program waits for :meth:`Ytf.open_gate`."""
FOREVER = "while :; do sleep 0.05; done"

_OURS = ("YTF_", "HADOOP_", "YARN_", "DTF_", "TF_")


@dataclass(frozen=True)
class Process:
    """A live process, as ``/proc`` has it."""

    pid: int
    parent: int
    command: str
    environ: Mapping[str, str]

    @property
    def is_starter(self) -> bool:
        """Whether it is a starter, or the keeper that one forked."""
        return "YTF_STARTER" in self.environ and "ytf.starter" in self.command


def process(pid: int) -> Process | None:
    """One process; None if it is gone, a zombie, or not to be looked at."""
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
    """Whether a process lives; a zombie does not."""
    return process(pid) is not None


def kill(first: int, *others: int, signum: int = signal.SIGKILL) -> None:
    """Send a signal to each: SIGKILL, as a power cut or an operator would.

    The first must be there; the others may have died of its death.
    """
    os.kill(first, signum)
    for pid in others:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signum)


def wait_dead(*pids: int, timeout_s: float = 10.0) -> None:
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
    """The commands, with a ``YTF_HOME``, a working directory and a gate of the test's own."""

    def __init__(self, home: Path, work: Path, gate: Path) -> None:
        self.home = home
        self.work = work
        self.gate = gate
        inherited = {k: v for k, v in os.environ.items() if not k.startswith(_OURS)}
        self.env = {**inherited, "YTF_HOME": str(home), "GATE": str(gate), "YTF_BACKEND": "local"}
        self.started: list[subprocess.Popen[str]] = []

    # -- commands

    def run(self, *words: str, code: int = 0, stdin: str = "", timeout_s: float = 40.0) -> Done:
        """Run a command of ours to its end; its exit code must be ``code``."""
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
        """Start a command of ours in a session of its own; the fixture ends it."""
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
        """``ytf-submit`` of a program that is no framework's; returns when it is accepted."""
        done = self.run("ytf-submit", "--framework", "none", "-r", requirement, *options, command)
        return Job(self, done.stdout.strip())

    def submit_spec(self, **spec: Any) -> Job:
        """``ytf submit FILE`` of a spec with ``groups``, a command and whatever else."""
        file = self.work / "job.yaml"
        file.write_text(yaml.safe_dump({"framework": "none", **spec}), encoding="utf-8")
        return Job(self, self.run("ytf", "submit", str(file)).stdout.strip())

    # -- the gate

    def open_gate(self) -> None:
        """Let programs that hold go on."""
        self.tell("go")

    def tell(self, name: str, text: str = "") -> None:
        """Put a file where programs look for it."""
        new = self.gate / f"{name}.new"
        new.write_text(text, encoding="utf-8")
        new.rename(self.gate / name)

    def told(self, name: str, timeout_s: float = 15.0) -> str:
        """What a program wrote into a file, waited for. The program must rename it into place."""
        path = self.gate / name
        eventually(path.exists, timeout_s, f"a program makes {name}; {self._story()}")
        return path.read_text(encoding="utf-8")

    def _story(self) -> str:
        logs = sorted(self.home.glob("history/*/logs/**/*"))
        return "\n".join(
            f"{p.relative_to(self.home)}: {p.read_text(errors='replace')[-500:]}"
            for p in logs
            if p.is_file()
        )

    # -- processes

    def processes(self) -> list[Process]:
        """All live processes with this ``YTF_HOME``, this one's commands included."""
        found = (process(int(name)) for name in os.listdir("/proc") if name.isdigit())
        home = str(self.home)
        return [p for p in found if p is not None and p.environ.get("YTF_HOME") == home]


class Job:
    """One job that was submitted."""

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

    def end(self, state: str, timeout_s: float = 20.0) -> JobStatus:
        """Wait until the job is recorded; its status, which must have this state."""
        eventually(self.record.exists, timeout_s, self._story)
        status = self.status()
        assert status.state.value == state, self._story()
        return status

    def wait_running(self, *tasks: str, attempt: int = 1) -> None:
        """Wait until the programs of these tasks have said ``HERE``."""
        for task in tasks:
            self.ytf.told(f"{task}.{attempt}")

    def wait_events(self, event: str, count: int = 1, task: str | None = None) -> None:
        """Wait until the job's story has so many of an event."""

        def enough() -> bool:
            found = [e for e in self.events() if e.event == event and task in (None, e.task)]
            return len(found) >= count

        eventually(enough, 20.0, self._story)

    def _story(self) -> str:
        status = self.ytf.run("ytf", "status", self.id).stdout
        return f"{status}\n{self.ytf.run('ytf', 'events', self.id).stdout}\n{self.master_log()}"

    def master_log(self) -> str:
        """What the node and the masters wrote."""
        return (self.history / "logs" / "master.log").read_text(errors="replace")

    # -- processes

    def node(self) -> int:
        """The node's pid."""
        return self._one("the node", lambda p: "ytf.backends.local.node" in p.command)

    def master(self) -> int:
        """The pid of the master that is in charge."""

        def known() -> int | None:
            try:
                told = msgspec.json.decode((self.staging / "master.json").read_bytes())
            except FileNotFoundError:
                return None
            pid = int(told["pid"])
            return pid if is_alive(pid) else None

        return eventually(known, describe="a master is in charge") or 0

    def starter(self, task: str) -> int:
        """The pid of a task's starter."""
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
        """Every pid of a task's container: starter, keeper, program and what that started."""
        found = [self.starter(task)]
        everyone = self.ytf.processes()
        for pid in found:
            found += [p.pid for p in everyone if p.parent == pid]
        return found

    def program(self, task: str) -> int:
        """The pid of a task's program."""
        keepers = {p.pid for p in self.ytf.processes() if p.is_starter}
        return self._one(
            f"the program of {task}",
            lambda p: p.environ.get("YTF_TASK") == task and p.parent in keepers,
        )

    def pids(self) -> list[int]:
        """Every live process of the job."""
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
    """One task of a status, by ``group:index``."""
    return next(t for t in status.tasks if f"{t.group}:{t.index}" == name)


def states(status: JobStatus) -> dict[str, str]:
    """Task → state."""
    return {f"{t.group}:{t.index}": t.state.value for t in status.tasks}


def listening_ports() -> set[int]:
    """All TCP ports of this machine on which somebody listens."""
    found = set()
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        for line in Path(table).read_text().splitlines()[1:]:
            _, local, _, state = line.split()[:4]
            if state == "0A":
                found.add(int(local.rpartition(":")[2], 16))
    return found


def ports_of(records: Sequence[Path]) -> set[int]:
    """The ports that recorded jobs had for their tasks."""
    found: set[int] = set()
    for record in records:
        status = msgspec.json.decode(record.read_bytes())["status"]
        found |= {t["port"] for t in status["tasks"] if t.get("port")}
    return found
