"""Environments in archives in HDFS: each version is downloaded once, and whole or not at all."""

from __future__ import annotations

import errno
import os
import shutil
import subprocess
import tarfile
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from tests.packaging.venvs import Venv
from tests.storage.memory_files import Disk, MemoryFiles
from ytf.errors import SettingsError, UnreachableError
from ytf.hadoop.conf import Configuration
from ytf.packaging import environment_downloads, installers
from ytf.packaging.environment_downloads import download_recipe
from ytf.packaging.made_environments import DOWNLOADS, INCOMPLETE, ensure_environment
from ytf.storage import copy_pool

URL = "hdfs://nn:8020/envs/my env.tar"
CONF = Configuration.of({})


class Hdfs(MemoryFiles):
    """Counts the bytes that are read; ``before_piece`` is called before each piece."""

    def __init__(self) -> None:
        super().__init__(Disk())
        self.bytes_read = 0
        self.before_piece: Callable[[], None] = lambda: None

    def read(self, path: str, offset: int = 0, length: int | None = None) -> Iterator[bytes]:
        for piece in super().read(path, offset, length):
            for start in range(0, len(piece), 1000):
                self.before_piece()
                part = piece[start : start + 1000]
                self.bytes_read += len(part)
                yield part

    def put(self, path: str, data: bytes, mtime_ms: int = 1) -> None:
        self.disk.files[path], self.disk.modes[path] = data, 0o644
        self.disk.times[path] = mtime_ms


@pytest.fixture
def environments(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("YTF_HOME", str(tmp_path / "home"))
    return tmp_path / "home/environments"


@pytest.fixture
def hdfs(environments: Path, monkeypatch: pytest.MonkeyPatch) -> Hdfs:
    hdfs = Hdfs()

    def open_url(url: str, conf: object, *, answer_s: float) -> tuple[Hdfs, str]:
        return hdfs, url.removeprefix("hdfs://nn:8020")

    monkeypatch.setattr(environment_downloads, "open_url", open_url)
    monkeypatch.setattr(copy_pool, "FIRST_PAUSE_S", 0.0)
    return hdfs


@pytest.fixture
def archive(tmp_path: Path, hdfs: Hdfs) -> bytes:
    """An environment in an archive, which is at :data:`URL`."""
    venv = Venv(tmp_path / "packed")
    venv.write("blob", os.urandom(5000))
    with tarfile.open(tmp_path / "env.tar", "w") as packed:
        packed.add(venv.root, ".")
    data = (tmp_path / "env.tar").read_bytes()
    hdfs.put("/envs/my env.tar", data)
    return data


def downloads(environments: Path) -> list[str]:
    """What is there of downloads."""
    return [path.name for path in environments.glob(f"{DOWNLOADS}/*/*")]


def fail_at(hdfs: Hdfs, number: int, error: Callable[[], BaseException | None]) -> None:
    """Before that piece of all that are read, call ``error``, and raise what it returns."""
    pieces = iter(range(1_000_000))

    def before_piece() -> None:
        if next(pieces) == number and (raised := error()):
            raise raised

    hdfs.before_piece = before_piece


def test_an_archive_is_downloaded_once_for_each_version(
    hdfs: Hdfs, archive: bytes, environments: Path
) -> None:
    said: list[str] = []
    recipe = download_recipe(URL, CONF)
    assert (hdfs.bytes_read, environments.exists()) == (0, False)
    path = ensure_environment(recipe, said.append)
    assert path == recipe.path
    assert path.parent == environments
    subprocess.run([str(path / "bin/python"), "-c", ""], check=True)
    assert hdfs.bytes_read == len(archive)
    assert said[:3] == [
        "making an environment for my env.tar, once: this may take a minute",
        f"downloading {URL}, {len(archive) / 1000:.1f} kB",
        f"downloaded {len(archive) / 1000:.1f} kB in 0 s",
    ]
    # Its content is in the environment, and takes no room twice.
    assert downloads(environments) == []

    said.clear()
    assert ensure_environment(download_recipe(URL, CONF), said.append) == path
    assert (hdfs.bytes_read, said) == (len(archive), [])

    for data, mtime_ms in ((archive, 2), (archive + b"\0" * 512, 2)):
        hdfs.put("/envs/my env.tar", data, mtime_ms)
        hdfs.bytes_read = 0
        other = ensure_environment(download_recipe(URL, CONF))
        assert (other != path, hdfs.bytes_read) == (True, len(data))
        path = other


def test_it_goes_on_where_a_connection_broke(
    hdfs: Hdfs, archive: bytes, environments: Path, tmp_path: Path
) -> None:
    fail_at(hdfs, 4, lambda: UnreachableError("the DataNode is gone"))
    said: list[str] = []
    path = ensure_environment(download_recipe(URL, CONF), said.append)
    assert "the DataNode is gone; it is tried again in 0 s" in said
    assert hdfs.bytes_read == len(archive)
    assert (path / "blob").read_bytes() == (tmp_path / "packed/blob").read_bytes()


def test_how_far_it_is_is_said(hdfs: Hdfs, archive: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(installers, "_SILENCE_S", 0.0)
    said: list[str] = []
    ensure_environment(download_recipe(URL, CONF), said.append)
    assert f"still at it (0 s): 3.0 kB of {len(archive) / 1000:.1f} kB" in said


@pytest.mark.parametrize(
    "error", [KeyboardInterrupt(), UnreachableError("HDFS is gone"), PermissionError(13, "no")]
)
def test_a_download_that_fails_leaves_nothing(
    hdfs: Hdfs, archive: bytes, environments: Path, error: BaseException
) -> None:
    def broken() -> None:
        if hdfs.bytes_read >= 3000:
            raise error

    hdfs.before_piece = broken
    expected = SettingsError if isinstance(error, PermissionError) else type(error)
    with pytest.raises(expected):
        ensure_environment(download_recipe(URL, CONF))
    assert [path for path in environments.rglob("*") if not path.is_dir()] == []
    hdfs.before_piece = lambda: None
    ensure_environment(download_recipe(URL, CONF))


def test_what_a_killed_one_left_is_not_taken_for_whole(
    hdfs: Hdfs, archive: bytes, environments: Path
) -> None:
    recipe = download_recipe(URL, CONF)
    folder = environments / DOWNLOADS / recipe.name
    folder.mkdir(parents=True, mode=0o700)
    (folder / INCOMPLETE).write_bytes(archive[:9] + b"x" * len(archive))
    ensure_environment(recipe)
    assert hdfs.bytes_read == len(archive)
    assert downloads(environments) == []


@pytest.mark.parametrize("data", [b"longer" * 5000, b"short"])
def test_a_file_that_is_written_meanwhile(
    hdfs: Hdfs, archive: bytes, environments: Path, data: bytes
) -> None:
    fail_at(hdfs, 2, lambda: hdfs.put("/envs/my env.tar", data, 2))
    with pytest.raises(SettingsError, match="was changed while it was downloaded"):
        ensure_environment(download_recipe(URL, CONF))
    assert downloads(environments) == []


def test_a_disk_that_is_full_or_gets_full(
    hdfs: Hdfs, archive: bytes, environments: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(number: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patch:
        patch.setattr(shutil, "disk_usage", lambda path: SimpleNamespace(free=1000))
        with pytest.raises(SettingsError, match=r"has \d+\.\d kB, and the disk .* has 1\.0 kB"):
            ensure_environment(download_recipe(URL, CONF))
        assert hdfs.bytes_read == 0
    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", refuse)
        with pytest.raises(SettingsError, match=r"cannot be downloaded to .*: No space") as caught:
            ensure_environment(download_recipe(URL, CONF))
        assert "ytf gc" in (caught.value.hint or "")
    assert downloads(environments) == []


def test_a_copy_stays_for_the_next_try_but_not_on_a_full_disk(
    hdfs: Hdfs, environments: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with zipfile.ZipFile(tmp_path / "x.pex", "w") as packed:
        packed.writestr("PEX-INFO", "{}")
    data = (tmp_path / "x.pex").read_bytes()
    hdfs.put("/x.pex", data)
    for _ in range(2):
        with pytest.raises(SettingsError, match=r"^hdfs://nn:8020/x\.pex: .*without pex's tools"):
            ensure_environment(download_recipe("hdfs://nn:8020/x.pex", CONF))
        assert downloads(environments) == ["x.pex"]
        assert hdfs.bytes_read == len(data)

    def full(*given: object) -> None:
        raise SettingsError("the disk is full") from OSError(errno.ENOSPC, "")

    monkeypatch.setattr(environment_downloads, "make_from_archive", full)
    with pytest.raises(SettingsError, match="the disk is full"):
        ensure_environment(download_recipe("hdfs://nn:8020/x.pex", CONF))
    assert downloads(environments) == []


def test_a_pex_file_is_made_for_one_version_of_python(hdfs: Hdfs, archive: bytes) -> None:
    for name in ("x.pex", "x.zip"):
        hdfs.put(f"/{name}", b"")
        assert download_recipe(f"hdfs://nn:8020/{name}", CONF).name.count("-") == 3
    assert download_recipe(URL, CONF).name.count("-") == 1


def test_what_is_not_a_file(hdfs: Hdfs, archive: bytes) -> None:
    hdfs.mkdir("/folder.zip")
    with pytest.raises(IsADirectoryError):
        download_recipe("hdfs://nn:8020/folder.zip", CONF)
    with pytest.raises(FileNotFoundError):
        download_recipe("hdfs://nn:8020/gone.zip", CONF)
