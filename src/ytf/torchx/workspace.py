"""Copies the workspace of a torchx app, which is what its tasks get of this machine's files."""

from __future__ import annotations

import fnmatch
import os
import shutil
import stat
from pathlib import Path
from urllib.parse import unquote, urlsplit

from ytf.errors import SpecError

IGNORE_FILE = ".torchxignore"
"""Patterns of what is not copied, one in a line, as in a ``.dockerignore``; ``!`` is an exception.
"""


def workspace_directory(workspace: str) -> Path:
    """Return the directory that ``--workspace`` names, a path or a ``file://`` URL."""
    parts = urlsplit(workspace)
    path = Path(unquote(parts.path) if parts.scheme == "file" else workspace)
    if parts.scheme not in ("", "file") or not path.is_dir():
        raise SpecError(
            f"the workspace {workspace} is no directory of this machine",
            hint='name one with --workspace, or none with --workspace=""',
        )
    return path.absolute()


def copy_workspace(source: Path, target: Path) -> None:
    """Copy a directory but what its ``.torchxignore`` names, caches, repositories and venvs.

    Links stay links. Sockets and the like are left out.
    """
    patterns = _patterns(source / IGNORE_FILE)

    def left_out(directory: str, names: list[str]) -> set[str]:
        here = Path(directory)
        return {
            name
            for name in names
            if _is_not_source(here / name) or _is_ignored(here / name, source, patterns)
        }

    shutil.copytree(source, target, symlinks=True, ignore=left_out)


def _patterns(file: Path) -> list[str]:
    try:
        lines = file.read_text(encoding="utf-8").splitlines()
    except FileNotFoundError:
        return []
    words = (line.partition("#")[0].strip() for line in lines)
    return [word for word in words if word not in ("", ".")]


def _is_ignored(path: Path, root: Path, patterns: list[str]) -> bool:
    """Whether the last pattern that fits the path, relative to the root, leaves it out."""
    name = path.relative_to(root).as_posix()
    ignored = False
    for pattern in patterns:
        if fnmatch.fnmatchcase(name, pattern.lstrip("!").rstrip("/")):
            ignored = not pattern.startswith("!")
    return ignored


def _is_not_source(path: Path) -> bool:
    if path.name in (".git", "__pycache__") or (path / "pyvenv.cfg").exists():
        return True
    mode = os.lstat(path).st_mode
    return not (stat.S_ISREG(mode) or stat.S_ISDIR(mode) or stat.S_ISLNK(mode))
