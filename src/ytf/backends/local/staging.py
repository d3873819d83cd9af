"""Copies a job's uploads into its staging directory, and from there into each container.

Every container gets its own copies, so that a task which edits a shipped file
does not change it for other tasks.
"""

from __future__ import annotations

import os
import shutil
import stat
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

from ytf.errors import SpecError

if TYPE_CHECKING:
    from ytf.backends.api import Upload


def stage_upload(upload: Upload, files: Path) -> None:
    """Copy a file or directory into a job's ``files``, modes preserved.

    A relative symbolic link inside a directory stays a link if its target is
    inside the directory too; every other link is followed. Raises ``SpecError``
    for what cannot be shipped: a missing file, a socket, a link that leads round
    in a circle, the directory where jobs are staged.
    """
    name = PurePosixPath(upload.name)
    if name.is_absolute() or ".." in name.parts or not name.parts:
        raise SpecError(
            f"{upload.name!r} cannot be the name of a shipped file",
            hint="use a name relative to the task's working directory",
        )
    target = files / name
    if target.exists():
        raise SpecError(f"two shipped files would both be called {upload.name!r}")
    target.parent.mkdir(parents=True, exist_ok=True)
    source = Path(upload.source)
    _copy(source, target, root=Path(os.path.realpath(source)), inside_of=())


def copy_staged_files(files: Path, directory: Path) -> None:
    """Copy a job's staged ``files`` into a container's working directory."""
    shutil.copytree(files, directory, symlinks=True, dirs_exist_ok=True)


def _copy(source: Path, target: Path, *, root: Path, inside_of: tuple[str, ...]) -> None:
    try:
        mode = source.stat().st_mode
    except FileNotFoundError:
        pointing = " (a link that leads nowhere)" if source.is_symlink() else ""
        raise SpecError(f"cannot ship {source}: no such file{pointing}") from None
    except OSError as exc:
        raise SpecError(f"cannot ship {source}: {exc.strerror}") from exc
    if stat.S_ISREG(mode):
        try:
            shutil.copy2(source, target)
        except PermissionError as exc:
            raise SpecError(f"cannot ship {source}: {exc.strerror}") from exc
    elif stat.S_ISDIR(mode):
        _copy_directory(source, target, root=root, inside_of=inside_of)
    else:
        raise SpecError(f"cannot ship {source}: it is neither a file nor a directory")


def _copy_directory(source: Path, target: Path, *, root: Path, inside_of: tuple[str, ...]) -> None:
    real = os.path.realpath(source)
    if real in inside_of:
        raise SpecError(f"cannot ship {source}: its links lead round in a circle")
    if Path(os.path.realpath(target.parent)).is_relative_to(real):
        raise SpecError(
            f"cannot ship {source}: the directory where ytf keeps jobs is in it",
            hint="ship less, or set YTF_HOME to a directory elsewhere",
        )
    try:
        entries = sorted(os.scandir(source), key=lambda entry: entry.name)
    except PermissionError as exc:
        raise SpecError(f"cannot ship {source}: {exc.strerror}") from exc
    target.mkdir()
    for entry in entries:
        path = Path(entry.path)
        if entry.is_symlink() and _stays_inside(path, root):
            os.symlink(os.readlink(path), target / entry.name)
        else:
            _copy(path, target / entry.name, root=root, inside_of=(*inside_of, real))
    # Last, because a read-only directory takes no more files.
    shutil.copystat(source, target)


def _stays_inside(link: Path, root: Path) -> bool:
    if os.path.isabs(os.readlink(link)):
        return False
    return Path(os.path.realpath(link)).is_relative_to(root)
