"""Stage-in, from a local disk and from a real HDFS, into a working directory."""

from __future__ import annotations

import os
import threading
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from ytf.errors import NotFoundError, SpecError, UnreachableError
from ytf.hadoop.conf import Configuration
from ytf.minicluster import MiniCluster
from ytf.minicluster.daemons import free_ports
from ytf.storage import copy_pool, disk_space
from ytf.storage.disk_space import DiskFullError
from ytf.storage.files import CHUNK
from ytf.storage.hdfs import HdfsFiles
from ytf.storage.hdfs_errors import HdfsPermissionError
from ytf.storage.local_files import LocalFiles
from ytf.storage.stage_in import STATE, StageInCopy, make_plan

TREE = {
    "a.txt": b"hello",
    "empty": b"",
    "odd name ü/b c.txt": b"x",
    "sub/deep/big": os.urandom(3 * CHUNK + 17),
}


@pytest.fixture
def work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working directory of a task."""
    place = tmp_path / "work"
    place.mkdir()
    monkeypatch.chdir(place)
    return place


@pytest.fixture
def source(tmp_path: Path) -> Path:
    place = tmp_path / "source"
    for name, data in TREE.items():
        (place / name).parent.mkdir(parents=True, exist_ok=True)
        (place / name).write_bytes(data)
    (place / "nothing in it").mkdir()
    return place


def stage(url: object, to: str | None = None, *, shard: bool = False, task: int = 0) -> list[str]:
    """Stage one source in for a task of two; what was told."""
    told: list[str] = []
    plan = make_plan([{"url": str(url), "to": to, "shard": shard}], task, 2)
    done = StageInCopy(plan, "node1", lambda kind, text: told.append(f"{kind}: {text}")).run()
    return [*told, f"done: {done}"]


def files_in(place: Path) -> dict[str, bytes]:
    found = (path for path in place.rglob("*") if path.is_file())
    names = {str(path.relative_to(place)): path.read_bytes() for path in found}
    return {name: data for name, data in names.items() if not name.startswith(".ytf")}


def test_a_directory_appears_under_its_name_or_in_another(work: Path, source: Path) -> None:
    stage(source)
    assert files_in(work / "source") == TREE
    assert (work / "source/nothing in it").is_dir()
    stage(source, "data/in")
    assert files_in(work / "data/in") == TREE
    assert [path.name for path in (work / STATE).iterdir()] == ["complete"]


@pytest.mark.parametrize(("pattern", "to"), [("*", None), ("", ".")])
def test_names_of_others_do_not_reach_the_directory_of_ytf(
    work: Path, source: Path, pattern: str, to: str | None
) -> None:
    (source / ".ytf/environment").mkdir(parents=True)
    (source / ".ytf/environment/evil.pth").write_text("import evil")
    with pytest.raises(SpecError, match=r"would be \.ytf/environment/evil\.pth"):
        stage(source / pattern, to)
    assert not (work / ".ytf/environment").exists()


def test_two_sources_that_would_be_one_file_are_refused(work: Path, source: Path) -> None:
    (source / "other").mkdir()
    (source / "other/a.txt").write_bytes(b"another")
    given: list[dict[str, object]] = [
        {"url": str(source / "a.txt"), "to": None, "shard": False},
        {"url": str(source / "other"), "to": ".", "shard": False},
    ]
    with pytest.raises(SpecError, match=r"would both be the file a\.txt"):
        make_plan(given, 0, 1)


def test_files_and_wildcards_keep_their_names(work: Path, source: Path) -> None:
    stage(source / "a.txt")
    stage(source / "a.txt", "x")
    stage(source / "{a*,odd*}", "y")
    stage(source / "*/deep", "z")
    assert sorted(files_in(work)) == [
        "a.txt", "x/a.txt", "y/a.txt", "y/odd name ü/b c.txt", "z/sub/deep/big",
    ]  # fmt: skip


def test_shares_are_disjoint_and_complete(work: Path, source: Path) -> None:
    stage(source, "0", shard=True, task=0)
    stage(source, "1", shard=True, task=1)
    first, second = files_in(work / "0"), files_in(work / "1")
    assert not first.keys() & second.keys()
    assert first | second == TREE
    assert abs(len(first) - len(second)) <= 1


def test_what_is_there_is_not_copied_again(work: Path, source: Path) -> None:
    stage(source)
    before = {name: (work / "source" / name).stat().st_ino for name in TREE}
    (work / "source/a.txt").write_bytes(b"HELLO")
    os.utime(work / "source/sub/deep/big")
    assert "were there already" in stage(source)[-1]
    after = {name: (work / "source" / name).stat().st_ino for name in TREE}
    assert files_in(work / "source") == TREE
    assert [name for name in TREE if before[name] != after[name]] == ["a.txt"]
    (source / "a.txt").write_bytes(b"a new version")
    stage(source)
    assert (work / "source/a.txt").read_bytes() == b"a new version"


def test_a_file_is_continued_where_it_was_left(
    work: Path, source: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    offsets: list[int] = []
    read = LocalFiles.read

    def breaks(
        self: LocalFiles, path: str, offset: int = 0, length: int | None = None
    ) -> Iterator[bytes]:
        offsets.append(offset)
        yield next(read(self, path, offset, length))
        if len(offsets) < 3:
            raise UnreachableError("gone")
        yield from read(self, path, offset + CHUNK)

    monkeypatch.setattr(LocalFiles, "read", breaks)
    monkeypatch.setattr(copy_pool, "FIRST_PAUSE_S", 0.01)
    told = stage(source / "sub/deep/big")
    assert offsets == [0, CHUNK, 2 * CHUNK]
    assert (work / "big").read_bytes() == TREE["sub/deep/big"]
    assert sum("tried again" in line for line in told) == 2


def test_an_error_that_stays_is_raised_and_leaves_no_half_file(
    work: Path, source: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: object) -> Iterator[bytes]:
        yield b"xyz"
        raise UnreachableError("gone for good")

    monkeypatch.setattr(LocalFiles, "read", fails)
    monkeypatch.setattr(copy_pool, "FIRST_PAUSE_S", 0.001)
    with pytest.raises(UnreachableError, match="gone for good"):
        stage(source / "sub/deep/big")
    assert files_in(work) == {}


def test_an_hdfs_that_is_gone_is_asked_for_a_while(
    work: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(copy_pool, "FIRST_PAUSE_S", 0.01)
    [port] = free_ports(1)
    notes: list[str] = []
    source: dict[str, object] = {"url": f"hdfs://127.0.0.1:{port}/data", "to": None, "shard": False}
    with pytest.raises(UnreachableError, match=f"127.0.0.1:{port}"):
        copy_pool.retry(lambda: make_plan([source], 0, 1), notes.append)
    assert len(notes) == copy_pool.TRIES - 1


def test_streams_are_bounded(work: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "many").mkdir()
    for number in range(40):
        (tmp_path / "many" / str(number)).write_bytes(b"x")
    most, running, lock = 0, 0, threading.Lock()
    all_busy = threading.Event()
    read = LocalFiles.read

    def counted(
        self: LocalFiles, path: str, offset: int = 0, length: int | None = None
    ) -> Iterator[bytes]:
        nonlocal most, running
        with lock:
            running += 1
            most = max(most, running)
            if running == copy_pool.STREAMS:
                all_busy.set()
        all_busy.wait(10)
        yield from read(self, path, offset, length)
        with lock:
            running -= 1

    monkeypatch.setattr(LocalFiles, "read", counted)
    stage(tmp_path / "many")
    assert most == copy_pool.STREAMS


def test_nothing_of_the_user_is_replaced(work: Path, source: Path, tmp_path: Path) -> None:
    (work / "a.txt").write_text("mine")
    with pytest.raises(SpecError, match=r"a.txt is in the working directory already"):
        stage(source / "a.txt")
    assert (work / "a.txt").read_text() == "mine"
    (tmp_path / "shared").mkdir()
    (work / "link").symlink_to(tmp_path / "shared")
    with pytest.raises(SpecError, match="outside the working directory"):
        stage(source, "link")
    assert list((tmp_path / "shared").iterdir()) == []


def test_two_sources_of_one_name_are_refused(work: Path, source: Path) -> None:
    (source / "x").mkdir()
    (source / "x/a.txt").write_text("other")
    sources = [{"url": f"{source}/{name}", "to": "in", "shard": False} for name in ("a.txt", "x")]
    with pytest.raises(SpecError, match=r"both be the file in/a.txt"):
        make_plan(sources, 0, 1)


def test_a_disk_that_is_too_small_is_told_before_the_first_byte(
    work: Path, source: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(disk_space.DiskSpace, "_free", lambda self: 2 * CHUNK)
    with pytest.raises(DiskFullError, match=r"3.1 MB are to be written.* node1 .*shard"):
        stage(source)
    assert files_in(work) == {}


def test_a_disk_that_fills_up_meanwhile_is_told_before_it_is_full(
    work: Path, source: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    free = iter([10 << 40, 0])
    monkeypatch.setattr(disk_space, "CHECK_EVERY", CHUNK)
    monkeypatch.setattr(disk_space.DiskSpace, "_free", lambda self: next(free))
    with pytest.raises(DiskFullError, match="almost full"):
        stage(source / "sub/deep/big")
    assert files_in(work) == {}


class TestHdfs:
    @pytest.fixture
    def files(self, hadoop: MiniCluster, monkeypatch: pytest.MonkeyPatch) -> HdfsFiles:
        monkeypatch.setenv("HADOOP_CONF_DIR", str(hadoop.conf_dir))
        return HdfsFiles.open("hdfs:///", Configuration.load(hadoop.conf_dir))

    @pytest.fixture
    def place(self, files: HdfsFiles) -> Iterator[str]:
        path = f"/tests/{uuid.uuid4().hex}"
        for name, data in TREE.items():
            files.mkdir(os.path.dirname(f"{path}/{name}"), 0o755)
            files.write(f"{path}/{name}", [data])
        files.mkdir(f"{path}/nothing in it", 0o755)
        yield path
        files.delete(path)

    def test_a_tree_with_odd_names_and_wildcards(
        self, work: Path, files: HdfsFiles, place: str
    ) -> None:
        stage(f"hdfs://{place}", "all")
        assert files_in(work / "all") == TREE
        assert (work / "all/nothing in it").is_dir()
        stage(files.uri(f"{place}/{{odd*,a.*}}"), "some")
        assert sorted(files_in(work / "some")) == ["a.txt", "odd name ü/b c.txt"]

    def test_what_cannot_be_read_is_told(
        self, work: Path, files: HdfsFiles, place: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        with pytest.raises(NotFoundError, match=r"there is no hdfs:///tests/no/such to stage in"):
            stage("hdfs:///tests/no/such")
        with monkeypatch.context() as patched:
            patched.setenv("HADOOP_USER_NAME", "somebody")
            with pytest.raises(HdfsPermissionError, match=r"a\.txt"):
                stage(f"hdfs://{place}/a.txt")
        assert files_in(work) == {}
