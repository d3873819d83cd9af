"""Defines how a starter runs a program: the port of which a native process is the first kind.

A runner starts the user's program and answers for all that it started. The
contract, which holds for every runner:

* :meth:`Runner.start` returns at once. Every later change (it runs, it ended)
  is told as ``ProgramChanged`` through the inbox, and the program's object
  then says which.
* ``exit`` is set only when nothing of the program is alive any more. This
  proof is the runner's duty. A native program's processes are descendants of
  its reaper (``ytf.starter.reaper``), so that "no child left" proves it. The
  containers of a docker daemon are not descendants: their runner
  (``ytf.starter.engine_runner``) asks the daemon.
* Nothing of the program outlives the starter, however the starter dies,
  SIGKILL included. So each program has a *reaper*, a process that Linux
  signals when the starter dies. The reaper of a native program then kills
  its descendants; the reaper of another runner also has to end what is not a
  descendant, see ``Reaper.kill_all``.
* A port is used again only after ``exit`` is set.
* On the local backend only this machine reaches the program's servers: the
  node confines its descendants (``ytf.backends.local.loopback``). The containers
  of a docker daemon are none; whoever submits such a job is told (ADR 24).
"""

from __future__ import annotations

import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from queue import SimpleQueue
    from typing import Any, Callable, Dict, Mapping, Optional, Protocol, Sequence

    from ytf.starter.desired_state import InboxMessage
    from ytf.starter.gpus import TakenGpus
    from ytf.starter.program_logs import ProgramLogs

    class RunningProgram(Protocol):
        """A program that a runner has started."""

        @property
        def pid(self) -> Optional[int]:
            """The process id of the program's first process; None until it runs."""

        @property
        def exit(self) -> Optional[ProgramExit]:
            """How the program ended; set once all that it started is proved dead."""

        def idle_s(self) -> float:
            """For how many seconds nothing of the program has used processor time. Any thread."""

        def usage(self) -> Optional[Dict[str, Any]]:
            """What the program uses (``ytf.starter.usage_meter``); None if not known yet.

            Any thread. After the end: what it used in all.
            """

        def signal(self, signum: int) -> bool:
            """Send a signal to the program; False if it does not run."""

        def end_gently(self) -> None:
            """Ask the program to end (SIGTERM). Returns at once; does nothing after its end."""

        def end_now(self) -> None:
            """Kill all that the program started. Returns at once; does nothing after its end."""

        def describe_processes(self) -> str:
            """Return text for people: each process, its threads, what they wait for."""

        def shell_container(self) -> Optional[ContainerAccess]:
            """Return the container that shells beside it are opened in; None: on the node."""

    class Runner(Protocol):
        """Starts programs."""

        @property
        def is_ready(self) -> bool:
            """Whether ``prepare`` has nothing left to do."""

        def prepare(self, on_progress: Callable[[str], None]) -> None:
            """Make this node able to run the program; may take long. Any thread.

            ``on_progress`` gets sentences. Raises ``NotReadyError`` if it cannot.
            """

        def inherited_variables(self, container: Mapping[bytes, bytes]) -> Mapping[bytes, bytes]:
            """Return those variables of the starter's container that the program has, too."""

        def gpu_variables(self, gpus: TakenGpus) -> Mapping[str, str]:
            """Return the variables with which a program sees these GPUs and no other."""

        def remove_orphans(self) -> None:
            """Remove what programs of dead starters left that are no processes. Any thread."""

        def start(
            self,
            command: str,
            env: Mapping[bytes, bytes],
            logs: Optional[ProgramLogs],
            inbox: SimpleQueue[InboxMessage],
            processes: Sequence[Mapping[bytes, bytes]] = (),
            gpus: Optional[TakenGpus] = None,
        ) -> RunningProgram:
            """Start a shell command with exactly these variables, in the working directory.

            If there are ``processes``, it is started once for each of them, with
            these variables in addition. The first that fails then ends the
            others, and each line of output begins with the process's rank.
            ``gpus`` are those that the variables assign to it.
            Its output goes to ``logs``, which are kept within their limit. None:
            the program shares the starter's own three streams and its session,
            as at a terminal. Raises ``OSError`` or ``NotReadyError`` if nothing could
            be started.
            Must be called from the main thread.
            """


CANNOT_RUN = 126
"""The exit code of a program that could not be started at all, as shells have it."""


class NotReadyError(Exception):
    """This node cannot run the program; the text is for the task's user."""


class ContainerAccess:
    """How a program's container of an engine is entered.

    ``client`` and ``kind`` are the engine's, ``env`` the client's variables, ``name``
    and ``mark`` the container's. ``init`` is the pid of its first process on this
    node; None if that cannot be seen.
    """

    __slots__ = ("client", "env", "init", "kind", "mark", "name", "workdir")

    def __init__(
        self,
        *,
        client: str,
        kind: str,
        env: Mapping[bytes, bytes],
        name: str,
        mark: str,
        workdir: str,
        init: Optional[int],
    ) -> None:
        self.client = client
        self.kind = kind
        self.env = env
        self.name = name
        self.mark = mark
        self.workdir = workdir
        self.init = init


class ProgramExit:
    """How a program ended: an exit code or a signal, and the reason if we know more."""

    __slots__ = ("ended_at", "exit_code", "reason", "signal")

    def __init__(
        self, exit_code: Optional[int] = None, signal: Optional[int] = None, reason: str = ""
    ) -> None:
        self.exit_code = exit_code
        self.signal = signal
        self.reason = reason
        self.ended_at = time.time()
