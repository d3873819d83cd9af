"""Programs of a real local job at a terminal: ``--client`` and ``ytf attach``."""

from __future__ import annotations

import fcntl
import json
import os
import pty
import select
import signal
import subprocess
import sys
import termios
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from ytf.testing.waiting import eventually

BIN = Path(sys.executable).parent
TIMEOUT_S = 60.0
PS = ["-r", "ps:1", "-m", "512"]


@pytest.fixture
def environ(tmp_path: Path) -> Iterator[dict[str, str]]:
    """The environment of a user of their own; at the end no job of theirs is left."""
    temporary = tmp_path / "tmp"
    temporary.mkdir()
    environ = {
        **os.environ,
        "YTF_HOME": str(tmp_path / "home"),
        "YTF_BACKEND": "local",
        "TMPDIR": str(temporary),
    }
    yield environ
    jobs = tmp_path / "home" / "jobs"
    for job in [path.name for path in jobs.iterdir()]:
        _ytf(environ, "kill", job)
    try:
        _wait_until_empty(jobs)
    finally:
        # Whatever is broken, nothing may outlive the test.
        for node in jobs.glob("*/node.json"):
            os.kill(json.loads(node.read_bytes())["pid"], signal.SIGTERM)
        _wait_until_empty(jobs)
    assert list(temporary.iterdir()) == []


def _wait_until_empty(directory: Path) -> None:
    def left() -> list[Path]:
        return list(directory.iterdir())

    eventually(lambda: not left(), TIMEOUT_S / 4, lambda: f"left: {left()}")


def _ytf(environ: dict[str, str], *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [BIN / "ytf", *words],
        env=environ,
        capture_output=True,
        text=True,
        check=False,
        timeout=TIMEOUT_S,
    )


def _submit(
    environ: dict[str, str], *words: str, stdin: str = ""
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [BIN / "ytf-submit", *words],
        env=environ,
        input=stdin,
        capture_output=True,
        text=True,
        check=False,
        timeout=TIMEOUT_S,
    )


def test_the_client_is_a_task_with_our_streams(
    environ: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("my träin.py").write_text("import sys; print(ascii(sys.argv[1:]), input())\n")
    client = (
        'echo "$DTF_TASK_JOB_NAME:$DTF_TASK_INDEX $YTF_TASK ${YTF_TASK_PORT-none}"; '
        'echo "$DTF_PS_HOSTS"; cat "$YTF_CLUSTER_SPEC_FILE"; echo; echo "$TF_CONFIG"; '
        'echo "${DTF_CLIENT_HOSTS-none} ${YTF_STARTER-none}"; '
        f"{sys.executable} $DTF_TASK_SCRIPT \"a 'b' ü\"; (setsid sleep 1000 &); pwd"
    )
    done = _submit(
        environ,
        *(*PS, "-s", "my träin.py", "--client", "--client_command", client, "sleep 1000"),
        stdin="typed\n",
    )
    assert done.returncode == 0, done.stderr
    job, who, hosts, spec, config, absent, script, place = done.stdout.splitlines()
    assert job.startswith("local_")
    assert who == "client:0 client:0 none"
    assert json.loads(spec)["members"] == {"ps": [hosts]}
    assert json.loads(config) == {
        "cluster": {"ps": [hosts]},
        "task": {"type": "client", "index": 0},
    }
    assert absent == "none none"
    assert script == "[\"a 'b' \\xfc\"] typed"
    assert place == str(tmp_path)
    told = json.loads(_ytf(environ, "status", job, "--json").stdout)
    assert told["state"] == "SUCCEEDED"
    states = {task["group"]: task["state"] for task in told["tasks"]}
    assert states == {"ps": "KILLED", "client": "SUCCEEDED"}


def test_a_client_that_fails_fails_the_job(environ: dict[str, str]) -> None:
    done = _submit(environ, *PS, "--client", "--client_command", "exit 3", "sleep 1000")
    assert done.returncode == 1
    assert "client:0" in done.stderr
    assert "ended FAILED" in done.stderr


def test_a_client_is_stopped_with_its_job(environ: dict[str, str]) -> None:
    command = "if [ $DTF_TASK_JOB_NAME = client ]; then exec sleep 1000; else exit 4; fi"
    done = _submit(environ, "-r", "worker:1", "-m", "512", "--client", command)
    assert done.returncode == 1
    assert "worker:0" in done.stderr


def test_a_client_is_restarted_with_its_job(environ: dict[str, str]) -> None:
    client = "echo $YTF_ATTEMPT $YTF_GENERATION; [ $YTF_GENERATION = 2 ] || exec sleep 1000"
    worker = "[ $YTF_GENERATION = 2 ] || exit 3"
    policy = ["--on_failure", "restart-job"]
    words = ["-r", "worker:1", "-m", "512", *policy, "--client", "--client_command", client, worker]
    done = _submit(environ, *words)
    assert done.returncode == 0, done.stderr
    # Of the first generation the client may or may not have seen anything.
    assert done.stdout.splitlines()[-1].endswith(" 2")


class Terminal:
    """A command in the foreground of a terminal of its own."""

    def __init__(self, environ: dict[str, str], *words: str) -> None:
        self._master, slave = pty.openpty()
        self.process = subprocess.Popen(
            [BIN / "ytf-submit", *words],
            env=environ,
            stdin=slave,
            stdout=slave,
            stderr=slave,
            start_new_session=True,
            preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
        )
        os.close(slave)
        self._shown = b""

    def type(self, keys: bytes) -> None:
        os.write(self._master, keys)

    def expect(self, text: bytes) -> None:
        """Wait until a text is shown; what came before it is forgotten."""
        deadline = time.monotonic() + TIMEOUT_S
        while text not in self._shown:
            left_s = deadline - time.monotonic()
            ready, _, _ = select.select([self._master], [], [], max(left_s, 0))
            assert ready, f"not shown: {text!r} in {self._shown!r}"
            try:
                self._shown += os.read(self._master, 4096)
            except OSError:  # how a terminal says that nobody is left on it
                pytest.fail(f"not shown: {text!r} in {self._shown!r}")
        self._shown = self._shown.partition(text)[2]

    def close(self) -> None:
        self.process.kill()
        self.process.wait(TIMEOUT_S)
        os.close(self._master)


def test_ctrl_c_is_the_clients_to_handle(environ: dict[str, str]) -> None:
    # It waits for the signal itself: one that comes just before input() would be lost on it.
    code = (
        "import signal\n"
        "signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})\n"
        "print('ready', flush=True)\n"
        "signal.sigwait({signal.SIGINT})\n"
        "print('caught', flush=True)\n"
        "print('got ' + input(), flush=True)\n"
    )
    client = f'{sys.executable} -c "{code}"'
    terminal = Terminal(environ, *PS, "--client", "--client_command", client, "sleep 1000")
    try:
        terminal.expect(b"ready")
        terminal.type(b"\x03")
        terminal.expect(b"caught")
        terminal.type(b"words\n")
        terminal.expect(b"got words")
        terminal.expect(b"succeeded in")
        assert terminal.process.wait(TIMEOUT_S) == 0
    finally:
        terminal.close()


def test_a_client_that_dies_of_ctrl_c_takes_the_job_with_it(environ: dict[str, str]) -> None:
    client = "echo ready; exec sleep 1000"
    terminal = Terminal(environ, *PS, "--client", "--client_command", client, "sleep 1000")
    try:
        terminal.expect(b"ready")
        terminal.type(b"\x03")
        terminal.expect(b"SIGINT: killing job")
        terminal.expect(b"KILLED")
        assert terminal.process.wait(TIMEOUT_S) == 130
    finally:
        terminal.close()


def test_attach_is_one_more_client_and_leaves_the_job_alone(environ: dict[str, str]) -> None:
    words = ["-r", "worker:1", "-m", "512", "-i", "/in put", "--task_env", "A=b c"]
    job = _submit(environ, *words, "sleep 1000").stdout.strip()
    command = (
        'echo "$DTF_TASK_JOB_NAME:$DTF_TASK_INDEX $DTF_INPUT_PATH $A"; '
        'echo "$DTF_WORKER_HOSTS"; (setsid sleep 1000 &); exit 7'
    )
    done = _ytf(environ, "attach", job, "--index", "5", command)
    assert done.returncode == 7, done.stderr
    who, hosts = done.stdout.splitlines()
    assert who == "client:5 /in put b c"
    assert json.loads(_ytf(environ, "spec", job).stdout) == {"worker": [hosts]}
    assert json.loads(_ytf(environ, "status", job, "--json").stdout)["state"] == "RUNNING"
    _ytf(environ, "kill", job)
    done = _ytf(environ, "attach", job, "true")
    assert done.returncode == 1
    assert "has ended" in done.stderr


@pytest.fixture
def attached(environ: dict[str, str]) -> Iterator[tuple[str, subprocess.Popen[str]]]:
    """A running job, and a command attached to it that has begun."""
    job = _submit(environ, "-r", "worker:1", "-m", "512", "sleep 1000").stdout.strip()
    process = subprocess.Popen(
        [BIN / "ytf", "attach", job, "echo begun; sleep 1000; echo not reached"],
        env=environ,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        # Without a terminal, whatever runs the tests.
        start_new_session=True,
    )
    assert process.stdout is not None
    assert process.stderr is not None
    try:
        assert process.stdout.readline() == "begun\n"
        yield job, process
    finally:
        process.kill()
        process.wait(TIMEOUT_S)
        process.stdout.close()
        process.stderr.close()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_an_attached_command_ends_with_us(
    attached: tuple[str, subprocess.Popen[str]], number: signal.Signals
) -> None:
    _, process = attached
    process.send_signal(number)
    assert process.wait(TIMEOUT_S) == 128 + number
    assert process.stdout is not None
    # The pipe ends when no process of the command is left; the fixture looks for files.
    assert process.stdout.read() == ""


def test_an_attached_command_ends_with_the_job(
    environ: dict[str, str], attached: tuple[str, subprocess.Popen[str]]
) -> None:
    job, process = attached
    _ytf(environ, "kill", job)
    assert process.wait(TIMEOUT_S) == 128 + signal.SIGTERM
    assert process.stdout is not None
    assert process.stderr is not None
    assert process.stdout.read() == ""
    assert f"ytf: job {job} has ended KILLED" in process.stderr.read()


def test_waiting_ends_when_nothing_is_left(environ: dict[str, str]) -> None:
    done = _submit(environ, "-r", "worker:2", "-m", "512", "--framework", "none", "--wait", "true")
    assert done.returncode == 0
    assert list(Path(environ["YTF_HOME"], "jobs").iterdir()) == []
