"""Directories for programs at the submitter's terminal; what a killed one leaves is found again.

Whoever made one holds a lock on it, which ends with the process however that
ends.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shlex
from collections.abc import Iterator
from pathlib import Path

from ytf.backends.local.home import writing
from ytf.backends.local.removal import remove_tree
from ytf.errors import NotFoundError

_PREFIX = "ytf-client-"


@contextlib.contextmanager
def client_directory(staging: Path) -> Iterator[Path]:
    """A new directory whose path is one word for a shell, for as long as one needs it.

    It lies in the job's staging directory, and goes with the job; where that
    has spaces or the like in its path, among the machine's temporary files.
    Raises ``NotFoundError`` if the job is over.
    """
    parent = _within(staging)
    is_word = shlex.quote(str(parent)) == str(parent)
    with contextlib.ExitStack() as stack:
        directory = None
        with writing(parent), running(staging.name):
            if is_word:
                parent.mkdir(mode=0o700, exist_ok=True)
            while directory is None:
                directory = _locked_directory(parent if is_word else _temporary(), stack)
        try:
            yield directory
        finally:
            remove_tree(str(directory))


@contextlib.contextmanager
def running(job: str) -> Iterator[None]:
    """Turn the absence of a job's files into a ``NotFoundError``."""
    try:
        yield
    except FileNotFoundError as exc:
        raise NotFoundError(
            f"job {job} does not run any more", hint=f"`ytf status {job}` tells how it ended"
        ) from exc


def sweep_clients(staging: Path) -> None:
    """Remove what killed clients of a job left in its staging directory."""
    _sweep(_within(staging))


def sweep_temporary() -> None:
    """Remove what killed clients of this user's jobs left among the temporary files."""
    _sweep(_temporary())


def _within(staging: Path) -> Path:
    return staging / "clients"


def _temporary() -> Path:
    # Not tempfile, whose import every command would pay for to look for nothing.
    given = os.environ.get("TMPDIR", "")
    return Path(given) if os.path.isdir(given) else Path("/tmp")


def _locked_directory(parent: Path, stack: contextlib.ExitStack) -> Path | None:
    """A new directory of ours; None if a sweep took it before we could lock it."""
    directory = parent / f"{_PREFIX}{os.urandom(6).hex()}"
    directory.mkdir(mode=0o700)
    try:
        lock = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    except FileNotFoundError:
        return None
    stack.callback(os.close, lock)
    fcntl.flock(lock, fcntl.LOCK_EX)
    return directory if directory.exists() else None


def _sweep(parent: Path) -> None:
    try:
        names = os.listdir(parent)
    except FileNotFoundError:
        return
    for name in names:
        if name.startswith(_PREFIX):
            _remove_unlocked(str(parent / name))


def _remove_unlocked(directory: str) -> None:
    try:
        lock = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    except OSError:
        return  # another's, or no directory, or just removed
    try:
        if os.fstat(lock).st_uid == os.getuid():
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            remove_tree(directory)
    except BlockingIOError:
        return  # its program runs
    finally:
        os.close(lock)
