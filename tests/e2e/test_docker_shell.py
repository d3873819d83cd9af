"""``ytf shell`` into tasks that run in a docker image, with a real engine."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest

from tests import engine as engines
from tests.e2e.harness import FOREVER, HERE, HOLD, Job, Ytf, kill, stop, task, wait_dead
from tests.e2e.terminal import Terminal
from tests.e2e.test_shell import OpenTerminal, open_terminal, run_bytes, shell_process
from tests.engine import Engine
from ytf.testing.waiting import eventually

__all__ = ["open_terminal"]  # a fixture

DAEMONS = (
    "setsid sh -c 'touch $GATE/a; exec sleep 10071' & "
    'env -i GATE=$GATE sh -c "touch \\$GATE/b; exec sleep 10072" & '
    "touch $GATE/c; until [ -e $GATE/a -a -e $GATE/b ]; do sleep 0.05; done; "
)
"""Starts what wants to outlive a shell: in another session, and without its variables."""


@pytest.fixture(scope="module")
def engine() -> Iterator[Engine]:
    with engines.started() as engine:
        yield engine


@pytest.fixture(params=["podman", "daemon"])
def job(ytf: Ytf, engine: Engine, request: pytest.FixtureRequest) -> Iterator[Job]:
    """A task in an image, of podman's own or of a daemon's, until the gate is opened."""
    with ExitStack() as stack:
        ytf.env.update(engine.settings, YTF_DOCKER_ENGINE="podman")
        if request.param == "daemon":
            ytf.env.update(stack.enter_context(engine.daemon()))
        job = ytf.submit(
            "worker:1",
            HERE + HOLD,
            *("--docker_image", engines.IMAGE, "--expose_ports"),
            *("-o", str(ytf.gate), "--task_env", f"GATE={ytf.gate}"),
        )
        job.wait_running("worker:0")
        eventually(lambda: task(job.status(), "worker:0").state.value == "RUNNING", describe="runs")
        yield job
        ytf.open_gate()
        eventually(job.record.exists, describe="the end of the job")
        engine.wait_empty()


def sleepers(ytf: Ytf) -> list[int]:
    """The processes that ``DAEMONS`` has started in this test."""
    found = []
    for place in Path("/proc").glob("[0-9]*"):
        with suppress(FileNotFoundError, ProcessLookupError):
            words = (place / "cmdline").read_bytes().split(b"\0")
            if words[:1] != [b"sleep"] or words[1:2] not in ([b"10071"], [b"10072"]):
                continue
            # Those of other tests have another gate.
            if f"GATE={ytf.gate}".encode() in (place / "environ").read_bytes().split(b"\0"):
                found.append(int(place.name))
    return found


def test_a_terminal_in_the_container(job: Job, open_terminal: OpenTerminal) -> None:
    terminal: Terminal = open_terminal(job.id, "worker:0")
    terminal.type("echo =$YTF_TASK=$TERM=$(stty size)=$container=\r")
    terminal.expect("=worker:0=vt100=30 100=podman=")
    terminal.type('[ "$PWD" = "$(readlink /proc/1/cwd)" ] && echo sa""me\r')
    terminal.expect("same")
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


def test_commands(job: Job) -> None:
    data = bytes(range(256)) * 4_000
    done = run_bytes(job.ytf, job.id, "worker:0", "tee /dev/stderr; exit 9", stdin=data)
    assert (done.returncode, done.stdout == data, done.stderr == data) == (9, True, True)
    words = (job.id, "worker:0", "--", "printf", "%s|", "a b", "$HOME", "--")
    assert run_bytes(job.ytf, *words).stdout == b"a b|$HOME|--|"
    assert run_bytes(job.ytf, job.id, "worker:0", "kill -TERM $$").returncode == 143
    assert run_bytes(job.ytf, job.id, "worker:0", "no-such-command").returncode == 127
    script = run_bytes(job.ytf, job.id, "worker:0", stdin=b"echo $((6 * 7)); exit 3")
    assert (script.stdout, script.returncode) == (b"42\n", 3)


def test_ctrl_c_without_a_terminal(job: Job) -> None:
    command = "trap 'echo caught; exit 33' INT; echo ready; while :; do sleep 0.05; done"
    client = job.ytf.start("ytf", "shell", job.id, "worker:0", command)
    assert client.stdout is not None
    assert client.stdout.readline() == "ready\n"
    client.send_signal(signal.SIGINT)
    out, errors = client.communicate(timeout=60)
    assert (out, errors, client.returncode) == ("caught\n", "", 33)


@pytest.mark.parametrize("end", ["by itself", "client", "shell process", "both"])
def test_no_process_of_a_shell_is_left(job: Job, end: str) -> None:
    after = "echo done" if end == "by itself" else FOREVER
    client = job.ytf.start("ytf", "shell", job.id, "worker:0", DAEMONS + after)
    for name in "abc":
        job.ytf.told(name)
    if end == "by itself":
        out, _ = client.communicate(timeout=60)
        assert (out, client.returncode) == ("done\n", 0)
        assert sleepers(job.ytf) == []
    else:
        process = shell_process(job, "worker:0")
        eventually(lambda: len(sleepers(job.ytf)) == 2, describe="what it starts")
        victims = {"client": [client.pid], "shell process": [process]}.get(
            end, [client.pid, process]
        )
        stop(*victims)
        kill(*victims)
        wait_dead(process)
        eventually(
            lambda: not sleepers(job.ytf), describe=lambda: f"the end of {sleepers(job.ytf)}"
        )
        client.communicate(timeout=60)
    assert task(job.status(), "worker:0").state.value == "RUNNING"


def test_a_shell_does_not_hold_the_end(job: Job) -> None:
    client = job.ytf.start("ytf", "shell", job.id, "worker:0", f"echo ready; {FOREVER}")
    assert client.stdout is not None
    assert client.stdout.readline() == "ready\n"
    job.ytf.open_gate()
    job.end("SUCCEEDED")
    _, said = client.communicate(timeout=60)
    assert client.returncode == 137
    # The program's own end comes first, or what the starter does then.
    assert "ended, and with it its container" in said or "the container of worker:0 ends" in said


def test_a_job_that_is_killed_does_not_wait_for_a_shell(ytf: Ytf, engine: Engine) -> None:
    ytf.env.update(engine.settings, YTF_DOCKER_ENGINE="podman")
    saver = "trap 'exit 0' TERM; " + HERE + FOREVER
    job = ytf.submit_spec(
        groups={"worker": {"count": 1}},
        command=saver,
        docker_image=engines.IMAGE,
        output=str(ytf.gate),
        task_env={"GATE": str(ytf.gate)},
        timeouts={"stop_grace_s": 1000},
    )
    job.wait_running("worker:0")
    eventually(lambda: task(job.status(), "worker:0").state.value == "RUNNING", describe="runs")
    client = ytf.start("ytf", "shell", job.id, "worker:0", f"echo ready; {FOREVER}")
    assert client.stdout is not None
    assert client.stdout.readline() == "ready\n"
    ytf.run("ytf", "kill", job.id)
    job.end("KILLED")
    _, said = client.communicate(timeout=60)
    assert client.returncode == 137
    assert "the container of worker:0 ends" in said
    engine.wait_empty()
