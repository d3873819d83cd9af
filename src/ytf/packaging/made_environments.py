"""Keeps the environments that ytf makes itself in ``$YTF_HOME/environments``, each made once.

``<name>/`` is an environment, made where it is used: programs in it name that directory.
``.made/<name>`` says whether it is complete. Who makes, uses for a new job or removes an
environment holds the lock on that file, whose modification time is that of the last use.
``.digests/`` has the hashes of archives that were read. ``.downloads/<name>/`` has what an
environment is made from, if that had to be downloaded or unpacked, until the environment is made.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

import msgspec

from ytf.home import home_directory, make_private_directory
from ytf.packaging.installers import InstallProgress
from ytf.packaging.layer_cache import tree_size

FOLDER = "environments"
"""The directory in ``YTF_HOME``."""
RETENTION_S = 30 * 86400.0
DIGESTS = ".digests"
DOWNLOADS = ".downloads"
INCOMPLETE = "incomplete"
"""What is of no use to the next command has this name in ``.downloads/<name>/``."""
_STATES = ".made"
_COMPLETE = "complete "
_OUTDATED = "outdated"


def ignore_progress(text: str) -> None:
    """Do nothing."""


class EnvironmentRecipe(msgspec.Struct, frozen=True, kw_only=True):
    """What an environment is made from, and how."""

    name: str
    """Its directory: the same name means the same content, but for its sources."""
    about: str
    """What it is for, in messages."""
    make: Callable[[Path, InstallProgress], None]
    """Makes it at this path. If it is there already, its sources have changed."""
    sources: str = ""
    """Changes when it has to be brought up to date."""

    @property
    def path(self) -> Path:
        """Where the environment is, or will be."""
        return home_directory(FOLDER) / self.name


def ensure_environment(
    recipe: EnvironmentRecipe, on_progress: Callable[[str], None] = ignore_progress
) -> Path:
    """Return the path of an environment, which is made first if it does not exist.

    ``on_progress`` is called with a text before anything slow. Several processes make it
    once. What the recipe raises leaves nothing at the path, or the environment as it was
    before its sources changed.
    """
    path = recipe.path
    state = path.parent / _STATES / recipe.name
    make_private_directory(path.parent)
    make_private_directory(state.parent)
    waiting = f"waiting for another command that makes an environment for {recipe.about}"
    with _locked(state, lambda: on_progress(waiting)) as file:
        known = file.read()
        if known == _COMPLETE + recipe.sources and _is_usable(path):
            os.utime(state)
            return path
        is_there = known != "" and _is_usable(path)
        _write(file, _OUTDATED if is_there else "")
        if is_there:
            on_progress(f"{recipe.about} has changed: installing it again")
        else:
            shutil.rmtree(path, ignore_errors=True)
            on_progress(f"making an environment for {recipe.about}, once: this may take a minute")
        progress = InstallProgress(on_progress)
        try:
            recipe.make(path, progress)
        except BaseException:
            if not is_there:
                shutil.rmtree(path, ignore_errors=True)
                state.unlink()
            raise
        _write(file, _COMPLETE + recipe.sources)
        on_progress(f"made {path} in {progress.elapsed_s():.0f} s")
    return path


def remove_unused_environments(
    home: Path, retention_s: float = RETENTION_S, *, dryrun: bool = False
) -> list[tuple[Path, int]]:
    """Remove environments that no job was started with for a time, and those half made.

    ``home`` is ``YTF_HOME``. Returns the removed paths and their sizes. ``dryrun`` removes nothing.
    """
    parent = home / FOLDER
    oldest = time.time() - retention_s
    removed = []
    for path in sorted(parent.glob("[!.]*")):
        state = parent / _STATES / path.name
        make_private_directory(state.parent)
        try:
            with _locked(state, _give_up) as file:
                is_whole = file.read() != ""
                if is_whole and os.stat(state).st_mtime >= oldest:
                    continue
                removed.append((path, tree_size(path)))
                if not dryrun:
                    _write(file, "")
                    shutil.rmtree(path, ignore_errors=True)
                    state.unlink()
        except BlockingIOError:
            continue  # It is being made or used at this moment.
    for path in parent.glob(f"{DIGESTS}/*"):
        if not dryrun and path.stat().st_mtime < oldest:
            path.unlink(missing_ok=True)
    return removed


def remove_unused_downloads(
    home: Path, retention_s: float = RETENTION_S, *, dryrun: bool = False
) -> list[tuple[Path, int]]:
    """Remove downloaded files that no environment is made from any more.

    They are incomplete ones that nobody goes on with, and whole ones of which no environment
    could be made for a time. Arguments and result as in :func:`remove_unused_environments`.
    """
    parent = home / FOLDER
    oldest = time.time() - retention_s
    removed = []
    for path in sorted(parent.glob(f"{DOWNLOADS}/*")):
        state = parent / _STATES / path.name
        make_private_directory(state.parent)
        try:
            with _locked(state, _give_up) as file:
                is_made = file.read() != ""
                if is_made or not _has_whole_file(path, oldest):
                    removed.append((path, tree_size(path)))
                    if not dryrun:
                        shutil.rmtree(path, ignore_errors=True)
                if not is_made:
                    state.unlink()
        except BlockingIOError:
            continue  # It is being downloaded or used at this moment.
    return removed


def _has_whole_file(path: Path, oldest: float) -> bool:
    """Whether a directory of a download has a whole file that is not older than this."""
    try:
        return any(
            each.name != INCOMPLETE and each.stat().st_mtime >= oldest for each in path.iterdir()
        )
    except FileNotFoundError:
        return False  # It was removed by a command whose download was interrupted.


def _is_usable(path: Path) -> bool:
    # This follows the link: the interpreter it was made with may be gone.
    return os.access(path / "bin" / "python", os.X_OK)


def _give_up() -> None:
    raise BlockingIOError


@contextmanager
def _locked(state: Path, on_wait: Callable[[], None]) -> Iterator[IO[str]]:
    """Open a state file and hold its lock; the kernel releases it when the process ends."""
    while True:
        with state.open("a+", encoding="utf-8") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                on_wait()
                fcntl.flock(file, fcntl.LOCK_EX)
            if _is_same(file, state):
                file.seek(0)
                yield file
                return


def _is_same(file: IO[str], path: Path) -> bool:
    """Whether an open file is still the one at a path: another process may have removed it."""
    try:
        return os.path.samestat(os.fstat(file.fileno()), os.stat(path))
    except FileNotFoundError:
        return False


def _write(file: IO[str], text: str) -> None:
    file.truncate(0)
    file.write(text)
    file.flush()
