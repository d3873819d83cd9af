"""Directory trees as entries of layers."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable

from ytf.packaging.layers import Entry, stamp, target_inside

Skip = Callable[[os.DirEntry[str]], bool]


def nothing(found: os.DirEntry[str]) -> bool:
    """Skip nothing but what never travels."""
    return False


def walk(root: str, into: str = "", skip: Skip = nothing) -> list[Entry]:
    """Every file below a directory, as it will lie below ``into``; in no order.

    Compiled modules are left out: they are made anew. A link that stays below
    ``root`` is kept as a link; one that leaves it is followed, since nothing
    will be there on a node, and one that leads nowhere is left out.
    """
    found: list[Entry] = []
    _walk(found, root, root, into, skip, (os.path.realpath(root),))
    return found


def _walk(
    found: list[Entry], root: str, folder: str, into: str, skip: Skip, above: tuple[str, ...]
) -> None:
    with os.scandir(folder) as items:
        for item in items:
            if item.name == "__pycache__" or skip(item):
                continue
            path = f"{into}/{item.name}" if into else item.name
            if item.is_symlink():
                _follow(found, root, item, path, skip, above)
            elif item.is_dir():
                _walk(found, root, item.path, path, skip, above)
            else:
                status = item.stat()
                if stat.S_ISREG(status.st_mode):
                    found.append(_file(path, item.path, status))


def _follow(
    found: list[Entry],
    root: str,
    item: os.DirEntry[str],
    path: str,
    skip: Skip,
    above: tuple[str, ...],
) -> None:
    try:
        status = item.stat()
    except OSError:
        return  # It leads nowhere, or in a circle.
    target = os.readlink(item.path)
    here = os.path.relpath(item.path, root)
    if target_inside(here, target) is not None:
        found.append(Entry(path=path, source=item.path, target=target))
    elif stat.S_ISREG(status.st_mode):
        found.append(_file(path, item.path, status))
    elif stat.S_ISDIR(status.st_mode):
        real = os.path.realpath(item.path)
        # Not into what it is itself a part of: that would never end.
        if not any(f"{folder}/".startswith(f"{real}/") for folder in above):
            _walk(found, item.path, item.path, path, skip, (*above, real))


def file_entry(path: str, source: str) -> Entry:
    """One file, whatever links lead to it, as it will lie at ``path``."""
    return _file(path, source, os.stat(source))


def _file(path: str, source: str, status: os.stat_result) -> Entry:
    return Entry(
        path=path,
        source=source,
        executable=bool(status.st_mode & 0o111),
        size=status.st_size,
        stamp=stamp(status),
    )
