"""The port ``Files`` on this machine's own file system, for staging from and to plain paths."""

from __future__ import annotations

import contextlib
import errno
import os
import pwd
import shutil
import stat
from collections.abc import Iterable, Iterator
from urllib.parse import quote

from ytf.storage.blobs import sync_directory
from ytf.storage.files import CHUNK, FileStatus, temporary_beside


class LocalFiles:
    """Implements :class:`ytf.storage.files.Files` for local paths."""

    def uri(self, path: str) -> str:
        """See :meth:`Files.uri`."""
        return f"file://{quote(_absolute(path))}"

    def stat(self, path: str) -> FileStatus:
        """See :meth:`Files.stat`."""
        return _status(_absolute(path), os.stat(path))

    def list(self, path: str) -> list[FileStatus]:
        """See :meth:`Files.list`."""
        found = []
        for name in sorted(os.listdir(_absolute(path))):
            inside = os.path.join(path, name)
            # A file that was removed meanwhile is left out.
            with contextlib.suppress(FileNotFoundError):
                found.append(self.stat(inside))
        return found

    def read(self, path: str, offset: int = 0, length: int | None = None) -> Iterator[bytes]:
        """See :meth:`Files.read`."""
        with open(_absolute(path), "rb") as file:
            file.seek(offset)
            left = length
            while left is None or left > 0:
                piece = file.read(CHUNK if left is None else min(CHUNK, left))
                if not piece:
                    return
                if left is not None:
                    left -= len(piece)
                yield piece

    def write(self, path: str, chunks: Iterable[bytes], mode: int = 0o600) -> FileStatus:
        """See :meth:`Files.write`."""
        temporary = temporary_beside(_absolute(path))
        try:
            with open(temporary, "xb", opener=_private) as file:
                file.writelines(chunks)
                file.flush()
                os.fchmod(file.fileno(), mode)
                os.fsync(file.fileno())
            # A link, unlike a rename, never replaces what is there.
            os.link(temporary, path)
        finally:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(temporary)
        sync_directory(os.path.dirname(path))
        return self.stat(path)

    def mkdir(self, path: str, mode: int = 0o700) -> None:
        """See :meth:`Files.mkdir`."""
        if os.path.isdir(_absolute(path)):
            return
        parent = os.path.dirname(path)
        if parent != path:
            self.mkdir(parent, mode)
        try:
            os.mkdir(path, 0o700)
        except FileExistsError:
            if not os.path.isdir(path):
                raise
        else:
            os.chmod(path, mode)
            sync_directory(parent)

    def acl_writers(self, path: str) -> tuple[str, ...]:
        """See :meth:`Files.acl_writers`."""
        return ()

    def chmod(self, path: str, mode: int) -> None:
        """See :meth:`Files.chmod`."""
        os.chmod(_absolute(path), mode)

    def delete(self, path: str) -> None:
        """See :meth:`Files.delete`."""
        with contextlib.suppress(FileNotFoundError):
            if os.path.isdir(_absolute(path)) and not os.path.islink(path):
                shutil.rmtree(path)
            else:
                os.unlink(path)

    def rename(self, source: str, target: str) -> None:
        """See :meth:`Files.rename`."""
        if os.path.isdir(_absolute(source)):
            # rename(2) replaces an empty directory: make one first, so that an
            # existing target is refused.
            os.mkdir(_absolute(target), 0o700)
            os.rename(source, target)
        else:
            os.link(source, _absolute(target))
            os.unlink(source)

    def replace(self, source: str, target: str) -> None:
        """See :meth:`Files.replace`."""
        os.replace(_absolute(source), _absolute(target))

    def remove_empty_directory(self, path: str) -> bool:
        """See :meth:`Files.remove_empty_directory`."""
        try:
            os.rmdir(_absolute(path))
        except FileNotFoundError:
            return True
        except OSError as exc:
            if exc.errno != errno.ENOTEMPTY:
                raise
            return False
        return True


def _absolute(path: str) -> str:
    if not path.startswith("/"):
        raise ValueError(f"not an absolute path: {path!r}")
    return path


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)


def _status(path: str, found: os.stat_result) -> FileStatus:
    is_directory = stat.S_ISDIR(found.st_mode)
    return FileStatus(
        path=path,
        is_directory=is_directory,
        size=0 if is_directory else found.st_size,
        mtime_ms=found.st_mtime_ns // 1_000_000,
        owner=_name_of(found.st_uid),
        group=str(found.st_gid),
        mode=stat.S_IMODE(found.st_mode),
    )


def _name_of(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)
