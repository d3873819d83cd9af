"""Reads from /proc and the container's cgroup what a tree of processes uses.

A process may end at any moment: what cannot be read is left out. All figures
are those of Linux; where it gives none (no permission), they are missing.
"""

from __future__ import annotations

import os

from ytf.starter.process_tree import descendants

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Dict, List, Optional, Set, Tuple

_PAGE = os.sysconf("SC_PAGE_SIZE")
_TICKS_PER_S = os.sysconf("SC_CLK_TCK")
_LONGEST = 64 * 1024
_CGROUPS = "/sys/fs/cgroup"
_MOST_FILES = 10000
_MOST_SOCKETS = 20000
"""A program with more open files is not searched for all its sockets: a starter stays small."""


class ProcessUsage:
    """What all processes below one use together.

    ``cpu_s`` and the bytes include children that have ended and were waited
    for. ``memory_bytes`` is resident memory, as YARN counts it: pages that
    processes share count for each of them. ``largest_bytes`` is the most that one
    of the processes has ever used. ``sockets`` are the inodes of their sockets.
    """

    __slots__ = (
        "cpu_s",
        "disk_read_bytes",
        "disk_written_bytes",
        "first",
        "largest_bytes",
        "memory_bytes",
        "processes",
        "sockets",
        "threads",
    )

    def __init__(self) -> None:
        self.cpu_s = 0.0
        self.memory_bytes = 0
        self.largest_bytes = 0
        self.threads = 0
        self.processes = 0
        self.disk_read_bytes = 0
        self.disk_written_bytes = 0
        self.sockets: Set[int] = set()
        self.first: Optional[int] = None
        """The pid of the first of them; None if there is none."""


def read_usage(parent: int) -> ProcessUsage:
    """Return what the processes below ``parent`` use.

    Of ``parent`` itself, which is ours, only what its ended children used counts.
    """
    found = ProcessUsage()
    _add_times(found, _stat(parent), 13)
    _add_disk(found, parent)
    for pid in descendants(parent):
        stat = _stat(pid)
        if len(stat) < 22:
            continue
        if found.first is None:
            found.first = pid
        found.processes += 1
        found.threads += int(stat[17])
        found.memory_bytes += int(stat[21]) * _PAGE
        found.largest_bytes = max(found.largest_bytes, _high_water(pid))
        _add_times(found, stat, 11)
        _add_disk(found, pid)
        _add_sockets(found, pid)
    return found


def cgroup_memory(pid: int, container: str, root: str = _CGROUPS) -> Optional[int]:
    """Return the memory of the container's own cgroup that cannot be taken back, in bytes.

    None if the container has none: no component of the path of the process's
    cgroup is the container's id. Unlike the sum of resident memory it counts
    shared pages once; unlike ``memory.current`` it leaves out cached files.
    """
    name = os.fsencode(container)
    found = [each for each in _cgroups(pid) if name in each[1].split(b"/")]
    return _memory_of(found, root)


def separate_cgroup_memory(pid: int, root: str = _CGROUPS) -> Optional[int]:
    """Return the same of the process's cgroup; None if it has none but this process's."""
    ours = _cgroups(os.getpid())
    return _memory_of([each for each in _cgroups(pid) if each not in ours], root)


def _cgroups(pid: int) -> List[Tuple[bytes, bytes]]:
    """Return the cgroups of a process: controllers (none: cgroup v2) and path."""
    lines = _read("/proc/%d/cgroup" % pid).splitlines()
    parts = [line.split(b":", 2) for line in lines]
    return [(each[1], each[2]) for each in parts if len(each) == 3]


def _memory_of(cgroups: List[Tuple[bytes, bytes]], root: str) -> Optional[int]:
    for controllers, path in cgroups:
        if not controllers:  # cgroup v2
            mount, kinds = root, (b"anon", b"shmem")
        elif b"memory" in controllers.split(b","):
            mount, kinds = os.path.join(root, "memory"), (b"total_rss", b"total_shmem")
        else:
            continue
        folder = os.path.join(mount, os.fsdecode(path).lstrip("/"))
        stat = _fields(_read(os.path.join(folder, "memory.stat")))
        if kinds[0] in stat:
            return sum(stat.get(kind, 0) for kind in kinds)
    return None


def _add_times(found: ProcessUsage, stat: List[bytes], first: int) -> None:
    # utime, stime, cutime and cstime of proc(5)
    found.cpu_s += sum(map(int, stat[first:15])) / _TICKS_PER_S


def _add_disk(found: ProcessUsage, pid: int) -> None:
    io = _fields(_read("/proc/%d/io" % pid))
    found.disk_read_bytes += io.get(b"read_bytes:", 0)
    found.disk_written_bytes += io.get(b"write_bytes:", 0)


def _add_sockets(found: ProcessUsage, pid: int) -> None:
    try:
        with os.scandir("/proc/%d/fd" % pid) as entries:
            for number, entry in enumerate(entries):
                if number >= _MOST_FILES or len(found.sockets) >= _MOST_SOCKETS:
                    return
                target = _target(entry.path)
                if target.startswith("socket:["):
                    found.sockets.add(int(target[8:-1]))
    except OSError:
        return  # ended meanwhile, or we may not


def _target(path: str) -> str:
    try:
        return os.readlink(path)
    except OSError:
        return ""  # closed meanwhile


def _high_water(pid: int) -> int:
    """Return the most resident memory that a process has ever had, in bytes."""
    # At the beginning of a line: a process may be called "VmHWM:", and Linux escapes newlines.
    _, _, rest = _read("/proc/%d/status" % pid).partition(b"\nVmHWM:")
    words = rest.split(None, 1)
    return int(words[0]) * 1024 if words else 0


def own_high_water() -> int:
    """Return the most resident memory that this process has ever had, in bytes."""
    return _high_water(os.getpid())


def _stat(pid: int) -> List[bytes]:
    """Return the fields of ``stat`` after the name, which may hold anything."""
    return _read("/proc/%d/stat" % pid).rpartition(b")")[2].split()


def _fields(text: bytes) -> Dict[bytes, int]:
    """Return the lines ``name number`` of a file."""
    lines = (line.split() for line in text.splitlines())
    return {words[0]: int(words[1]) for words in lines if len(words) == 2}


def _read(path: str) -> bytes:
    try:
        fd = os.open(path, os.O_RDONLY)
    except OSError:
        return b""
    try:
        return os.read(fd, _LONGEST)
    except OSError:
        return b""
    finally:
        os.close(fd)
