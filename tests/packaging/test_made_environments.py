"""Environments that ytf makes are made once, brought up to date, and removed when unused."""

from __future__ import annotations

import fcntl
import os
import sys
import time
from pathlib import Path

import pytest

from ytf.packaging.installers import InstallProgress
from ytf.packaging.made_environments import (
    DIGESTS,
    DOWNLOADS,
    INCOMPLETE,
    EnvironmentRecipe,
    ensure_environment,
    remove_unused_downloads,
    remove_unused_environments,
)


@pytest.fixture
def environments(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("YTF_HOME", str(tmp_path / "home"))
    return tmp_path / "home/environments"


def recipe(name: str = "x", sources: str = "", made: list[bool] | None = None) -> EnvironmentRecipe:
    """An environment that is only a link to Python; ``made`` notes whether it was there."""

    def make(path: Path, progress: InstallProgress) -> None:
        if made is not None:
            made.append(path.exists())
        (path / "bin").mkdir(parents=True, exist_ok=True)
        if not (path / "bin/python").exists():
            (path / "bin/python").symlink_to(sys.executable)

    return EnvironmentRecipe(name=name, about="a thing", make=make, sources=sources)


def test_new_sources_bring_it_up_to_date(environments: Path) -> None:
    made: list[bool] = []
    for sources in ("1", "1", "2", "2"):
        assert ensure_environment(recipe(sources=sources, made=made)) == environments / "x"
    assert made == [False, True]


def test_a_failed_update_keeps_it_and_is_tried_again(environments: Path) -> None:
    made: list[bool] = []
    path = ensure_environment(recipe(sources="1"))

    def fail(path: Path, progress: InstallProgress) -> None:
        raise KeyboardInterrupt

    broken = EnvironmentRecipe(name="x", about="a thing", make=fail, sources="2")
    with pytest.raises(KeyboardInterrupt):
        ensure_environment(broken)
    # Also with the sources that it had before: the update may have changed something.
    assert ensure_environment(recipe(sources="1", made=made)) == path
    assert made == [True]


def aged(environments: Path, name: str, days: float) -> None:
    then = time.time() - days * 86400
    os.utime(environments / ".made" / name, (then, then))


def test_what_no_job_used_for_a_month_is_removed(environments: Path) -> None:
    for name in ("old", "new", "used again"):
        ensure_environment(recipe(name))
        aged(environments, name, 31)
    aged(environments, "new", 29)
    ensure_environment(recipe("used again"))
    (environments / "half made").mkdir()
    (environments / "half made/file").write_text("12345")
    (environments / DIGESTS).mkdir()
    (environments / DIGESTS / "x").touch()
    os.utime(environments / DIGESTS / "x", (0, 0))

    would = remove_unused_environments(environments.parent, dryrun=True)
    assert [path.name for path, _ in would] == ["half made", "old"]
    assert would[0][1] == 5
    assert (environments / "old").exists()

    assert remove_unused_environments(environments.parent) == would
    left = {path.name for path in environments.glob("[!.]*")}
    assert left == {"new", "used again"}
    assert {path.name for path in (environments / ".made").iterdir()} == left
    assert list((environments / DIGESTS).iterdir()) == []
    assert remove_unused_environments(environments.parent) == []


def test_one_that_is_being_made_is_not_removed(environments: Path) -> None:
    def make(path: Path, progress: InstallProgress) -> None:
        path.mkdir()
        assert remove_unused_environments(environments.parent, 0) == []
        recipe().make(path, progress)

    ensure_environment(EnvironmentRecipe(name="x", about="a thing", make=make))
    assert (environments / "x").exists()


def test_one_that_was_removed_while_it_was_waited_for(environments: Path) -> None:
    """The lock that it gets then is that of a file which is no more."""
    path = ensure_environment(recipe())
    state = environments / ".made/x"
    with state.open("a+") as other:
        fcntl.flock(other, fcntl.LOCK_EX)

        def removed(text: str) -> None:
            if text.startswith("waiting"):
                (path / "bin/python").unlink()
                state.unlink()
                fcntl.flock(other, fcntl.LOCK_UN)

        made: list[bool] = []
        assert ensure_environment(recipe(made=made), removed) == path
    assert made == [False]
    assert state.read_text().startswith("complete")


def test_downloads_that_nobody_uses_are_removed(environments: Path) -> None:
    def download(name: str, file: str, days: float = 0) -> None:
        path = environments / DOWNLOADS / name / file
        path.parent.mkdir(parents=True)
        path.write_text("12345")
        then = time.time() - days * 86400
        os.utime(path, (then, then))

    download("killed", INCOMPLETE)
    download("old", "x.pex", days=31)
    download("waits for pex", "x.pex", days=29)
    ensure_environment(recipe("made"))
    download("made", "x.pex")

    would = remove_unused_downloads(environments.parent, dryrun=True)
    assert [(path.name, size) for path, size in would] == [("killed", 5), ("made", 5), ("old", 5)]
    assert remove_unused_downloads(environments.parent) == would
    assert [path.name for path in (environments / DOWNLOADS).iterdir()] == ["waits for pex"]
    assert [path.name for path in (environments / ".made").iterdir()] == ["made"]
    assert remove_unused_downloads(environments.parent) == []


def test_a_download_that_goes_on_is_not_removed(environments: Path) -> None:
    def make(path: Path, progress: InstallProgress) -> None:
        (environments / DOWNLOADS / "x").mkdir(parents=True)
        assert remove_unused_downloads(environments.parent, 0) == []
        recipe().make(path, progress)

    ensure_environment(EnvironmentRecipe(name="x", about="a thing", make=make))


def test_no_home_has_nothing_to_remove(environments: Path) -> None:
    assert remove_unused_environments(environments.parent) == []
    assert remove_unused_downloads(environments.parent) == []
    assert not environments.exists()
