"""Makes and removes the working directories of client programs (``ytf-submit --client``).

The program runs at the submitter's terminal. The process that made a directory
holds a lock on it. The kernel releases the lock when the process ends, so gc
finds the directories of killed clients.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shlex
from collections.abc import Iterator
from pathlib import Path

from ytf.backends.api import job_ended_error
from ytf.backends.local.directories import map_write_errors
from ytf.backends.local.files import remove_tree
from ytf.specs.ids import JobId

_PREFIX = "ytf-client-"


@contextlib.contextmanager
def client_directory(job: JobId, staging: Path | None) -> Iterator[Path]:
    """Make a directory whose path needs no quoting in a shell; remove it at the end.

    It is a part of the job's staging directory, and is removed with it. If
    there is none on this machine, or its path needs quoting, the directory is
    made below ``TMPDIR``. Raises ``NotFoundError`` if the job is over.
    """
    in_staging = None if staging is None else _parent_in_staging(staging)
    if in_staging is not None and not _is_shell_word(in_staging):
        in_staging = None
    parent = in_staging or _temporary()
    with contextlib.ExitStack() as stack:
        directory = None
        with map_write_errors(parent), not_found_if_ended(job):
            if in_staging is not None:
                in_staging.mkdir(mode=0o700, exist_ok=True)
            while directory is None:
                directory = _locked_directory(parent, stack)
        try:
            yield directory
        finally:
            remove_tree(str(directory))


@contextlib.contextmanager
def not_found_if_ended(job: JobId) -> Iterator[None]:
    """Turn a ``FileNotFoundError`` for a job's file into a ``NotFoundError`` for the job."""
    try:
        yield
    except FileNotFoundError as exc:
        raise job_ended_error(job) from exc


def gc_client_directories(staging: Path) -> None:
    """Remove what killed clients of a job left in its staging directory."""
    _remove_unused(_parent_in_staging(staging))


def gc_temporary_directories() -> None:
    """Remove what killed clients of this user's jobs left below ``TMPDIR``."""
    _remove_unused(_temporary())


def _parent_in_staging(staging: Path) -> Path:
    return staging / "clients"


def _is_shell_word(path: Path) -> bool:
    return shlex.quote(str(path)) == str(path)


def _temporary() -> Path:
    # Without tempfile: every command runs gc and would pay for that import.
    given = os.environ.get("TMPDIR", "")
    return Path(given) if os.path.isdir(given) else Path("/tmp")


def _locked_directory(parent: Path, stack: contextlib.ExitStack) -> Path | None:
    """Make and lock a new directory; None if gc removed it before it was locked."""
    directory = parent / f"{_PREFIX}{os.urandom(6).hex()}"
    directory.mkdir(mode=0o700)
    try:
        lock = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    except FileNotFoundError:
        return None
    stack.callback(os.close, lock)
    fcntl.flock(lock, fcntl.LOCK_EX)
    return directory if directory.exists() else None


def _remove_unused(parent: Path) -> None:
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
        return  # it belongs to another user, is no directory, or has just been removed
    try:
        if os.fstat(lock).st_uid == os.getuid():
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            remove_tree(directory)
    except BlockingIOError:
        return  # its client runs
    finally:
        os.close(lock)
