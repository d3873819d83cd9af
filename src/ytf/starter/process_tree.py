"""Finds, signals, ends and describes the processes below this one, with /proc and prctl(2)."""

from __future__ import annotations

import ctypes
import os
import signal

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Callable, Collection, Dict, List, Optional

_PR_SET_PDEATHSIG = 1
_PR_SET_NAME = 15
_PR_SET_CHILD_SUBREAPER = 36
_DESCRIPTION_LIMIT = 200 * 1024

REAPER_NAME = b"ytf-reaper"
"""The process name of a reaper that ends a container of an engine: it is given time to do so."""

_libc = ctypes.CDLL(None, use_errno=True)


# Calls of Linux that Python does not offer


def signal_on_parents_death(signum: int) -> None:
    """Have Linux send a signal when the *thread* that started this process ends.

    ``execve`` keeps this, ``fork`` does not. The parent may have died before
    the call: check ``os.getppid()`` after it.
    """
    _prctl(_PR_SET_PDEATHSIG, signum)


def become_subreaper() -> None:
    """Become the parent of every descendant whose own parent dies (a "subreaper").

    From then on no descendant can get away by daemonising, and a process
    without children has no descendants either.
    """
    _prctl(_PR_SET_CHILD_SUBREAPER, 1)


def set_process_name(name: bytes) -> None:
    """Set the name that ``/proc/<pid>/comm`` and ``ps`` show: at most 15 bytes."""
    # No other call here has an argument that is not a number.
    _libc.prctl(_PR_SET_NAME, ctypes.c_char_p(name), 0, 0, 0)


def _prctl(option: int, value: int) -> None:
    if _libc.prctl(option, ctypes.c_ulong(value), 0, 0, 0) != 0:
        number = ctypes.get_errno()
        raise OSError(number, "prctl(%d, %d): %s" % (option, value, os.strerror(number)))


# Finding and ending


class ProcessStat:
    """What ``/proc/PID/stat`` tells of a process. ``started`` is in ticks since the boot."""

    __slots__ = ("is_dead", "parent", "session", "started")

    def __init__(self, text: bytes) -> None:
        # "pid (name) state ppid pgrp session ...", and a name may hold anything, ")" too.
        fields = text[text.rindex(b")") + 2 :].split(None, 20)
        self.is_dead = fields[0] in (b"Z", b"X")
        self.parent = int(fields[1])
        self.session = int(fields[3])
        self.started = int(fields[19])


def read_stat(pid: int) -> Optional[ProcessStat]:
    """Return what is known of a process; None if it has ended, or is another user's and hidden."""
    try:
        with open("/proc/%d/stat" % pid, "rb") as file:
            return ProcessStat(file.read())
    except (FileNotFoundError, ProcessLookupError, PermissionError):
        return None  # the last where /proc is mounted with hidepid


def scan_descendants(of: int) -> List[int]:
    """Return all living or unreaped processes below ``of``, parents before children.

    It reads all of /proc, so it misses none.
    """
    children: Dict[int, List[int]] = {}
    for name in os.listdir("/proc"):
        stat = read_stat(int(name)) if name.isdigit() else None
        if stat is not None:
            children.setdefault(stat.parent, []).append(int(name))
    found: List[int] = []
    queue = [of]
    while queue:
        below = children.get(queue.pop(), [])
        found += below
        queue += below
    return found


def descendants(of: int) -> List[int]:
    """Like :func:`scan_descendants`, from the files of these processes alone where Linux has them.

    So it costs no more on a node that runs thousands of others. It may miss a process
    whose parent ends meanwhile.
    """
    if not os.path.exists("/proc/thread-self/children"):
        return scan_descendants(of)
    found: List[int] = []
    queue = [of]
    while queue:
        below = _children(queue.pop())
        found += below
        queue += below
    return found


def children(of: int) -> List[int]:
    """Return the direct children of a process."""
    if os.path.exists("/proc/thread-self/children"):
        return _children(of)
    everyone = scan_descendants(of)
    return [pid for pid in everyone if not any(pid in scan_descendants(each) for each in everyone)]


def _children(of: int) -> List[int]:
    lists = (_read("/proc/%d/task/%s/children" % (of, thread)) for thread in _threads(of))
    return [int(child) for each in lists for child in each.split()]


def send_signal(pid: int, signum: int) -> bool:
    """Signal one process, or with ``-pid`` a group; False if it is gone or we may not."""
    try:
        os.kill(pid, signum)
    except (ProcessLookupError, PermissionError):
        return False
    return True


def kill_descendants(on_reaped: Callable[[int, int], None]) -> None:
    """Kill every descendant of this process and return once all are proved dead.

    The process must have called :func:`become_subreaper`: then the proof is that
    no child is left. ``on_reaped`` gets the pid and the wait status of each
    child that ended.
    """
    me = os.getpid()
    while reap(on_reaped):
        for pid in scan_descendants(me):
            send_signal(pid, signal.SIGKILL)
        # Each child was just killed, so one will end. What they forked
        # meanwhile becomes ours and dies in the next round.
        try:
            pid, status = os.waitpid(-1, 0)
        except ChildProcessError:
            return
        on_reaped(pid, status)


def kill_adopted(known: Collection[int]) -> None:
    """Kill what this process has adopted from dead children, and return once it is dead.

    What it has started itself goes on: that is in its own session, or is a fork with
    its own command line (a reaper), or ``known``.
    """
    while True:
        adopted = [pid for pid in _adopted() if pid not in known]
        if not adopted:
            return
        for pid in adopted:
            # Its own children become ours when it dies: they are found in the next round.
            send_signal(pid, signal.SIGKILL)
            try:
                os.waitpid(pid, 0)
            except ChildProcessError:
                continue  # another thread has taken it


def _adopted() -> List[int]:
    me, session = os.getpid(), os.getsid(0)
    own = _read("/proc/%d/cmdline" % me)
    found = []
    for pid in scan_descendants(me):
        stat = read_stat(pid)
        # Who waits for a dead one is not known here.
        if stat is None or stat.is_dead or stat.parent != me or stat.session == session:
            continue
        command = _read("/proc/%d/cmdline" % pid)
        if command and command != own:
            found.append(pid)
    return found


def reap(on_reaped: Callable[[int, int], None]) -> bool:
    """Take the status of every child that has ended; False if no child is left at all."""
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return False
        if pid == 0:
            return True
        on_reaped(pid, status)


# Describing


def describe_descendants(of: int) -> str:
    """Describe each process below ``of``: its command, its threads, and what they wait for."""
    lines: List[str] = []
    for pid in scan_descendants(of):
        command = _read("/proc/%d/cmdline" % pid).replace("\0", " ").strip()
        lines.append("process %d: %s" % (pid, command or _read("/proc/%d/comm" % pid)))
        for thread in _threads(pid):
            base = "/proc/%d/task/%s/" % (pid, thread)
            lines.append(
                "  thread %s %s: %s, waits in %s, system call %s"
                % (
                    thread,
                    _read(base + "comm") or "?",
                    _state(_read(base + "stat")),
                    _wait_channel(_read(base + "wchan")),
                    _read(base + "syscall").split(" ")[0] or "?",
                )
            )
            # Only root may read it.
            lines += ["    " + frame for frame in _read(base + "stack").splitlines()]
    return "\n".join(lines)[:_DESCRIPTION_LIMIT] + "\n"


def _threads(pid: int) -> List[str]:
    try:
        return sorted(os.listdir("/proc/%d/task" % pid), key=int)
    except OSError:
        return []  # ended since the listing


def _state(stat: str) -> str:
    after_name = stat.rpartition(")")[2].split()
    return after_name[0] if after_name else "?"


def _wait_channel(name: str) -> str:
    return "nothing" if name == "0" else name or "?"


def _read(path: str) -> str:
    try:
        with open(path, "rb") as file:
            return file.read(64 * 1024).decode("utf-8", "replace").strip()
    except OSError:
        return ""  # gone, or we may not read it
