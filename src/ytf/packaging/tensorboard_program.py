"""The program of a job's TensorBoard: appended files and errors of HDFS do not end it.

``packaging.tensorboard`` copies this module into TensorBoard's own environment, where it is run;
nothing of ytf imports it, and it imports nothing of ytf.

TensorBoard reads HDFS through fsspec and hdfs-native, in one thread that ends for good with the
first error it does not expect. There are two such errors in daily life:

- hdfs-native shows nothing of a block that is being written. So a file is shorter while its
  writer appends to it, and hdfs-native panics if it is to read behind the end.
- A NameNode that is away, stands by or refuses something.
"""

from __future__ import annotations

import io
import os
import runpy
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import fsspec
from hdfs_native.fsspec import HdfsFileSystem, ViewfsFileSystem


class _Reader(io.RawIOBase):
    """A file in HDFS as it is at this moment; behind its end there is nothing yet."""

    def __init__(self, file: Any) -> None:
        self._file = file
        self._position = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._position

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        begins = {os.SEEK_SET: 0, os.SEEK_CUR: self._position, os.SEEK_END: len(self._file)}
        self._position = begins[whence] + offset
        return self._position

    def read(self, size: int | None = -1) -> bytes:
        left = max(0, len(self._file) - self._position)
        wanted = left if size is None or size < 0 else min(size, left)
        with _errors_of_the_system():
            data: bytes = self._file.read_range(self._position, wanted) if wanted else b""
        self._position += len(data)
        return data


@contextmanager
def _errors_of_the_system() -> Iterator[None]:
    """Raise what hdfs-native tells of a NameNode or DataNode as ``OSError``.

    TensorBoard prints that and tries again.
    """
    try:
        yield
    except RuntimeError as exc:
        raise OSError(str(exc)) from exc


class _OpensForReading:
    """A file system of fsspec whose files are read with ``_Reader``."""

    def _open(self, path: str, mode: str = "rb", **options: Any) -> Any:
        with _errors_of_the_system():
            file = super()._open(path, mode, **options)  # type: ignore[misc]
        return _Reader(file) if mode == "rb" else file

    def info(self, path: str, **options: Any) -> Any:
        with _errors_of_the_system():
            return super().info(path, **options)  # type: ignore[misc]

    def ls(self, path: str, detail: bool = True, **options: Any) -> Any:
        with _errors_of_the_system():
            return super().ls(path, detail, **options)  # type: ignore[misc]


class _Hdfs(_OpensForReading, HdfsFileSystem):  # type: ignore[misc]
    pass


class _Viewfs(_OpensForReading, ViewfsFileSystem):  # type: ignore[misc]
    pass


def _look_again_after_errors() -> None:
    """Let an error in the search for summaries be printed; TensorBoard searches again by itself."""
    from tensorboard.backend.event_processing.plugin_event_multiplexer import EventMultiplexer

    search = EventMultiplexer.AddRunsFromDirectory

    def search_or_tell(self: Any, path: str, name: str | None = None) -> Any:
        try:
            return search(self, path, name)
        except OSError as exc:
            print(f"cannot look for summaries in {path}: {exc}", file=sys.stderr, flush=True)
            return self

    EventMultiplexer.AddRunsFromDirectory = search_or_tell


if __name__ == "__main__":
    fsspec.register_implementation("hdfs", _Hdfs, clobber=True)
    fsspec.register_implementation("viewfs", _Viewfs, clobber=True)
    _look_again_after_errors()
    runpy.run_module("tensorboard.main", run_name="__main__", alter_sys=True)
