"""Finds ``YTF_HOME``, the directory of ytf's files on the client's machine, for all backends.

What is in it runs as this user (environments, layers, clusters) or is secret. So it is
used only if no other user can write to it: see :mod:`ytf.ownership`.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from ytf.errors import SettingsError
from ytf.ownership import UntrustedError, check_directory


def home(environ: Mapping[str, str] | None = None) -> Path:
    """Return ``YTF_HOME``, by default ``~/.ytf``, as an absolute path.

    Raises ``SettingsError`` if another user can write to it, or replace it.
    """
    given = (os.environ if environ is None else environ).get("YTF_HOME")
    try:
        path = Path(given).absolute() if given else Path.home() / ".ytf"
    except FileNotFoundError as exc:
        raise SettingsError(
            f"YTF_HOME is {given!r}, relative to a working directory that does not exist",
            hint="set YTF_HOME to an absolute path, or cd to another directory",
        ) from exc
    _check(path)
    return path


def home_directory(name: str) -> Path:
    """Return a directory of ``YTF_HOME``, which must be as safe as ``YTF_HOME`` itself."""
    path = home() / name
    _check(path)
    return path


def make_private_directory(path: Path, *, is_checked: bool = True) -> None:
    """Make a directory and those above it that are missing, all for this user alone.

    With a umask of 002, directories of the usual mode could be written by the group.
    Raises ``SettingsError`` if another user can write to what is there then: in a
    directory such as ``/tmp`` somebody may have made it first. A place that the user has
    named is not checked (``is_checked=False``).
    """
    _make(path)
    if is_checked:
        _check(path)


def _make(path: Path) -> None:
    if not path.parent.exists():
        _make(path.parent)
    path.mkdir(mode=0o700, exist_ok=True)


def _check(path: Path) -> None:
    try:
        check_directory(path)
    except UntrustedError as exc:
        where = "there" if exc.path == path else f"in {path}"
        raise SettingsError(
            f"{exc}: ytf keeps no files {where}",
            hint=f"{exc.hint}; or set YTF_HOME to a directory of yours that others cannot replace",
        ) from exc
