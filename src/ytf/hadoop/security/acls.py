"""Hadoop's access control lists: ``user1,user2 group1,group2``, or ``*`` for everybody."""

from __future__ import annotations

import grp
import os
import pwd
from collections.abc import Collection, Iterable

import msgspec

EVERYBODY = "*"


class AccessList(msgspec.Struct, frozen=True):
    """A set of users and groups (``AccessControlList``)."""

    users: frozenset[str]
    groups: frozenset[str]
    everybody: bool = False

    @classmethod
    def parse(cls, text: str) -> AccessList:
        """Parse it. The first space separates users and groups; a list of groups begins with it."""
        if EVERYBODY in text:
            return cls(frozenset(), frozenset(), True)
        users, _, groups = text.partition(" ")
        return cls(frozenset(_names(users)), frozenset(_names(groups)))

    def allows(self, user: str, groups: Collection[str]) -> bool:
        """Whether it contains a user or one of the user's groups."""
        return self.everybody or user in self.users or not self.groups.isdisjoint(groups)


def _names(text: str) -> Iterable[str]:
    return (name.strip() for name in text.split(",") if name.strip())


def groups_of(user: str) -> frozenset[str]:
    """A user's groups on this machine; none if the machine does not know the user.

    It asks the system's directory, as ``ShellBasedUnixGroupsMapping`` does. That
    may block: do not call it in an event loop.
    """
    try:
        main = pwd.getpwnam(user).pw_gid
    except KeyError:
        return frozenset()
    return frozenset(name for gid in os.getgrouplist(user, main) for name in _group(gid))


def _group(gid: int) -> list[str]:
    try:
        return [grp.getgrgid(gid).gr_name]
    except KeyError:
        return []
