from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from queue import SimpleQueue
from typing import TYPE_CHECKING

import pytest

from tests.starter.conftest import PATIENCE_S, is_alive
from ytf.starter.desired_state import ProgramChanged
from ytf.starter.native_runner import NativeProgram, NativeRunner, shell_command
from ytf.starter.program_logs import ProgramLogs
from ytf.starter.reaper import ProgramCommand
from ytf.starter.runner import ProgramExit
from ytf.testing.waiting import eventually

if TYPE_CHECKING:
    from ytf.starter.desired_state import InboxMessage
    from ytf.starter.runner import Runner

Run = Callable[..., "Running"]

DAEMON = """
import os, signal, sys, time
if os.fork(): os.wait(); {then}
os.setsid()
if os.fork(): os._exit(0)
signal.signal(signal.SIGTERM, signal.SIG_IGN)
with open("daemon.new", "w") as f: f.write(str(os.getpid()))
os.rename("daemon.new", "daemon")
time.sleep(1000)
"""


class Running:
    """A program under test, in a directory of its own."""

    def __init__(self, folder: Path, argv: list[str]) -> None:
        self.folder = folder
        self.logs = ProgramLogs(str(folder), 0, 1)
        self.inbox: SimpleQueue[InboxMessage] = SimpleQueue()
        env = {b"PATH": os.environb[b"PATH"]}
        self.program = NativeProgram(
            ProgramCommand(argv, env, self.logs.open()), self.logs, self.inbox
        )

    def started(self) -> int:
        self._until(lambda: self.program.pid or self.program.exit)
        assert self.program.pid, self.program.exit and self.program.exit.reason
        return self.program.pid

    def ended(self) -> ProgramExit:
        self._until(lambda: self.program.exit)
        assert self.program.exit
        return self.program.exit

    def _until(self, condition: Callable[[], object]) -> None:
        deadline = time.monotonic() + PATIENCE_S
        while not condition():
            message = self.inbox.get(timeout=deadline - time.monotonic())
            assert isinstance(message, ProgramChanged), vars(message)

    def output(self, stream: str = "stdout") -> str:
        return Path(self.logs.path(stream)).read_text()

    def pid_in(self, name: str) -> int:
        """The pid a program of the test wrote into a file."""
        path = self.folder / name
        eventually(lambda: path.exists() and path.read_text().strip(), describe=f"a pid in {name}")
        return int(path.read_text())


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Run]:
    monkeypatch.chdir(tmp_path)
    all_of_them: list[Running] = []

    def begin(program: str, argv: list[str] | None = None) -> Running:
        env = {b"PATH": os.environb[b"PATH"]}
        running = Running(tmp_path, argv or shell_command(program, env))
        all_of_them.append(running)
        return running

    yield begin
    for running in all_of_them:
        running.program.end_now()
        running.ended()


def python(code: str) -> list[str]:
    return [sys.executable, "-I", "-S", "-c", code]


@pytest.mark.parametrize(
    ("program", "exit_code", "signum"),
    [
        ("true", 0, None),
        ("exit 7", 7, None),
        ("kill -9 $$", None, 9),
        ("no-such-command-at-all", 127, None),
    ],
)
def test_how_it_ended(run: Run, program: str, exit_code: int | None, signum: int | None) -> None:
    end = run(program).ended()
    assert (end.exit_code, end.signal, end.reason) == (exit_code, signum, "")
    assert abs(end.ended_at - time.time()) < 30


def test_the_command_is_the_shells(run: Run) -> None:
    running = run("printf '%s' \"a  'b' ä $((1+1))\"; echo oops >&2")
    running.ended()
    assert running.output() == "a  'b' ä 2"
    assert running.output("stderr") == "oops\n"


def test_it_leads_a_session_and_ignores_no_signals(run: Run) -> None:
    running = run(
        "",
        python(
            "import os, signal; print(os.getsid(0) == os.getpgrp() == os.getpid(),"
            " signal.pthread_sigmask(signal.SIG_BLOCK, []) == set())\n"
            "for line in open('/proc/self/status'):\n"
            "    if line.startswith('SigIgn'): print(int(line.split()[1], 16) & ~0x1001000)"
        ),
    )
    running.ended()
    assert running.output() == "True True\n0\n"


def test_it_inherits_no_descriptors(run: Run) -> None:
    running = run("ls /proc/self/fd | wc -l; readlink /proc/self/fd/0")
    running.ended()
    # 0, 1, 2 and the listing's own.
    assert running.output() == "4\n/dev/null\n"


def test_the_runner_starts_a_shell_command_with_logs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    logs = ProgramLogs(str(tmp_path), 0, 1)
    inbox: SimpleQueue[InboxMessage] = SimpleQueue()
    runner: Runner = NativeRunner()
    program = runner.start("echo $X; exit 3", {b"X": b"given"}, logs, inbox)
    while program.exit is None:
        inbox.get(timeout=PATIENCE_S)
    assert (program.exit.exit_code, Path(logs.path("stdout")).read_text()) == (3, "given\n")


def test_what_cannot_be_run_is_told(run: Run) -> None:
    end = run("", ["/no/such/shell", "-c", "true"]).ended()
    assert end.exit_code == 126
    assert end.reason == "cannot run /no/such/shell: No such file or directory"


def test_a_command_too_long_for_linux_is_told(run: Run) -> None:
    end = run(": " + "x" * 200_000).ended()
    assert end.exit_code == 126
    assert "Argument list too long" in end.reason


def test_without_bash_it_is_sh(monkeypatch: pytest.MonkeyPatch) -> None:
    assert shell_command("x", {b"PATH": b"relative:/bin"}) == ["/bin/bash", "-c", "x"]
    monkeypatch.setattr(os, "access", lambda path, _: path.endswith(b"/sh"))
    assert shell_command("x", {b"PATH": b"/bin"}) == ["/bin/sh", "-c", "x"]
    monkeypatch.setattr(os, "access", lambda *_: False)
    with pytest.raises(OSError, match="no bash and no sh"):
        shell_command("x", {})


def test_gently_means_sigterm(run: Run) -> None:
    running = run("trap 'echo saved; exit 5' TERM; echo ready; while :; do sleep 0.01; done")
    eventually(lambda: "ready" in running.output(), describe="the trap")
    running.program.end_gently()
    assert running.ended().exit_code == 5
    assert running.output() == "ready\nsaved\n"


def test_gently_waits_for_the_group_when_the_shell_is_gone(run: Run) -> None:
    # It waits for the signal itself: one that comes just before a sleep() would be lost on it.
    saver = (
        "import signal, time\n"
        "signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})\n"
        "print('ready', flush=True)\n"
        "signal.sigwait({signal.SIGTERM})\n"
        "time.sleep(0.3)\n"
        "print('saved', flush=True)\n"
    )
    running = run(f'{sys.executable} -I -S -c "{saver}"; true')
    eventually(lambda: "ready" in running.output(), describe="the saver")
    running.program.end_gently()
    running.ended()
    assert running.output() == "ready\nsaved\n"


def test_who_ignores_sigterm_is_killed(run: Run) -> None:
    running = run("trap '' TERM; echo ready; while :; do sleep 1; done")
    eventually(lambda: "ready" in running.output(), describe="the trap")
    running.program.end_gently()
    running.program.end_now()
    assert running.ended().signal == 9


def test_what_it_left_behind_is_dead_when_its_end_is_told(run: Run) -> None:
    running = run("sleep 1000 & echo $! >child; exit 3")
    assert running.ended().exit_code == 3
    assert not is_alive(running.pid_in("child"))


def test_a_daemon_is_dead_when_the_end_is_told(run: Run) -> None:
    code = DAEMON.format(
        then="[time.sleep(0.01) for _ in iter(lambda: os.path.exists('daemon'), True)]; sys.exit(4)"
    )
    running = run("", python(code))
    assert running.ended().exit_code == 4
    assert not is_alive(running.pid_in("daemon"))


def test_a_daemon_dies_in_a_stop_and_does_not_hold_it_up(run: Run) -> None:
    running = run("", python(DAEMON.format(then="time.sleep(1000)")))
    daemon = running.pid_in("daemon")
    assert is_alive(daemon)
    began = time.monotonic()
    running.program.end_gently()
    assert running.ended().signal == 15
    assert not is_alive(daemon)
    assert time.monotonic() - began < 60


def test_a_crowd_is_killed(run: Run) -> None:
    running = run("for i in $(seq 40); do (trap '' TERM; sleep 1000; :) & done; echo ready; wait")
    eventually(lambda: "ready" in running.output(), describe="the crowd")
    running.program.end_now()
    assert running.ended().signal == 9


def test_signals_go_to_the_group(run: Run) -> None:
    running = run(
        "trap 'echo usr1' USR1; trap 'exit 0' HUP; echo ready; while :; do sleep 0.01; done"
    )
    # The program may be ahead of what its reaper tells of it.
    eventually(lambda: running.program.pid and "ready" in running.output(), describe="the traps")
    assert running.program.signal(signal.SIGUSR1)
    eventually(lambda: "usr1" in running.output(), describe="the signal")
    assert running.program.signal(signal.SIGHUP)
    assert running.ended().exit_code == 0
    assert not running.program.signal(signal.SIGHUP)


def test_logs_are_capped_while_it_runs(run: Run) -> None:
    running = run("head -c 3000000 /dev/zero; echo done >ready; sleep 1000")
    eventually(lambda: (running.folder / "0" / "stdout.1").exists(), describe="the older piece")
    eventually(lambda: (running.folder / "ready").exists(), describe="the writer")
    eventually(lambda: os.stat(running.logs.path("stdout")).st_size < 600_000, describe="the cut")
