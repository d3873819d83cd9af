"""The node with real processes, and a master whose strings the test holds."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.backends.local.conftest import Submit, eventually, is_running, node_pid
from tests.backends.local.puppet import DEADLINE_S, Puppet, Strings
from ytf.backends.local.burial import JOB_VARIABLE
from ytf.backends.local.handle import LocalJob
from ytf.backends.local.home import Home
from ytf.specs.status import JobRecord, JobState


class Job:
    """A submitted job with its first master."""

    def __init__(self, handle: LocalJob, home: Home, strings: Strings) -> None:
        self.id = handle.job
        self.staging = home.staging(handle.job)
        self.record = home.record(handle.job)
        self.node = node_pid(home, handle.job)
        self.master = strings.next()
        self.hello = self.master.receive()

    def launch(self, container: str, script: str, **more: Any) -> Path:
        """Run a shell script as a container; answers its working directory."""
        return self.launch_argv(container, ["/bin/sh", "-c", script], **more)

    def launch_argv(self, container: str, argv: list[str], **more: Any) -> Path:
        directory = self.staging / "containers" / container
        env = {JOB_VARIABLE: self.id, **more.pop("env", {})}
        self.master.launch(container, argv, directory, env=env, **more)
        return directory

    def finish(self) -> None:
        """Tell the node that all is over and see it go, with everything."""
        self.master.send(op="finished")
        self.master.end()
        self.gone()

    def gone(self) -> None:
        eventually(lambda: not is_running(self.node), "the node's end")
        assert not self.staging.exists()


@pytest.fixture
def job(submit: Submit, home: Home, strings: Strings) -> Job:
    return Job(submit(), home, strings)


def pid_in(path: Path) -> int:
    """The pid a script wrote, once it has."""
    eventually(lambda: path.exists() and path.read_text().endswith("\n"), f"a pid in {path}")
    return int(path.read_text())


def test_the_first_master_is_greeted(job: Job) -> None:
    assert job.hello == {
        "op": "hello",
        "pid": job.node,
        "attempt": 1,
        "live": [],
        "ended": [],
        "memory_mb": {},
    }
    arguments = job.master.arguments
    assert arguments == ["--backend", "local", "--job-dir", str(job.staging), "--attempt", "1"]
    job.finish()


def test_the_node_is_small_and_detached(job: Job) -> None:
    status = Path(f"/proc/{job.node}/status").read_text()
    resident_kb = int(status.split("VmRSS:")[1].split()[0])
    assert resident_kb <= 12 * 1024
    assert os.getsid(job.node) != os.getsid(0)
    assert os.readlink(f"/proc/{job.node}/cwd") == "/"
    assert os.readlink(f"/proc/{job.node}/fd/0") == os.devnull
    job.finish()


def test_completions_tell_exit_code_and_signal(job: Job) -> None:
    job.launch("c1", "exit 7")
    job.launch("c2", "kill -TERM $$")
    told = {each["container"]: each for each in (job.master.receive(), job.master.receive())}
    assert told["c1"] == {
        "op": "completed",
        "container": "c1",
        "cause": "exited",
        "exit_code": 7,
        "signal": None,
        "diagnostics": "",
        "tail": "",
    }
    assert (told["c2"]["exit_code"], told["c2"]["signal"]) == (None, signal.SIGTERM)
    job.finish()


def test_a_container_gets_a_session_a_directory_its_environment_and_output(
    job: Job, tmp_path: Path
) -> None:
    output = tmp_path / "out"
    script = "import os; print(os.getsid(0) == os.getpid(), os.getcwd(), os.environ['GIVEN'])"
    directory = job.launch_argv(
        "c1", [sys.executable, "-c", script], stdout=str(output), env={"GIVEN": "wörd \udc80"}
    )
    assert job.master.receive()["exit_code"] == 0
    assert output.read_bytes() == f"True {directory} ".encode() + b"w\xc3\xb6rd \x80\n"
    eventually(lambda: not directory.exists(), "the working directory's removal")
    job.finish()


def test_signals_are_not_ignored_in_a_container(job: Job, tmp_path: Path) -> None:
    job.launch("c1", "grep SigIgn /proc/self/status", stdout=str(tmp_path / "out"))
    assert job.master.receive()["exit_code"] == 0
    assert (tmp_path / "out").read_text().split() == ["SigIgn:", "0" * 16]
    job.finish()


def test_a_launch_that_fails_says_why(job: Job) -> None:
    directory = job.launch_argv("c1", ["/no/such/program"])
    failed = job.master.receive()
    assert failed["op"] == "failed"
    assert failed["container"] == "c1"
    assert "/no/such/program: No such file" in failed["reason"]
    eventually(lambda: not directory.exists(), "the working directory's removal")
    job.finish()


def test_an_order_given_twice_is_obeyed_once(job: Job, tmp_path: Path) -> None:
    runs = tmp_path / "runs"
    for _ in range(2):
        job.launch("c1", f"echo run >> {runs}; exec sleep 60")
    eventually(runs.exists, "a run")
    for _ in range(2):
        job.master.send(op="kill", container="c1")
    job.master.send(op="kill", container="unknown")
    assert job.master.receive()["cause"] == "released"
    assert runs.read_text() == "run\n"
    job.finish()


def test_a_kill_ends_the_whole_tree_daemons_included(job: Job, tmp_path: Path) -> None:
    child, daemon = tmp_path / "child", tmp_path / "daemon"
    job.launch(
        "c1",
        f"sleep 60 & echo $! > {child};"
        f" setsid sh -c 'sh -c \"echo \\$\\$ > {daemon}; exec sleep 60\" & exit' &"
        " trap '' TERM; wait",
        env={},
    )
    pids = [pid_in(child), pid_in(daemon)]
    job.master.send(op="kill", container="c1")
    completed = job.master.receive()
    assert (completed["cause"], completed["signal"]) == ("released", signal.SIGKILL)
    # All of it is dead before the completion is told.
    assert [is_running(pid) for pid in pids] == [False, False]
    job.finish()


def test_a_starter_that_is_killed_leaves_no_orphan(job: Job, tmp_path: Path) -> None:
    starter, daemon = tmp_path / "starter", tmp_path / "daemon"
    job.launch(
        "c1",
        f"echo $$ > {starter}; setsid env -i sh -c 'echo $$ > {daemon}; exec sleep 60' & wait",
    )
    left_behind = pid_in(daemon)
    os.kill(pid_in(starter), signal.SIGKILL)
    completed = job.master.receive()
    assert (completed["cause"], completed["signal"]) == ("exited", signal.SIGKILL)
    assert not is_running(left_behind)
    job.finish()


def test_one_containers_end_leaves_the_others_alone(job: Job, tmp_path: Path) -> None:
    job.launch("c1", f"sleep 60 & echo $! > {tmp_path / 'other'}; wait")
    other = pid_in(tmp_path / "other")
    job.launch("c2", "sleep 60 & exit 0")
    assert job.master.receive()["container"] == "c2"
    assert is_running(other)
    job.finish()
    assert not is_running(other)


def test_too_much_memory_is_killed_and_explained(job: Job) -> None:
    hog = "import time; kept = bytearray(b'x') * (150 << 20); time.sleep(60)"
    job.launch_argv("c1", [sys.executable, "-c", hog], memory_mb=100)
    completed = job.master.receive()
    assert completed["cause"] == "memory"
    assert completed["signal"] == signal.SIGKILL
    assert "had asked for 100 MB (ask for more with -m)" in completed["diagnostics"]
    assert "bytearray" in completed["diagnostics"]
    used = int(completed["diagnostics"].split("it used ")[1].split()[0])
    assert 100 <= used <= 250, "it may have been found while it was still growing"
    job.finish()


@pytest.mark.parametrize(
    ("end", "tail"),
    [("exit 0", ""), ("exit 70", "last words"), ("kill -KILL $$", "last words")],
)
def test_last_words_that_no_starter_reported_are_told(
    job: Job, tmp_path: Path, end: str, tail: str
) -> None:
    for attempt, words in (("2", "another container's"), ("9", "last words"), ("x10", "nobody's")):
        (tmp_path / attempt).mkdir()
        (tmp_path / attempt / "stderr").write_text(words)
    job.launch("c1", end, logs=str(tmp_path), attempt=3)
    assert job.master.receive()["tail"] == tail
    job.launch("c2", end, logs=str(tmp_path), attempt=10)
    assert job.master.receive()["tail"] == ""
    job.finish()


def test_memory_that_processes_share_counts_once(job: Job, tmp_path: Path) -> None:
    done = tmp_path / "done"
    forker = (
        "import os, sys, time\n"
        "kept = bytearray(b'x') * (60 << 20)\n"
        "children = []\n"
        "for _ in range(3):\n"
        "    pid = os.fork()\n"
        "    if not pid: time.sleep(1.2); os._exit(0)\n"
        "    children.append(pid)\n"
        "for pid in children: os.waitpid(pid, 0)\n"
    )
    # Resident memory adds up to 240 MB; there are just 60.
    job.launch_argv("c1", [sys.executable, "-c", forker], memory_mb=150, stdout=str(done))
    completed = job.master.receive()
    assert (completed["cause"], completed["exit_code"]) == ("exited", 0)
    job.finish()


def test_the_next_master_is_told_what_lives_and_what_ended(
    job: Job, strings: Strings, tmp_path: Path
) -> None:
    job.launch("acknowledged", "exit 0")
    assert job.master.receive()["container"] == "acknowledged"
    job.master.send(op="ack", container="acknowledged")
    job.launch("told", "exit 3")
    told = job.master.receive()
    go = tmp_path / "go"
    os.mkfifo(go)
    job.launch("alive", "exec sleep 60", memory_mb=77)
    job.launch("during", f"read x < {go}; exit 4")
    job.launch("mark", "exit 0")
    assert job.master.receive()["container"] == "mark"

    os.kill(job.master.pid, signal.SIGKILL)
    second = strings.next()
    assert second.attempt == 2
    hello = second.receive()
    assert hello["attempt"] == 2
    assert hello["live"] == ["alive", "during"]
    assert hello["memory_mb"]["alive"] == 77
    assert [each["container"] for each in hello["ended"]] == ["told", "mark"]
    assert hello["ended"][0] == told
    go.write_text("\n")
    assert second.receive()["container"] == "during"
    second.send(op="finished")
    second.end()
    job.gone()


def test_attempts_are_numbered_above_every_journal(job: Job, strings: Strings) -> None:
    (job.staging / "journal" / "0007").mkdir(parents=True)
    os.kill(job.master.pid, signal.SIGKILL)
    second = strings.next()
    assert second.attempt == 8
    second.send(op="finished")
    second.end()
    job.gone()


def test_a_master_that_talks_nonsense_is_replaced(job: Job, strings: Strings) -> None:
    job.master.send(op="nonsense")
    second = strings.next()
    assert not is_running(job.master.pid)
    second.send(op="finished")
    second.end()
    job.gone()


def test_a_master_that_dies_too_often_is_buried(
    submit: Submit, home: Home, strings: Strings, tmp_path: Path
) -> None:
    job = Job(submit(max_attempts=2), home, strings)
    job.launch("c1", f"echo $$ > {tmp_path / 'pid'}; exec sleep 60")
    task = pid_in(tmp_path / "pid")
    os.kill(job.master.pid, signal.SIGKILL)
    os.kill(strings.next().pid, signal.SIGKILL)
    burying = strings.next()
    assert burying.arguments[-2] == "--bury"
    assert "the master died too often: attempt 2 was killed by signal 9" in burying.arguments[-1]
    assert is_running(task)
    burying.send(op="finished")
    burying.end()
    job.gone()
    assert not is_running(task)
    assert not job.record.exists(), "it is the master who writes the record"


def test_a_job_that_cannot_even_be_buried_is_recorded_all_the_same(
    submit: Submit, home: Home, strings: Strings
) -> None:
    job = Job(submit(max_attempts=1), home, strings)
    os.kill(job.master.pid, signal.SIGKILL)
    os.kill(strings.next().pid, signal.SIGKILL)
    job.gone()
    status = msgspec.json.decode(job.record.read_bytes(), type=JobRecord).status
    assert status.state is JobState.FAILED
    assert "the master died too often" in status.diagnostics
    assert [(task.group, task.index) for task in status.tasks] == [("worker", 0), ("worker", 1)]


class NodeByHand:
    """A node that gives its masters little time, as a child of ours."""

    def __init__(self, staging: Path, strings: Strings, *, silence_s: float) -> None:
        staging.mkdir(parents=True)
        (staging / "spec.json").write_text("{}")
        self._heard, self._told = os.pipe()
        code = (
            "import sys; from ytf.backends.local.node import Node;"
            f" Node(sys.argv[1], int(sys.argv[2]), sys.argv[3:], silence_s={silence_s}).run()"
        )
        self.log = staging / "log"
        with open(self.log, "wb") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-c", code, str(staging), str(self._told), *strings.command],
                pass_fds=[self._told],
                stderr=log,
            )

    def close(self) -> None:
        os.close(self._heard)
        os.close(self._told)
        self.process.terminate()
        self.process.wait(DEADLINE_S)


@pytest.fixture
def impatient(tmp_path: Path, strings: Strings) -> Iterator[NodeByHand]:
    node = NodeByHand(tmp_path / "jobs" / "job", strings, silence_s=2.0)
    yield node
    node.close()


def test_a_master_that_hangs_is_replaced(impatient: NodeByHand, strings: Strings) -> None:
    first = strings.next()
    assert first.receive()["op"] == "hello"
    os.kill(first.pid, signal.SIGSTOP)
    second = strings.next()
    assert second.attempt == 2
    assert not is_running(first.pid)
    assert "killing master attempt 1: it has said nothing for 2 s" in impatient.log.read_text()


def test_a_master_that_answers_stays(impatient: NodeByHand, strings: Strings) -> None:
    master = strings.next()
    assert master.receive()["op"] == "hello"
    began = time.monotonic()
    while time.monotonic() - began < 2.5:
        assert master.receive_any() == {"op": "ping"}
        master.send(op="pong")
    assert is_running(master.pid)


def test_what_a_dying_master_launched_last_is_not_lost(tmp_path: Path) -> None:
    # The order is read only when the master's death is seen, and what it
    # starts ends before the next child is waited for.
    (tmp_path / "spec.json").write_text("{}")
    code = (
        "import json, os, socket, sys\n"
        "from ytf.backends.local import node as module\n"
        "from ytf.backends.local.lines import LineSocket\n"
        "node = module.Node(sys.argv[1], -1, ['true'])\n"
        "ours, theirs = socket.socketpair()\n"
        "order = dict(op='launch', container='c1', argv=['sh', '-c', 'exit 7'], env={}, cwd='/tmp',"
        " stdout='/dev/null', memory_mb=0, logs='/no/such', attempt=1)\n"
        "theirs.sendall(json.dumps(order).encode() + b'\\n')\n"
        "theirs.close()\n"
        "node._line = LineSocket(ours.detach())\n"
        "node._selector.register(node._line.fd, 1)\n"
        "node._master_pid = 1 << 30\n"
        "node._remove = lambda directory: None\n"
        "waitpid, ends = os.waitpid, []\n"
        "def wait(pid, flags):\n"
        "    ends.append(pid)\n"
        "    if len(ends) == 1: return node._master_pid, 9\n"
        "    return waitpid(-1, 0)\n"
        "os.waitpid = wait\n"
        "node._reap()\n"
        "print(node._unacknowledged['c1']['exit_code'])\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path)],
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
        check=False,
    )
    assert (done.stdout, done.returncode) == ("7\n", 0), done.stderr


def test_finished_kills_what_is_left(job: Job, tmp_path: Path) -> None:
    job.launch("c1", f"echo $$ > {tmp_path / 'pid'}; trap '' TERM; sleep 60")
    task = pid_in(tmp_path / "pid")
    job.finish()
    assert not is_running(task)


def test_sigterm_ends_all_in_order(job: Job, tmp_path: Path) -> None:
    job.launch("c1", f"echo $$ > {tmp_path / 'pid'}; exec sleep 60")
    task = pid_in(tmp_path / "pid")
    os.kill(job.node, signal.SIGTERM)
    # The master sees its line close and does what it must; then the node goes.
    assert job.master.is_cut_off()
    eventually(lambda: not is_running(job.node), "the node's end")
    assert not is_running(task)
    assert not is_running(job.master.pid)
    assert job.staging.exists(), "it is the master who removes it then"


def test_when_the_node_is_killed_nothing_is_left(job: Job, tmp_path: Path) -> None:
    # What a starter does about it, in small: ask Linux for a signal when the node dies.
    starter = (
        "import os, pathlib, signal, time\n"
        "from ytf.starter.linux import signal_on_parents_death\n"
        "signal_on_parents_death(signal.SIGKILL)\n"
        f"pathlib.Path({str(tmp_path / 'pid')!r}).write_text(f'{{os.getpid()}}\\n')\n"
        "time.sleep(60)\n"
    )
    job.launch_argv("c1", [sys.executable, "-c", starter])
    task = pid_in(tmp_path / "pid")
    os.kill(job.node, signal.SIGKILL)
    assert job.master.is_cut_off()
    eventually(lambda: not is_running(task), "the starter's end")
    eventually(lambda: not is_running(job.master.pid), "the master's end")


def test_jobs_do_not_touch_each_other(submit: Submit, home: Home, strings: Strings) -> None:
    jobs = [Job(submit(), home, strings) for _ in range(3)]
    assert len({job.node for job in jobs}) == 3
    for job in jobs:
        job.launch("same name", "exec sleep 60")
    jobs[0].finish()
    for job in jobs[1:]:
        job.master.send(op="kill", container="same name")
        assert job.master.receive()["cause"] == "released"
        job.finish()


def test_many_short_containers(job: Job) -> None:
    for number in range(100):
        job.launch(f"c{number}", "exit 0")
    ended = {receive(job.master) for _ in range(100)}
    assert ended == {(f"c{number}", 0) for number in range(100)}
    job.finish()


def receive(master: Puppet) -> tuple[str, int]:
    told = master.receive()
    return told["container"], told["exit_code"]
