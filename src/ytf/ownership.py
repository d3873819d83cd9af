"""Checks that nobody but this user and root can have written what ytf reads.

A settings file decides what runs as the user and what is removed; the directory
``YTF_HOME`` holds programs, secrets and records. So neither is used if another user
can have written it:

**A file** must belong to this user or to root, and others must not be able to write it.
The directories above a regular file do not matter: what is checked is the opened file,
and a user who can replace it cannot give the new one to us. A link is followed if it
belongs to this user or to root, and others cannot replace it.

**A directory** must do the same, and so must every directory and link on the way to it:
otherwise it could be replaced while it is used. On the way, a sticky bit is enough, as in
``/tmp``: others can make files there, but not rename ours. On the way the owner of ``/``
is trusted, too: in a user namespace it need not be root.

**Others can write** if the mode says so for everyone or for the group; an access control
list shows in the mode of the group. A user's private group is no other: it has the user's
name, is the user's primary group and has no further members. Systems with such groups give
new files the mode 664.
"""

from __future__ import annotations

import errno
import grp
import os
import pwd
import shlex
import stat
from collections.abc import Iterator
from pathlib import Path

from ytf.errors import SettingsError

_ROOT = 0
_MAX_LINKS = 40
"""As many as Linux follows."""
_ACCESS_LIST = "system.posix_acl_access"


class UntrustedError(SettingsError):
    """Another user can have written what is at ``path``, or it cannot be told."""

    def __init__(self, path: Path, problem: str, *, hint: str) -> None:
        super().__init__(f"{path} {problem}", hint=hint)
        self.path = path


def read_trusted(path: Path, max_bytes: int) -> bytes:
    """The content of a regular file that only this user and root can have written.

    Raises ``UntrustedError`` for any other file, ``SettingsError`` for one that is too
    long, and ``OSError`` if it does not exist or cannot be read. It never waits, not even
    for the other end of a pipe.
    """
    named = os.lstat(path)
    follow = 0 if stat.S_ISLNK(named.st_mode) else os.O_NOFOLLOW
    if not follow:
        _check_link(path, named)
    _check_regular(path, os.stat(path))
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC | follow)
    try:
        # Again, because another file may have this name since.
        opened = os.fstat(descriptor)
        _check_regular(path, opened)
        _check_owner(path, opened, _trusted_uids())
        _check_mode(path, opened)
        with open(descriptor, "rb", closefd=False) as file:
            data = file.read(max_bytes + 1)
    finally:
        os.close(descriptor)
    if len(data) > max_bytes:
        raise SettingsError(f"{path} is longer than {max_bytes >> 10} KiB")
    return data


def check_directory(path: Path) -> None:
    """Raise ``UntrustedError`` if another user can write to a directory, or replace it.

    What does not exist yet is safe if nobody else can make it in a place of ours.
    ``path`` is absolute.
    """
    on_the_way = {*_trusted_uids(), os.stat("/").st_uid}
    *above, (last, status) = _places(path)
    exists = os.path.realpath(last) == os.path.realpath(path)
    if not exists:
        above.append((last, status))
    for place, found in above:
        _check_owner(place, found, on_the_way)
        if not found.st_mode & stat.S_ISVTX:
            _check_mode(place, found)
    if exists:
        _check_owner(last, status, _trusted_uids())
        _check_mode(last, status)


def _places(path: Path) -> Iterator[tuple[Path, os.stat_result]]:
    """Every directory and link through which a path leads, as far as it exists."""
    place = Path("/")
    yield place, os.lstat(place)
    names = [*reversed(path.parts[1:])]
    links = 0
    while names:
        name = names.pop()
        if name == "..":
            place = place.parent
            continue
        here = place / name
        try:
            found = os.lstat(here)
        except (FileNotFoundError, NotADirectoryError):
            return
        except OSError as exc:
            raise _unknown(here, exc) from exc
        yield here, found
        if not stat.S_ISLNK(found.st_mode):
            place = here
            continue
        links += 1
        if links > _MAX_LINKS:
            raise _unknown(path, OSError(errno.ELOOP, os.strerror(errno.ELOOP)))
        target = Path(os.readlink(here))
        place = Path("/") if target.is_absolute() else place
        names += reversed(target.parts[1:] if target.is_absolute() else target.parts)


def _unknown(path: Path, error: OSError) -> UntrustedError:
    return UntrustedError(
        path, f"cannot be looked at: {error.strerror}", hint="check its permissions"
    )


def _check_link(path: Path, link: os.stat_result) -> None:
    _check_owner(path, link, _trusted_uids())
    folder = os.stat(path.parent)
    if not folder.st_mode & stat.S_ISVTX and _writers(path.parent, folder):
        raise UntrustedError(
            path,
            "is a link, and others can write to its directory",
            hint="put a file in its place",
        )


def _check_regular(path: Path, status: os.stat_result) -> None:
    if not stat.S_ISREG(status.st_mode):
        raise UntrustedError(path, "is not a regular file", hint="remove or rename it")


def _check_owner(path: Path, status: os.stat_result, trusted: set[int]) -> None:
    if status.st_uid not in trusted:
        raise UntrustedError(
            path,
            f"belongs to {_user_name(status.st_uid)}, not to you or root",
            hint="make a copy of your own, if you trust what is in it",
        )


def _check_mode(path: Path, status: os.stat_result) -> None:
    writers = _writers(path, status)
    if writers:
        is_ours = status.st_uid == os.geteuid() and not status.st_mode & stat.S_ISVTX
        raise UntrustedError(
            path,
            f"can be written by {writers}",
            hint=f"look at what is in it, then: chmod go-w {shlex.quote(str(path))}"
            if is_ours
            else "use one that others cannot write",
        )


def _writers(path: Path, status: os.stat_result) -> str:
    """Who else can write it, in words; empty if nobody."""
    if stat.S_ISLNK(status.st_mode):
        return ""
    if status.st_mode & stat.S_IWOTH:
        return "everyone"
    if not status.st_mode & stat.S_IWGRP or status.st_uid not in _trusted_uids():
        return ""
    if _has_access_list(path):
        return "others: it has an access control list"
    return "" if _is_private(status.st_gid) else f"the group {_group_name(status.st_gid)}"


def _is_private(gid: int) -> bool:
    """Whether a group is the private one of this user or of root."""
    try:
        group = grp.getgrgid(gid)
        user = pwd.getpwnam(group.gr_name)
    except KeyError:
        return False
    return (
        user.pw_uid in _trusted_uids()
        and user.pw_gid == gid
        and set(group.gr_mem) <= {group.gr_name}
    )


def _has_access_list(path: Path) -> bool:
    try:
        return _ACCESS_LIST in os.listxattr(path)
    except OSError:
        return False  # the file system has none


def _trusted_uids() -> set[int]:
    return {os.geteuid(), _ROOT}


def _user_name(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return f"user {uid}"


def _group_name(gid: int) -> str:
    try:
        return grp.getgrgid(gid).gr_name
    except KeyError:
        return str(gid)
