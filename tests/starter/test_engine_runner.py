"""Programs in containers of a real engine, without a master."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from queue import SimpleQueue
from typing import TYPE_CHECKING

import pytest

from tests import engine as engines
from tests.starter.conftest import is_alive
from ytf.starter.config import DockerConfig
from ytf.starter.engine import find_engine
from ytf.starter.engine_container import TaskContainer, run_arguments
from ytf.starter.engine_runner import EngineProgram, EngineRunner
from ytf.starter.orphans import STARTED_BY, own_mark, own_node_and_user
from ytf.starter.process_tree import children
from ytf.starter.program_logs import ProgramLogs
from ytf.starter.runner import CANNOT_RUN, NotReadyError, ProgramExit
from ytf.testing.waiting import eventually

if TYPE_CHECKING:
    from tests.engine import Engine
    from ytf.starter.desired_state import InboxMessage

PATIENCE_S = 60.0
WAIT = "until [ -e go ]; do sleep 0.05; done"


@pytest.fixture(scope="module")
def engine() -> Iterator[Engine]:
    with engines.started() as engine:
        yield engine


def config(engine: Engine, /, **given: object) -> DockerConfig:
    return DockerConfig(
        {
            "image": engines.IMAGE,
            "engine": "podman",
            "engine_env": engine.settings,
            "variables": [],
            "memory_mb": 64,
            "vcores": 1,
            **given,
        }
    )


class Running:
    """A program in a container, in a working directory of its own."""

    def __init__(self, folder: Path, config: DockerConfig, command: str, **env: str) -> None:
        self.folder = folder
        self.inbox: SimpleQueue[InboxMessage] = SimpleQueue()
        self.logs = ProgramLogs(str(folder / "logs"), 0, 1)
        self.progress: list[str] = []
        runner = EngineRunner(config, f"test {folder.name}", None)
        runner.prepare(self.progress.append)
        assert runner.is_ready
        variables = {**env, STARTED_BY: own_mark()}
        given = {os.fsencode(name): os.fsencode(value) for name, value in variables.items()}
        self.program: EngineProgram = runner.start(command, given, self.logs, self.inbox)

    def started(self) -> int:
        self._until(lambda: self.program.pid or self.program.exit)
        assert self.program.pid, self.output("stderr")
        return self.program.pid

    def ended(self) -> ProgramExit:
        self._until(lambda: self.program.exit)
        assert self.program.exit
        return self.program.exit

    def _until(self, condition: Callable[[], object]) -> None:
        deadline = time.monotonic() + PATIENCE_S
        while not condition():
            self.inbox.get(timeout=max(deadline - time.monotonic(), 0))

    def output(self, stream: str = "stdout") -> str:
        return Path(self.logs.path(stream)).read_text()

    def wait_file(self, name: str) -> str:
        path = self.folder / name
        eventually(path.exists, PATIENCE_S, lambda: f"{name}; {self.output('stderr')}")
        return path.read_text()


Run = Callable[..., Running]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working directory whose name needs care."""
    made = tmp_path / "a b, c'é"
    made.mkdir()
    monkeypatch.chdir(made)
    return made


@pytest.fixture
def run(folder: Path, engine: Engine) -> Iterator[Run]:
    started: list[Running] = []

    def begin(command: str, settings: dict[str, object] | None = None, **env: str) -> Running:
        running = Running(folder, config(engine, **(settings or {})), command, **env)
        started.append(running)
        return running

    yield begin
    for running in started:
        running.program.end_now()
        running.ended()
    assert engine.containers() == []


@pytest.mark.parametrize(
    ("command", "code", "signum"),
    [("exit 0", 0, None), ("exit 7", 7, None), ("kill -9 $$", None, 9), ("kill $$", None, 15)],
)
def test_exit_codes_and_signals(run: Run, command: str, code: int, signum: int) -> None:
    ended = run(command).ended()
    assert (ended.exit_code, ended.signal, ended.reason) == (code, signum, "")


def test_output_directory_user_and_variables(run: Run, folder: Path) -> None:
    text = "two\nlines, ünd 'quotes' \"$HOME\""
    command = 'pwd; echo oh >&2; printf %s "$TEXT" >text; printf %s "$PATH" >path; id -u; env >env'
    running = run(command, TEXT=text, DOCKER_HOST="tcp://nowhere", PATH="/bin:/from/the/task")
    assert running.ended().exit_code == 0, running.output("stderr")
    assert running.output() == f"{folder}\n{os.getuid()}\n"
    assert running.output("stderr") == "oh\n"
    assert (folder / "text").read_text() == text
    assert (folder / "path").read_text() == "/bin:/from/the/task"
    assert (folder / "text").stat().st_uid == os.getuid()
    variables = (folder / "env").read_text()
    assert "DOCKER_HOST=tcp://nowhere" in variables
    assert "CONTAINERS_CONF" not in variables


def test_files_belong_to_a_submitter_who_is_not_root(engine: Engine, folder: Path) -> None:
    if os.getuid() != 0:
        pytest.skip("as another user's, all of these tests are about that")
    os.chown(folder, 1234, 2345)
    folder.parent.chmod(0o755)
    env = {os.fsencode(name): os.fsencode(value) for name, value in engine.settings.items()}
    asked = TaskContainer(
        name="ytf-of-another-user",
        image=engines.IMAGE,
        command="touch file; mkdir folder; id -G; touch /bin/mine",
        env={},
        workdir=str(folder),
        mounts=[],
        mark=own_mark(),
        node_and_user=own_node_and_user(),
        memory_mb=64,
        vcores=1,
        uid=1234,
        gid=2345,
        groups=[2345, 3456],
    )
    podman = find_engine("podman", {**env, b"PATH": os.environb[b"PATH"]})
    done = podman.call(*run_arguments(podman, asked), timeout_s=PATIENCE_S)
    assert podman.remove(asked.name) == ""
    assert "2345 3456" in done.output
    assert "Permission denied" in done.output
    for name in ("file", "folder"):
        found = (folder / name).stat()
        assert (found.st_uid, found.st_gid) == (1234, 2345)


def test_values_are_not_on_a_command_line(run: Run) -> None:
    running = run("touch here; " + WAIT, TOKEN="s3cret", PATH="/bin")
    running.wait_file("here")
    shown = subprocess.run(["ps", "-ww", "-eo", "args"], capture_output=True, text=True, check=True)
    assert "--env TOKEN" in shown.stdout
    assert "s3cret" not in shown.stdout


def test_limits_and_namespaces(run: Run, engine: Engine) -> None:
    running = run("readlink /proc/self/ns/net; readlink /proc/self/ns/ipc; touch here; " + WAIT)
    running.wait_file("here")
    ours = [os.readlink(f"/proc/self/ns/{kind}") for kind in ("net", "ipc")]
    eventually(lambda: running.output().split() == ours, describe=running.output)
    name = engine.containers()[0]
    assert name.startswith("ytf-test_")
    wanted = "{{.HostConfig.Memory}} {{.HostConfig.NanoCpus}}"
    told = engine.run("inspect", "--format", wanted, name)
    assert told.split() == [str(64 << 20), str(10**9)]


def test_a_task_that_uses_all_its_memory_is_told_so(run: Run) -> None:
    running = run("tail /dev/zero")
    assert running.ended().signal == signal.SIGKILL
    assert "all of the 64 MB" in running.output("stderr")


def test_signals_reach_the_program_and_what_it_started(run: Run) -> None:
    handler = "sh -c 'trap \"echo x >got\" USR1; touch here; while :; do sleep 0.05; done'"
    running = run(f"trap 'echo y >also' USR1; {handler}; true")
    running.started()
    running.wait_file("here")
    assert running.program.signal(signal.SIGUSR1)
    running.wait_file("got")


def test_the_grace_period_is_for_all_not_only_for_the_shell(run: Run, folder: Path) -> None:
    saver = f"sh -c 'trap \"sleep 0.5; echo x >saved; exit 0\" TERM; touch here; {WAIT}'"
    running = run(f"{saver}; echo the shell is dead by then")
    running.wait_file("here")
    running.started()
    running.program.end_gently()
    running.ended()
    assert (folder / "saved").exists()
    assert running.output() == ""


def test_a_program_that_ignores_the_signal_is_killed(run: Run) -> None:
    running = run("trap '' TERM; touch here; " + WAIT)
    running.wait_file("here")
    running.started()
    running.program.end_gently()
    running.program.end_now()
    assert running.ended().exit_code != 0


def test_the_clients_exit_code_is_not_the_programs(run: Run, folder: Path) -> None:
    """A client that says 0 whatever the program did: docker's, with podman as its daemon."""
    podman = shutil.which("podman")
    client = folder / "podman"
    client.write_text(f'#!/bin/sh\n{podman} "$@"; code=$?; [ "$1" = run ] || exit $code\n')
    client.chmod(0o755)
    assert run("exit 125", {"engine": str(client)}).ended().exit_code == 125


def test_a_client_that_is_killed_takes_its_container_along(run: Run) -> None:
    running = run("touch here; " + WAIT)
    init = running.started()
    os.kill(next(iter(children(running.program._reaper))), signal.SIGKILL)
    assert "the client of podman" in running.ended().reason
    assert not is_alive(init)


def test_a_container_that_is_just_being_made_is_ended(run: Run) -> None:
    running = run("touch here; " + WAIT)
    running.program.end_gently()
    assert running.ended().exit_code != 0


def test_processes_are_described_and_measured(run: Run) -> None:
    running = run("touch here; while :; do :; done", PATH="/bin")
    running.started()
    running.wait_file("here")
    assert "touch here" in running.program.describe_processes()
    assert len(running.program.processes()) >= 3
    assert running.program.idle_s() == 0.0


def test_what_a_program_uses(run: Run) -> None:
    """Its own processes, not the engine's, while it runs and after its end."""
    hold = "x=$(head -c 20000000 /dev/zero | tr '\\0' x); touch here; while [ ! -e go ]; do :; done"
    running = run(hold, PATH="/bin")
    running.started()
    running.wait_file("here")

    def used(name: str) -> float:
        usage = running.program.usage()
        return 0 if usage is None else float(usage[name])

    eventually(
        lambda: used("memory_bytes") >= 20e6, PATIENCE_S, lambda: str(running.program.usage())
    )
    assert used("memory_bytes") < 64 << 20, "the engine's client is no part of it"
    assert used("cpu_s") > 0
    eventually(lambda: used("cpu_cores") > 0, PATIENCE_S, "its processor time")
    # The shell that waits for it, and it.
    assert used("processes") == 2
    Path("go").touch()
    assert running.ended().exit_code == 0
    assert 20e6 <= used("peak_memory_bytes") <= 64 << 20


def test_background_processes_do_not_outlive_the_program(run: Run, engine: Engine) -> None:
    running = run("(trap '' TERM HUP; setsid sleep 1000) & touch here; " + WAIT)
    init = running.started()
    running.wait_file("here")
    Path("go").touch()
    assert running.ended().exit_code == 0
    assert not is_alive(init)
    assert engine.containers() == []


def test_an_engine_that_cannot_start_the_container_says_why(run: Run) -> None:
    running = run("true", {"memory_mb": 1})
    ended = running.ended()
    assert ended.exit_code == CANNOT_RUN
    assert "podman could not start its container" in ended.reason


def test_the_containers_of_a_daemon(run: Run, engine: Engine, folder: Path) -> None:
    """They are no descendants of their client, as with docker."""
    with engine.daemon() as settings:
        running = run("touch here; " + WAIT, {"engine_env": {**engine.settings, **settings}})
        init = running.started()
        running.wait_file("here")
        running.program.end_now()
        running.ended()
        assert not is_alive(init)
        assert engine.containers() == []
        assert run("exit 3", {"engine_env": {**engine.settings, **settings}}).ended().exit_code == 3


STARTER = """
import json, os, sys, time
from queue import SimpleQueue
from ytf.starter.config import DockerConfig
from ytf.starter.engine_runner import EngineRunner
from ytf.starter.orphans import STARTED_BY, own_mark
from ytf.starter.process_tree import become_subreaper
become_subreaper()
runner = EngineRunner(DockerConfig(json.loads(sys.argv[1])), "killed", None)
runner.prepare(print)
env = {STARTED_BY.encode(): own_mark().encode()}
program = runner.start("touch here; while :; do sleep 0.05; done", env, None, SimpleQueue())
while program.pid is None: time.sleep(0.01)
print(program._reaper, program.pid, flush=True)
time.sleep(1000)
"""


@pytest.mark.parametrize("by_daemon", [False, True])
@pytest.mark.parametrize("reaper_too", [False, True])
def test_containers_do_not_outlive_their_starter(
    engine: Engine, folder: Path, by_daemon: bool, reaper_too: bool
) -> None:
    import contextlib
    import json

    with contextlib.ExitStack() as stack:
        settings = dict(engine.settings)
        if by_daemon:
            settings.update(stack.enter_context(engine.daemon()))
        given = {
            name: getattr(config(engine, engine_env=settings), name)
            for name in DockerConfig.__slots__
        }
        starter = subprocess.Popen(
            [sys.executable, "-c", STARTER, json.dumps(given)], stdout=subprocess.PIPE, text=True
        )
        assert starter.stdout is not None
        with starter.stdout:
            reaper, init = map(int, starter.stdout.readline().split())
            if reaper_too:
                os.kill(reaper, signal.SIGSTOP)
            starter.kill()
            starter.wait(PATIENCE_S)
            if reaper_too:
                os.kill(reaper, signal.SIGKILL)
                # Any other starter on the node finds them.
                runner = EngineRunner(config(engine, engine_env=settings), "another", None)
                runner.prepare(print)
                eventually(lambda: not is_alive(reaper), describe="the reaper's end")
                runner.remove_orphans()
        eventually(lambda: not is_alive(init), PATIENCE_S, "the container's end")
        engine.wait_empty()


def test_an_image_that_does_not_exist(engine: Engine, folder: Path) -> None:
    progress: list[str] = []
    runner = EngineRunner(config(engine, image="localhost/nope:7"), "c", None)
    with pytest.raises(NotReadyError, match=r"localhost/nope:7 is not on this node.*check its"):
        runner.prepare(progress.append)
    assert progress[0] == "pulling the image localhost/nope:7 with podman"
    assert not runner.is_ready


def test_an_image_is_pulled_with_progress(engine: Engine, folder: Path) -> None:
    """There is no registry here; a directory with an image serves as one."""
    engine.run("push", engines.IMAGE, f"dir:{folder}/stored")
    progress: list[str] = []
    runner = EngineRunner(config(engine, image=f"dir:{folder}/stored"), "c", None)
    runner.prepare(progress.append)
    assert runner.is_ready
    assert len(progress) > 2, progress
