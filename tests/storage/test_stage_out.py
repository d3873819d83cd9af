"""Stage-out, to a local disk and to a real HDFS, from a working directory."""

from __future__ import annotations

import json
import os
import uuid
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

from ytf.errors import UnreachableError
from ytf.hadoop.conf import Configuration
from ytf.minicluster import MiniCluster
from ytf.storage import copy_pool
from ytf.storage.files import CHUNK, Files, FileStatus
from ytf.storage.hdfs import HdfsFiles
from ytf.storage.hdfs_errors import HdfsPermissionError
from ytf.storage.local_files import LocalFiles
from ytf.storage.stage_out import MANIFEST, Destination, DestinationError, StageOutCopy

TREE = {
    "model.h5": os.urandom(2 * CHUNK + 5),
    "empty": b"",
    "odd name ü/b c.txt": b"x",
}


@pytest.fixture
def work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working directory of a task whose program has written ``out``."""
    place = tmp_path / "work"
    for name, data in TREE.items():
        (place / "out" / name).parent.mkdir(parents=True, exist_ok=True)
        (place / "out" / name).write_bytes(data)
    (place / "out/nothing in it").mkdir()
    monkeypatch.chdir(place)
    return place


def stage(
    files: Files, path: str, *, job: str = "job_1", task: str = "worker:0", folder: str = "out"
) -> list[str]:
    """Stage a directory out; what was told."""
    told: list[str] = []
    destination = Destination(files, path, job, task)
    destination.check()
    done = StageOutCopy(
        folder, destination, lambda kind, text: told.append(f"{kind}: {text}")
    ).run()
    return [*told, f"done: {done}"]


def files_in(files: Files, path: str) -> dict[str, bytes]:
    found: dict[str, bytes] = {}
    for each in files.list(path):
        if each.is_directory:
            found |= {f"{each.name}/{k}": v for k, v in files_in(files, each.path).items()}
        elif each.name != MANIFEST:
            found[each.name] = b"".join(files.read(each.path))
    return found


def names(files: Files, path: str) -> list[str]:
    return [each.name for each in files.list(path)]


def test_a_tree_appears_whole_with_its_checksums(work: Path, tmp_path: Path) -> None:
    stage(LocalFiles(), f"{tmp_path}/kept/here")
    assert files_in(LocalFiles(), f"{tmp_path}/kept/here") == TREE
    assert (tmp_path / "kept/here/nothing in it").is_dir()
    assert names(LocalFiles(), f"{tmp_path}/kept") == ["here"], "nothing is left beside it"
    told = json.loads((tmp_path / "kept/here" / MANIFEST).read_text())
    assert (told["job"], told["task"]) == ("job_1", "worker:0")
    assert told["files"]["odd name ü/b c.txt"] == [1, 2363233923]


def test_what_another_has_written_is_never_replaced(work: Path, tmp_path: Path) -> None:
    place = f"{tmp_path}/kept"
    stage(LocalFiles(), place)
    (work / "out/model.h5").write_bytes(b"newer")
    for job, task in (("job_2", "worker:0"), ("job_1", "worker:1")):
        with pytest.raises(DestinationError, match=r"has files already.*\{job\}"):
            stage(LocalFiles(), place, job=job, task=task)
    assert files_in(LocalFiles(), place) == TREE
    stage(LocalFiles(), place)
    assert files_in(LocalFiles(), place)["model.h5"] == b"newer", "a later attempt of the same task"
    assert not [name for name in names(LocalFiles(), str(tmp_path)) if "ytf" in name]


@pytest.mark.parametrize("text", ["[" * 100_000, "1" * 5_000, "{}", "null"])
def test_a_file_like_ours_of_somebody_else_is_not_taken_for_ours(tmp_path: Path, text: str) -> None:
    (tmp_path / "kept").mkdir()
    (tmp_path / "kept" / MANIFEST).write_text(text)
    with pytest.raises(DestinationError):
        Destination(LocalFiles(), str(tmp_path / "kept"), "job", "worker:0").check()


def test_what_somebody_writes_meanwhile_is_kept_and_so_is_the_output(
    work: Path, tmp_path: Path
) -> None:
    destination = Destination(LocalFiles(), f"{tmp_path}/kept", "job_1", "worker:0")
    destination.check()
    (tmp_path / "kept").mkdir()
    (tmp_path / "kept/theirs").write_text("x")
    with pytest.raises(DestinationError, match=r"is in file://\S+/\.kept\.job_1\.worker-0\.ytf"):
        StageOutCopy("out", destination, lambda kind, text: None).run()
    assert files_in(LocalFiles(), f"{tmp_path}/kept") == {"theirs": b"x"}
    assert files_in(LocalFiles(), destination.scratch) == TREE


def test_output_that_somebody_removes_is_not_taken_for_kept(work: Path, tmp_path: Path) -> None:
    destination = Destination(LocalFiles(), f"{tmp_path}/kept", "job_1", "worker:0")
    with pytest.raises(DestinationError, match="somebody has removed"):
        destination.publish({})
    stage(LocalFiles(), f"{tmp_path}/kept")
    destination.publish({})  # the answer of the first call may have been lost


def test_hdfs_that_is_away_for_a_moment_costs_no_output(
    work: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(copy_pool, "FIRST_PAUSE_S", 0.01)
    failures = ["list", "delete", "mkdir"]

    class Unsteady(LocalFiles):
        def _fail(self, name: str) -> None:
            if name in failures:
                failures.remove(name)
                raise UnreachableError("HDFS does not answer")

        def list(self, path: str) -> list[FileStatus]:
            if path.endswith(".ytf"):
                self._fail("list")
            return super().list(path)

        def delete(self, path: str) -> None:
            self._fail("delete")
            super().delete(path)

        def mkdir(self, path: str, mode: int = 0o700) -> None:
            self._fail("mkdir")
            super().mkdir(path, mode)

    files = Unsteady()
    destination = Destination(files, f"{tmp_path}/kept", "job_1", "worker:0")
    (Path(destination.scratch) / "stale").mkdir(parents=True)
    (Path(destination.scratch) / "stale/file").write_text("of an attempt before")
    told: list[str] = []
    StageOutCopy("out", destination, lambda kind, text: told.append(text)).run()
    assert files_in(files, f"{tmp_path}/kept") == TREE
    assert not failures
    assert sum("it is tried again" in line for line in told) == 3


def test_what_was_copied_before_is_not_copied_again(
    work: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    written: list[str] = []
    write = LocalFiles.write

    def counted(
        self: LocalFiles, path: str, chunks: Iterable[bytes], mode: int = 0o600
    ) -> FileStatus:
        written.append(os.path.basename(path))
        return write(self, path, chunks, mode)

    scratch = Destination(LocalFiles(), f"{tmp_path}/kept", "job_1", "worker:0").scratch
    for name, data in (("model.h5", TREE["model.h5"]), ("empty", b"half"), ("stale", b"x")):
        Path(scratch).mkdir(exist_ok=True)
        Path(scratch, name).write_bytes(data)
    monkeypatch.setattr(LocalFiles, "write", counted)
    stage(LocalFiles(), f"{tmp_path}/kept")
    assert sorted(written) == [MANIFEST, "b c.txt", "empty"]
    assert files_in(LocalFiles(), f"{tmp_path}/kept") == TREE


def test_a_copy_that_differs_is_made_again(
    work: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write = LocalFiles.write
    broken: list[str] = []

    def breaks(
        self: LocalFiles, path: str, chunks: Iterable[bytes], mode: int = 0o600
    ) -> FileStatus:
        done = write(self, path, chunks, mode)
        if path.endswith("model.h5") and not broken:
            broken.append(path)
            with open(path, "r+b") as file:
                file.write(bytes([TREE["model.h5"][0] ^ 1]))
        return done

    monkeypatch.setattr(LocalFiles, "write", breaks)
    monkeypatch.setattr(copy_pool, "FIRST_PAUSE_S", 0.01)
    told = stage(LocalFiles(), f"{tmp_path}/kept")
    assert broken
    assert any("differs from out/model.h5" in line for line in told)
    assert files_in(LocalFiles(), f"{tmp_path}/kept") == TREE


def test_a_file_links_and_what_is_missing(work: Path, tmp_path: Path) -> None:
    stage(LocalFiles(), f"{tmp_path}/one", folder="out/empty")
    assert files_in(LocalFiles(), f"{tmp_path}/one") == {"empty": b""}
    (work / "out/link").symlink_to(work / "out/empty")
    (work / "out/loop").symlink_to(work / "out")
    (work / "out/dangling").symlink_to(work / "gone")
    told = stage(LocalFiles(), f"{tmp_path}/all")
    assert files_in(LocalFiles(), f"{tmp_path}/all") == {**TREE, "link": b""}
    assert sum("left out" in line for line in told) == 2
    with pytest.raises(FileNotFoundError, match="the program has left no gone"):
        stage(LocalFiles(), f"{tmp_path}/none", folder="gone")


class TestHdfs:
    @pytest.fixture
    def files(self, hadoop: MiniCluster) -> HdfsFiles:
        return HdfsFiles.open("hdfs:///", Configuration.load(hadoop.conf_dir))

    @pytest.fixture
    def place(self, files: HdfsFiles) -> Iterator[str]:
        path = f"/tests/{uuid.uuid4().hex}"
        files.mkdir(path, 0o755)
        yield path
        files.delete(path)

    def test_a_tree_and_a_second_attempt(self, work: Path, files: HdfsFiles, place: str) -> None:
        stage(files, f"{place}/a/b")
        assert files_in(files, f"{place}/a/b") == TREE
        (work / "out/model.h5").unlink()
        stage(files, f"{place}/a/b")
        assert sorted(files_in(files, f"{place}/a/b")) == ["empty", "odd name ü/b c.txt"]
        assert names(files, f"{place}/a") == ["b"]
        with pytest.raises(DestinationError, match="has files already"):
            stage(files, f"{place}/a/b", job="job_2")

    def test_a_destination_that_may_not_be_written_is_found_early(
        self, work: Path, files: HdfsFiles, place: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        destination = Destination(files, f"{place}/x", "job_1", "worker:0")
        with monkeypatch.context() as patched:
            patched.setenv("HADOOP_USER_NAME", "somebody")
            with pytest.raises(HdfsPermissionError, match="Permission denied"):
                destination.check()

    def test_a_directory_that_somebody_else_has_prepared_is_not_used(
        self, work: Path, files: HdfsFiles, place: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        files.chmod(place, 0o1777)
        with monkeypatch.context() as patched:
            patched.setenv("HADOOP_USER_NAME", "mallory")
            destination = Destination(files, f"{place}/x", "job_1", "worker:0")
            files.mkdir(destination.scratch, 0o777)
        with pytest.raises(DestinationError, match="belongs to somebody else"):
            stage(files, f"{place}/x")
        assert names(files, place) == [os.path.basename(destination.scratch)]
