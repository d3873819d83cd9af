"""Runs the user's program in a container of the node's engine: a ``Runner`` for docker and podman.

::

    starter ──fork──▶ reaper ──fork, exec──▶ docker run --init … IMAGE sh -c SHELL
                                                 │ (docker: the daemon; podman: itself)
                                                 ▼
                            container: init ──▶ sh -c SHELL ──▶ bash -c "$DTF_TASK_PROGRAM"

The client ends with the container and carries its output. The opposite does not
hold: a container of docker's daemon outlives its client. So one rule for both
engines: the reaper ends a container by its name, how the program ended is what
the engine's record says, and it is proved dead when the engine says that there is
no such container. What killed reapers left is found by the container's label
(``Engine.remove_orphans``).
"""

from __future__ import annotations

import os
import signal
import time

from ytf.starter.engine import EngineError, client_environment, find_engine
from ytf.starter.engine_container import (
    TaskContainer,
    container_name,
    find_mounts,
    gpu_variables,
    libhdfs_folders,
    program_variables,
    run_arguments,
    run_environment,
    yarn_cgroup,
)
from ytf.starter.native_runner import NativeProgram
from ytf.starter.orphans import STARTED_BY, own_mark, own_node_and_user
from ytf.starter.process_tree import (
    REAPER_NAME,
    children,
    describe_descendants,
    kill_descendants,
    read_stat,
    reap,
    scan_descendants,
    send_signal,
    set_process_name,
)
from ytf.starter.process_usage import read_usage, separate_cgroup_memory
from ytf.starter.program_env import container_environment
from ytf.starter.reaper import END_GENTLY, END_NOW, ProgramCommand, Reaper
from ytf.starter.runner import CANNOT_RUN, ContainerAccess, NotReadyError, ProgramExit

TYPE_CHECKING = False
if TYPE_CHECKING:
    from queue import SimpleQueue
    from typing import Any, Callable, Dict, Iterable, List, Mapping, Optional, Sequence

    from ytf.starter.config import DockerConfig
    from ytf.starter.desired_state import InboxMessage
    from ytf.starter.engine import Engine
    from ytf.starter.gpus import TakenGpus
    from ytf.starter.process_usage import ProcessUsage
    from ytf.starter.program_logs import ProgramLogs

ENGINE_FAILED = (125, 126, 127)
"""Exit codes of a client whose engine could not start the container; programs have them, too."""
_COMPLAINTS = ("Error:", "docker:")
"""How the lines begin with which clients say why."""
REMOVE_S = 60.0
"""How long a reaper tries to have a container removed by an engine that does not do it."""
_POLL_S = 0.25
"""How often a reaper asks whether its container runs: each question costs the node 0.04 s."""


class EngineRunner:
    """A :class:`ytf.starter.runner.Runner` of containers of the node's engine.

    ``container`` is the id of the starter's own container, ``inherited`` its
    variables; None: those of this process.
    """

    def __init__(
        self, config: DockerConfig, container: str, inherited: Optional[Dict[bytes, bytes]]
    ) -> None:
        self._config = config
        self._container = container
        self._node = container_environment() if inherited is None else inherited
        self._engine: Optional[Engine] = None

    @property
    def is_ready(self) -> bool:
        """Whether the engine was found and has the image."""
        return self._engine is not None

    def prepare(self, on_progress: Callable[[str], None]) -> None:
        """Find the engine, and have it pull the image if the node has not got it."""
        config = self._config
        # The process's own: what YARN's launch carries for the program is not in it.
        env = client_environment(
            container_environment(), config.variables, config.shadowed, config.engine_env
        )
        try:
            engine = find_engine(config.engine, env)
            engine.ensure_image(config.image, on_progress)
        except EngineError as exc:
            raise NotReadyError(str(exc)) from exc
        self._engine = engine

    def inherited_variables(self, container: Mapping[bytes, bytes]) -> Mapping[bytes, bytes]:
        """Return the task's own variables and those that are true in its container."""
        return program_variables(container, self._config.variables, os.getcwd())

    def gpu_variables(self, gpus: TakenGpus) -> Mapping[str, str]:
        """Return those of a container that has these GPUs alone."""
        assert self._engine is not None  # the attempt has called prepare
        return gpu_variables(self._engine, gpus)

    def remove_orphans(self) -> None:
        """Remove the containers of dead starters, once the engine is known."""
        if self._engine is not None:
            self._engine.remove_orphans()

    def start(
        self,
        command: str,
        env: Mapping[bytes, bytes],
        logs: Optional[ProgramLogs],
        inbox: SimpleQueue[InboxMessage],
        processes: Sequence[Mapping[bytes, bytes]] = (),
        gpus: Optional[TakenGpus] = None,
    ) -> EngineProgram:
        """Start a shell command; see :meth:`ytf.starter.runner.Runner.start`.

        There are no ``processes``: the plan refuses them for a group with an image.
        """
        assert not processes
        engine, config, workdir = self._engine, self._config, os.getcwd()
        assert engine is not None  # the attempt has called prepare
        with open("/proc/self/cgroup", encoding="utf-8") as file:
            cgroup = yarn_cgroup(self._container, file.read())
        read_only = [*config.mounts, *libhdfs_folders(env, config.variables)]
        task = TaskContainer(
            name=container_name(self._container, os.fsdecode(env.get(b"YTF_ATTEMPT", b"0"))),
            image=config.image,
            command=command,
            env=env,
            workdir=workdir,
            mounts=find_mounts(self._node, env, workdir, read_only),
            mark=own_mark(),
            node_and_user=own_node_and_user(),
            memory_mb=config.memory_mb,
            vcores=config.vcores,
            gpus=gpus,
            cgroup=cgroup,
            uid=os.getuid(),
            gid=os.getgid(),
            groups=os.getgroups(),
        )
        argv = [engine.client, *run_arguments(engine, task)]
        client_env = run_environment(engine, task)
        outputs = None if logs is None else logs.open()
        running = RunningContainer(engine, task.name, task.mark)
        held = () if gpus is None else gpus.locks
        program = ProgramCommand(argv, client_env, outputs, held=held)
        return EngineProgram(program, running, logs, inbox, gpus)


class RunningContainer:
    """A container by its name: signals go through ``/proc`` where its processes can be seen.

    They cannot where the engine is on another machine or maps users; then the
    engine sends them.
    """

    __slots__ = ("engine", "mark", "name")

    def __init__(self, engine: Engine, name: str, mark: str) -> None:
        self.engine = engine
        self.name = name
        self.mark = mark

    def is_visible(self, init: int) -> bool:
        """Tell whether the process ``init`` is the container's first one, on this machine."""
        try:
            with open("/proc/%d/environ" % init, "rb") as file:
                environ = file.read().split(b"\0")
        except OSError:
            return False
        return ("%s=%s" % (STARTED_BY, self.mark)).encode() in environ

    def signal(self, init: Optional[int], signum: int) -> bool:
        """Send a signal to the program's process group; False if it does not run."""
        if init is not None and self.is_visible(init):
            shell = min(children(init), default=None, key=_started_at)
            # Its init has put the shell into a group of its own.
            return shell is not None and send_signal(-os.getpgid(shell), signum)
        script = "kill -%d -1" % signum  # all but the caller and the container's init
        return self.engine.call("exec", self.name, "sh", "-c", script).code == 0


class EngineProgram(NativeProgram):
    """A :class:`ytf.starter.runner.RunningProgram` in a container."""

    def __init__(
        self,
        command: ProgramCommand,
        container: RunningContainer,
        logs: Optional[ProgramLogs],
        inbox: SimpleQueue[InboxMessage],
        gpus: Optional[TakenGpus],
    ) -> None:
        self._container = container

        def make_reaper(command: ProgramCommand, report: int, mask: Iterable[int]) -> Reaper:
            return EngineReaper(command, report, mask, container)

        super().__init__(command, logs, inbox, gpus, make_reaper)

    def signal(self, signum: int) -> bool:
        """Send a signal to the program's processes; False if it does not run."""
        if self.pid is None or self.exit is not None:
            return False
        return self._container.signal(self.pid, signum)

    def processes(self) -> List[int]:
        """Return the pids of the container's processes, its init first; none if invisible."""
        init = self._init()
        return [] if init is None else [init, *scan_descendants(init)]

    def describe_processes(self) -> str:
        """Return text for people: each process, its threads, what they wait for."""
        init = self._init()
        if init is not None:
            return describe_descendants(init)
        engine = self._container.engine
        return engine.call("top", self._container.name).output

    def shell_container(self) -> Optional[ContainerAccess]:
        """Return the program's container: it ends with the program, and so do its shells."""
        container = self._container
        return ContainerAccess(
            client=container.engine.client,
            kind=container.engine.kind,
            env=container.engine.env,
            name=container.name,
            mark=container.mark,
            workdir=os.getcwd(),
            init=self._init(),
        )

    def exit_of(self, status: int) -> ProgramExit:
        """Return how the program ended. The client exits as shells do: 137 for SIGKILL."""
        if not os.WIFEXITED(status):
            return ProgramExit(
                signal=os.WTERMSIG(status),
                reason="the client of %s, which ran it, was killed" % self._container.engine.kind,
            )
        code = os.WEXITSTATUS(status)
        if code in ENGINE_FAILED and self.pid is None and self._logs is not None:
            lines = self._logs.tail("stderr").splitlines()
            said = [line for line in lines if line.startswith(_COMPLAINTS)]
            if said:
                kind = self._container.engine.kind
                text = "%s could not start its container: %s" % (kind, said[-1])
                return ProgramExit(CANNOT_RUN, reason=text)
        return ProgramExit(signal=code - 128) if 128 < code <= 128 + 64 else ProgramExit(code)

    def _init(self) -> Optional[int]:
        init = self.pid
        return init if init is not None and self._container.is_visible(init) else None

    def _read_usage(self) -> Optional[ProcessUsage]:
        init = self._init()
        # Where the processes cannot be seen, the program always counts as busy.
        return None if init is None else read_usage(init)

    def _cgroup_memory(self, first: int) -> Optional[int]:
        return separate_cgroup_memory(first)

    def _used_in_all(self, rusage: Any) -> Optional[Any]:
        # The reaper's children are the engine's clients, and podman's own processes.
        return None


class EngineReaper(Reaper):
    """The reaper of a container: it ends it by its name, whoever runs it."""

    def __init__(
        self,
        command: ProgramCommand,
        report: int,
        mask: Iterable[int],
        container: RunningContainer,
    ) -> None:
        super().__init__(command, report, mask)
        self._container = container
        self._init: Optional[int] = None
        self._is_over = False
        set_process_name(REAPER_NAME)

    def await_start(self) -> Optional[int]:
        """Return the pid of the container's init, once it runs; None if it ended before."""
        while True:
            signum = signal.sigtimedwait({signal.SIGCHLD, END_GENTLY, END_NOW}, _POLL_S)
            reap(self.on_reaped)
            if signum is not None and signum.si_signo in (END_GENTLY, END_NOW):
                # Nothing of the user's has run for longer than a moment.
                self._is_over = True
                return None
            if self.status is not None:
                return None
            state = self._container.engine.state(self._container.name)
            if state is not None and state.status == "running" and state.pid:
                self._init = state.pid
                return self._init

    def await_end(self) -> None:
        """Return when the client has ended, or the container is to be killed."""
        if not self._is_over:
            super().await_end()

    def ask_to_end(self) -> None:
        """Send SIGTERM to the program's process group in the container."""
        if not self._container.signal(self._init, signal.SIGTERM):
            os.kill(os.getpid(), END_NOW)

    def is_alive(self) -> bool:
        """Return False always: the container has ended when its client has."""
        return False

    def kill_all(self) -> None:
        """Have the engine remove the container; return once it is gone, or cannot be.

        The client that has ended proves nothing: one that was killed leaves
        the container running, and not all of them exit as the program did.
        """
        if self.status is not None:
            state = self._container.engine.state(self._container.name)
            if state is not None and state.has_ended:
                self.status = state.exit_code << 8  # as from wait
        if self._init is None and self.status is None:
            # It must not make the container after that was removed.
            send_signal(self.program, signal.SIGKILL)
        deadline = time.monotonic() + REMOVE_S
        while True:
            why = self._container.engine.remove(self._container.name)
            if not why or time.monotonic() > deadline:
                break
            if self._init is not None and self._container.is_visible(self._init):
                send_signal(self._init, signal.SIGKILL)
            time.sleep(_POLL_S)
        kill_descendants(self.on_reaped)
        if why and (self._init is None or self._container.is_visible(self._init)):
            name, kind = self._container.name, self._container.engine.kind
            raise OSError("%s could not remove the container %s: %s" % (kind, name, why))


def _started_at(pid: int) -> int:
    stat = read_stat(pid)
    return 1 << 62 if stat is None else stat.started  # it may have ended meanwhile
