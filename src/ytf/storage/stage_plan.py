"""Plans what stage-in copies: which files, under which names, and which of them for which task.

Names are kept from the last part of the source's path on; with wildcards, from
the first part that has one. Of a directory without wildcards that goes to a
named directory, the content goes there.
"""

from __future__ import annotations

import posixpath
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from ytf.errors import NotFoundError, SpecError
from ytf.starter.config import CONTAINER_DIR
from ytf.storage.files import Files, FileStatus
from ytf.storage.globs import expand, first_wildcard, unescaped

_MOST_LEVELS = 100
"""The deepest tree: links on a local disk can make an endless one."""


@dataclass(frozen=True, slots=True)
class StagedFile:
    """One file to copy: from a path of a file system to one relative to the working directory."""

    files: Files
    source: str
    target: str
    size: int
    mtime_ms: int


@dataclass(frozen=True, slots=True)
class StagePlan:
    """All that one task copies. ``directories`` are those that would be empty otherwise."""

    files: list[StagedFile]
    directories: list[str]

    @property
    def size(self) -> int:
        """The bytes of all files."""
        return sum(each.size for each in self.files)


def plan_source(
    files: Files, path: str, to: str | None, *, shard: tuple[int, int] | None = None
) -> StagePlan:
    """Plan one source. ``to`` None: it appears in the working directory, under its own name.

    ``shard`` is this task's index and the number of tasks: file i of the sorted listing
    is for the task i modulo their number. Raises ``NotFoundError`` if there is nothing to
    copy, and what ``files`` raises.
    """
    found: list[StagedFile] = []
    folders: list[str] = []
    for root, name in _roots(files, path, to):
        for status, found_name in _walk(files, root, name):
            target = _checked(found_name, files.uri(status.path))
            if status.is_directory:
                folders.append(target)
            else:
                found.append(StagedFile(files, status.path, target, status.size, status.mtime_ms))
    found.sort(key=lambda each: each.source)
    if shard is not None:
        index, count = shard
        found = found[index::count]
    return StagePlan(found, folders)


def _checked(name: str, source: str) -> str:
    """Return the one form of a name in the working directory; ytf's own directory is not for data.

    Names in a shared directory are chosen by whoever may write there.
    """
    target = posixpath.normpath(name)
    if target.split("/")[0] == CONTAINER_DIR:
        raise SpecError(
            f"{source} would be {target} in the working directory, where ytf has files of its own",
            hint="stage it into another directory (SRC:DIR), or leave it out",
        )
    return target


def merge(plans: Iterable[StagePlan]) -> StagePlan:
    """Return all plans as one; raises ``SpecError`` if two sources would be the same file."""
    by_target: dict[str, StagedFile] = {}
    folders: dict[str, None] = {}
    for plan in plans:
        folders.update(dict.fromkeys(plan.directories))
        for each in plan.files:
            known = by_target.setdefault(each.target, each)
            if known.files.uri(known.source) != each.files.uri(each.source):
                raise SpecError(
                    f"two sources would both be the file {each.target}: "
                    f"{known.files.uri(known.source)} and {each.files.uri(each.source)}",
                    hint="stage one of them into another directory: SRC:DIR",
                )
    return StagePlan(list(by_target.values()), list(folders))


def _roots(files: Files, path: str, to: str | None) -> Iterator[tuple[FileStatus, str]]:
    """Yield what a source matches, and the name of each in the working directory."""
    wild = first_wildcard(path)
    if wild is None:
        root = files.stat(unescaped(path))
        if root.is_directory:
            yield root, root.name if to is None else to
        else:
            yield root, posixpath.join(to or "", root.name)
        return
    matches = expand(files, path)
    if not matches:
        raise NotFoundError(f"nothing matches {path}")
    for each in matches:
        below = each.path.split("/")[wild:]
        yield each, posixpath.join(to or "", *below)


def _walk(
    files: Files, root: FileStatus, name: str, level: int = 0
) -> Iterator[tuple[FileStatus, str]]:
    if not root.is_directory:
        yield root, name
        return
    if level > _MOST_LEVELS:
        raise SpecError(f"{files.uri(root.path)} is more than {_MOST_LEVELS} directories deep")
    inside = files.list(root.path)
    if not inside:
        yield root, name
    for each in inside:
        yield from _walk(files, each, posixpath.join(name, each.name), level + 1)
