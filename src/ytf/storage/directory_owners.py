"""Checks that no stranger can replace a directory: of staged jobs, or of the layer store.

Whoever can write to a directory can rename what is in it and put something else in its
place, which then runs as the submitter. So every directory on the way counts, not only the
last one. A sticky directory (mode 1777) is safe: there, only owners can rename. The owner of
``/`` is the superuser of HDFS and its group is that of the superusers; they are trusted, as
they can do everything anyway. Others whom an access control list lets write show in the
mode as the group does; so where the group may write, the list is asked for.
"""

from __future__ import annotations

import posixpath
from collections.abc import Collection

from ytf.errors import SettingsError
from ytf.storage.files import Files, FileStatus

_GROUP_WRITES, _EVERYONE_WRITES, _STICKY = 0o020, 0o002, 0o1000


def check_owners(files: Files, path: str, trusted: Collection[str]) -> list[FileStatus]:
    """Return the status of a directory and of all above it, up to ``/``.

    Raises ``SettingsError`` if a user who is not in ``trusted`` owns one of them or can
    rename what is in it.
    """
    places = [path]
    while places[-1] != "/":
        places.append(posixpath.dirname(places[-1]))
    found = [files.stat(place) for place in places]
    for status in found:
        _check(files, path, status, found[-1], trusted)
    return found


def _check(
    files: Files, path: str, status: FileStatus, top: FileStatus, trusted: Collection[str]
) -> None:
    if status.owner not in trusted and status.owner != top.owner:
        problem = f"belongs to {status.owner}"
        hint = "let an administrator give it to you"
    elif _others_can_rename(status, top):
        problem = f"can be written by others: its mode is {status.mode:o}"
        hint = f"let its owner, {status.owner}, close it: hdfs dfs -chmod go-w {status.path}"
    elif strangers := _strangers_in_acl(files, status, top, trusted):
        problem = f"can be written by {', '.join(strangers)}: it has an access control list"
        hint = f"let its owner, {status.owner}, remove that: hdfs dfs -setfacl -b {status.path}"
    else:
        return
    relation = "" if status.path == path else f", and {path} is in it"
    raise SettingsError(f"{files.uri(status.path)} {problem}{relation}", hint=hint)


def _others_can_rename(status: FileStatus, top: FileStatus) -> bool:
    if status.mode & _STICKY:
        return False
    by_group = status.mode & _GROUP_WRITES and status.group != top.group
    return bool(status.mode & _EVERYONE_WRITES or by_group)


def _strangers_in_acl(
    files: Files, status: FileStatus, top: FileStatus, trusted: Collection[str]
) -> list[str]:
    if status.mode & _STICKY or not status.mode & _GROUP_WRITES:
        return []
    harmless = {f"group:{top.group}", f"user:{top.owner}", *(f"user:{name}" for name in trusted)}
    return [each for each in files.acl_writers(status.path) if each not in harmless]
