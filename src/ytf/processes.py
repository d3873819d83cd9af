"""What ``/proc`` tells about processes: who lives, whose children, how much memory.

A process may end between two looks, so every function takes a vanished one
for what it is: not there.
"""

from __future__ import annotations

import contextlib
import os
import signal

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

_PAGE = os.sysconf("SC_PAGE_SIZE")
_GONE = (FileNotFoundError, ProcessLookupError)


def start_ticks(pid: int) -> int | None:
    """When a process started, in clock ticks since boot: with its pid, its identity.

    None if there is no such process or it is a zombie.
    """
    fields = _stat(pid)
    if fields is None or fields[0] in ("Z", "X"):
        return None
    return int(fields[19])


def alive(pid: int, ticks: int) -> bool:
    """Whether the process that was ``pid`` and started at ``ticks`` still runs."""
    return start_ticks(pid) == ticks


def children(pid: int) -> list[int]:
    """The direct children of a process, zombies included."""
    try:
        threads = os.listdir(f"/proc/{pid}/task")
    except _GONE:
        return []
    # The kernel lists a process's children by the thread that started each.
    return [child for thread in threads for child in _children_of_thread(pid, thread)]


def descendants(pid: int) -> list[int]:
    """Children, their children and so on, parents first.

    Costs what the tree is big, not what the machine has processes: the node
    asks this twice a second for every container.
    """
    found = children(pid)
    for child in found:
        found += children(child)
    return found


def resident(pid: int) -> int:
    """The resident memory of a process in bytes; 0 if it is gone."""
    try:
        return int(_read(f"/proc/{pid}/statm").split()[1]) * _PAGE
    except _GONE:
        return 0


def proportional(pid: int) -> int:
    """The resident memory of a process, pages shared by n processes counted as 1/n.

    Exact but dear. Where the kernel does not tell, it is :func:`resident`.
    """
    try:
        for line in _read(f"/proc/{pid}/smaps_rollup").splitlines():
            if line.startswith(b"Pss:"):
                return int(line.split()[1]) * 1024
    except OSError:
        return resident(pid)
    return 0


def command_line(pid: int) -> str:
    """The command of a process for people to read; empty if it is gone or a zombie."""
    try:
        raw = _read(f"/proc/{pid}/cmdline")
    except _GONE:
        return ""
    return raw.replace(b"\0", b" ").decode("utf-8", "replace").strip()


def kill(pids: Iterable[int]) -> None:
    """SIGKILL each process that is still there and ours to kill.

    One that runs as another user (``sudo``) is not, and shows as living on.
    """
    for pid in pids:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(pid, signal.SIGKILL)


def with_variable(variable: str, value: str) -> list[int]:
    """This user's processes that were started with ``variable=value`` in their environment.

    Never this process or one it descends from.
    """
    wanted = os.fsencode(f"{variable}={value}")
    ours = _ancestors()
    found = []
    for name in os.listdir("/proc"):
        if not name.isdigit() or int(name) in ours:
            continue
        try:
            environ = _read(f"/proc/{name}/environ")
        except (*_GONE, PermissionError):
            continue
        if wanted in environ.split(b"\0"):
            found.append(int(name))
    return found


def _children_of_thread(pid: int, thread: str) -> list[int]:
    try:
        return [int(child) for child in _read(f"/proc/{pid}/task/{thread}/children").split()]
    except _GONE:
        return []


def _ancestors() -> set[int]:
    pid = os.getpid()
    found = set()
    while pid > 0:
        found.add(pid)
        fields = _stat(pid)
        pid = int(fields[1]) if fields else 0
    return found


def _stat(pid: int) -> list[str] | None:
    """The fields of ``/proc/<pid>/stat`` after the command, which may hold anything."""
    try:
        text = _read(f"/proc/{pid}/stat")
    except _GONE:
        return None
    return text[text.rindex(b")") + 2 :].decode("ascii").split()


def _read(path: str) -> bytes:
    # /proc gives some files piecemeal; a plain read() of open() asks until the end.
    with open(path, "rb", buffering=0) as file:
        return file.readall()
