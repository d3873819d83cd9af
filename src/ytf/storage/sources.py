"""Files as those who read single bytes of them want them: the hadoop package's log reader."""

from __future__ import annotations

from collections.abc import Iterator

from ytf.storage.files import Files


class FileSource:
    """One file: a ``ytf.hadoop.logs.ByteSource``."""

    def __init__(self, files: Files, path: str) -> None:
        self._files = files
        self._path = path
        self.name = files.uri(path)
        self.size = files.stat(path).size

    def read(self, offset: int, length: int) -> Iterator[bytes]:
        """``length`` bytes from ``offset`` on, in pieces."""
        return self._files.read(self._path, offset, length)


class FileTree:
    """A file system: a ``ytf.hadoop.logs.LogTree``."""

    def __init__(self, files: Files) -> None:
        self._files = files

    def names(self, directory: str) -> list[str]:
        """What is in a directory, sorted."""
        return [each.name for each in self._files.list(directory)]

    def source(self, path: str) -> FileSource:
        """A file's bytes."""
        return FileSource(self._files, path)
