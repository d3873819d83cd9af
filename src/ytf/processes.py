"""Reads ``/proc``: which processes live, their children, memory, commands and variables.

For backends, masters and tests. A process may end at any moment; no function
raises for one that is gone, or that Linux hides because it is another user's.
(Starters, which must not miss a process that they have to kill, use
``ytf.starter.process_tree``.)
"""

from __future__ import annotations

import contextlib
import os
import signal

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

_GONE = (FileNotFoundError, ProcessLookupError, PermissionError)
"""The last is of another user's process where /proc is mounted with hidepid."""


def start_ticks(pid: int) -> int | None:
    """Return when a process started, in clock ticks since boot: pid and ticks identify it.

    None if there is no such process or it is a zombie.
    """
    fields = _stat(pid)
    if fields is None or fields[0] in ("Z", "X"):
        return None
    return int(fields[19])


def alive(pid: int, ticks: int) -> bool:
    """Tell whether the process that was ``pid`` and started at ``ticks`` still runs."""
    return start_ticks(pid) == ticks


def is_hidden(pid: int) -> bool:
    """Tell whether a process exists that /proc does not show: another user's, with hidepid."""
    if _stat(pid) is not None:
        return False
    try:
        os.kill(pid, 0)
    except PermissionError:
        return True
    except ProcessLookupError:
        return False
    return False


def children(pid: int) -> list[int]:
    """Return the direct children of a process, zombies included."""
    try:
        threads = os.listdir(f"/proc/{pid}/task")
    except _GONE:
        return []
    # The kernel lists a process's children by the thread that started each.
    return [child for thread in threads for child in _children_of_thread(pid, thread)]


def descendants(pid: int) -> list[int]:
    """Return children, their children and so on, parents first.

    The cost depends on the size of the tree, not on how many processes the
    machine has: the node calls this twice a second for every container.
    """
    found = children(pid)
    for child in found:
        found += children(child)
    return found


def used_memory(pid: int) -> int:
    """Return the resident memory of a process in bytes, mapped files aside; 0 if it is gone.

    Pages of a mapped file are the kernel's cache of it: they are taken back
    when memory is short, and a program may map more than the machine has. Linux
    before 4.5 does not tell them apart.
    """
    try:
        status = _read(f"/proc/{pid}/status")
    except _GONE:
        return 0
    used = _kilobytes(status, (b"RssAnon:", b"RssShmem:"))
    return used if used is not None else _kilobytes(status, (b"VmRSS:",)) or 0


def proportional_memory(pid: int) -> int:
    """Return :func:`used_memory`, pages shared by n processes counted as 1/n.

    Exact but slow. Where the kernel does not tell, it is :func:`used_memory`.
    """
    try:
        used = _kilobytes(_read(f"/proc/{pid}/smaps_rollup"), (b"Pss_Anon:", b"Pss_Shmem:"))
    except OSError:
        used = None
    return used if used is not None else used_memory(pid)


def command_line(pid: int) -> str:
    """Return the command of a process, for people; empty if it is gone or a zombie."""
    try:
        raw = _read(f"/proc/{pid}/cmdline")
    except _GONE:
        return ""
    return raw.replace(b"\0", b" ").decode("utf-8", "replace").strip()


def name(pid: int) -> bytes:
    """Return the name that a process has given itself; empty if it is gone."""
    try:
        return _read(f"/proc/{pid}/comm").rstrip(b"\n")
    except _GONE:
        return b""


def kill(pids: Iterable[int]) -> None:
    """Send SIGKILL to each process that still exists and that we may kill.

    We may not kill one that runs as another user (``sudo``): it lives on.
    """
    for pid in pids:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(pid, signal.SIGKILL)


def with_variable(variable: str, value: str) -> list[int]:
    """Return this user's processes that were started with ``variable=value``.

    Never this process or one of its ancestors.
    """
    wanted = os.fsencode(f"{variable}={value}")
    ours = _ancestors()
    found = []
    for name in os.listdir("/proc"):
        if not name.isdigit() or int(name) in ours:
            continue
        try:
            environ = _read(f"/proc/{name}/environ")
        except _GONE:
            continue
        if wanted in environ.split(b"\0"):
            found.append(int(name))
    return found


def _kilobytes(text: bytes, names: tuple[bytes, ...]) -> int | None:
    """Return the sum of the lines ``Name: 12 kB`` with these names, in bytes; None if none has."""
    lines = (line.split() for line in text.splitlines())
    found = [int(words[1]) * 1024 for words in lines if words and words[0] in names]
    return sum(found) if found else None


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
    """Return the fields of ``/proc/<pid>/stat`` after the command, which may hold anything."""
    try:
        text = _read(f"/proc/{pid}/stat")
    except _GONE:
        return None
    return text[text.rindex(b")") + 2 :].decode("ascii").split()


def _read(path: str) -> bytes:
    # One read() may give only a part of a /proc file; readall() reads to the end.
    with open(path, "rb", buffering=0) as file:
        return file.readall()
