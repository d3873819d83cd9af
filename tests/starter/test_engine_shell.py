"""Shells in an engine's container: the client's words, and containers that cannot be seen."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests import engine as engines
from tests.engine import Engine
from ytf.starter import engine_shell
from ytf.starter.engine import DOCKER, PODMAN, find_client
from ytf.starter.engine_shell import SHELL, ShellContainer
from ytf.starter.orphans import STARTED_BY
from ytf.starter.process_tree import ProcessStat
from ytf.starter.runner import ContainerAccess

PATIENCE_S = 60.0
MARK = "1.2.3"


@pytest.fixture(autouse=True)
def _mark(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine_shell, "own_mark", lambda: MARK)


def access(kind: str = DOCKER, **given: Any) -> ContainerAccess:
    values: dict[str, Any] = {
        "client": f"/usr/bin/{kind}",
        "kind": kind,
        "env": {b"PATH": b"/node/bin"},
        "name": "ytf-c1-1",
        "mark": "4.5.6",
        "workdir": "/node/c 1",
        "init": None,
        **given,
    }
    return ContainerAccess(**values)


def test_the_words_for_a_command() -> None:
    assert ShellContainer(access()).argv("nvidia-smi; exit 3", None) == [
        *("/usr/bin/docker", "exec", "-i", "--env", f"{STARTED_BY}={MARK}"),
        *("--workdir", "/node/c 1", "ytf-c1-1", "sh", "-c", SHELL, "ytf-shell"),
        "nvidia-smi; exit 3",
    ]


@pytest.mark.parametrize(
    ("kind", "keys"),
    [(DOCKER, "--detach-keys=ctrl-@,ctrl-^,ctrl-@"), (PODMAN, "--detach-keys=")],
)
def test_the_words_for_a_shell_at_a_terminal(kind: str, keys: str) -> None:
    words = ShellContainer(access(kind)).argv(None, "xterm")
    at = words.index("-t")
    assert words[at : at + 4] == ["-t", "--env", "TERM=xterm", keys]
    assert words[-1] == "ytf-shell"


def test_what_was_never_started_is_not_looked_for() -> None:
    container = ShellContainer(access(client="/no/such/client"))
    container.kill_processes()
    container.kill_late_processes()


class Processes:
    """A node's processes as /proc would show them, and what is sent to them."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.table: dict[int, ProcessStat] = {}
        self.marked: list[int] = []
        self.killed: list[int] = []
        monkeypatch.setattr(engine_shell, "_living", lambda: dict(self.table))
        monkeypatch.setattr(engine_shell, "find_marked", lambda mark: list(self.marked))
        monkeypatch.setattr(engine_shell, "send_signal", self._send)

    def add(self, pid: int, *, parent: int, session: int, started: int) -> None:
        fields = f"S {parent} {pid} {session}" + " 0" * 15 + f" {started}"
        self.table[pid] = ProcessStat(f"{pid} (sh) {fields}".encode())

    def _send(self, pid: int, signum: int) -> bool:
        self.killed.append(pid)
        self.table.pop(pid)
        return True


def test_a_pid_that_linux_gave_to_another_process_is_not_signalled(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    processes = Processes(monkeypatch)
    shell = ShellContainer(access(init=1))
    shell.argv("sh", None)
    processes.add(70, parent=1, session=70, started=500)
    processes.add(71, parent=70, session=70, started=501)
    processes.marked = [70]
    shell.kill_processes()
    assert sorted(processes.killed) == [70, 71]
    processes.marked = []
    # Both numbers are somebody else's now, who has started another process and a session.
    processes.add(70, parent=1, session=70, started=900)
    processes.add(71, parent=1, session=9, started=901)
    processes.add(72, parent=70, session=72, started=902)
    shell.kill_processes()
    assert sorted(processes.killed) == [70, 71]


def test_what_a_dead_process_of_the_shell_left_in_its_session_is_killed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    processes = Processes(monkeypatch)
    shell = ShellContainer(access(init=1))
    shell.argv("sh", None)
    processes.add(70, parent=1, session=70, started=500)
    processes.marked = [70]
    # It has started one without our variables by the time of its death.
    processes.add(75, parent=1, session=70, started=501)
    processes.add(80, parent=1, session=80, started=502)
    monkeypatch.setattr(os, "getpgid", lambda pid: pid)
    monkeypatch.setattr(os, "killpg", lambda pid, signum: None)
    shell.signal(signal.SIGINT)
    del processes.table[70]
    processes.marked = []
    processes.add(76, parent=1, session=70, started=503)
    shell.kill_processes()
    assert sorted(processes.killed) == [75, 76]


@pytest.fixture(scope="module")
def engine() -> Iterator[Engine]:
    with engines.started() as engine:
        yield engine


@pytest.fixture
def container(engine: Engine) -> Iterator[ContainerAccess]:
    """A container whose processes are taken to be invisible from here."""
    name = "ytf-unseen"
    engine.run("run", "-d", "--init", "--name", name, engines.IMAGE, "sleep", "1000")
    env = {**os.environ, **engine.settings}
    variables = {os.fsencode(key): os.fsencode(value) for key, value in env.items()}
    client = find_client(PODMAN, variables)
    yield access(PODMAN, client=client, env=variables, name=name, workdir="/tmp")
    engine.run("rm", "-f", "-t", "0", name)


def start(container: ShellContainer, command: str) -> subprocess.Popen[bytes]:
    argv = container.argv(command, None)
    return subprocess.Popen(
        argv, env=container.env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE
    )


def test_processes_that_cannot_be_seen_are_signalled_by_the_engine(
    container: ContainerAccess, engine: Engine
) -> None:
    shell = ShellContainer(container)
    trap = "trap 'echo caught; exit 33' INT; echo ready; while :; do sleep 0.05; done"
    with start(shell, trap) as client:
        assert client.stdout is not None
        assert client.stdout.readline() == b"ready\n"
        shell.signal(signal.SIGINT)
        assert client.stdout.readline() == b"caught\n"
        assert client.wait(PATIENCE_S) == 33
    again = "setsid sleep 1001 & echo ready; exec sleep 1001"
    with start(shell, again) as client:
        assert client.stdout is not None
        assert client.stdout.readline() == b"ready\n"
        shell.kill_processes()
        assert client.wait(PATIENCE_S) == 137
    left = engine.run("exec", container.name, "ps", "-o", "args")
    assert "sleep 1001" not in left
    assert "sleep 1000" in left, "the program goes on"
    assert not shell.has_ended(), "that is not known"


def test_a_shell_in_a_container_that_has_ended(container: ContainerAccess, engine: Engine) -> None:
    shell = ShellContainer(container)
    shell.argv("true", None)
    engine.run("kill", container.name)
    shell.kill_processes()
    gone = ShellContainer(access(init=2**22 + 1, name=container.name))
    assert gone.has_ended()
    assert not Path(f"/proc/{2**22 + 1}").exists()
