"""Finding and ending all processes below this one."""

from __future__ import annotations

import os
import signal

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Callable, Dict, List


def descendants(of: int) -> List[int]:
    """All living or unreaped processes below ``of``, parents before children."""
    children: Dict[int, List[int]] = {}
    for name in os.listdir("/proc"):
        if not name.isdigit():
            continue
        try:
            with open("/proc/%s/stat" % name, "rb") as file:
                stat = file.read()
        except (FileNotFoundError, ProcessLookupError):
            continue  # ended since the listing
        # "pid (name) state ppid ...", and a name may hold anything, ")" too.
        parent = int(stat[stat.rindex(b")") + 2 :].split(None, 2)[1])
        children.setdefault(parent, []).append(int(name))
    found: List[int] = []
    queue = [of]
    while queue:
        below = children.get(queue.pop(), [])
        found += below
        queue += below
    return found


def send(pid: int, signum: int) -> bool:
    """Signal one process, or with ``-pid`` a group; False if it is gone or not ours to signal."""
    try:
        os.kill(pid, signum)
    except (ProcessLookupError, PermissionError):
        return False
    return True


def end_all(reaped: Callable[[int, int], None]) -> None:
    """Kill every descendant of this process and return once all are proved dead.

    The process must have called :func:`ytf.starter.linux.adopt_orphans`:
    then having no child left is the proof. ``reaped`` is told the pid and
    wait status of each child that ended.
    """
    me = os.getpid()
    while reap(reaped):
        for pid in descendants(me):
            send(pid, signal.SIGKILL)
        # Each child was just killed, so one will end. What they forked
        # meanwhile becomes ours and dies in the next round.
        try:
            pid, status = os.waitpid(-1, 0)
        except ChildProcessError:
            return
        reaped(pid, status)


def reap(reaped: Callable[[int, int], None]) -> bool:
    """Take the status of every child that has ended; False if no child is left at all."""
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return False
        if pid == 0:
            return True
        reaped(pid, status)
