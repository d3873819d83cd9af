"""LocalFiles, the stand-in for HDFS in tests, implements the Files port; temporary names."""

from __future__ import annotations

import os
import stat
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from ytf.storage.files import CHUNK, Files, is_temporary, temporary_beside
from ytf.storage.local_files import LocalFiles


@pytest.fixture
def files() -> Files:
    return LocalFiles()


def test_a_file_is_written_whole_with_its_mode(files: Files, tmp_path: Path) -> None:
    before = os.umask(0o077)
    try:
        status = files.write(f"{tmp_path}/a", [b"one ", b"two"], 0o644)
    finally:
        os.umask(before)
    found = (tmp_path / "a").stat()
    assert (status.size, status.mode, status.is_directory) == (7, 0o644, False)
    assert status.mtime_ms == found.st_mtime_ns // 1_000_000
    assert status == files.stat(f"{tmp_path}/a")
    assert os.listdir(tmp_path) == ["a"]


def test_nothing_is_replaced(files: Files, tmp_path: Path) -> None:
    files.write(f"{tmp_path}/a", [b"first"])
    with pytest.raises(FileExistsError):
        files.write(f"{tmp_path}/a", [b"second"])
    files.write(f"{tmp_path}/b", [b"other"])
    with pytest.raises(FileExistsError):
        files.rename(f"{tmp_path}/b", f"{tmp_path}/a")
    files.mkdir(f"{tmp_path}/empty")
    files.mkdir(f"{tmp_path}/folder")
    with pytest.raises(FileExistsError):
        files.rename(f"{tmp_path}/folder", f"{tmp_path}/empty")
    assert (tmp_path / "a").read_bytes() == b"first"
    assert sorted(os.listdir(tmp_path)) == ["a", "b", "empty", "folder"]


def test_a_writer_that_fails_leaves_nothing(files: Files, tmp_path: Path) -> None:
    def chunks() -> Iterator[bytes]:
        yield b"half"
        assert [is_temporary(s.name) for s in files.list(str(tmp_path))] == [True]
        raise RuntimeError("the source is gone")

    with pytest.raises(RuntimeError, match="gone"):
        files.write(f"{tmp_path}/a", chunks())
    assert os.listdir(tmp_path) == []


def test_of_two_writers_one_wins(files: Files, tmp_path: Path) -> None:
    together = threading.Barrier(2)
    results: list[str] = []

    def write(text: bytes) -> None:
        def chunks() -> Iterator[bytes]:
            together.wait()
            yield text

        try:
            files.write(f"{tmp_path}/a", chunks())
            results.append("won")
        except FileExistsError:
            results.append("lost")

    threads = [threading.Thread(target=write, args=(text,)) for text in (b"x", b"y")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(results) == ["lost", "won"]
    assert os.listdir(tmp_path) == ["a"]


@pytest.mark.parametrize(
    ("offset", "length", "expected"),
    [(0, None, (0, 2 * CHUNK + 3)), (5, None, (5, 2 * CHUNK + 3)), (CHUNK, 7, (CHUNK, CHUNK + 7)),
     (0, 0, (0, 0)), (9 * CHUNK, None, (0, 0)), (3, 9 * CHUNK, (3, 2 * CHUNK + 3))],
)  # fmt: skip
def test_any_range_can_be_read(
    files: Files, tmp_path: Path, offset: int, length: int | None, expected: tuple[int, int]
) -> None:
    data = os.urandom(2 * CHUNK + 3)
    (tmp_path / "a").write_bytes(data)
    pieces = list(files.read(f"{tmp_path}/a", offset, length))
    assert b"".join(pieces) == data[expected[0] : expected[1]]
    assert all(0 < len(piece) <= CHUNK for piece in pieces)


def test_directories(files: Files, tmp_path: Path) -> None:
    before = os.umask(0o077)
    try:
        files.mkdir(f"{tmp_path}/a/b/c", 0o1777)
    finally:
        os.umask(before)
    modes = {s.name: s.mode for p in ("", "/a", "/a/b") for s in files.list(f"{tmp_path}{p}")}
    assert modes == {"a": 0o1777, "b": 0o1777, "c": 0o1777}
    files.chmod(f"{tmp_path}/a", 0o755)
    files.mkdir(f"{tmp_path}/a", 0o700)
    assert stat.S_IMODE((tmp_path / "a").stat().st_mode) == 0o755
    files.rename(f"{tmp_path}/a", f"{tmp_path}/z")
    assert [s.name for s in files.list(str(tmp_path))] == ["z"]
    files.delete(f"{tmp_path}/z")
    files.delete(f"{tmp_path}/z")
    assert files.list(str(tmp_path)) == []


def test_what_is_not_there_says_so(files: Files, tmp_path: Path) -> None:
    for call in (files.stat, files.list, lambda path: list(files.read(path))):
        with pytest.raises(FileNotFoundError):
            call(f"{tmp_path}/none")
    with pytest.raises(FileNotFoundError):
        files.rename(f"{tmp_path}/none", f"{tmp_path}/other")
    with pytest.raises(FileNotFoundError):
        files.write(f"{tmp_path}/none/a", [b""])
    (tmp_path / "file").touch()
    with pytest.raises(FileExistsError):
        files.mkdir(f"{tmp_path}/file")
    with pytest.raises(NotADirectoryError):
        files.list(f"{tmp_path}/file")


def test_paths_are_absolute(files: Files, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="not an absolute path"):
        files.stat("a")
    assert files.uri("/a b/ü") == "file:///a%20b/%C3%BC"


def test_temporary_names() -> None:
    name = temporary_beside("/a/b.tar.gz")
    assert name.startswith("/a/.b.tar.gz.")
    assert is_temporary(Path(name).name)
    assert not is_temporary("b.tar.gz")
    assert not is_temporary(".hidden")
    assert name != temporary_beside("/a/b.tar.gz")
