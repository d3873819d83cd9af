from __future__ import annotations

import getpass
import grp
import os

import pytest

from ytf.hadoop.security.acls import AccessList, groups_of


@pytest.mark.parametrize(
    ("text", "user", "groups", "allowed"),
    [
        ("ann,bob", "bob", (), True),
        ("ann,bob", "eve", ("ann",), False),
        ("ann ml, ops", "eve", ("ops",), True),
        (" ml", "ml", (), False),
        (" ml", "eve", ("ml",), True),
        ("*", "eve", (), True),
        (" * ", "eve", (), True),
        ("", "eve", ("",), False),
        ("", "", (), False),
    ],
)
def test_who_is_on_the_list(text: str, user: str, groups: tuple[str, ...], allowed: bool) -> None:
    assert AccessList.parse(text).allows(user, groups) is allowed


def test_the_groups_of_a_user() -> None:
    assert grp.getgrgid(os.getgid()).gr_name in groups_of(getpass.getuser())
    assert groups_of("nobody-of-this-name") == frozenset()
