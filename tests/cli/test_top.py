"""``ytf top``: the table of what tasks use, once, and live on a terminal."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import pty
import re
import signal
import struct
import subprocess
import sys
import termios
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from tests.cli.conftest import Install
from tests.client.fakes import JOB, status, task
from tests.specs.usages import task_usage
from ytf.cli import main
from ytf.cli.usage_table import BY_TASK, SORT_KEYS, sorted_tasks, usage_table
from ytf.specs.status import JobState, JobStatus, TaskState
from ytf.specs.usage import GpuUsage
from ytf.testing.waiting import eventually

GB = 1024**3
RUNNING = status(
    JobState.RUNNING,
    task("ps", 0, TaskState.RUNNING, memory_mb=512, usage=task_usage(memory_bytes=3 * GB)),
    task("worker", 0, TaskState.RUNNING, memory_mb=8192, usage=task_usage(cpu_cores=3.25)),
    task("worker", 1, TaskState.PENDING, memory_mb=8192),
)


def lines(job: JobStatus, sort: str = "cpu", width: int | None = None) -> list[list[str]]:
    return [line.split() for line in usage_table(job, sort, width).splitlines()]


def test_the_table_of_a_running_job() -> None:
    head, *rows = lines(RUNNING)
    assert head == [
        *("TASK", "STATE", "%CPU", "MEM", "PEAK", "ASKED", "THR"),
        *("RD/S", "WR/S", "IN/S", "OUT/S"),
    ]
    assert rows == [
        ["worker:0", "RUNNING", "325", "100M", "200M", "8.0G", "3", "10B", "20B", "30B", "40B"],
        ["ps:0", "RUNNING", "50", "3.0G", "200M", "512M", "3", "10B", "20B", "30B", "40B"],
        ["worker:1", "PENDING", "-", "-", "-", "8.0G", "-", "-", "-", "-", "-"],
    ]


def test_figures_of_an_earlier_attempt_are_not_those_of_this_one() -> None:
    again = task("worker", 0, TaskState.RUNNING, attempt=2, usage=task_usage(attempt=1))
    assert again.live_usage is None
    assert lines(status(JobState.RUNNING, again))[1][2:4] == ["-", "-"]


def test_figures_are_below_each_other() -> None:
    text = usage_table(RUNNING, "cpu").splitlines()
    assert len({len(line) for line in text}) == 1


def test_the_table_of_an_ended_job_has_totals_and_peaks() -> None:
    usage = task_usage(network_sent_bytes=None).as_ended()
    ended = status(JobState.SUCCEEDED, task("worker", 0, TaskState.SUCCEEDED, usage=usage))
    assert lines(ended) == [
        ["TASK", "STATE", "CPU", "S", "PEAK%", "PEAK", "ASKED", "THR", "READ", "WRIT", "IN", "OUT"],
        ["worker:0", "SUCCEEDED", "12", "150", "200M", "-", "4", "1.0K", "2.0K", "2.9K", "-"],
    ]


def test_gpus_have_columns_if_there_are_some() -> None:
    gpu = GpuUsage(busy=0.5, memory_bytes=GB, total_memory_bytes=2 * GB)
    usage = task_usage(gpus=(gpu, gpu), peak_gpu_memory_bytes=2 * GB)
    job = status(JobState.RUNNING, task("worker", 0, TaskState.RUNNING, usage=usage))
    head, row = lines(job)
    assert (head[-2:], row[-2:]) == (["%GPU", "GMEM"], ["50", "2.0G"])
    ended = status(JobState.FAILED, task("worker", 0, TaskState.FAILED, usage=usage.as_ended()))
    head, row = lines(ended)
    assert (head[-1], row[-1]) == ("GMEM", "2.0G")


def test_it_fits_eighty_columns_and_drops_what_matters_least() -> None:
    wide = usage_table(RUNNING, "cpu", 80).splitlines()
    assert max(map(len, wide)) <= 80
    assert wide[0].split()[-1] == "OUT/S"
    narrow = usage_table(RUNNING, "cpu", 50).splitlines()
    assert max(map(len, narrow)) <= 50
    assert {"%CPU", "MEM", "PEAK", "ASKED"} <= set(narrow[0].split())


@pytest.mark.parametrize("sort", [*SORT_KEYS, BY_TASK])
def test_sorting(sort: str) -> None:
    usages: dict[str, Any] = {
        "cpu": {"cpu_cores": 9.0},
        "memory": {"memory_bytes": 9 * GB},
        "disk": {"disk_written_bytes_per_s": 1e9},
        "network": {"network_sent_bytes_per_s": 1e9},
    }
    tasks = [task("worker", 0, TaskState.PENDING)]
    tasks += [
        task(name, 1, TaskState.RUNNING, usage=task_usage(**changes))
        for name, changes in usages.items()
    ]
    first = sorted_tasks(tasks, sort)[0].group
    assert first == ("worker" if sort == BY_TASK else sort)
    assert (*SORT_KEYS, BY_TASK) == main.SORTS


def test_in_a_pipe_it_is_printed_once(install: Install, capfd: pytest.CaptureFixture[str]) -> None:
    install(RUNNING)
    assert main.main(["top", JOB, "--sort", "memory"]) == 0
    first, head, *rows = capfd.readouterr().out.splitlines()
    assert first.startswith(f"{JOB}  TensorFlow  RUNNING  ")
    assert first.endswith("2/3 run, 3.8 cores")
    assert head.split()[0] == "TASK"
    assert [row.split()[0] for row in rows] == ["ps:0", "worker:0", "worker:1"]


def test_one_snapshot_as_json(install: Install, capfd: pytest.CaptureFixture[str]) -> None:
    install(RUNNING)
    assert main.main(["top", JOB, "--json"]) == 0
    told = json.loads(capfd.readouterr().out)
    assert (told["id"], told["state"]) == (JOB, "RUNNING")
    assert told["tasks"][0]["usage"]["cpu_cores"] == 3.25
    assert told["tasks"][2]["usage"] is None
    assert told["tasks"][2]["memory_mb"] == 8192


class Terminal:
    """``ytf top`` on a terminal, of the job that ``tests.cli.top_driver`` plays."""

    def __init__(self, rows: int, columns: int, *words: str) -> None:
        self._ours, its = pty.openpty()
        self._its = its
        self.resize(rows, columns)
        self.before = termios.tcgetattr(its)
        self.process = subprocess.Popen(
            [
                sys.executable,
                "-m",
                "tests.cli.top_driver",
                "top",
                JOB,
                "--interval",
                "0.2s",
                *words,
            ],
            stdin=its,
            stdout=its,
            stderr=its,
            env={**os.environ, "TERM": "xterm", "NO_COLOR": "1"},
            cwd=os.path.dirname(os.path.dirname(os.path.dirname(__file__))),
            start_new_session=True,
            preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0) and None,
        )
        self.seen = ""
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    def _read(self) -> None:
        with contextlib.suppress(OSError):
            while part := os.read(self._ours, 65536):
                self.seen += part.decode()

    def resize(self, rows: int, columns: int) -> None:
        fcntl.ioctl(self._its, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def frames(self) -> list[list[str]]:
        """The lines of each frame that was drawn so far."""
        frames = [part for part in self.seen.split("\x1b[H")[1:] if "\x1b[J" in part]
        clean = (re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", frame) for frame in frames)
        return [frame.split("\r\n") for frame in clean]

    def wait_for(self, text: str) -> None:
        eventually(
            lambda: any(text in line for line in self.frames()[-1:][0]) if self.frames() else False,
            60,
            lambda: f"{text!r} in {self.frames()[-1:]}\n{self.seen[-500:]}",
        )

    def type(self, keys: str) -> None:
        os.write(self._ours, keys.encode())

    def end(self) -> int:
        code = self.process.wait(60)
        # It is left as it was: the modes, the cursor, the screen.
        assert termios.tcgetattr(self._its)[3] == self.before[3]
        return code

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        os.close(self._its)
        self._reader.join()
        os.close(self._ours)


@pytest.fixture
def terminals() -> Iterator[list[Terminal]]:
    opened: list[Terminal] = []
    yield opened
    for terminal in opened:
        terminal.close()


def test_on_a_terminal_it_is_drawn_again_and_keys_sort(terminals: list[Terminal]) -> None:
    terminal = Terminal(24, 80)
    terminals.append(terminal)
    terminal.wait_for("sorted by cpu")
    terminal.wait_for("worker:0")
    frame = terminal.frames()[-1]
    assert max(map(len, frame)) <= 80
    assert [line.split()[0] for line in frame[3:6]] == ["worker:0", "ps:0", "worker:1"]
    terminal.type("m")
    terminal.wait_for("sorted by memory")
    assert terminal.frames()[-1][3].startswith("ps:0")
    count = len(terminal.frames())
    eventually(lambda: len(terminal.frames()) > count + 2, 60, "it is drawn again by itself")
    terminal.resize(5, 40)
    terminal.wait_for("more tasks")
    assert max(map(len, terminal.frames()[-1])) <= 40
    assert len(terminal.frames()[-1]) <= 7
    count = len(terminal.frames())
    terminal.resize(5, 20)
    eventually(lambda: len(terminal.frames()) > count + 1, 60, "it is drawn again")
    assert max(map(len, terminal.frames()[-1])) <= 20, "no line is wrapped"
    terminal.type("q")
    assert terminal.end() == 0
    eventually(lambda: terminal.seen.endswith("\x1b[?25h\x1b[?1049l"), 60, "the screen is back")


def test_ctrl_c_quits(terminals: list[Terminal]) -> None:
    terminal = Terminal(24, 80)
    terminals.append(terminal)
    terminal.wait_for("sorted by cpu")
    terminal.type("\x03")
    assert terminal.end() == 0
    eventually(lambda: terminal.seen.endswith("\x1b[?25h\x1b[?1049l"), 60, "the screen is back")


def test_a_cluster_that_does_not_answer_is_said_and_keys_still_work(
    terminals: list[Terminal],
) -> None:
    terminal = Terminal(24, 80)
    terminals.append(terminal)
    terminal.wait_for("worker:0")
    os.kill(terminal.process.pid, signal.SIGUSR1)
    terminal.wait_for("the cluster does not answer")
    terminal.wait_for("worker:0")
    terminal.type("q")
    assert terminal.end() == 0


def test_when_the_job_ends_its_peaks_stay_on_the_screen(terminals: list[Terminal]) -> None:
    terminal = Terminal(24, 80)
    terminals.append(terminal)
    terminal.wait_for("worker:0")
    os.kill(terminal.process.pid, signal.SIGUSR2)
    assert terminal.end() == 0
    eventually(lambda: "SUCCEEDED" in terminal.seen.rpartition("\x1b[?1049l")[2], 60, "the end")
    after = terminal.seen.rpartition("\x1b[?1049l")[2].splitlines()
    assert after[0].startswith(f"{JOB}  TensorFlow  SUCCEEDED")
    assert "PEAK%" in after[1]
