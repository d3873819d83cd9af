"""Only what this user or root alone can have written is read."""

from __future__ import annotations

import grp
import os
import pwd
from pathlib import Path

import pytest

from tests.another_user import give_away
from ytf.errors import SettingsError
from ytf.ownership import UntrustedError, check_directory, read_trusted

LIMIT = 1000


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "file"
    path.write_text("text")
    path.chmod(0o644)
    return path


def _set_group(monkeypatch: pytest.MonkeyPatch, name: str, members: list[str]) -> None:
    """Let the group of this user's files have a name and further members."""
    monkeypatch.setattr(grp, "getgrgid", lambda gid: grp.struct_group((name, "x", gid, members)))


def _user_name() -> str:
    return pwd.getpwuid(os.geteuid()).pw_name


class TestFiles:
    def test_an_own_file(self, file: Path) -> None:
        assert read_trusted(file, LIMIT) == b"text"

    def test_a_file_of_another_user(self, file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        give_away(file, monkeypatch)
        with pytest.raises(UntrustedError, match="not to you or root"):
            read_trusted(file, LIMIT)

    def test_a_file_that_everyone_can_write(self, file: Path) -> None:
        file.chmod(0o646)
        with pytest.raises(UntrustedError, match="can be written by everyone") as caught:
            read_trusted(file, LIMIT)
        assert f"chmod go-w {file}" in (caught.value.hint or "")

    def test_a_file_that_a_group_can_write(
        self, file: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        file.chmod(0o664)
        _set_group(monkeypatch, "team", [])
        with pytest.raises(UntrustedError, match="can be written by the group team"):
            read_trusted(file, LIMIT)

    def test_a_private_group_is_not_another_user(
        self, file: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        file.chmod(0o664)
        os.chown(file, -1, pwd.getpwuid(os.geteuid()).pw_gid)
        _set_group(monkeypatch, _user_name(), [])
        assert read_trusted(file, LIMIT) == b"text"

    def test_a_group_with_further_members_is_not_private(
        self, file: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        file.chmod(0o664)
        os.chown(file, -1, pwd.getpwuid(os.geteuid()).pw_gid)
        _set_group(monkeypatch, _user_name(), [_user_name(), "mallory"])
        with pytest.raises(UntrustedError, match="can be written by the group"):
            read_trusted(file, LIMIT)

    def test_an_access_control_list(self, file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        file.chmod(0o664)
        _set_group(monkeypatch, _user_name(), [])
        monkeypatch.setattr(os, "listxattr", lambda path: ["system.posix_acl_access"])
        with pytest.raises(UntrustedError, match="access control list"):
            read_trusted(file, LIMIT)

    def test_the_directory_of_a_file_does_not_matter(self, file: Path) -> None:
        file.parent.chmod(0o777)
        assert read_trusted(file, LIMIT) == b"text"

    def test_an_own_link_is_followed(self, file: Path) -> None:
        link = file.with_name("link")
        link.symlink_to(file)
        assert read_trusted(link, LIMIT) == b"text"

    def test_a_link_of_another_user(self, file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        link = file.with_name("link")
        link.symlink_to(file)
        give_away(link, monkeypatch)
        with pytest.raises(UntrustedError, match="link belongs to"):
            read_trusted(link, LIMIT)

    def test_a_link_that_others_can_replace(self, file: Path) -> None:
        link = file.with_name("link")
        link.symlink_to(file)
        file.parent.chmod(0o777)
        with pytest.raises(UntrustedError, match="is a link, and others can write"):
            read_trusted(link, LIMIT)
        file.parent.chmod(0o1777)
        assert read_trusted(link, LIMIT) == b"text"

    def test_an_own_link_to_a_file_of_another_user(
        self, file: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        link = file.with_name("link")
        link.symlink_to(file)
        give_away(file, monkeypatch)
        with pytest.raises(UntrustedError, match="belongs to"):
            read_trusted(link, LIMIT)

    @pytest.mark.parametrize("kind", ["directory", "pipe", "link to a device"])
    def test_what_is_no_regular_file_is_not_opened(self, tmp_path: Path, kind: str) -> None:
        path = tmp_path / "file"
        if kind == "directory":
            path.mkdir()
        elif kind == "pipe":
            os.mkfifo(path)
        else:
            path.symlink_to("/dev/zero")
        with pytest.raises(UntrustedError, match="is not a regular file"):
            read_trusted(path, LIMIT)

    def test_a_pipe_that_took_the_place_of_a_file_does_not_block(
        self, file: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        before = os.stat(file)
        file.unlink()
        os.mkfifo(file)
        with monkeypatch.context() as patch:
            patch.setattr(os, "stat", lambda path: before)
            patch.setattr(os, "lstat", lambda path: before)
            with pytest.raises(UntrustedError, match="is not a regular file"):
                read_trusted(file, LIMIT)

    def test_a_long_file(self, file: Path) -> None:
        file.write_bytes(b"x" * 2049)
        with pytest.raises(SettingsError, match="is longer than 2 KiB"):
            read_trusted(file, 2048)

    def test_links_that_lead_round(self, tmp_path: Path) -> None:
        (tmp_path / "a").symlink_to("a")
        with pytest.raises(OSError, match="Too many levels"):
            read_trusted(tmp_path / "a", LIMIT)


class TestDirectories:
    def test_an_own_directory(self, tmp_path: Path) -> None:
        check_directory(tmp_path)

    def test_a_directory_that_does_not_exist_yet(self, tmp_path: Path) -> None:
        check_directory(tmp_path / "a" / "b")

    def test_a_directory_of_another_user(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        give_away(tmp_path, monkeypatch)
        with pytest.raises(UntrustedError, match="not to you or root"):
            check_directory(tmp_path)

    @pytest.mark.parametrize("mode", [0o777, 0o1777])
    def test_a_directory_that_others_can_write_even_if_it_is_sticky(
        self, tmp_path: Path, mode: int
    ) -> None:
        tmp_path.chmod(mode)
        with pytest.raises(UntrustedError, match="can be written by everyone"):
            check_directory(tmp_path)

    def test_a_directory_that_others_can_replace(self, tmp_path: Path) -> None:
        inner = tmp_path / "a" / "b"
        inner.mkdir(parents=True)
        tmp_path.chmod(0o777)
        with pytest.raises(UntrustedError, match=f"{tmp_path} can be written by everyone"):
            check_directory(inner)
        with pytest.raises(UntrustedError, match=f"{tmp_path} can be written by everyone"):
            check_directory(tmp_path / "new" / "one")

    def test_a_sticky_directory_above(self, tmp_path: Path) -> None:
        inner = tmp_path / "a"
        inner.mkdir()
        tmp_path.chmod(0o1777)
        check_directory(inner)
        check_directory(tmp_path / "new")

    def test_every_link_on_the_way_counts(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        real, open_to_all = tmp_path / "real", tmp_path / "open"
        real.mkdir()
        open_to_all.mkdir()
        (open_to_all / "second").symlink_to(real)
        (tmp_path / "first").symlink_to("open/second")
        check_directory(tmp_path / "first")
        check_directory(tmp_path / "first" / "new")
        (tmp_path / "nowhere").symlink_to("missing")
        check_directory(tmp_path / "nowhere")
        open_to_all.chmod(0o777)
        with pytest.raises(UntrustedError, match="open can be written by everyone"):
            check_directory(tmp_path / "first")
        open_to_all.chmod(0o755)
        give_away(open_to_all / "second", monkeypatch)
        with pytest.raises(UntrustedError, match="belongs to"):
            check_directory(tmp_path / "first")

    def test_links_that_lead_round(self, tmp_path: Path) -> None:
        (tmp_path / "a").symlink_to("a")
        with pytest.raises(UntrustedError, match="Too many levels"):
            check_directory(tmp_path / "a")

    def test_a_directory_that_cannot_be_looked_at(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        lstat = os.lstat

        def refuse(path: Path) -> os.stat_result:
            if path == tmp_path / "a":
                raise PermissionError(13, "Permission denied")
            return lstat(path)

        monkeypatch.setattr(os, "lstat", refuse)
        with pytest.raises(UntrustedError, match="cannot be looked at: Permission denied"):
            check_directory(tmp_path / "a")
