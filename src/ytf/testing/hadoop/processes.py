"""Daemons as processes: detached, known by pid and start time, ended for certain."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from ytf.processes import alive, start_ticks

MARK = "YTF_CLUSTER"
"""The variable that names, in a daemon's environment, the cluster it is of."""

_POLL_S = 0.02
_CHANGE_DIRECTORY = 'cd "$1" && shift && exec "$@"'


def spawn(command: Sequence[str], *, cwd: Path, log: Path, environ: Mapping[str, str]) -> int:
    """Start a program in a session of its own, its output appended to ``log``; its pid.

    It is not tied to this process in any way but being its child: see :func:`reap`.
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
    """Note which process it is; one that is over already is noted as such."""
    file.parent.mkdir(exist_ok=True)
    new = file.with_suffix(".new")
    new.write_text(f"{pid} {start_ticks(pid) or 0}\n")
    new.replace(file)


def live_pid(file: Path) -> int | None:
    """The pid in a file if that very process still runs, else None."""
    try:
        pid, ticks = map(int, file.read_text().split())
    except FileNotFoundError:
        return None
    reap(pid)
    return pid if alive(pid, ticks) else None


def reap(pid: int) -> None:
    """Let go of an ended process if it is a child of ours."""
    with suppress(ChildProcessError):
        os.waitpid(pid, os.WNOHANG)


def kill(pids: Iterable[int], number: signal.Signals) -> None:
    """Send a signal to those who are still there."""
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, number)


def end(files: Iterable[Path], grace_s: float) -> None:
    """SIGTERM, the grace, SIGKILL; returns when every process noted in ``files`` is over."""
    files = list(files)

    def living() -> list[int]:
        return [pid for pid in map(live_pid, files) if pid is not None]

    kill(living(), signal.SIGTERM)
    if not _until(lambda: not living(), grace_s):
        kill(living(), signal.SIGKILL)
        _until(lambda: not living(), grace_s)
    for file in files:
        file.unlink(missing_ok=True)


def kill_all_of(cluster: Path) -> None:
    """Kill every daemon and container of a cluster, until there is none."""

    def none_left() -> bool:
        found = all_of(cluster)
        kill(found, signal.SIGKILL)
        return not found

    _until(none_left, 10.0)


def all_of(cluster: Path) -> list[int]:
    """Live daemons and containers of a cluster, whoever started them and whatever became of that.

    Told by their environment: a daemon has our mark, a container its
    NodeManager's directories.
    """
    mark = os.fsencode(f"{MARK}={cluster}")
    below = os.fsencode(f"LOCAL_DIRS={cluster}/")
    found = []
    for pid in (int(name) for name in os.listdir("/proc") if name.isdigit()):
        try:
            environ = Path("/proc", str(pid), "environ").read_bytes().split(b"\0")
        except (FileNotFoundError, ProcessLookupError, PermissionError):
            continue
        if mark in environ or any(entry.startswith(below) for entry in environ):
            reap(pid)
            if start_ticks(pid) is not None:
                found.append(pid)
    return found


def _until(condition: Callable[[], bool], timeout_s: float) -> bool:
    deadline = time.monotonic() + timeout_s
    while not condition():
        if time.monotonic() >= deadline:
            return False
        time.sleep(_POLL_S)
    return True
