"""Start, find and end the processes of a cluster.

Daemons are detached from the process that starts them. A daemon is known by
its pid and start time, which its pid file contains.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from ytf.processes import alive, start_ticks

CLUSTER_VARIABLE = "YTF_CLUSTER"
"""This variable of a daemon's environment contains the directory of its cluster."""

_POLL_S = 0.02
_CHANGE_DIRECTORY = 'cd "$1" && shift && exec "$@"'
_WATCH = "import sys; from ytf.minicluster.processes import watch; watch(sys.argv[1])"


def spawn(command: Sequence[str], *, cwd: Path, log: Path, environ: Mapping[str, str]) -> int:
    """Start a program in a session of its own and return its pid. Its output goes to ``log``.

    The program is a child of this process and may outlive it: see :func:`reap`.
    """
    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND
    return os.posix_spawn(
        "/bin/sh",
        ["sh", "-c", _CHANGE_DIRECTORY, "sh", str(cwd), *command],
        environ,
        file_actions=[
            (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
            (os.POSIX_SPAWN_OPEN, 1, str(log), flags, 0o644),
            (os.POSIX_SPAWN_DUP2, 1, 2),
        ],
        setsid=True,
    )


def write_pid(file: Path, pid: int) -> None:
    """Write a process's pid and start time to a pid file; 0 if it has ended already."""
    file.parent.mkdir(exist_ok=True)
    new = file.with_suffix(".new")
    new.write_text(f"{pid} {start_ticks(pid) or 0}\n")
    new.replace(file)


def live_pid(file: Path) -> int | None:
    """The pid in a pid file if that same process still runs, else None."""
    try:
        pid, ticks = map(int, file.read_text().split())
    except FileNotFoundError:
        return None
    reap(pid)
    return pid if alive(pid, ticks) else None


def reap(pid: int) -> None:
    """Collect the exit status of a process if it has ended and is a child of ours."""
    with suppress(ChildProcessError):
        os.waitpid(pid, os.WNOHANG)


def kill(pids: Iterable[int], number: signal.Signals) -> None:
    """Send a signal to those processes that still exist."""
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, number)


def is_stopped(pid: int) -> bool:
    """Whether SIGSTOP has reached every thread of a process: others go on for a while."""
    try:
        threads = [(task / "stat").read_text() for task in Path(f"/proc/{pid}/task").iterdir()]
    except (FileNotFoundError, ProcessLookupError):
        return False  # a thread has just ended
    return all(thread.rpartition(")")[2].split()[0] == "T" for thread in threads)


def terminate(pid_files: Iterable[Path], grace_s: float) -> None:
    """End the processes of some pid files: SIGTERM and, after ``grace_s``, SIGKILL.

    Returns when all of them have ended. Removes the files.
    """
    files = list(pid_files)

    def living() -> list[int]:
        return [pid for pid in map(live_pid, files) if pid is not None]

    kill(living(), signal.SIGTERM)
    if not _wait_until(lambda: not living(), grace_s):
        kill(living(), signal.SIGKILL)
        _wait_until(lambda: not living(), grace_s)
    for file in files:
        file.unlink(missing_ok=True)


def kill_all_of(cluster: Path) -> None:
    """Kill every daemon and container of a cluster, until there are none."""

    def none_left() -> bool:
        found = all_of(cluster)
        kill(found, signal.SIGKILL)
        return not found

    _wait_until(none_left, 10.0)


def all_of(cluster: Path) -> list[int]:
    """The pids of all live daemons and containers of a cluster.

    They are recognised by their environment, so it does not matter which
    process started them.
    """
    return _having(f"\0{CLUSTER_VARIABLE}={cluster}\0", _container_text(cluster))


def containers_of(cluster: Path) -> list[int]:
    """The pids of what runs in containers of a cluster: each has its NodeManager's directories."""
    return _having(_container_text(cluster))


def terminate_containers(cluster: Path, grace_s: float) -> None:
    """Send SIGTERM to what runs in containers; return when it has ended, or after ``grace_s``."""
    kill(containers_of(cluster), signal.SIGTERM)
    _wait_until(lambda: not containers_of(cluster), grace_s)


class OwnerWatchdog:
    """Stops a cluster when the process that owns it ends, even if that is killed.

    A separate process reads a pipe from the owner. Its end of file means that
    the owner has ended, or has called :meth:`close`.
    """

    def __init__(self, cluster: Path) -> None:
        self._watcher = subprocess.Popen(
            [sys.executable, "-c", _WATCH, str(cluster)],
            stdin=subprocess.PIPE,
            # It must survive a Ctrl-C on the terminal.
            start_new_session=True,
        )

    def close(self) -> None:
        """End the watch. What still runs of the cluster is stopped."""
        self._watcher.communicate()


def watch(directory: str) -> None:
    """Wait for the end of stdin, then stop the cluster, also if its directory was removed."""
    from ytf.minicluster.cluster import MiniCluster

    sys.stdin.buffer.read()
    MiniCluster(Path(directory)).stop()
    kill_all_of(Path(directory))


def _wait_until(condition: Callable[[], bool], timeout_s: float) -> bool:
    deadline = time.monotonic() + timeout_s
    while not condition():
        if time.monotonic() >= deadline:
            return False
        time.sleep(_POLL_S)
    return True


def _container_text(cluster: Path) -> str:
    return f"\0LOCAL_DIRS={cluster}/"


def _having(*texts: str) -> list[int]:
    """The pids of live processes whose environment, between zero bytes, has one of the texts."""
    wanted = [os.fsencode(text) for text in texts]
    found = []
    for pid in (int(name) for name in os.listdir("/proc") if name.isdigit()):
        try:
            environ = b"\0" + Path("/proc", str(pid), "environ").read_bytes() + b"\0"
        except (FileNotFoundError, ProcessLookupError, PermissionError):
            continue
        if any(text in environ for text in wanted):
            reap(pid)
            if start_ticks(pid) is not None:
                found.append(pid)
    return found
