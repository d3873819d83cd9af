"""Blobs in any file system, for who only looks at them."""

from __future__ import annotations

import posixpath
from pathlib import PurePosixPath

from ytf.storage.files import Files


class BlobReader:
    """Implements ``ReadableBlobs`` for the files below a directory."""

    def __init__(self, files: Files, root: str) -> None:
        self._files = files
        self._root = root

    def list(self, directory: str = "") -> list[str]:
        """See :meth:`ReadableBlobs.list`."""
        folder = self._path(directory) if directory else self._root
        try:
            found = self._files.list(folder)
        except (FileNotFoundError, NotADirectoryError):
            return []
        return [each.name for each in found if not each.name.startswith(".")]

    def read(self, name: str) -> bytes:
        """See :meth:`ReadableBlobs.read`."""
        return b"".join(self._files.read(self._path(name)))

    def _path(self, name: str) -> str:
        parts = PurePosixPath(name).parts
        if not parts or any(part.startswith((".", "/")) for part in parts):
            raise ValueError(f"not the name of a blob: {name!r}")
        return posixpath.join(self._root, *parts)
