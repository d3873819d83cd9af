"""Writes files atomically, removes directory trees and finds full disks, for node and clients.

Standard library only, and not ``shutil``: its import alone would cost the node
more than removing what most tasks leave.
"""

from __future__ import annotations

import contextlib
import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable


DISK_FULL_BYTES = 1 << 20
"""A disk with less free room than this is full: jobs are refused, failed writes are its fault."""


def write_atomically(path: str, text: str) -> None:
    """Write a file so that readers see either all of it or the previous content."""
    new = f"{path}.{os.getpid()}.new"
    try:
        with open(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
            file.write(text)
        os.replace(new, path)
    except OSError:
        if os.path.exists(new):
            os.unlink(new)
        raise


def free_bytes(directory: str) -> int:
    """Return how much this user can still write to the disk of a directory."""
    disk = os.statvfs(directory)
    if disk.f_blocks == 0:
        return 1 << 62  # a file system that does not tell its size
    return (disk.f_bavail if os.geteuid() else disk.f_bfree) * disk.f_frsize


def remove_tree(path: str) -> None:
    """Remove a directory and all below it; a path that does not exist is no error.

    A directory without write permission for its owner gets it first. Symbolic
    links are removed, not followed.
    """
    directories = [path]
    for directory in directories:
        directories += _remove_files(directory)
    for directory in reversed(directories):
        _ignore_missing(os.rmdir, directory)


def _remove_files(directory: str) -> list[str]:
    """Remove everything in a directory but its subdirectories, and return those."""
    subdirectories = []
    with contextlib.suppress(FileNotFoundError):
        if os.stat(directory).st_mode & 0o700 != 0o700:
            os.chmod(directory, 0o700)
        with os.scandir(directory) as entries:
            for entry in entries:
                if entry.is_dir(follow_symlinks=False):
                    subdirectories.append(entry.path)
                else:
                    _ignore_missing(os.unlink, entry.path)
    return subdirectories


def _ignore_missing(remove: Callable[[str], None], path: str) -> None:
    with contextlib.suppress(FileNotFoundError):
        remove(path)
