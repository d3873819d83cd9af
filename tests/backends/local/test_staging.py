"""What is shipped with a job, and how links are copied."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from ytf.backends.api import Upload
from ytf.backends.local.staging import copy_staged_files, stage_upload
from ytf.errors import SpecError


@pytest.fixture
def files(tmp_path: Path) -> Path:
    directory = tmp_path / "files"
    directory.mkdir()
    return directory


def send(source: Path, files: Path, name: str | None = None) -> None:
    stage_upload(Upload(source=str(source), name=name or source.name), files)


def test_a_file_keeps_its_mode(tmp_path: Path, files: Path) -> None:
    script = tmp_path / "träin me.sh"
    script.write_text("#!/bin/sh\n")
    script.chmod(0o755)
    send(script, files)
    assert (files / "träin me.sh").stat().st_mode & 0o777 == 0o755
    assert (files / "träin me.sh").read_text() == "#!/bin/sh\n"


def test_links_inside_stay_links_and_others_become_what_they_lead_to(
    tmp_path: Path, files: Path
) -> None:
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "far").write_text("far")
    tree = tmp_path / "tree"
    (tree / "sub").mkdir(parents=True)
    (tree / "near").write_text("near")
    (tree / "sub" / "inside").symlink_to("../near")
    (tree / "absolute").symlink_to(tree / "near")
    (tree / "away").symlink_to("../outside")
    (tree / "nowhere-inside").symlink_to("missing")
    send(tree, files)
    got = files / "tree"
    assert os.readlink(got / "sub" / "inside") == "../near"
    assert os.readlink(got / "nowhere-inside") == "missing"
    assert not (got / "absolute").is_symlink()
    assert (got / "absolute").read_text() == "near"
    assert not (got / "away").is_symlink()
    assert (got / "away" / "far").read_text() == "far"


def test_a_circle_is_refused(tmp_path: Path, files: Path) -> None:
    (tmp_path / "tree" / "sub").mkdir(parents=True)
    (tmp_path / "tree" / "sub" / "up").symlink_to(tmp_path / "tree")
    with pytest.raises(SpecError, match="in a circle"):
        send(tmp_path / "tree", files)


def test_the_place_we_copy_to_is_refused(tmp_path: Path, files: Path) -> None:
    with pytest.raises(SpecError, match="where ytf keeps jobs is in it"):
        send(tmp_path, files, "all")


def test_what_cannot_travel_is_named(tmp_path: Path, files: Path) -> None:
    with pytest.raises(SpecError, match="missing: no such file"):
        send(tmp_path / "missing", files)
    (tmp_path / "link").symlink_to("/no/where")
    with pytest.raises(SpecError, match="leads nowhere"):
        send(tmp_path / "link", files)
    os.mkfifo(tmp_path / "fifo")
    with pytest.raises(SpecError, match="neither a file nor a directory"):
        send(tmp_path / "fifo", files)


@pytest.mark.parametrize("name", ["/etc/x", "../x", "."])
def test_names_stay_in_the_working_directory(tmp_path: Path, files: Path, name: str) -> None:
    (tmp_path / "x").touch()
    with pytest.raises(SpecError, match="cannot be the name"):
        send(tmp_path / "x", files, name)


def test_two_of_one_name_are_refused(tmp_path: Path, files: Path) -> None:
    (tmp_path / "x").touch()
    send(tmp_path / "x", files)
    with pytest.raises(SpecError, match="both be called 'x'"):
        send(tmp_path / "x", files)


def test_each_container_has_copies_of_its_own(tmp_path: Path, files: Path) -> None:
    (files / "data").write_text("shipped")
    places = [tmp_path / "c1", tmp_path / "c2"]
    for directory in places:
        directory.mkdir()
        copy_staged_files(files, directory)
    (places[0] / "data").write_text("edited")
    assert (places[1] / "data").read_text() == "shipped"
    assert (files / "data").read_text() == "shipped"
