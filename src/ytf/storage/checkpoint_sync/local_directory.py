"""The local side: scans a directory, reads versions of its files, and replaces it as a whole.

Beside the directory ``checkpoints`` lies ``.checkpoints.ytf-sync``: links to files that are
being uploaded, a restored directory until it is whole, and what it took the place of.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import shutil
import stat
import time
import zlib
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from ytf.errors import RefusedError
from ytf.storage.checkpoint_sync.snapshot import (
    AREA,
    MOST_FILES,
    FileVersion,
    Scan,
    Snapshot,
    SyncedFile,
    is_growing,
)
from ytf.storage.files import CHUNK

Tell = Callable[[str], None]

_TELL_S = 10.0
_READABLE = 0o600


class ChangedError(Exception):
    """The file is no longer the version that was to be read, or somebody is writing it."""


class UnreadableError(Exception):
    """The file may not be read."""


class TooManyFilesError(RefusedError):
    """The directory has more files than a manifest names."""


class NoSpaceError(RefusedError):
    """The disk is too small for what is to be restored."""


class DamagedFileError(RefusedError):
    """A file that was to be restored is not what was synced."""


class LocalDirectory:
    """A directory of a task. The program may change everything in it at any time."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._beside = path.with_name(f".{path.name}.ytf-sync")
        self._pins = 0
        remove_tree(self._beside / "pinned")
        self.skipped: dict[str, str] = {}
        """What the last scan left out because of its name, and why."""

    def scan(self) -> Scan:
        """Return the regular files, also those in directories; {} if there is no directory.

        A link to a file is that file; a link to a directory is left out. So are names that
        cannot be synced, see ``skipped``.
        """
        found: dict[str, FileVersion] = {}
        self.skipped = {}
        self._scan_into(found, "")
        return found

    def _scan_into(self, found: dict[str, FileVersion], folder: str) -> None:
        # What vanishes meanwhile is left out.
        with contextlib.suppress(FileNotFoundError), os.scandir(self.path / folder) as entries:
            for entry in entries:
                name = f"{folder}{entry.name}"
                if not _is_text(name):
                    self.skipped[ascii(name)] = "its name is not UTF-8"
                elif name == AREA:
                    self.skipped[name] = "what is synced has a directory of this name of its own"
                elif entry.is_dir(follow_symlinks=False):
                    self._scan_into(found, f"{name}/")
                else:
                    with contextlib.suppress(FileNotFoundError):
                        status = entry.stat()
                        if stat.S_ISREG(status.st_mode):
                            found[name] = _version(status)
                if len(found) > MOST_FILES:
                    raise TooManyFilesError(
                        f"{self.path} has more than {MOST_FILES} files: it is not synced",
                        hint="let the program keep what is not a checkpoint somewhere else",
                    )

    def pin(self, names: Iterable[str]) -> PinnedFiles:
        """Keep the present versions of these files, whatever the program does to their names."""
        self._pins += 1
        return PinnedFiles(self.path, self._beside / "pinned" / str(self._pins), names)

    # Restoring

    def restore(
        self, snapshot: Snapshot, read: Callable[[str], Iterator[bytes]], tell: Tell
    ) -> bool:
        """Make the directory equal to the snapshot, at once; False if it is already.

        Files that are there already are not read again. What was in the directory is kept
        beside it, up to the next time.
        """
        present = self.scan()
        same = {name for name in snapshot if _is_same(snapshot[name], present.get(name))}
        if len(same) == len(snapshot) == len(present):
            return False
        needed = sum(file.size for name, file in snapshot.items() if name not in same)
        self._beside.mkdir(parents=True, exist_ok=True)
        free = shutil.disk_usage(self._beside).free
        if needed > free:
            raise NoSpaceError(
                f"the last snapshot cannot be restored to {self.path}: it needs {needed} bytes "
                f"on the disk, which has {free}",
                hint="use nodes with larger disks, or keep fewer checkpoints",
            )
        whole = self._beside / "restoring"
        remove_tree(whole)
        whole.mkdir()
        progress = _Progress(tell, len(snapshot) - len(same), needed)
        for name, file in snapshot.items():
            target = whole / name
            target.parent.mkdir(parents=True, exist_ok=True)
            if name in same:
                _link_or_copy(os.path.realpath(self.path / name), target)
            else:
                _write(target, name, file, read(name))
                progress.add(file.size)
        self._swap(whole)
        return True

    def _swap(self, whole: Path) -> None:
        replaced = self._beside / "replaced"
        remove_tree(replaced)
        with contextlib.suppress(FileNotFoundError):
            self.path.rename(replaced)
        self.path.parent.mkdir(parents=True, exist_ok=True)
        whole.rename(self.path)

    # What is remembered in the container

    def remember(self, text: str) -> None:
        """Keep a text beside the directory, for later attempts in the same container.

        If that fails, there is none: an earlier one does not hold any more.
        """
        state, new = self._beside / "state", self._beside / "state.new"
        try:
            self._beside.mkdir(parents=True, exist_ok=True)
            new.write_text(text)
            new.rename(state)
        except OSError:
            with contextlib.suppress(OSError):
                state.unlink()
            raise

    def remembered(self) -> str:
        """Return the text; "" if there is none."""
        try:
            return (self._beside / "state").read_text()
        except FileNotFoundError:
            return ""


class PinnedFiles:
    """Versions of files that can be read after the program has renamed or removed them.

    They are hard links, which cost nothing. A file that cannot be linked keeps its own path.
    What a program writes to the file itself still changes it.
    """

    def __init__(self, directory: Path, folder: Path, names: Iterable[str]) -> None:
        self._folder = folder
        self._paths: dict[str, Path] = {}
        # Without the folder, on a full disk, no file can be linked.
        with contextlib.suppress(OSError):
            remove_tree(folder)
            folder.mkdir(parents=True)
        for number, name in enumerate(names):
            # The path of the file itself, not that of a link to it.
            source, link = Path(os.path.realpath(directory / name)), folder / str(number)
            try:
                os.link(source, link)
                self._paths[name] = link
            except OSError:
                self._paths[name] = source

    def path(self, name: str) -> Path:
        """Where a file can be read."""
        return self._paths[name]

    def version(self, name: str) -> FileVersion | None:
        """The version as it is now; None if it could not be kept."""
        try:
            return _version(self._paths[name].stat())
        except FileNotFoundError:
            return None

    def release(self) -> None:
        """Give the space of removed files back."""
        remove_tree(self._folder)


class FileReader:
    """Reads one version of a file, and knows its checksum then."""

    def __init__(self, path: Path, name: str, version: FileVersion) -> None:
        self._path = path
        self._version = version
        self._only_a_part = is_growing(name)
        self.crc = 0

    def pieces(self) -> Iterator[bytes]:
        """Yield the bytes. Raises :class:`ChangedError` if they are not those of the version."""
        left = self._version.size
        try:
            descriptor = os.open(self._path, os.O_RDONLY)
        except FileNotFoundError as exc:
            raise ChangedError from exc
        except PermissionError as exc:
            raise UnreadableError(f"it cannot be read: {exc.strerror}") from exc
        with open(descriptor, "rb", buffering=0) as file:
            self._check(descriptor)
            while left:
                piece = file.read(min(CHUNK, left))
                if not piece:
                    raise ChangedError
                left -= len(piece)
                self.crc = zlib.crc32(piece, self.crc)
                yield piece
            self._check(descriptor)

    def _check(self, descriptor: int) -> None:
        now = _version(os.fstat(descriptor))
        wanted = self._version
        if self._only_a_part:
            if now.size < wanted.size:
                raise ChangedError
        elif (now.size, now.mtime_ns, now.inode) != (wanted.size, wanted.mtime_ns, wanted.inode):
            raise ChangedError


def is_being_written(path: Path) -> bool:
    """Whether a process has the file open for writing. False also if that cannot be told.

    Linux gives a lease for reading only while nobody writes. The process must ignore SIGIO,
    which comes if somebody opens the file for writing at that very moment.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY)
    except OSError:
        return False
    try:
        fcntl.fcntl(descriptor, fcntl.F_SETLEASE, fcntl.F_RDLCK)
        fcntl.fcntl(descriptor, fcntl.F_SETLEASE, fcntl.F_UNLCK)
    except OSError as exc:
        return exc.errno == errno.EAGAIN
    finally:
        os.close(descriptor)
    return False


def remove_tree(path: Path) -> None:
    """Remove a directory with its contents, or a link to one; it is no error if there is none."""
    with contextlib.suppress(FileNotFoundError):
        if path.is_symlink():
            path.unlink()
        else:
            shutil.rmtree(path)


class _Progress:
    def __init__(self, tell: Tell, files: int, size: int) -> None:
        self._tell, self._files, self._size = tell, files, size
        self._files_done = self._size_done = 0
        self._told = time.monotonic()

    def add(self, size: int) -> None:
        self._files_done += 1
        self._size_done += size
        if time.monotonic() > self._told + _TELL_S:
            self._told = time.monotonic()
            self._tell(
                f"restored {self._files_done} of {self._files} files, "
                f"{self._size_done >> 20} of {self._size >> 20} MB"
            )


def _write(target: Path, name: str, file: SyncedFile, pieces: Iterator[bytes]) -> None:
    crc = size = 0
    with target.open("xb") as output:
        for piece in pieces:
            output.write(piece)
            crc = zlib.crc32(piece, crc)
            size += len(piece)
            if size > file.size:
                break
    if (crc, size) != (file.crc, file.size):
        raise DamagedFileError(
            f"{name} cannot be restored: it is not what was synced, "
            "somebody has changed it or its disk has"
        )
    target.chmod(file.mode & 0o777 | _READABLE)
    os.utime(target, ns=(file.mtime_ns, file.mtime_ns))


def _link_or_copy(source: str, target: Path) -> None:
    try:
        os.link(source, target)
    except OSError:
        # A link may lead to another file system, or to a file of another user.
        shutil.copy2(source, target)


def _is_same(file: SyncedFile, version: FileVersion | None) -> bool:
    return version is not None and file.is_version(version)


def _version(status: os.stat_result) -> FileVersion:
    return FileVersion(
        size=status.st_size,
        # A manifest has no times before 1970.
        mtime_ns=max(0, status.st_mtime_ns),
        inode=status.st_ino,
        mode=stat.S_IMODE(status.st_mode) & 0o777 | _READABLE,
    )


def _is_text(name: str) -> bool:
    try:
        name.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True
