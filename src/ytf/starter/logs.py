"""The program's stdout and stderr: files that stay within a limit and keep the newest part."""

from __future__ import annotations

import os

from ytf.starter.log import say

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import List, Optional, Tuple

STREAMS = ("stdout", "stderr")
HALVES = ("stdout", "stdout.1", "stderr", "stderr.1")
"""What may lie there of an attempt: each stream, and what was cut off it last."""
TAIL_BYTES = 4096
TAIL_LINES = 30
_MB = 1024 * 1024


class Logs:
    """One attempt's log files, ``<log_dir>/<attempt>/stdout`` and ``stderr``.

    With a ``prefix``, ``<log_dir>/<prefix>.<attempt>.stdout``: YARN keeps no
    directories, and the name has to tell whose log it is.

    Whoever writes appends (O_APPEND), so a file can be cut under its writers.
    Of a stream over half the limit, what is there becomes ``stdout.1`` in
    place of an older such piece, and ``stdout`` begins anew.
    """

    def __init__(
        self, log_dir: str, attempt: int, limit_mb: float, prefix: Optional[str] = None
    ) -> None:
        if prefix is None:
            self._dir, self._name = os.path.join(log_dir, str(attempt)), "%s"
        else:
            self._dir, self._name = log_dir, "%s.%d.%%s" % (prefix.replace("%", "%%"), attempt)
        self._piece = max(int(limit_mb * _MB) // 2, 1)
        self._capped = list(STREAMS)

    def path(self, stream: str) -> str:
        """Where a stream's newest part is."""
        return os.path.join(self._dir, self._name % stream)

    def open(self) -> List[int]:
        """Descriptors for the program's stdout and stderr. Raises ``OSError``."""
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

    def cap(self) -> None:
        """Cut streams that grew over their limit. What cannot be cut is let go, and told once."""
        for stream in list(self._capped):
            path = self.path(stream)
            try:
                if os.stat(path).st_size > self._piece:
                    self._cut(path)
            except OSError as exc:
                say("%s is not kept within its limit any more: %s" % (path, exc))
                self._capped.remove(stream)

    def _cut(self, path: str) -> None:
        older = path + ".1"
        try:
            _copy_end(path, older, self._piece)
        except OSError as exc:
            # Most likely a full disk, and then room matters more than old lines.
            say("%s: its older part is dropped: %s" % (path, exc))
            if os.path.exists(older):
                os.unlink(older)
        os.truncate(path, 0)

    def tail(self) -> str:
        """The last lines of stderr, for people: at most 30 lines and 4 KiB."""
        data = b""
        for path in (self.path("stderr"), self.path("stderr") + ".1"):
            missing = TAIL_BYTES - len(data)
            if missing > 0:
                try:
                    data = read(path, -missing, missing)[0] + data
                except OSError:
                    break  # there is no older part, or the program removed its own log
        whole = len(data) < TAIL_BYTES
        lines = data.decode("utf-8", "replace").splitlines()
        if not whole and len(lines) > 1:
            lines = lines[1:]  # the first is only the end of a line
        return "\n".join(lines[-TAIL_LINES:])


def kept(log_dir: str, prefix: Optional[str]) -> List[Tuple[int, str, int]]:
    """What lies there of all attempts: the attempt, which of :data:`HALVES`, and its size."""
    found: List[Tuple[int, str, int]] = []
    for attempt in _attempts(log_dir, prefix):
        logs = Logs(log_dir, attempt, 0, prefix)
        sizes = [(half, _size(logs.path(half))) for half in HALVES]
        found += [(attempt, half, size) for half, size in sizes if size is not None]
    return found


def _size(path: str) -> Optional[int]:
    try:
        return os.stat(path).st_size
    except FileNotFoundError:
        return None  # an older half that is not, as nothing was cut yet


def _attempts(log_dir: str, prefix: Optional[str]) -> List[int]:
    begin = "" if prefix is None else prefix + "."
    try:
        names = [name[len(begin) :] for name in os.listdir(log_dir) if name.startswith(begin)]
    except FileNotFoundError:
        return []  # nothing has run yet
    numbers = {name.partition(".")[0] for name in names}
    return sorted(int(number) for number in numbers if number.isascii() and number.isdigit())


def read(path: str, offset: int, limit: int) -> Tuple[bytes, int]:
    """At most ``limit`` bytes from ``offset`` (negative: from the end), and the file's size."""
    with open(path, "rb") as file:
        size = os.fstat(file.fileno()).st_size
        file.seek(max(size + offset, 0) if offset < 0 else offset)
        return file.read(limit), size


def _copy_end(source: str, target: str, length: int) -> None:
    """Make ``target`` the last ``length`` bytes of ``source``, in the kernel."""
    with open(source, "rb") as reader, open(target, "wb") as writer:
        position = max(os.fstat(reader.fileno()).st_size - length, 0)
        while True:
            sent = os.sendfile(writer.fileno(), reader.fileno(), position, 8 * _MB)
            if sent == 0:
                return
            position += sent
