"""Removing what tasks left, whatever modes they gave it."""

from __future__ import annotations

import contextlib
import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable


def remove_tree(path: str) -> None:
    """Remove a directory and all below it; what is already gone is no error.

    A directory that its owner may not change is made changeable first, and
    links are not followed. Not ``shutil``, whose import alone would cost the
    node more than removing what most tasks leave.
    """
    directories = [path]
    for directory in directories:
        directories += _emptied(directory)
    for directory in reversed(directories):
        _gone(os.rmdir, directory)


def _emptied(directory: str) -> list[str]:
    """Remove what is in a directory but for directories, which it answers."""
    below = []
    with contextlib.suppress(FileNotFoundError):
        if os.stat(directory).st_mode & 0o700 != 0o700:
            os.chmod(directory, 0o700)
        with os.scandir(directory) as entries:
            for entry in entries:
                if entry.is_dir(follow_symlinks=False):
                    below.append(entry.path)
                else:
                    _gone(os.unlink, entry.path)
    return below


def _gone(remove: Callable[[str], None], path: str) -> None:
    with contextlib.suppress(FileNotFoundError):
        remove(path)
