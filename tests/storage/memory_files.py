"""A file system in memory with HDFS's rules, for tests: its processes die where a test says so."""

from __future__ import annotations

import posixpath
from collections.abc import Callable, Iterable, Iterator

from ytf.storage.files import CHUNK, FileStatus, temporary_beside


class DiedError(BaseException):
    """The process is dead: nothing that the code under test could handle."""


class Disk:
    """Files and directories, shared by all processes, and a clock."""

    def __init__(self) -> None:
        self.files: dict[str, bytes] = {}
        self.modes: dict[str, int] = {"/": 0o755}
        self.times: dict[str, int] = {"/": 0}
        self.now_ms = 1_000_000


class MemoryFiles:
    """Implements ``Files`` on a disk, for one process.

    ``before`` is called before each change, with its number. It may raise, or let other
    processes make changes. A write is two changes: a temporary file, and its rename.
    """

    def __init__(self, disk: Disk) -> None:
        self.disk = disk
        self.changes = 0
        self.before: Callable[[int], None] = lambda number: None

    def uri(self, path: str) -> str:
        return f"memory:{path}"

    def stat(self, path: str) -> FileStatus:
        disk = self.disk
        if not path.startswith("/"):
            raise ValueError(f"not an absolute path: {path!r}")
        if path not in disk.modes:
            raise FileNotFoundError(path)
        return FileStatus(
            path=path,
            is_directory=path not in disk.files,
            size=len(disk.files.get(path, b"")),
            mtime_ms=disk.times[path],
            owner="me",
            group="us",
            mode=disk.modes[path],
        )

    def list(self, path: str) -> list[FileStatus]:
        if self.stat(path).is_directory:
            inside = [each for each in self.disk.modes if self._is_in(each, path)]
            return [self.stat(each) for each in sorted(inside)]
        raise NotADirectoryError(path)

    def read(self, path: str, offset: int = 0, length: int | None = None) -> Iterator[bytes]:
        if self.stat(path).is_directory:
            raise IsADirectoryError(path)
        data = self.disk.files[path][offset:]
        data = data if length is None else data[:length]
        for start in range(0, len(data), CHUNK):
            yield data[start : start + CHUNK]

    def write(self, path: str, chunks: Iterable[bytes], mode: int = 0o600) -> FileStatus:
        temporary = temporary_beside(path)
        self._change()
        self._check_parent(path)
        self._put(temporary, b"", mode)
        try:
            for chunk in chunks:
                self.disk.files[temporary] += chunk
            self.rename(temporary, path)
        except Exception:
            self._forget(temporary)
            raise
        return self.stat(path)

    def mkdir(self, path: str, mode: int = 0o700) -> None:
        if path in self.disk.modes:
            if path in self.disk.files:
                raise FileExistsError(path)
            return
        self.mkdir(posixpath.dirname(path), mode)
        self._change()
        self.disk.modes[path] = mode
        self._touch(path)

    def acl_writers(self, path: str) -> tuple[str, ...]:
        return ()

    def chmod(self, path: str, mode: int) -> None:
        self.stat(path)
        self._change()
        self.disk.modes[path] = mode

    def delete(self, path: str) -> None:
        self._change()
        for each in [each for each in self.disk.modes if f"{each}/".startswith(f"{path}/")]:
            self._forget(each)
        if posixpath.dirname(path) in self.disk.times:
            self._touch(path, only_above=True)

    def rename(self, source: str, target: str) -> None:
        self._change()
        self._move(source, target)

    def replace(self, source: str, target: str) -> None:
        self._change()
        if target in self.disk.files and source in self.disk.files:
            self._forget(target)
        self._move(source, target)

    def remove_empty_directory(self, path: str) -> bool:
        self._change()
        if path in self.disk.modes:
            if self.list(path):
                return False
            self._forget(path)
        return True

    def _move(self, source: str, target: str) -> None:
        self.stat(source)
        self._check_parent(target)
        if target in self.disk.modes:
            raise FileExistsError(target)
        for each in [each for each in self.disk.modes if f"{each}/".startswith(f"{source}/")]:
            moved = target + each[len(source) :]
            if each in self.disk.files:
                self.disk.files[moved] = self.disk.files.pop(each)
            for numbers in (self.disk.modes, self.disk.times):
                numbers[moved] = numbers.pop(each)
        self._touch(target, only_above=True)
        self._touch(source, only_above=True)

    def _check_parent(self, path: str) -> None:
        if not self.stat(posixpath.dirname(path)).is_directory:
            raise NotADirectoryError(path)

    def _is_in(self, path: str, folder: str) -> bool:
        return path != "/" and posixpath.dirname(path) == folder

    def _put(self, path: str, data: bytes, mode: int) -> None:
        self.disk.files[path] = data
        self.disk.modes[path] = mode
        self._touch(path)

    def _forget(self, path: str) -> None:
        self.disk.files.pop(path, None)
        self.disk.modes.pop(path, None)
        self.disk.times.pop(path, None)

    def _touch(self, path: str, *, only_above: bool = False) -> None:
        self.disk.times[posixpath.dirname(path)] = self.disk.now_ms
        if not only_above:
            self.disk.times[path] = self.disk.now_ms

    def _change(self) -> None:
        self.changes += 1
        self.before(self.changes)
