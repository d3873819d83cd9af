"""The node with real processes, and fake masters that the test controls."""

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

from tests.backends.local.fake_master import DEADLINE_S, FakeMaster, FakeMasters
from tests.backends.local.harness import Submit, is_running, node_pid
from ytf.backends.local.directories import JobDirectories
from ytf.backends.local.job_handle import LocalJobHandle
from ytf.backends.local.job_processes import JOB_VARIABLE
from ytf.specs.status import JobRecord, JobState
from ytf.testing.waiting import eventually


class Job:
    """A submitted job with its first master."""

    def __init__(
        self, handle: LocalJobHandle, home: JobDirectories, fake_masters: FakeMasters
    ) -> None:
        self.id = handle.job
        self.staging = home.staging(handle.job)
        self.record = home.record(handle.job)
        self.node = node_pid(home, handle.job)
        self.master = fake_masters.next()
        self.hello = self.master.receive()

    def launch(self, container: str, script: str, **more: Any) -> Path:
        """Run a shell script as a container; returns its working directory."""
        return self.launch_argv(container, ["/bin/sh", "-c", script], **more)

    def launch_argv(self, container: str, argv: list[str], **more: Any) -> Path:
        directory = self.staging / "containers" / container
        env = {JOB_VARIABLE: self.id, **more.pop("env", {})}
        self.master.launch(container, argv, directory, env=env, **more)
        return directory

    def finish(self) -> None:
        """Tell the node that the job is over, and check that all of it is gone."""
        self.master.send(op="finished")
        self.master.end()
        self.gone()

    def gone(self) -> None:
        eventually(lambda: not is_running(self.node), DEADLINE_S, "the node's end")
        assert not self.staging.exists()


@pytest.fixture
def job(submit: Submit, home: JobDirectories, fake_masters: FakeMasters) -> Job:
    return Job(submit(), home, fake_masters)


def pid_in(path: Path) -> int:
    """The pid a script wrote, once it has."""
    eventually(
        lambda: path.exists() and path.read_text().endswith("\n"), DEADLINE_S, f"a pid in {path}"
    )
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
    completions = {each["container"]: each for each in (job.master.receive(), job.master.receive())}
    assert completions["c1"] == {
        "op": "completed",
        "container": "c1",
        "cause": "exited",
        "exit_code": 7,
        "signal": None,
        "diagnostics": "",
        "tail": "",
        "tail_stream": "stderr",
    }
    assert (completions["c2"]["exit_code"], completions["c2"]["signal"]) == (None, signal.SIGTERM)
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
    eventually(lambda: not directory.exists(), DEADLINE_S, "the working directory's removal")
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
    eventually(lambda: not directory.exists(), DEADLINE_S, "the working directory's removal")
    job.finish()


def test_an_order_given_twice_is_obeyed_once(job: Job, tmp_path: Path) -> None:
    runs = tmp_path / "runs"
    for _ in range(2):
        job.launch("c1", f"echo run >> {runs}; exec sleep 60")
    # The shell makes the file before it writes to it.
    eventually(lambda: runs.exists() and runs.read_text(), DEADLINE_S, "a run")
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
    # All of it is dead before the completion is sent.
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


def test_the_sentence_about_memory_is_one_line(job: Job) -> None:
    hog = "import time\n\nkept = bytearray(b'x') * (150 << 20)\ntime.sleep(60)"
    job.launch_argv("c1", [sys.executable, "-c", hog], memory_mb=100)
    diagnostics = job.master.receive()["diagnostics"]
    assert len(diagnostics.splitlines()) == 1
    assert diagnostics.endswith("…")
    job.finish()


def test_mapped_files_do_not_count(job: Job, tmp_path: Path) -> None:
    data = tmp_path / "data"
    data.write_bytes(b"x" * (150 << 20))
    reader = (
        "import mmap, sys, time\n"
        "with open(sys.argv[1], 'rb') as file:\n"
        "    data = mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ)\n"
        "    until = time.monotonic() + 1.5\n"
        "    while time.monotonic() < until:\n"
        "        sum(data[at] for at in range(0, len(data), 4096))\n"
    )
    # The node looks twice a second.
    job.launch_argv("c1", [sys.executable, "-c", reader, str(data)], memory_mb=100)
    completed = job.master.receive()
    assert (completed["cause"], completed["exit_code"]) == ("exited", 0)
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
    told = job.master.receive()
    assert (told["tail"], told["tail_stream"]) == (tail, "stderr")
    job.launch("c2", end, logs=str(tmp_path), attempt=10)
    assert job.master.receive()["tail"] == ""
    (tmp_path / "9" / "stderr").write_text("\n")
    (tmp_path / "9" / "stdout").write_text("on stdout")
    job.launch("c3", end, logs=str(tmp_path), attempt=3)
    told = job.master.receive()
    expected = ("on stdout", "stdout") if tail else ("", "stderr")
    assert (told["tail"], told["tail_stream"]) == expected
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
    job: Job, fake_masters: FakeMasters, tmp_path: Path
) -> None:
    job.launch("acknowledged", "exit 0")
    assert job.master.receive()["container"] == "acknowledged"
    job.master.send(op="ack", container="acknowledged")
    job.launch("received", "exit 3")
    received = job.master.receive()
    go = tmp_path / "go"
    os.mkfifo(go)
    job.launch("alive", "exec sleep 60", memory_mb=77)
    job.launch("during", f"read x < {go}; exit 4")
    job.launch("mark", "exit 0")
    assert job.master.receive()["container"] == "mark"

    os.kill(job.master.pid, signal.SIGKILL)
    second = fake_masters.next()
    assert second.attempt == 2
    hello = second.receive()
    assert hello["attempt"] == 2
    assert hello["live"] == ["alive", "during"]
    assert hello["memory_mb"]["alive"] == 77
    assert [each["container"] for each in hello["ended"]] == ["received", "mark"]
    assert hello["ended"][0] == received
    go.write_text("\n")
    assert second.receive()["container"] == "during"
    second.send(op="finished")
    second.end()
    job.gone()


def test_attempts_are_numbered_above_every_journal(job: Job, fake_masters: FakeMasters) -> None:
    (job.staging / "journal" / "0007").mkdir(parents=True)
    os.kill(job.master.pid, signal.SIGKILL)
    second = fake_masters.next()
    assert second.attempt == 8
    second.send(op="finished")
    second.end()
    job.gone()


def test_a_master_that_talks_nonsense_is_replaced(job: Job, fake_masters: FakeMasters) -> None:
    job.master.send(op="nonsense")
    second = fake_masters.next()
    assert not is_running(job.master.pid)
    second.send(op="finished")
    second.end()
    job.gone()


def test_a_job_whose_master_dies_too_often_is_finalized(
    submit: Submit, home: JobDirectories, fake_masters: FakeMasters, tmp_path: Path
) -> None:
    job = Job(submit(max_attempts=2), home, fake_masters)
    job.launch("c1", f"echo $$ > {tmp_path / 'pid'}; exec sleep 60")
    task = pid_in(tmp_path / "pid")
    os.kill(job.master.pid, signal.SIGKILL)
    os.kill(fake_masters.next().pid, signal.SIGKILL)
    finalizing = fake_masters.next()
    assert finalizing.arguments[-2] == "--finalize"
    assert "the master died too often: attempt 2 was killed by signal 9" in finalizing.arguments[-1]
    assert is_running(task)
    finalizing.send(op="finished")
    finalizing.end()
    job.gone()
    assert not is_running(task)
    assert not job.record.exists(), "it is the master who writes the record"


def test_a_job_whose_finalizing_master_dies_is_recorded_by_the_node(
    submit: Submit, home: JobDirectories, fake_masters: FakeMasters
) -> None:
    job = Job(submit(max_attempts=1), home, fake_masters)
    os.kill(job.master.pid, signal.SIGKILL)
    os.kill(fake_masters.next().pid, signal.SIGKILL)
    job.gone()
    status = msgspec.json.decode(job.record.read_bytes(), type=JobRecord).status
    assert status.state is JobState.FAILED
    assert "the master died too often" in status.diagnostics
    assert [(task.group, task.index) for task in status.tasks] == [("worker", 0), ("worker", 1)]


class NodeByHand:
    """A node that gives its masters little time, as a child of ours."""

    def __init__(self, staging: Path, fake_masters: FakeMasters, *, silence_s: float) -> None:
        staging.mkdir(parents=True)
        (staging / "spec.json").write_text("{}")
        self._heard, self._told = os.pipe()
        code = (
            "import sys; from ytf.backends.local.node.node import Node;"
            f" Node(sys.argv[1], int(sys.argv[2]), sys.argv[3:], silence_s={silence_s}).run()"
        )
        self.log = staging / "log"
        with open(self.log, "wb") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-c", code, str(staging), str(self._told), *fake_masters.command],
                pass_fds=[self._told],
                stderr=log,
            )

    def close(self) -> None:
        os.close(self._heard)
        os.close(self._told)
        self.process.terminate()
        self.process.wait(DEADLINE_S)


@pytest.fixture
def impatient(tmp_path: Path, fake_masters: FakeMasters) -> Iterator[NodeByHand]:
    node = NodeByHand(tmp_path / "jobs" / "job", fake_masters, silence_s=2.0)
    yield node
    node.close()


def test_a_master_that_hangs_is_replaced(impatient: NodeByHand, fake_masters: FakeMasters) -> None:
    first = fake_masters.next()
    assert first.receive()["op"] == "hello"
    os.kill(first.pid, signal.SIGSTOP)
    second = fake_masters.next()
    assert second.attempt == 2
    assert not is_running(first.pid)
    assert "killing master attempt 1: it has said nothing for 2 s" in impatient.log.read_text()


def test_a_master_that_answers_stays(impatient: NodeByHand, fake_masters: FakeMasters) -> None:
    master = fake_masters.next()
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
        "from ytf.backends.local.node.node import Node\n"
        "from ytf.backends.local.node.json_lines import JsonLineSocket\n"
        "node = Node(sys.argv[1], -1, ['true'])\n"
        "ours, theirs = socket.socketpair()\n"
        "order = dict(op='launch', container='c1', argv=['sh', '-c', 'exit 7'], env={}, cwd='/tmp',"
        " stdout='/dev/null', memory_mb=0, logs='/no/such', attempt=1)\n"
        "theirs.sendall(json.dumps(order).encode() + b'\\n')\n"
        "theirs.close()\n"
        "node._master._socket = JsonLineSocket(ours.detach())\n"
        "node._selector.register(node._master._socket.fd, 1)\n"
        "node._master.pid = 1 << 30\n"
        "node._remove_later = lambda directory: None\n"
        "waitpid, ends = os.waitpid, []\n"
        "def wait(pid, flags):\n"
        "    ends.append(pid)\n"
        "    if len(ends) == 1: return node._master.pid, 9\n"
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
    eventually(lambda: not is_running(job.node), DEADLINE_S, "the node's end")
    assert not is_running(task)
    assert not is_running(job.master.pid)
    assert job.staging.exists(), "it is the master who removes it then"


def test_when_the_node_is_killed_nothing_is_left(job: Job, tmp_path: Path) -> None:
    # What a starter does about it, in small: ask Linux for a signal when the node dies.
    starter = (
        "import os, pathlib, signal, time\n"
        "from ytf.starter.process_tree import signal_on_parents_death\n"
        "signal_on_parents_death(signal.SIGKILL)\n"
        f"pathlib.Path({str(tmp_path / 'pid')!r}).write_text(f'{{os.getpid()}}\\n')\n"
        "time.sleep(60)\n"
    )
    job.launch_argv("c1", [sys.executable, "-c", starter])
    task = pid_in(tmp_path / "pid")
    os.kill(job.node, signal.SIGKILL)
    assert job.master.is_cut_off()
    eventually(lambda: not is_running(task), DEADLINE_S, "the starter's end")
    eventually(lambda: not is_running(job.master.pid), DEADLINE_S, "the master's end")


def test_jobs_do_not_touch_each_other(
    submit: Submit, home: JobDirectories, fake_masters: FakeMasters
) -> None:
    jobs = [Job(submit(), home, fake_masters) for _ in range(3)]
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


def receive(master: FakeMaster) -> tuple[str, int]:
    completed = master.receive()
    return completed["container"], completed["exit_code"]
