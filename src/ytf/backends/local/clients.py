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

from ytf.backends.api import over
from ytf.backends.local.home import writing
from ytf.backends.local.removal import remove_tree
from ytf.specs.names import JobId

_PREFIX = "ytf-client-"


@contextlib.contextmanager
def client_directory(job: JobId, staging: Path | None) -> Iterator[Path]:
    """A new directory whose path is one word for a shell, for as long as one needs it.

    It lies in the job's staging directory, and goes with the job; where there
    is none on this machine, or it has spaces or the like in its path, among the
    machine's temporary files. Raises ``NotFoundError`` if the job is over.
    """
    within = None if staging is None else _within(staging)
    if within is not None and not _is_word(within):
        within = None
    parent = within or _temporary()
    with contextlib.ExitStack() as stack:
        directory = None
        with writing(parent), running(job):
            if within is not None:
                within.mkdir(mode=0o700, exist_ok=True)
            while directory is None:
                directory = _locked_directory(parent, stack)
        try:
            yield directory
        finally:
            remove_tree(str(directory))


@contextlib.contextmanager
def running(job: JobId) -> Iterator[None]:
    """Turn the absence of a job's files into a ``NotFoundError``."""
    try:
        yield
    except FileNotFoundError as exc:
        raise over(job) from exc


def sweep_clients(staging: Path) -> None:
    """Remove what killed clients of a job left in its staging directory."""
    _sweep(_within(staging))


def sweep_temporary() -> None:
    """Remove what killed clients of this user's jobs left among the temporary files."""
    _sweep(_temporary())


def _within(staging: Path) -> Path:
    return staging / "clients"


def _is_word(path: Path) -> bool:
    return shlex.quote(str(path)) == str(path)


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
