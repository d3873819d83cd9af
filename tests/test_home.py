"""Nothing in a ``YTF_HOME`` that another user can write is used, and ytf makes none like that."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.another_user import give_away
from ytf.backends.local.backend import LocalJobBackend
from ytf.backends.local.directories import JobDirectories
from ytf.backends.yarn.job.secret_cache import SecretCache
from ytf.cli import main
from ytf.client.last_job import remember_last_job
from ytf.errors import SettingsError
from ytf.home import home, home_directory, make_private_directory
from ytf.minicluster import releases
from ytf.packaging import tensorboard
from ytf.packaging.layer_cache import LayerCache
from ytf.specs.ids import JobId


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "home"
    monkeypatch.setenv("YTF_HOME", str(path))
    monkeypatch.delenv(releases.CACHE, raising=False)
    monkeypatch.delenv(tensorboard.TENSORBOARD_VARIABLE, raising=False)
    monkeypatch.chdir(tmp_path)
    return path


@pytest.fixture
def group_can_write() -> Iterator[None]:
    before = os.umask(0o002)
    yield
    os.umask(before)


def test_the_default_and_the_variable(tmp_path: Path) -> None:
    assert home({"YTF_HOME": str(tmp_path)}) == tmp_path
    assert home({}) == Path.home() / ".ytf"


USERS: list[Callable[[], object]] = [
    home,
    JobDirectories.from_environ,
    LocalJobBackend,
    LayerCache.for_user,
    tensorboard.find_tensorboard,
    releases.cache,
    lambda: home_directory("clusters"),
]


@pytest.mark.parametrize("use", USERS)
def test_a_home_of_another_user_is_not_used(
    use: Callable[[], object], place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place.mkdir()
    give_away(place, monkeypatch)
    with pytest.raises(SettingsError, match="ytf keeps no files") as caught:
        use()
    assert "set YTF_HOME to a directory of yours" in (caught.value.hint or "")


@pytest.mark.parametrize("name", ["layers", "environments", "hadoop", "clusters"])
def test_a_directory_in_it_that_others_can_write(name: str, place: Path) -> None:
    (place / name).mkdir(parents=True)
    (place / name).chmod(0o777)
    home()
    with pytest.raises(SettingsError, match=f"{name} can be written by everyone"):
        home_directory(name)


def test_a_cluster_in_a_home_of_others_is_neither_read_nor_made(
    place: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    place.mkdir()
    place.chmod(0o777)
    for words in (["status"], ["env"], ["up"]):
        assert main.main(["cluster", *words]) == 2
        assert f"{place} can be written by everyone" in capfd.readouterr().err
    assert list(place.iterdir()) == []


def test_a_home_that_another_user_made_first(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In a directory such as /tmp, after it was looked for and before it was made."""
    directories = JobDirectories.from_environ()
    place.mkdir()
    give_away(place, monkeypatch)
    with pytest.raises(SettingsError, match="not to you or root"):
        directories.ensure()


MAKERS: list[Callable[[Path], object]] = [
    lambda place: make_private_directory(place / "a" / "b"),
    lambda place: make_private_directory(place),
    lambda place: releases.fetch("3.4.1", print),
    lambda place: tensorboard.find_tensorboard(),
]


@pytest.mark.parametrize("make", MAKERS)
def test_what_another_user_made_first_is_not_used(
    make: Callable[[Path], object], place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After the look at a path that did not exist, and before it was made."""
    monkeypatch.setattr("ytf.home.home", lambda environ=None: place)
    monkeypatch.setattr("ytf.minicluster.releases.home_directory", lambda name: place / name)
    monkeypatch.setattr("ytf.minicluster.releases.find_java", lambda version: None)
    monkeypatch.setattr("ytf.packaging.made_environments.home_directory", lambda name: place / name)
    for name in ("ytf.minicluster.releases._make", "ytf.packaging.tensorboard.run_step"):
        monkeypatch.setattr(name, lambda *_, **__: pytest.fail("it is used"))
    place.mkdir()
    place.chmod(0o777)
    with pytest.raises(SettingsError, match=f"{place} can be written by everyone"):
        make(place)


def test_neither_a_secret_nor_the_last_job_is_kept_where_others_can_write(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache = SecretCache.of("alice")
    with monkeypatch.context() as patch:
        patch.setattr("ytf.client.last_job.home", lambda environ=None: place)
        place.mkdir()
        place.chmod(0o777)
        cache.keep(JobId("application_1_0001"), b"secret")
        remember_last_job("local", JobId("local_1_a"))
    assert [path for path in place.rglob("*") if path.is_file()] == []


def test_a_place_that_the_user_has_named_is_not_checked(place: Path) -> None:
    place.mkdir()
    place.chmod(0o777)
    make_private_directory(place / "cache", is_checked=False)
    assert (place / "cache").is_dir()


@pytest.mark.usefixtures("group_can_write")
def test_directories_are_private_whatever_the_umask(place: Path) -> None:
    make_private_directory(place / "a" / "b")
    JobDirectories.from_environ().ensure()
    for path in (place, place / "a", place / "a" / "b", place / "jobs", place / "history"):
        assert stat.S_IMODE(path.stat().st_mode) == 0o700
