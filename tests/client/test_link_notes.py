"""What links add to the files that were named is told before it is shipped."""

from __future__ import annotations

from pathlib import Path
from typing import NoReturn

import pytest

from ytf.backends.api import Upload
from ytf.client.plan import make_plan
from ytf.client.plan_notes import link_notes
from ytf.specs.job import JobSpec, TaskGroupSpec


def _notes(*sources: Path) -> list[str]:
    return list(link_notes(Upload(source=str(source), name=source.name) for source in sources))


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A directory with a file, a link to it, and a file outside."""
    folder = tmp_path / "data"
    (folder / "deep").mkdir(parents=True)
    (folder / "file").touch()
    (folder / "deep" / "inside").symlink_to("../file")
    (folder / "absolute").symlink_to(folder / "file")
    (tmp_path / "secret").write_text("key")
    return folder


def test_links_within_a_directory_need_no_note(data: Path) -> None:
    assert _notes(data, data / "file", data / "absolute") == []


def test_a_link_that_leaves_it(data: Path, tmp_path: Path) -> None:
    (data / "deep" / "key").symlink_to("../../secret")
    (note,) = _notes(data)
    assert note.startswith(f"1 link leads out of {data}, and what is there is shipped, too: ")
    assert note.endswith(f": deep/key → {tmp_path}/secret")


def test_a_link_to_a_directory_and_many_links(data: Path, tmp_path: Path) -> None:
    (tmp_path / "more").mkdir()
    for number in range(7):
        (data / f"link{number}").symlink_to(tmp_path / "more")
    (note,) = _notes(data)
    assert note.startswith(f"7 links lead out of {data}")
    assert f"link4 → {tmp_path}/more, and 2 more" in note


def test_a_link_whose_name_only_begins_alike(data: Path, tmp_path: Path) -> None:
    (tmp_path / "data2").touch()
    (data / "near").symlink_to(tmp_path / "data2")
    assert len(_notes(data)) == 1


def test_a_named_link(data: Path, tmp_path: Path) -> None:
    (data / "config").symlink_to(tmp_path / "secret")
    assert _notes(data / "config") == [
        f"{data}/config is a link: what is shipped is {tmp_path}/secret"
    ]


def test_a_file_in_hdfs_is_not_looked_at() -> None:
    assert list(link_notes([Upload(source="hdfs://n/x", name="x")])) == []


@pytest.mark.parametrize("backend", ["local", "yarn"])
def test_the_plan_notes_it(backend: str, data: Path, tmp_path: Path) -> None:
    (data / "key").symlink_to(tmp_path / "secret")
    spec = JobSpec(
        groups={"worker": TaskGroupSpec(count=1)}, command="true", files={"data": str(data)}
    )
    plan = make_plan(spec, backend=backend, user="ann", tensorboard=_no_tensorboard)
    assert f"key → {tmp_path}/secret" in plan.notes[0]


def _no_tensorboard() -> NoReturn:
    raise AssertionError("the job has none")
