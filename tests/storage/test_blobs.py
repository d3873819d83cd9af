"""LocalBlobs implements the Blobs port on a real file system."""

from __future__ import annotations

import errno
import os
import stat
import threading
from pathlib import Path

import pytest

from ytf.storage.blobs import Blobs, LocalBlobs


@pytest.fixture
def root(tmp_path: Path) -> Path:
    path = tmp_path / "root"
    path.mkdir(mode=0o700)
    return path


@pytest.fixture
def blobs(root: Path) -> Blobs:
    return LocalBlobs(root)


def all_files(root: Path) -> list[str]:
    return sorted(str(p.relative_to(root)) for p in root.rglob("*") if p.is_file())


def test_reads_what_was_written(blobs: Blobs) -> None:
    blobs.write("a/b/c", b"\0data\n")
    assert blobs.read("a/b/c") == b"\0data\n"


def test_lists_one_level_sorted(blobs: Blobs) -> None:
    for name in ("b", "a/2", "a/1", "c/d/e"):
        blobs.write(name, b"")
    assert blobs.list() == ["a", "b", "c"]
    assert blobs.list("a") == ["1", "2"]
    assert blobs.list("c") == ["d"]


def test_nothing_there_is_an_empty_list(blobs: Blobs) -> None:
    assert blobs.list() == []
    assert blobs.list("a/b") == []


def test_never_overwrites(blobs: Blobs, root: Path) -> None:
    blobs.write("a/1", b"first")
    with pytest.raises(FileExistsError):
        blobs.write("a/1", b"second")
    assert blobs.read("a/1") == b"first"
    assert all_files(root) == ["a/1"]


def test_one_of_many_writers_wins(blobs: Blobs, root: Path) -> None:
    together = threading.Barrier(8)
    won: list[bytes] = []

    def write(data: bytes) -> None:
        together.wait(60)
        try:
            blobs.write("a/1", data)
        except FileExistsError:
            return
        won.append(data)

    threads = [threading.Thread(target=write, args=(b"%d" % i,)) for i in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(10)
    assert won == [blobs.read("a/1")]
    assert all_files(root) == ["a/1"]


def test_reading_what_is_not_there(blobs: Blobs) -> None:
    with pytest.raises(FileNotFoundError):
        blobs.read("a/1")


def test_a_directory_goes_with_its_last_blob(blobs: Blobs, root: Path) -> None:
    blobs.write("a/b/1", b"")
    blobs.write("a/b/2", b"")
    blobs.delete("a/b/1")
    assert blobs.list("a/b") == ["2"]
    blobs.delete("a/b/2")
    assert blobs.list() == []
    assert os.listdir(root) == []
    blobs.delete("a/b/2")


def test_leftovers_are_hidden_and_removed(blobs: Blobs, root: Path) -> None:
    blobs.write("a/1", b"")
    (root / "a" / ".999999999.dead.tmp").write_bytes(b"half")
    assert blobs.list("a") == ["1"]
    assert all_files(root) == ["a/1"]


def test_leftovers_do_not_keep_a_directory(blobs: Blobs, root: Path) -> None:
    blobs.write("a/1", b"")
    (root / "a" / ".999999999.dead.tmp").write_bytes(b"half")
    blobs.delete("a/1")
    assert os.listdir(root) == []


def test_listing_spares_a_write_of_this_process(
    blobs: Blobs, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    link = os.link

    def list_then_link(source: str, target: str) -> None:
        assert blobs.list("a") == []
        link(source, target)

    monkeypatch.setattr(os, "link", list_then_link)
    blobs.write("a/1", b"whole")
    assert blobs.read("a/1") == b"whole"


def test_a_failed_write_leaves_nothing(
    blobs: Blobs, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(descriptor: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    (root / "a").mkdir()
    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space left"):
        blobs.write("a/1", b"data")
    assert all_files(root) == []


def test_the_data_is_synced_before_the_name_and_the_name_before_the_return(
    blobs: Blobs, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[str] = []
    fsync, link = os.fsync, os.link

    def note_fsync(descriptor: int) -> None:
        is_directory = stat.S_ISDIR(os.fstat(descriptor).st_mode)
        calls.append("sync directory" if is_directory else "sync data")
        fsync(descriptor)

    def note_link(source: str, target: str) -> None:
        calls.append("link")
        link(source, target)

    (root / "a").mkdir(parents=True)
    monkeypatch.setattr(os, "fsync", note_fsync)
    monkeypatch.setattr(os, "link", note_link)
    blobs.write("a/1", b"data")
    assert calls == ["sync data", "link", "sync directory"]


def test_only_the_owner_can_read(blobs: Blobs, root: Path) -> None:
    blobs.write("a/1", b"secret")
    assert stat.S_IMODE((root / "a" / "1").stat().st_mode) == 0o600
    assert stat.S_IMODE((root / "a").stat().st_mode) == 0o700


@pytest.mark.parametrize("name", ["", "/etc/passwd", "../x", "a/../../x", ".hidden", "a/.tmp"])
def test_names_stay_below_the_root(blobs: Blobs, name: str) -> None:
    with pytest.raises(ValueError, match="not the name of a blob"):
        blobs.write(name, b"")
