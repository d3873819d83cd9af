"""Makes environments from archives in HDFS, of which each version is downloaded once.

A version is a file's URL, size and modification time. They name the environment: one that is
made already needs no look at the content, and a changed file becomes another one. The copy of
the archive is in ``$YTF_HOME/environments/.downloads/<name>/``. It gets its own name there when
it is whole, and is removed when the environment is made. If that fails, the whole copy stays
(unless the disk is full): the next try need not download it again.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import sys
import time
from pathlib import Path
from typing import IO

from ytf.errors import SettingsError, YtfError
from ytf.hadoop.conf import Configuration
from ytf.home import home_directory, make_private_directory
from ytf.packaging.environment_archives import (
    FULL_DISK_HINT,
    PEX_SUFFIXES,
    ZIP_SUFFIXES,
    make_from_archive,
)
from ytf.packaging.installers import InstallProgress
from ytf.packaging.made_environments import DOWNLOADS, FOLDER, INCOMPLETE, EnvironmentRecipe
from ytf.specs.amounts import format_bytes
from ytf.storage.copy_pool import retry
from ytf.storage.files import Files, FileStatus
from ytf.storage.hdfs_client import COMMAND_ANSWER_S
from ytf.storage.hdfs_errors import HdfsIsADirectoryError
from ytf.storage.open_url import open_url


def download_recipe(url: str, conf: Configuration) -> EnvironmentRecipe:
    """Return how to make the environment in an archive in HDFS. Downloads nothing yet.

    Raises ``FileNotFoundError`` if there is no such file, ``IsADirectoryError`` if it is a
    directory, another ``YtfError`` if HDFS does not answer or refuses, and ``ValueError`` if
    the URL is none.
    """
    files, path = open_url(url, conf, answer_s=COMMAND_ANSWER_S)
    status = files.stat(path)
    if status.is_directory:
        raise HdfsIsADirectoryError(f"{url} is a directory")
    version = repr((files.uri(path), status.size, status.mtime_ms))
    name = f"hdfs-{hashlib.sha256(version.encode(errors='surrogateescape')).hexdigest()[:16]}"
    if status.name.endswith((*PEX_SUFFIXES, *ZIP_SUFFIXES)):
        # It is, or may be, a pex file: its environment is for the Python that makes it.
        name += f"-{sys.implementation.cache_tag}"

    def make(target: Path, progress: InstallProgress) -> None:
        folder = home_directory(FOLDER) / DOWNLOADS / name
        file = _ensure_copy(files, status, url, folder, progress)
        try:
            make_from_archive(file, target, progress)
        except SettingsError as exc:
            if isinstance(exc.__cause__, OSError):
                # Most likely the disk is full, and then it must not stay so.
                shutil.rmtree(folder, ignore_errors=True)
            raise SettingsError(f"{url}: {exc}", hint=exc.hint) from exc
        shutil.rmtree(folder, ignore_errors=True)

    return EnvironmentRecipe(name=name, about=status.name, make=make)


def _ensure_copy(
    files: Files, status: FileStatus, url: str, folder: Path, progress: InstallProgress
) -> Path:
    """Return the path of the whole copy of a file, which is downloaded if it is not there.

    Only one process may do so at a time. What another one left incomplete is replaced.
    """
    file = folder / status.name
    if file.exists():
        return file
    size = format_bytes(status.size)
    try:
        make_private_directory(folder.parent)
        make_private_directory(folder)
        free = shutil.disk_usage(folder).free
        if free < status.size:
            raise SettingsError(
                f"{url} has {size}, and the disk of {folder} has {format_bytes(free)} free",
                hint=FULL_DISK_HINT,
            )
        progress.tell(f"downloading {url}, {size}")
        began = time.monotonic()
        with open(folder / INCOMPLETE, "wb") as copy:
            retry(lambda: _copy_rest(files, status, copy, progress), progress.tell)
            copy.flush()
            os.fsync(copy.fileno())
            copied = copy.tell()
        now = files.stat(status.path)
        if (now.size, now.mtime_ms) != (copied, status.mtime_ms):
            raise SettingsError(
                f"{url} was changed while it was downloaded",
                hint="try again when nobody writes it",
            )
        (folder / INCOMPLETE).rename(file)
        progress.tell(f"downloaded {size} in {time.monotonic() - began:.0f} s")
    except BaseException as exc:
        shutil.rmtree(folder, ignore_errors=True)
        if isinstance(exc, OSError) and not isinstance(exc, YtfError):
            raise SettingsError(
                f"{url} cannot be downloaded to {folder}: {exc.strerror or exc}",
                hint=FULL_DISK_HINT,
            ) from exc
        raise
    return file


def _copy_rest(
    files: Files, status: FileStatus, copy: IO[bytes], progress: InstallProgress
) -> None:
    """Append what is missing: after an error that passed, it goes on where it was."""
    while copy.tell() < status.size:
        done = copy.tell()
        for piece in files.read(status.path, done, status.size - done):
            copy.write(piece)
            progress.working(f"{format_bytes(copy.tell())} of {format_bytes(status.size)}")
        if copy.tell() == done:
            # It has become shorter, which a look at it will tell.
            return
