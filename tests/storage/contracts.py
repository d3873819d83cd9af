"""Contract tests of the storage ports; each implementation runs them in a subclass."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator

import pytest

from ytf.storage.blobs import Blobs
from ytf.storage.files import CHUNK, Files, ReplacingFiles, is_temporary


def in_threads(count: int, work: Callable[[int], None]) -> list[BaseException]:
    """Run the work in threads that start together; return what they raised."""
    together = threading.Barrier(count)
    raised: list[BaseException] = []

    def run(number: int) -> None:
        try:
            together.wait(30)
            work(number)
        except Exception as exc:
            raised.append(exc)

    threads = [threading.Thread(target=run, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
        assert not thread.is_alive()
    return raised


class BlobsContract:
    """What every implementation of ``Blobs`` must do."""

    def test_reads_what_was_written(self, blobs: Blobs) -> None:
        blobs.write("a/b/c", b"\0data\n")
        blobs.write("a/b/empty", b"")
        assert blobs.read("a/b/c") == b"\0data\n"
        assert blobs.read("a/b/empty") == b""

    def test_lists_one_level_sorted(self, blobs: Blobs) -> None:
        for name in ("b", "a/2", "a/1", "c/d/e"):
            blobs.write(name, b"x")
        assert blobs.list() == ["a", "b", "c"]
        assert blobs.list("a") == ["1", "2"]
        assert blobs.list("c") == ["d"]

    def test_nothing_there_is_an_empty_list(self, blobs: Blobs) -> None:
        assert blobs.list() == []
        assert blobs.list("a/b") == []

    def test_a_removed_root_stays_removed(
        self, blobs: Blobs, remove_root: Callable[[], None]
    ) -> None:
        blobs.write("a/1", b"x")
        remove_root()
        for name in ("a/2", "b", "c/d"):
            with pytest.raises(FileNotFoundError):
                blobs.write(name, b"late")
        assert blobs.list() == []

    def test_never_overwrites(self, blobs: Blobs) -> None:
        blobs.write("a/1", b"first")
        with pytest.raises(FileExistsError):
            blobs.write("a/1", b"second")
        assert blobs.read("a/1") == b"first"
        assert blobs.list("a") == ["1"]

    def test_one_of_many_writers_wins(self, blobs: Blobs) -> None:
        won: list[bytes] = []

        def write(number: int) -> None:
            data = b"%d" % number
            blobs.write("a/1", data)
            won.append(data)

        lost = in_threads(6, write)
        assert won == [blobs.read("a/1")]
        assert [type(exc).__mro__ for exc in lost if not isinstance(exc, FileExistsError)] == []

    def test_reading_what_is_not_there(self, blobs: Blobs) -> None:
        with pytest.raises(FileNotFoundError):
            blobs.read("a/1")

    def test_a_directory_goes_with_its_last_blob(self, blobs: Blobs) -> None:
        blobs.write("a/b/1", b"")
        blobs.write("a/b/2", b"")
        blobs.delete("a/b/1")
        assert blobs.list("a/b") == ["2"]
        blobs.delete("a/b/2")
        assert blobs.list() == []
        blobs.delete("a/b/2")

    @pytest.mark.parametrize("name", ["", "/etc/passwd", "../x", "a/../../x", ".hidden", "a/.tmp"])
    def test_names_stay_below_the_root(self, blobs: Blobs, name: str) -> None:
        with pytest.raises(ValueError, match="not the name of a blob"):
            blobs.write(name, b"")


class FilesContract:
    """What every implementation of ``Files`` must do. ``root`` is an empty directory."""

    def test_what_was_written_is_there(self, files: Files, root: str) -> None:
        status = files.write(f"{root}/a", [b"one", b"", b"two"], 0o640)
        assert (status.path, status.size, status.mode) == (f"{root}/a", 6, 0o640)
        assert not status.is_directory
        assert status == files.stat(f"{root}/a")
        assert b"".join(files.read(f"{root}/a")) == b"onetwo"
        assert files.list(root) == [status]

    def test_an_empty_file(self, files: Files, root: str) -> None:
        assert files.write(f"{root}/a", []).size == 0
        assert list(files.read(f"{root}/a")) == []

    @pytest.mark.parametrize("size", [CHUNK // 2, 2 * CHUNK])
    def test_a_file_of_many_pieces(self, files: Files, root: str, size: int) -> None:
        pieces = [bytes([number]) * (size + number) for number in range(7)]
        whole = b"".join(pieces)
        assert files.write(f"{root}/a", iter(pieces)).size == len(whole)
        assert b"".join(files.read(f"{root}/a")) == whole
        assert b"".join(files.read(f"{root}/a", CHUNK - 5, 10)) == whole[CHUNK - 5 : CHUNK + 5]
        assert b"".join(files.read(f"{root}/a", len(whole) - 3)) == whole[-3:]
        assert b"".join(files.read(f"{root}/a", 5, 0)) == b""
        assert b"".join(files.read(f"{root}/a", len(whole) + 1, 5)) == b""

    def test_what_is_not_read_to_the_end(self, files: Files, root: str) -> None:
        files.write(f"{root}/a", [b"x" * CHUNK] * 3)
        pieces = files.read(f"{root}/a")
        assert next(pieces)
        del pieces

    def test_nothing_is_replaced(self, files: Files, root: str) -> None:
        files.write(f"{root}/a", [b"first"])
        with pytest.raises(FileExistsError):
            files.write(f"{root}/a", [b"second"])
        assert b"".join(files.read(f"{root}/a")) == b"first"
        assert [each.name for each in files.list(root)] == ["a"]

    def test_one_of_many_writers_wins(self, files: Files, root: str) -> None:
        lost = in_threads(4, lambda number: _write(files, f"{root}/a", b"%d" % number))
        assert [type(exc).__mro__ for exc in lost if not isinstance(exc, FileExistsError)] == []
        assert len(lost) == 3
        assert [each.name for each in files.list(root)] == ["a"]

    @pytest.mark.parametrize("size", [10, CHUNK, 9 * CHUNK])
    def test_a_source_that_fails_leaves_nothing(self, files: Files, root: str, size: int) -> None:
        def broken() -> Iterator[bytes]:
            yield b"x" * size
            yield b"x" * size
            raise ZeroDivisionError

        with pytest.raises(ZeroDivisionError):
            files.write(f"{root}/a", broken())
        assert files.list(root) == []

    def test_a_write_under_way_shows_as_temporary_only(self, files: Files, root: str) -> None:
        def looking() -> Iterator[bytes]:
            yield b"x" * (9 * CHUNK)
            assert [is_temporary(each.name) for each in files.list(root)] == [True]
            yield b"x"

        files.write(f"{root}/a", looking())

    def test_the_directory_must_be_there(self, files: Files, root: str) -> None:
        with pytest.raises(FileNotFoundError):
            files.write(f"{root}/no/a", [b"x"])

    def test_what_is_not_there(self, files: Files, root: str) -> None:
        with pytest.raises(FileNotFoundError):
            files.stat(f"{root}/no")
        with pytest.raises(FileNotFoundError):
            files.list(f"{root}/no")
        with pytest.raises(FileNotFoundError):
            list(files.read(f"{root}/no"))
        with pytest.raises(FileNotFoundError):
            files.chmod(f"{root}/no", 0o600)
        files.delete(f"{root}/no")
        files.delete(f"{root}/no/no")

    def test_a_file_is_no_directory(self, files: Files, root: str) -> None:
        files.write(f"{root}/a", [b"x"])
        with pytest.raises(NotADirectoryError):
            files.list(f"{root}/a")
        with pytest.raises((FileExistsError, NotADirectoryError)):
            files.mkdir(f"{root}/a")
        with pytest.raises((FileExistsError, NotADirectoryError)):
            files.mkdir(f"{root}/a/b")
        files.mkdir(f"{root}/d")
        with pytest.raises(IsADirectoryError):
            list(files.read(f"{root}/d"))

    @pytest.mark.parametrize("mode", [0o700, 0o755, 0o777, 0o1777])
    def test_directories_get_their_mode(self, files: Files, root: str, mode: int) -> None:
        files.mkdir(f"{root}/a/b/c", mode)
        for path in (f"{root}/a", f"{root}/a/b", f"{root}/a/b/c"):
            status = files.stat(path)
            assert (status.is_directory, status.size, status.mode) == (True, 0, mode)
        files.mkdir(f"{root}/a/b", 0o711)
        assert files.stat(f"{root}/a/b").mode == mode
        files.chmod(f"{root}/a/b", 0o711)
        assert files.stat(f"{root}/a/b").mode == 0o711

    def test_many_make_the_same_directory(self, files: Files, root: str) -> None:
        assert in_threads(4, lambda number: files.mkdir(f"{root}/a/b/c")) == []
        assert files.stat(f"{root}/a/b/c").is_directory

    def test_a_directory_is_deleted_with_all_in_it(self, files: Files, root: str) -> None:
        files.mkdir(f"{root}/a/b")
        files.write(f"{root}/a/b/c", [b"x"])
        files.delete(f"{root}/a")
        assert files.list(root) == []

    def test_rename_moves_and_never_replaces(self, files: Files, root: str) -> None:
        files.write(f"{root}/a", [b"a"])
        files.mkdir(f"{root}/d")
        files.write(f"{root}/d/x", [b"x"])
        files.rename(f"{root}/a", f"{root}/b")
        files.rename(f"{root}/d", f"{root}/e")
        assert [each.name for each in files.list(root)] == ["b", "e"]
        assert b"".join(files.read(f"{root}/e/x")) == b"x"
        for target in ("b", "e"):
            files.write(f"{root}/c", [b"c"])
            with pytest.raises(FileExistsError):
                files.rename(f"{root}/c", f"{root}/{target}")
            assert b"".join(files.read(f"{root}/c")) == b"c"
            files.delete(f"{root}/c")
        with pytest.raises(FileNotFoundError):
            files.rename(f"{root}/no", f"{root}/c")
        for source in ("b", "e"):
            with pytest.raises(FileNotFoundError):
                files.rename(f"{root}/{source}", f"{root}/no/x")

    def test_replace_puts_a_file_in_the_place_of_another(
        self, files: ReplacingFiles, root: str
    ) -> None:
        files.write(f"{root}/a", [b"new"])
        files.write(f"{root}/b", [b"old, and longer"])
        files.replace(f"{root}/a", f"{root}/b")
        files.replace(f"{root}/b", f"{root}/c")
        assert [each.name for each in files.list(root)] == ["c"]
        assert b"".join(files.read(f"{root}/c")) == b"new"
        files.mkdir(f"{root}/d")
        files.write(f"{root}/d/x", [b"x"])
        with pytest.raises((FileExistsError, IsADirectoryError)):
            files.replace(f"{root}/c", f"{root}/d")
        with pytest.raises(FileNotFoundError):
            files.replace(f"{root}/no", f"{root}/c")
        with pytest.raises(FileNotFoundError):
            files.replace(f"{root}/c", f"{root}/no/x")
        assert b"".join(files.read(f"{root}/c")) == b"new"

    def test_only_an_empty_directory_is_removed_alone(
        self, files: ReplacingFiles, root: str
    ) -> None:
        files.mkdir(f"{root}/d")
        files.write(f"{root}/d/x", [b"x"])
        assert not files.remove_empty_directory(f"{root}/d")
        files.delete(f"{root}/d/x")
        assert files.remove_empty_directory(f"{root}/d")
        assert files.remove_empty_directory(f"{root}/d")
        assert files.list(root) == []

    @pytest.mark.parametrize("name", ["with space", "ünïcode", "%41", "a=b&c", "a+b#c?d", "~x"])
    def test_names_are_taken_literally(self, files: Files, root: str, name: str) -> None:
        files.write(f"{root}/{name}", [b"x"])
        assert [each.name for each in files.list(root)] == [name]
        assert b"".join(files.read(f"{root}/{name}")) == b"x"

    def test_paths_are_absolute(self, files: Files) -> None:
        with pytest.raises(ValueError, match="not an absolute path"):
            files.stat("a")


def _write(files: Files, path: str, data: bytes) -> None:
    files.write(path, [data])
