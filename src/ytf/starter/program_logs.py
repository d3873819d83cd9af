"""Keeps a program's stdout and stderr in files of limited size, of which the newest part stays."""

from __future__ import annotations

import os
import time

from ytf.log import log

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import List, Optional, Tuple

STREAMS = ("stdout", "stderr")
STREAM_FILES = ("stdout", "stdout.1", "stderr", "stderr.1")
"""The files that an attempt may have: the current and the rotated file of each stream."""
TAIL_BYTES = 4096
TAIL_LINES = 30
_MB = 1024 * 1024
_COLLAPSE_RANGE = 8
"""FALLOC_FL_COLLAPSE_RANGE of linux/falloc.h."""
_FULL_BYTES = 4096
"""A disk with less free room than this is full: a file grows by whole blocks."""


class ProgramLogs:
    """One attempt's log files, ``<log_dir>/<attempt>/stdout`` and ``stderr``.

    With a ``prefix``, ``<log_dir>/<prefix>.<attempt>.stdout``: YARN aggregates
    no directories, so the name has to tell which task's log it is.

    All writers append (O_APPEND), so a file can be rotated while they write. When a
    stream is over half the limit, its content but for the last bytes becomes the
    rotated file ``stdout.1``, in place of an older one. No byte is lost or doubled where the
    file system can remove the beginning of a file (ext4, XFS); elsewhere ``stdout``
    begins anew, and what is written in that moment is lost.

    ``output_lost_at`` is when their disk was first found full, None if it never
    was. The program writes its logs itself, and only it sees that a write fails.
    """

    def __init__(
        self, log_dir: str, attempt: int, limit_mb: float, prefix: Optional[str] = None
    ) -> None:
        if prefix is None:
            self._dir, self._name = os.path.join(log_dir, str(attempt)), "%s"
        else:
            self._dir, self._name = log_dir, "%s.%d.%%s" % (prefix.replace("%", "%%"), attempt)
        self._piece = max(int(limit_mb * _MB) // 2, 1)
        self._limited = list(STREAMS)
        self.output_lost_at: Optional[float] = None

    def path(self, stream: str) -> str:
        """Return the path of a stream's current file."""
        return os.path.join(self._dir, self._name % stream)

    def open(self) -> List[int]:
        """Open descriptors for the program's stdout and stderr. Raises ``OSError``."""
        os.makedirs(self._dir, exist_ok=True)
        opened: List[int] = []
        try:
            for stream in STREAMS:
                flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT
                opened.append(os.open(self.path(stream), flags, 0o640))
        except OSError:
            for fd in opened:
                os.close(fd)
            raise
        return opened

    def rotate_if_full(self) -> None:
        """Rotate streams over their limit, and notice a full disk.

        A stream that cannot be rotated is logged and no longer limited.
        """
        if self.output_lost_at is None and _is_full(self._dir):
            self.output_lost_at = time.time()
            log("the disk of %s is full: output of the program may be lost" % self._dir)
        for stream in list(self._limited):
            path = self.path(stream)
            try:
                if os.stat(path).st_size > self._piece:
                    self._rotate(path)
            except OSError as exc:
                log("%s is not kept within its limit any more: %s" % (path, exc))
                self._limited.remove(stream)

    def _rotate(self, path: str) -> None:
        rotated = path + ".1"
        try:
            _move_beginning(path, rotated, self._piece)
        except OSError as exc:
            # Most likely a full disk, and then room matters more than old lines.
            log("%s: its rotated file is dropped: %s" % (path, exc))
            if os.path.exists(rotated):
                os.unlink(rotated)
            os.truncate(path, 0)

    def failure_tail(self) -> Tuple[str, str]:
        """Return the last lines of stderr, or of stdout if stderr has none; and which it is."""
        for stream in ("stderr", "stdout"):
            text = self.tail(stream)
            if text.strip():
                return text, stream
        return "", "stderr"

    def tail(self, stream: str = "stderr") -> str:
        """Return the last lines of a stream, for people: at most 30 lines and 4 KiB."""
        data = b""
        for path in (self.path(stream), self.path(stream) + ".1"):
            missing = TAIL_BYTES - len(data)
            if missing > 0:
                try:
                    data = read_range(path, -missing, missing)[0] + data
                except OSError:
                    break  # there is no rotated file, or the program removed its own log
        whole = len(data) < TAIL_BYTES
        lines = data.decode("utf-8", "replace").splitlines()
        if not whole and len(lines) > 1:
            lines = lines[1:]  # the first is only the end of a line
        return "\n".join(lines[-TAIL_LINES:])


def list_streams(log_dir: str, prefix: Optional[str]) -> List[Tuple[int, str, int]]:
    """List the files of all attempts: the attempt, which of :data:`STREAM_FILES`, and its size."""
    found: List[Tuple[int, str, int]] = []
    for attempt in _attempts(log_dir, prefix):
        logs = ProgramLogs(log_dir, attempt, 0, prefix)
        sizes = [(file, _size(logs.path(file))) for file in STREAM_FILES]
        found += [(attempt, file, size) for file, size in sizes if size is not None]
    return found


def _is_full(directory: str) -> bool:
    try:
        disk = os.statvfs(directory)
    except OSError:
        return False  # the program removed its own logs
    blocks = disk.f_bavail if os.geteuid() else disk.f_bfree
    # Some file systems do not tell their size.
    return disk.f_blocks > 0 and blocks * disk.f_frsize < _FULL_BYTES


def _size(path: str) -> Optional[int]:
    try:
        return os.stat(path).st_size
    except FileNotFoundError:
        return None  # nothing was rotated yet


def _attempts(log_dir: str, prefix: Optional[str]) -> List[int]:
    begin = "" if prefix is None else prefix + "."
    try:
        names = [name[len(begin) :] for name in os.listdir(log_dir) if name.startswith(begin)]
    except FileNotFoundError:
        return []  # no program has run yet
    numbers = {name.partition(".")[0] for name in names}
    return sorted(int(number) for number in numbers if number.isascii() and number.isdigit())


def read_range(path: str, offset: int, limit: int) -> Tuple[bytes, int]:
    """Return at most ``limit`` bytes from ``offset`` (negative: from the end), and the size."""
    with open(path, "rb") as file:
        size = os.fstat(file.fileno()).st_size
        file.seek(max(size + offset, 0) if offset < 0 else offset)
        return file.read(limit), size


def _move_beginning(source: str, target: str, length: int) -> None:
    """Remove all but the last block of ``source``; ``target`` gets ``length`` bytes of it at most.

    These are the newest of what is removed: the two files together have no gap.
    """
    with open(source, "r+b", buffering=0) as file, open(target, "wb", buffering=0) as older:
        stat = os.fstat(file.fileno())
        end = max(stat.st_size - 1, 0) // stat.st_blksize * stat.st_blksize
        _copy(file.fileno(), older.fileno(), max(end - length, 0), end)
        if not _remove_beginning(file.fileno(), end):
            _copy(file.fileno(), older.fileno(), max(end, stat.st_size - length), None)
            os.ftruncate(file.fileno(), 0)


def _copy(source: int, target: int, begin: int, end: Optional[int]) -> None:
    """Append bytes of a file to another one, in the kernel; None: to the present end."""
    while end is None or begin < end:
        sent = os.sendfile(target, source, begin, 8 * _MB if end is None else end - begin)
        if sent == 0:
            return
        begin += sent


def _remove_beginning(fd: int, length: int) -> bool:
    """Remove whole blocks at the beginning of a file, also while others append to it.

    False if this file system cannot do that.
    """
    import ctypes  # starters have it loaded; others only read logs

    offset = ctypes.c_int64
    fallocate = ctypes.CDLL(None).fallocate
    fallocate.argtypes = [ctypes.c_int, ctypes.c_int, offset, offset]
    return length > 0 and fallocate(fd, _COLLAPSE_RANGE, 0, length) == 0
