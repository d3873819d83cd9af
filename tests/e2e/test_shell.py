"""``ytf shell``: shells and commands in the containers of running tasks."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.e2e.harness import BIN, FOREVER, HERE, HOLD, Job, Ytf, is_alive, kill, stop, wait_dead
from tests.e2e.terminal import Terminal
from ytf.testing.waiting import eventually

OpenTerminal = Callable[..., Terminal]
DAEMONS = (
    "setsid --fork sh -c 'echo $$ >$GATE/a.new; mv $GATE/a.new $GATE/a; exec sleep 1000'; "
    'nohup env -i sh -c "echo \\$\\$ >$GATE/b.new; mv $GATE/b.new $GATE/b; exec sleep 1000" & '
    "echo $$ >$GATE/c.new; mv $GATE/c.new $GATE/c; "
)
"""Starts what wants to outlive a shell: in another session, and without its variables."""


@pytest.fixture
def open_terminal(ytf: Ytf) -> Iterator[OpenTerminal]:
    opened: list[Terminal] = []

    def open_(*words: str, rows: int = 30, columns: int = 100) -> Terminal:
        argv = [str(BIN / "ytf"), "shell", *words]
        terminal = Terminal(argv, ytf.env, ytf.work, rows, columns)
        opened.append(terminal)
        return terminal

    yield open_
    for terminal in opened:
        terminal.close()


@pytest.fixture
def job(ytf: Ytf) -> Iterator[Job]:
    """A job of two workers that run until the gate is opened."""
    ytf.env["ENV"] = ytf.env["PS1"] = ""
    ytf.env["SHELL"] = "/bin/sh"
    job = ytf.submit("worker:2", HERE + HOLD)
    job.wait_running("worker:0", "worker:1")
    yield job
    ytf.open_gate()
    if not job.record.exists():
        ytf.run("ytf", "kill", job.id)
    eventually(job.record.exists, describe="the end of the job")


def shell_process(job: Job, task: str) -> int:
    """Return the process that serves the one shell of a task."""
    starter = job.starter(task)

    def found() -> int | None:
        ours = [
            p.pid
            for p in job.ytf.processes()
            if p.parent == starter and "shell_process" in p.command
        ]
        return ours[0] if ours else None

    return eventually(found, describe=f"a shell process of {task}") or 0


# At a terminal


def test_a_shell_has_a_terminal_and_what_the_program_has(
    job: Job, open_terminal: OpenTerminal
) -> None:
    terminal = open_terminal(job.id, "worker:1")
    terminal.type("echo =$YTF_TASK=$TERM=$(stty size)=\r")
    terminal.expect("=worker:1=vt100=30 100=")
    eventually(terminal.is_raw, describe="raw mode")
    terminal.type("readlink /proc/self/cwd\r")
    terminal.expect(os.readlink(f"/proc/{job.program('worker:1')}/cwd"))
    terminal.resize(12, 34)
    terminal.type("until [ \"$(stty size)\" = '12 34' ]; do :; done; echo re''sized\r")
    terminal.expect("resized")
    # Said by a process in the foreground: the shell itself does not die of Ctrl-C.
    terminal.type("sh -c \"echo be''gun; exec sleep 1000\"\r")
    terminal.expect("begun")
    terminal.type("\x03")
    terminal.type("echo code $((400 + $?))\r")
    terminal.expect("code 530")
    terminal.type("exit 5\r")
    assert terminal.wait() == 5
    assert terminal.is_as_before()
    assert [e.text.partition(" ")[2] for e in job.events() if e.event == "shell-requested"] == [
        "asked for a shell in worker:1"
    ]
    starter_log = (job.history / "logs" / "worker-1" / "starter.log").read_text()
    assert "opens a shell in worker:1" in starter_log


def test_ctrl_d_ends_it_and_escapes_leave_it(job: Job, open_terminal: OpenTerminal) -> None:
    terminal = open_terminal(job.id, "worker:0")
    terminal.type("echo re''ady\r")
    terminal.expect("ready")
    terminal.type("\x04")
    assert terminal.wait() == 0
    left = open_terminal(job.id, "worker:0")
    left.type("echo re''ady; stty raw; sleep 1000\r")
    left.expect("ready")
    process = shell_process(job, "worker:0")
    left.type("\r~.")
    assert left.wait() == 255
    assert left.is_as_before()
    wait_dead(process)


def test_a_command_gets_a_terminal_if_asked_for(job: Job, open_terminal: OpenTerminal) -> None:
    terminal = open_terminal("-t", job.id, "worker:0", "test -t 0 && test -t 2 && exit 21")
    assert terminal.wait() == 21
    without = open_terminal(job.id, "worker:0", "test -t 1 || exit 22")
    assert without.wait() == 22
    refused = job.ytf.run("ytf", "shell", "-t", job.id, "worker:0", "true", code=2)
    assert "not a terminal" in refused.stderr


@pytest.mark.parametrize(
    ("end", "code"),
    [("SIGTERM", 143), ("SIGHUP", 129), ("lost", 1), ("job killed", 137)],
)
def test_the_terminal_is_as_before_whatever_ends_it(
    job: Job, open_terminal: OpenTerminal, end: str, code: int
) -> None:
    terminal = open_terminal(job.id, "worker:0")
    terminal.type("echo re''ady; stty raw -echo; sleep 1000\r")
    terminal.expect("ready")
    eventually(terminal.is_raw, describe="raw mode")
    process = shell_process(job, "worker:0")
    if end == "lost":
        kill(process)
    elif end == "job killed":
        job.ytf.run("ytf", "kill", job.id)
    else:
        terminal.process.send_signal(signal.Signals[end])
    assert terminal.wait() == code, terminal.shown
    assert terminal.is_as_before()
    wait_dead(process)
    if end == "lost":
        assert "the connection to worker:0 is lost" in terminal.shown
    if end == "job killed":
        assert "the container of worker:0 ends" in terminal.shown


# In pipes


def run_bytes(ytf: Ytf, *words: str, stdin: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        [str(BIN / "ytf"), "shell", *words],
        input=stdin,
        capture_output=True,
        env=ytf.env,
        cwd=ytf.work,
        timeout=100,
        check=False,
    )


def test_bytes_pass_unchanged_both_ways_and_errors_apart(job: Job) -> None:
    data = bytes(range(256)) * 40_000
    done = run_bytes(job.ytf, job.id, "worker:0", "tee /dev/stderr; exit 9", stdin=data)
    assert done.returncode == 9
    assert done.stdout == data
    assert done.stderr == data


def test_words_are_arguments_and_one_word_is_a_command_line(job: Job) -> None:
    words = (job.id, "worker:0", "--", "printf", "%s|", "a b", "$HOME", "--")
    assert run_bytes(job.ytf, *words).stdout == b"a b|$HOME|--|"
    line = run_bytes(job.ytf, job.id, "worker:0", "echo $YTF_TASK | tr a-z A-Z")
    assert line.stdout == b"WORKER:0\n"
    script = run_bytes(job.ytf, job.id, "worker:0", stdin=b"echo $((6 * 7)); exit 3")
    assert (script.stdout, script.returncode) == (b"42\n", 3)


def test_exit_codes(job: Job) -> None:
    assert run_bytes(job.ytf, job.id, "worker:0", "kill -TERM $$").returncode == 143
    assert run_bytes(job.ytf, job.id, "worker:0", "no-such-command").returncode == 127
    gone = run_bytes(job.ytf, job.id, "worker:0", "exec /no/such/file")
    assert gone.returncode in (126, 127)


def test_nothing_of_a_command_outlives_it(job: Job) -> None:
    begun = "until [ -e $GATE/a -a -e $GATE/b ]; do sleep 0.02; done; "
    done = run_bytes(job.ytf, job.id, "worker:0", DAEMONS + begun + "echo done")
    assert done.stdout == b"done\n"
    assert done.returncode == 0
    pids = [int(job.ytf.told(name)) for name in "abc"]
    assert not any(map(is_alive, pids))


def test_what_is_not_read_is_not_made(job: Job) -> None:
    """Backpressure: an output that nobody reads stops the command, in little memory."""
    size = 60_000_000
    tell = "echo $$ >$GATE/p.new; mv $GATE/p.new $GATE/p; "
    command = f"{tell} exec head -c {size} /dev/zero"
    client = subprocess.Popen(
        [str(BIN / "ytf"), "shell", job.id, "worker:0", command],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        env=job.ytf.env,
        cwd=job.ytf.work,
    )
    writer = int(job.ytf.told("p"))
    quiet = 0

    def is_stuck() -> bool:
        nonlocal quiet
        waits = Path(f"/proc/{writer}/wchan").read_text()
        quiet = quiet + 1 if "pipe_w" in waits else 0
        return quiet > 50

    eventually(is_stuck, describe="the command waits for its reader")
    written = Path(f"/proc/{writer}/io").read_text().split("wchar: ")[1].split()[0]
    assert int(written) < size / 2
    assert client.stdout is not None
    with client.stdout as output:
        got = sum(len(piece) for piece in iter(lambda: output.read(1 << 20), b""))
    assert got == size
    assert client.wait(60) == 0


def test_a_reader_that_leaves_ends_the_command(job: Job) -> None:
    client = subprocess.Popen(
        [str(BIN / "ytf"), "shell", job.id, "worker:0", "yes"],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=job.ytf.env,
    )
    assert client.stdout is not None
    assert client.stdout.read(2) == b"y\n"
    process = shell_process(job, "worker:0")
    client.stdout.close()
    assert client.wait(60) == 141
    assert client.stderr is not None
    with client.stderr as said:
        assert said.read() == b""
    wait_dead(process)


def test_ctrl_c_reaches_a_command_without_a_terminal(job: Job) -> None:
    command = "trap 'echo caught; exit 33' INT; echo ready; while :; do sleep 0.05; done"
    client = job.ytf.start("ytf", "shell", job.id, "worker:0", command)
    assert client.stdout is not None
    assert client.stdout.readline() == "ready\n"
    client.send_signal(signal.SIGINT)
    out, errors = client.communicate(timeout=60)
    assert (out, errors, client.returncode) == ("caught\n", "", 33)


# Deaths


@pytest.mark.parametrize("victim", ["client", "shell process", "both", "bash", "starter", "all"])
def test_no_process_is_left_whoever_is_killed(job: Job, victim: str) -> None:
    client = job.ytf.start("ytf", "shell", job.id, "worker:0", DAEMONS + FOREVER)
    pids = [int(job.ytf.told(name)) for name in "abc"]
    process, starter = shell_process(job, "worker:0"), job.starter("worker:0")
    reaper = next(p.parent for p in job.ytf.processes() if p.pid == job.program("worker:0"))
    victims = {
        "client": [client.pid],
        "shell process": [process],
        "both": [client.pid, process],
        "bash": [pids[2]],
        "starter": [starter],
        "all": [starter, reaper, process, client.pid],
    }[victim]
    stop(*victims)
    kill(*victims)
    wait_dead(process, *pids)
    client.communicate(timeout=60)
    if victim == "bash":
        assert client.returncode == 137
    if victim not in ("starter", "all"):
        assert job.status().state.value == "RUNNING"


def test_an_idle_shell_does_not_hold_the_jobs_end(job: Job) -> None:
    client = job.ytf.start("ytf", "shell", job.id, "worker:0", f"echo ready; {FOREVER}")
    assert client.stdout is not None
    assert client.stdout.readline() == "ready\n"
    job.ytf.open_gate()
    job.end("SUCCEEDED")
    _, said = client.communicate(timeout=60)
    assert client.returncode == 137
    assert "the container of worker:0 ends" in said


def test_a_shell_outlives_the_program_it_was_opened_beside(ytf: Ytf) -> None:
    """A restart in the same container leaves it alone."""
    job = ytf.submit(
        "worker:1",
        HERE + '[ "$YTF_ATTEMPT" = 2 ] || { until [ -e "$GATE/fail" ]; do sleep 0.02; done; '
        "exit 1; }; " + HOLD,
        *("--on_failure", "restart-task", "--max_restarts", "1"),
    )
    job.wait_running("worker:0")
    client = ytf.start("ytf", "shell", job.id, "worker:0")
    assert client.stdin is not None
    assert client.stdout is not None
    client.stdin.write("echo one $YTF_ATTEMPT\n")
    client.stdin.flush()
    assert client.stdout.readline() == "one 1\n"
    ytf.tell("fail")
    job.wait_running("worker:0", attempt=2)
    client.stdin.write("echo still here\n")
    client.stdin.flush()
    assert client.stdout.readline() == "still here\n"
    client.communicate(timeout=60)
    assert client.returncode == 0
    ytf.open_gate()
    job.end("SUCCEEDED")


def test_its_memory_counts_as_the_containers(ytf: Ytf) -> None:
    job = ytf.submit("worker:1", HERE + FOREVER, "-m", "150")
    job.wait_running("worker:0")
    hog = "exec python3 -c 'import time; x = b\"x\" * 400_000_000; time.sleep(1000)'"
    client = ytf.start("ytf", "shell", job.id, "worker:0", hog)
    status = job.end("FAILED")
    assert "MB of memory and had asked for 150 MB" in status.diagnostics
    client.communicate(timeout=60)
    assert client.returncode != 0


# Refusals


def test_refusals_say_why(ytf: Ytf) -> None:
    job = ytf.submit("chief:1,worker:2", f"[ $YTF_TASK = worker:0 ] && exit 0; {HERE}{HOLD}")
    job.wait_running("chief:0", "worker:1")
    job.wait_events("task-exited", task="worker:0")

    def refused(*words: str) -> str:
        return ytf.run("ytf", "shell", *words, "true", code=1).stderr

    assert "worker:0 has ended: it is SUCCEEDED" in refused(job.id, "worker:0")
    assert "has no task worker:2" in refused(job.id, "worker:2")
    assert "has 2 tasks worker" in refused(job.id, "worker")
    assert ytf.run("ytf", "shell", job.id, "chief", "echo $YTF_TASK").stdout == "chief:0\n"
    assert "there is no job" in refused("local_20200101000000_dead", "worker:0")
    ytf.open_gate()
    job.end("SUCCEEDED")
    assert f"job {job.id} has ended" in refused(job.id, "worker:1")


def test_only_so_many_shells_at_a_time(job: Job) -> None:
    clients = []
    for _ in range(8):
        client = job.ytf.start("ytf", "shell", job.id, "worker:0", f"echo ready; {FOREVER}")
        assert client.stdout is not None
        assert client.stdout.readline() == "ready\n"
        clients.append(client)
    full = job.ytf.run("ytf", "shell", job.id, "worker:0", "true", code=1)
    assert "8 shells are open in worker:0 already" in full.stderr
    # Those of other tasks, and what the master wants of the starter, are not concerned.
    job.ytf.run("ytf", "shell", job.id, "worker:1", "true")
    assert job.logs("worker:0") == []
    clients[0].terminate()
    clients[0].communicate(timeout=60)

    def is_free() -> bool:
        words = [str(BIN / "ytf"), "shell", job.id, "worker:0", "true"]
        done = subprocess.run(words, env=job.ytf.env, capture_output=True, check=False)
        return done.returncode == 0

    eventually(is_free, describe="room for another shell")
