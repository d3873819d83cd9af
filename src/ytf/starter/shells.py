"""Opens shells in a task's container for ``ytf shell``: one process for each (ADR 27).

::

    starter ──spawn──▶ shell process (ytf.starter.shell_process) ──fork, exec──▶ bash

The shell process serves the client's connection from then on; the starter only
waits for it. No process of a shell outlives the shell process, and no shell
process outlives the starter: Linux signals it when the starter dies.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
import time

from ytf.log import log
from ytf.starter.orphans import STARTED_BY, kill_orphans, own_mark
from ytf.starter.process_tree import kill_adopted, send_signal

TYPE_CHECKING = False
if TYPE_CHECKING:
    import socket
    from typing import Dict, List, Mapping, Optional, Set

    from ytf.starter.runner import ContainerAccess

MAX_SHELLS = 8
"""Shells at a time in one container. Each takes some 6 MB of its memory, and what runs in it."""
END_S = 5.0
"""How long a shell process may take to kill its processes before it is killed itself."""

_CODE = (
    "import sys; ytf = sys.modules['ytf'] = type(sys)('ytf'); ytf.__path__ = [%s]; "
    "from ytf.starter.shell_process import main; sys.exit(main())"
)
"""What a shell process runs; as ``ytf.backends.launch`` has it for starters."""
_OURS = ("YTF_STARTER", "YTF_LAUNCH", "YTF_SCRIPT")
"""Variables for the starter alone, and long ones."""


class TooManyShellsError(Exception):
    """As many shells as may be are open already."""


class Shells:
    """All shells of one starter. Control threads open them; :meth:`close` ends them."""

    def __init__(self, task: str) -> None:
        self._task = task
        self._changed = threading.Condition()
        self._pids: Set[int] = set()
        self._is_closed = False

    def open(
        self,
        connection: socket.socket,
        key: str,
        env: Mapping[bytes, bytes],
        container: Optional[ContainerAccess] = None,
    ) -> OpenShell:
        """Start a shell process that will serve a connection; its key is in hex.

        It begins when the result's ``run`` is called, with the program's variables
        ``env`` and in the working directory, on the node or in a ``container``.
        Raises ``TooManyShellsError`` and ``OSError``. The thread that calls this must
        go on to call ``run``: Linux tells the shell process of the end of this thread.
        """
        config = {
            "key": key,
            "task": self._task,
            "starter": os.getpid(),
            "env": _pairs(env),
            "container": None if container is None else _fields(container),
        }
        reading, writing = os.pipe()
        try:
            with self._changed:
                if self._is_closed or len(self._pids) >= MAX_SHELLS:
                    raise TooManyShellsError(
                        "%d shells are open in %s already" % (len(self._pids), self._task)
                    )
                pid = _spawn(reading, connection.fileno())
                self._pids.add(pid)
        except (OSError, TooManyShellsError):
            os.close(writing)
            raise
        finally:
            os.close(reading)
        return OpenShell(self, pid, writing, json.dumps(config).encode())

    def close(self) -> None:
        """End all shells and return once none of their processes is left. No other one follows."""
        with self._changed:
            self._is_closed = True
        self.end_all()

    def end_all(self) -> None:
        """End all shells and return once none of their processes is left."""
        self._end_all(signal.SIGTERM)
        self._end_all(signal.SIGKILL)

    def _end_all(self, signum: int) -> None:
        deadline = time.monotonic() + END_S
        with self._changed:
            for pid in self._pids:
                send_signal(pid, signum)
            while self._pids and time.monotonic() < deadline:
                self._changed.wait(max(deadline - time.monotonic(), 0.0))

    def wait_for(self, pid: int) -> None:
        """Return when a shell process has ended; if it could not, kill what it has left."""
        try:
            _, status = os.waitpid(pid, 0)
        except ChildProcessError:
            status = -1  # taken with the processes that a dead reaper left
        with self._changed:
            self._pids.discard(pid)
            if status != 0:
                log("a shell process ended with status %d; what it left is killed" % status)
                kill_adopted(self._pids)
                kill_orphans()  # in an engine's container they are no children of anybody here
            self._changed.notify_all()


class OpenShell:
    """One shell: call either ``run``, after the client was answered, or ``abandon``."""

    def __init__(self, shells: Shells, pid: int, config_pipe: int, config: bytes) -> None:
        self._shells = shells
        self._pid = pid
        self._pipe = config_pipe
        self._config = config

    def run(self) -> None:
        """Let the shell process serve the client; returns when it has ended."""
        try:
            with open(self._pipe, "wb", buffering=0) as pipe:
                rest = memoryview(self._config)
                while rest:
                    rest = rest[pipe.write(rest) :]
        except OSError as exc:
            log("a shell process did not begin: %s" % exc)
        self._shells.wait_for(self._pid)

    def abandon(self) -> None:
        """End the shell process: the client has gone."""
        os.close(self._pipe)  # it ends without a configuration
        self._shells.wait_for(self._pid)


def _pairs(env: Mapping[bytes, bytes]) -> List[List[str]]:
    return [[k.decode("latin-1"), v.decode("latin-1")] for k, v in env.items()]


def _fields(container: ContainerAccess) -> Dict[str, object]:
    fields = {name: getattr(container, name) for name in container.__slots__}
    return dict(fields, env=_pairs(container.env))


def _spawn(config: int, connection: int) -> int:
    """Start a shell process: its stdin is its configuration, its stdout the connection."""
    code = _CODE % ascii(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    argv = [sys.executable, "-I", "-S", "-c", code]
    environ: Dict[str, str] = {k: v for k, v in os.environ.items() if k not in _OURS}
    environ[STARTED_BY] = own_mark()
    actions = [(os.POSIX_SPAWN_DUP2, config, 0), (os.POSIX_SPAWN_DUP2, connection, 1)]
    # A thread of the starter may have signals blocked; a shell must not inherit that.
    return os.posix_spawn(argv[0], argv, environ, file_actions=actions, setsigmask=())
