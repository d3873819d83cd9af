"""Finds and kills what the programs of dead starters left running on this node.

A program's reaper kills all that the program started when the starter dies. If
starter and reaper are killed in the same moment, nobody is left to do so. So
every program has a variable that names its starter, which all that it starts
inherits; and every starter and master looks on its node for processes whose
starter is dead: when it starts, once a minute, and when it ends (ADR 17).
"""

from __future__ import annotations

import os
import re
import signal
import time

from ytf.log import LimitedLog, log
from ytf.starter.process_tree import read_stat, scan_descendants, send_signal

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Callable, Dict, List, Optional

STARTED_BY = "YTF_STARTED_BY"
"""The variable: the PID namespace, process id and start time of a program's starter."""
EVERY_S = 60.0
_ROUNDS = 5
_CHUNK = 64 * 1024
_PREFIX = STARTED_BY.encode() + b"="
# Of a setuid program somebody else may have chosen the variables: int() of thousands of digits
# raises, and os.kill() of a number that is no pid.
_MARK = re.compile(rb"([0-9]{1,20})\.([0-9]{1,10})\.([0-9]{1,20})").fullmatch
_MOST_PID = 2**31 - 1
_problems = LimitedLog()


def own_mark() -> str:
    """Return the value of the variable for programs that this process starts."""
    me = os.getpid()
    return "%d.%d.%d" % (_namespace(), me, _start_ticks(me) or 0)


def own_node_and_user() -> str:
    """Return this boot of this node, and this user: what a PID namespace's number is true for.

    Several nodes and users may share one container engine. Empty if Linux does not tell.
    """
    try:
        with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
            return "%s.%d" % (file.read().strip(), os.geteuid())
    except (OSError, ValueError):
        return ""


def kill_orphans() -> None:
    """Kill this user's processes whose starter is dead; never raises."""
    sweep(_kill_orphans)


def sweep(work: Callable[[], None]) -> None:
    """Do something about what dead starters left; never raises, as no sweep is worth a job."""
    try:
        work()
    except Exception as exc:
        _problems.write("what dead starters left could not be looked for: %r" % exc)


def _kill_orphans() -> None:
    # What they fork meanwhile is found in the next round.
    for _ in range(_ROUNDS):
        found = _find_orphans()
        if not found:
            return
        log("killing what a starter that was killed left: %s" % _described(found))
        for pid in found:
            for each in [pid, *scan_descendants(pid)]:
                send_signal(each, signal.SIGKILL)


def watch_orphans(remove_others: Callable[[], None]) -> None:
    """Kill orphans now and once a minute, for ever. For a thread of its own.

    ``remove_others`` does so with what dead starters left that are no processes
    of this node's user: see ``Runner.remove_orphans``.
    """
    while True:
        kill_orphans()
        sweep(remove_others)
        time.sleep(EVERY_S)


def find_marked(mark: str) -> List[int]:
    """Return this user's processes whose variables have a mark."""
    user, wanted = os.geteuid(), mark.encode()
    names = filter(str.isdigit, os.listdir("/proc"))
    return [int(name) for name in names if _mark_of(name, user) == wanted]


def _find_orphans() -> List[int]:
    here, user, me = _namespace(), os.geteuid(), os.getpid()
    is_dead: Dict[bytes, bool] = {}
    found = []
    for name in os.listdir("/proc"):
        if not name.isdigit() or int(name) == me:
            continue
        mark = _mark_of(name, user)
        if mark is None:
            continue
        if mark not in is_dead:
            is_dead[mark] = starter_is_dead(mark, here)
        if is_dead[mark]:
            found.append(int(name))
    return found


def _mark_of(pid: str, user: int) -> Optional[bytes]:
    try:
        if os.stat("/proc/" + pid).st_uid != user:
            return None
        environ = _read("/proc/%s/environ" % pid)
    except OSError:
        return None  # it has ended, or hides its variables
    if environ.startswith(_PREFIX):
        begin = len(_PREFIX)
    else:
        at = environ.find(b"\0" + _PREFIX)
        if at < 0:
            return None
        begin = at + 1 + len(_PREFIX)
    return environ[begin : environ.find(b"\0", begin)]


def _read(path: str) -> bytes:
    # Without Python's file objects, which cost three times as much.
    data = b""
    fd = os.open(path, os.O_RDONLY)
    try:
        while True:
            more = os.read(fd, _CHUNK)
            if not more:
                return data
            data += more
    finally:
        os.close(fd)


def starter_is_dead(mark: bytes, here: Optional[int] = None) -> bool:
    """Tell whether a mark is of a starter of this PID namespace (``here``) that is dead."""
    found = _MARK(mark)
    if found is None:
        return False
    namespace, pid, ticks = map(int, found.groups())
    # In another namespace the same number is another process.
    if namespace != (here or _namespace()) or pid > _MOST_PID:
        return False
    started = _start_ticks(pid)
    return started != ticks and not (started is None and _is_hidden(pid))


def _namespace() -> int:
    return os.stat("/proc/self/ns/pid").st_ino


def _start_ticks(pid: int) -> Optional[int]:
    """Return when a process started, in clock ticks since boot; None if it is dead."""
    stat = read_stat(pid)
    return None if stat is None or stat.is_dead else stat.started


def _is_hidden(pid: int) -> bool:
    """Tell whether a process of another user exists: /proc may hide it (``hidepid``)."""
    try:
        os.kill(pid, 0)
    except PermissionError:
        return True
    except ProcessLookupError:
        return False
    return False


def _described(pids: List[int]) -> str:
    return ", ".join("%d (%s)" % (pid, _command(pid)) for pid in pids[:10])


def _command(pid: int) -> str:
    try:
        text = _read("/proc/%d/cmdline" % pid)[:100]
        return text.replace(b"\0", b" ").decode("utf-8", "replace").strip()
    except OSError:
        return "gone"
