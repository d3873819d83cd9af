"""What a program is doing, as far as /proc tells: for ``GET /control/v1/stacks``."""

from __future__ import annotations

import os

from ytf.starter.descendants import descendants

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import List

_MOST = 200 * 1024


def stacks(keeper: int) -> str:
    """Each process below the keeper: its command, its threads, and what they wait for."""
    lines: List[str] = []
    for pid in descendants(keeper):
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
    return "\n".join(lines)[:_MOST] + "\n"


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
        return ""  # gone, or not ours to read
