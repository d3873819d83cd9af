"""A directory is used only if no stranger can put another one in its place."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ytf.errors import SettingsError
from ytf.storage.directory_owners import check_owners
from ytf.storage.files import FileStatus
from ytf.storage.local_files import LocalFiles

PATH = "/user/ann/.ytf/jobs"


class Hdfs(LocalFiles):
    """The directories of a usual HDFS, and what a test changes in them."""

    def __init__(self) -> None:
        self.directories = {
            "/": ("hdfs", "supergroup", 0o755),
            "/user": ("hdfs", "supergroup", 0o755),
            "/user/ann": ("ann", "staff", 0o755),
            "/user/ann/.ytf": ("ann", "staff", 0o755),
            "/user/ann/.ytf/jobs": ("ann", "staff", 0o700),
        }
        self.lists: dict[str, tuple[str, ...]] = {}
        self.asked: list[str] = []

    def uri(self, path: str) -> str:
        return f"hdfs://n{path}"

    def stat(self, path: str) -> FileStatus:
        owner, group, mode = self.directories[path]
        return replace(super().stat("/"), path=path, owner=owner, group=group, mode=mode)

    def acl_writers(self, path: str) -> tuple[str, ...]:
        self.asked.append(path)
        return self.lists.get(path, ())


@pytest.fixture
def hdfs() -> Hdfs:
    return Hdfs()


def test_the_usual_directories_pass(hdfs: Hdfs) -> None:
    found = check_owners(hdfs, PATH, ("ann",))
    assert [status.path for status in found] == [*reversed(hdfs.directories)]


@pytest.mark.parametrize("place", ["/user", "/user/ann", "/user/ann/.ytf", PATH])
def test_a_directory_of_a_stranger(hdfs: Hdfs, place: str) -> None:
    hdfs.directories[place] = ("eve", "staff", 0o755)
    with pytest.raises(SettingsError, match=f"hdfs://n{place} belongs to eve"):
        check_owners(hdfs, PATH, ("ann",))
    check_owners(hdfs, PATH, ("ann", "eve"))


@pytest.mark.parametrize("place", ["/user", "/user/ann", "/user/ann/.ytf"])
@pytest.mark.parametrize("mode", [0o777, 0o775, 0o757])
def test_a_directory_in_which_others_can_rename(hdfs: Hdfs, place: str, mode: int) -> None:
    owner, _, _ = hdfs.directories[place]
    hdfs.directories[place] = (owner, "users", mode)
    with pytest.raises(
        SettingsError, match=f"can be written by others: its mode is {mode:o}"
    ) as caught:
        check_owners(hdfs, PATH, ("ann",))
    assert f"hdfs dfs -chmod go-w {place}" in (caught.value.hint or "")
    hdfs.directories[place] = (owner, "users", mode | 0o1000)
    check_owners(hdfs, PATH, ("ann",))


def test_superusers_may_write(hdfs: Hdfs) -> None:
    for place in ("/", "/user"):
        hdfs.directories[place] = ("hdfs", "supergroup", 0o775)
    check_owners(hdfs, PATH, ("ann",))
    hdfs.directories["/"] = ("hdfs", "supergroup", 0o777)
    with pytest.raises(SettingsError, match=r"/user/ann/\.ytf/jobs is in it"):
        check_owners(hdfs, PATH, ("ann",))


@pytest.mark.parametrize("stranger", ["user:eve", "group:staff"])
def test_an_access_control_list_is_not_taken_for_the_group_of_the_superusers(
    hdfs: Hdfs, stranger: str
) -> None:
    """Its mask shows as what the group may do, and new directories have the group of ``/``."""
    hdfs.directories["/user/ann"] = ("ann", "supergroup", 0o775)
    hdfs.lists["/user/ann"] = ("user:ann", "user:hdfs", "group:supergroup", stranger)
    with pytest.raises(SettingsError, match=f"can be written by {stranger}: it has an") as caught:
        check_owners(hdfs, PATH, ("ann",))
    assert "hdfs dfs -setfacl -b /user/ann" in (caught.value.hint or "")
    hdfs.lists["/user/ann"] = ("user:ann", "user:hdfs", "group:supergroup")
    check_owners(hdfs, PATH, ("ann",))
    hdfs.directories["/user/ann"] = ("ann", "supergroup", 0o1775)
    check_owners(hdfs, PATH, ("ann",))


def test_lists_are_asked_for_only_where_the_group_may_write(hdfs: Hdfs) -> None:
    check_owners(hdfs, PATH, ("ann",))
    assert hdfs.asked == []
