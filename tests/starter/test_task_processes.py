"""Several processes of one task: real ones, below a real reaper."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from queue import SimpleQueue
from typing import TYPE_CHECKING

import pytest

from tests.starter.conftest import is_alive
from ytf.starter.native_runner import NativeProgram, NativeRunner
from ytf.starter.program_logs import ProgramLogs
from ytf.starter.runner import ProgramExit
from ytf.testing.waiting import eventually

if TYPE_CHECKING:
    from ytf.starter.desired_state import InboxMessage

PATIENCE_S = 60.0
FOREVER = "while :; do sleep 0.05; done"


class Running:
    """A command that runs in several processes."""

    def __init__(self, command: str, folder: Path, *, count: int, grace_s: float) -> None:
        self.logs = ProgramLogs(str(folder), 0, 1)
        self._inbox: SimpleQueue[InboxMessage] = SimpleQueue()
        env = {b"PATH": os.environb[b"PATH"], b"SHARED": b"yes"}
        processes = [{b"YTF_RANK": b"%d" % (4 + i), b"LOCAL": b"%d" % i} for i in range(count)]
        self.program: NativeProgram = NativeRunner(grace_s).start(
            command, env, self.logs, self._inbox, processes
        )

    def ended(self) -> ProgramExit:
        """Wait for the end."""
        while self.program.exit is None:
            self._inbox.get(timeout=PATIENCE_S)
        return self.program.exit

    def output(self, stream: str = "stdout") -> list[str]:
        """The lines written so far."""
        path = Path(self.logs.path(stream))
        return path.read_text().splitlines() if path.exists() else []


Run = Callable[..., Running]


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Run]:
    """Start a command in a directory of its own; afterwards it is dead."""
    monkeypatch.chdir(tmp_path)
    started: list[Running] = []

    def start(command: str, *, count: int = 2, grace_s: float = 30.0) -> Running:
        started.append(Running(command, tmp_path, count=count, grace_s=grace_s))
        return started[-1]

    yield start
    for running in started:
        running.program.end_now()
        running.ended()


def test_each_process_has_its_own_variables_and_its_rank_before_its_lines(run: Run) -> None:
    running = run('echo "$LOCAL $SHARED"; echo "to stderr" >&2; printf unfinished', count=3)
    assert running.ended().exit_code == 0
    lines = [f"[{4 + i}] {i} yes" for i in range(3)] + [f"[{4 + i}] unfinished" for i in range(3)]
    assert sorted(running.output()) == sorted(lines)
    assert sorted(running.output("stderr")) == [f"[{4 + i}] to stderr" for i in range(3)]


def test_it_ends_when_the_last_has_ended(run: Run) -> None:
    running = run('if [ $LOCAL = 1 ]; then until [ -e "$PWD/go" ]; do sleep 0.05; done; fi')
    eventually(lambda: len(running.program.processes()) >= 2, describe="both run")
    assert running.program.exit is None
    Path("go").touch()
    assert running.ended().exit_code == 0


def test_the_first_failure_ends_the_others_and_is_told_last(run: Run) -> None:
    running = run(
        f"trap 'echo ended gently; exit 0' TERM; echo ready; "
        f"if [ $LOCAL = 1 ]; then echo 'ValueError: bad' >&2; exit 3; fi; {FOREVER}"
    )
    end = running.ended()
    assert (end.exit_code, end.signal) == (3, None)
    assert "[4] ended gently" in running.output() or "[4] ready" not in running.output()
    told = "ytf: rank 5 (process 1 of the task's 2) failed first, with exit code 3"
    assert running.output("stderr")[-2:] == [
        f"{told}; its last lines were:",
        "ValueError: bad",
    ]


def test_the_cause_is_taken_from_stdout_if_stderr_has_none(run: Run) -> None:
    running = run(f"if [ $LOCAL = 0 ]; then echo told here; exit 1; fi; {FOREVER}")
    assert running.ended().exit_code == 1
    assert running.output("stderr")[-1] == "told here"


def test_others_that_do_not_end_are_killed(run: Run) -> None:
    running = run(f"trap '' TERM; if [ $LOCAL = 1 ]; then exit 7; fi; {FOREVER}", grace_s=0.2)
    assert running.ended().exit_code == 7


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGUSR1])
def test_a_process_that_dies_of_a_signal_makes_the_program_die_of_it(
    run: Run, number: signal.Signals
) -> None:
    running = run(f"if [ $LOCAL = 0 ]; then kill -{number.value} $$; fi; {FOREVER}")
    end = running.ended()
    assert (end.exit_code, end.signal) == (None, number)
    assert f"failed first, with signal {number.value}" in running.output("stderr")[-1]


def test_asked_to_end_all_end_and_nothing_is_called_a_failure(run: Run) -> None:
    running = run(f"trap 'echo bye; exit 5' TERM; echo ready; {FOREVER}")
    eventually(lambda: len(running.output()) == 2, describe="both run")
    running.program.end_gently()
    assert running.ended().exit_code == 5
    assert sorted(running.output()) == ["[4] bye", "[4] ready", "[5] bye", "[5] ready"]
    # The shell may tell of its own.
    assert "ytf" not in "".join(running.output("stderr"))


def test_signals_reach_every_process(run: Run) -> None:
    running = run(f"trap 'echo got it' USR1; echo ready; {FOREVER}")
    eventually(lambda: len(running.output()) == 2, describe="both run")
    assert running.program.signal(signal.SIGUSR1)
    eventually(
        lambda: {"[4] got it", "[5] got it"} <= set(running.output()), describe="both got it"
    )


def test_nothing_is_left_when_the_process_between_is_killed(run: Run) -> None:
    running = run(f"setsid sleep 1000 & echo ready; {FOREVER}")
    eventually(lambda: len(running.output()) == 2, describe="both run")
    pids = running.program.processes()
    assert running.program.pid is not None
    os.kill(running.program.pid, signal.SIGKILL)
    assert running.ended().signal == signal.SIGKILL
    assert not any(is_alive(pid) for pid in pids)


def test_descendants_that_keep_the_output_open_are_not_waited_for(run: Run) -> None:
    running = run("setsid sleep 1000 & echo done")
    assert running.ended().exit_code == 0
    assert sorted(running.output()) == ["[4] done", "[5] done"]


def test_a_long_line_is_written_in_pieces(run: Run) -> None:
    running = run("head -c 100000 /dev/zero | tr '\\0' x")
    assert running.ended().exit_code == 0
    lines = running.output()
    assert {line[:4] for line in lines} == {"[4] ", "[5] "}
    assert sum(len(line) - 4 for line in lines) == 200000


def test_the_processes_inherit_no_descriptors_and_no_blocked_signals(run: Run) -> None:
    running = run("ls /proc/self/fd | wc -l; grep -h SigBlk /proc/self/status", count=2)
    running.ended()
    assert {line[4:] for line in running.output()} == {"4", "SigBlk:\t0000000000000000"}


def test_a_command_that_cannot_be_run_is_told(run: Run) -> None:
    running = run(": " + "x" * 200_000)
    assert running.ended().exit_code == 126
    assert "Argument list too long" in running.output("stderr")[-1]
