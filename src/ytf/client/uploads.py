"""The files that travel with a job."""

from __future__ import annotations

import os
from pathlib import Path

import msgspec

from ytf.errors import SpecError
from ytf.specs.job import JobSpec
from ytf.specs.urls import is_url


class Upload(msgspec.Struct, frozen=True, kw_only=True):
    """A file or directory that travels with the job."""

    source: str
    """Absolute path at the submitter's, or the URL of something in HDFS."""
    name: str
    """Its name in each task's working directory."""


def absolute(path: str, base: Path) -> str:
    """A path from ``/`` on; a URL as it is."""
    return path if is_url(path) else os.path.normpath(base / path)


def safe_name(name: str) -> str:
    """A name that an unquoted ``$DTF_TASK_SCRIPT`` leaves whole; most names are their own.

    Letters and digits of any script are safe; what a shell would split or
    expand, or a program take for an option, becomes an underscore.
    """
    safe = "".join(char if char.isalnum() or char in "._-+@%" else "_" for char in name)
    return "_" + safe[1:] if safe.startswith("-") else safe


def collect(spec: JobSpec, base: Path, *, remote: bool) -> list[Upload]:
    """What ``script`` and ``files`` name, found and absolute; ``SpecError`` for what is missing.

    With ``remote`` it may be a URL in HDFS, which only the backend can look at.
    A script whose name is not safe is shipped under its safe name too.
    """
    uploads: list[Upload] = []
    if spec.script is not None:
        source = _existing(spec.script, base, "script", remote)
        if os.path.isdir(source):
            raise SpecError(
                f"{source} is a directory", where="script", hint="--files ships directories"
            )
        name = os.path.basename(spec.script)
        uploads.append(Upload(source=source, name=name))
        alias = safe_name(name)
        if alias != name:
            if alias in spec.files:
                raise SpecError(
                    f"the script {name!r} is also shipped as {alias!r}, for commands that do not "
                    "quote its name, and a file of that name is shipped already",
                    where="files",
                    hint="rename one of the two",
                )
            uploads.append(Upload(source=source, name=alias))
    for name, path in spec.files.items():
        uploads.append(Upload(source=_existing(path, base, f"files.{name}", remote), name=name))
    return uploads


def _existing(path: str, base: Path, where: str, remote: bool) -> str:
    if is_url(path):
        if remote and path.startswith("hdfs://"):
            return path
        raise SpecError(
            f"{path} cannot be shipped",
            where=where,
            hint="ship a file of this machine"
            + (
                ", or one in HDFS: hdfs://…" if remote else ": files in HDFS are for --backend yarn"
            ),
        )
    place = base / path
    if not place.exists():
        # A path from / on says by itself where it was looked for.
        there = "" if os.path.isabs(path) else f" in {place.parent}"
        raise SpecError(f"there is no file {path!r}{there}", where=where)
    if not os.access(place, os.R_OK):
        raise SpecError(f"{place} cannot be read", where=where, hint="check its permissions")
    return os.path.normpath(place)
