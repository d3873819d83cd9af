"""Contract tests of the storage ports, on a local disk and on a real HDFS."""

from __future__ import annotations

import shutil
import uuid
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest
from hdfs_native import AclEntry, AsyncClient

from tests.storage.contracts import BlobsContract, FilesContract, in_threads
from ytf.errors import RefusedError
from ytf.hadoop.conf import Configuration
from ytf.minicluster import MiniCluster
from ytf.minicluster.daemons import free_ports
from ytf.storage.blobs import Blobs, LocalBlobs
from ytf.storage.files import CHUNK, Files
from ytf.storage.hdfs import HdfsBlobs, HdfsFiles, path_of
from ytf.storage.local_files import LocalFiles


@pytest.fixture
def hdfs(hadoop: MiniCluster) -> HdfsFiles:
    return HdfsFiles.open("hdfs:///", Configuration.load(hadoop.conf_dir))


@pytest.fixture
def place(hdfs: HdfsFiles) -> Iterator[str]:
    """A directory in HDFS that is removed after the test."""
    path = f"/tests/{uuid.uuid4().hex}"
    hdfs.mkdir(path, 0o755)
    yield path
    hdfs.delete(path)


class TestLocalBlobs(BlobsContract):
    @pytest.fixture
    def blobs(self, tmp_path: Path) -> Blobs:
        root = tmp_path / "root"
        root.mkdir(mode=0o700)
        return LocalBlobs(root)

    @pytest.fixture
    def remove_root(self, tmp_path: Path) -> Callable[[], None]:
        return lambda: shutil.rmtree(tmp_path / "root")

    def test_nothing_of_a_removed_root_is_left(
        self, blobs: Blobs, remove_root: Callable[[], None], tmp_path: Path
    ) -> None:
        remove_root()
        with pytest.raises(FileNotFoundError):
            blobs.write("a/1", b"late")
        assert list(tmp_path.iterdir()) == []


class TestHdfsBlobs(BlobsContract):
    @pytest.fixture
    def blobs(self, hdfs: HdfsFiles, place: str) -> Blobs:
        hdfs.mkdir(f"{place}/blobs")
        return HdfsBlobs(hdfs.client, f"{place}/blobs")

    @pytest.fixture
    def remove_root(self, hdfs: HdfsFiles, place: str) -> Callable[[], None]:
        return lambda: hdfs.delete(f"{place}/blobs")

    def test_nothing_of_a_removed_root_is_left(
        self, blobs: Blobs, remove_root: Callable[[], None], hdfs: HdfsFiles, place: str
    ) -> None:
        remove_root()
        with pytest.raises(FileNotFoundError):
            blobs.write("a/1", b"late")
        assert hdfs.list(place) == []

    def test_only_the_owner_can_read(self, blobs: Blobs, hdfs: HdfsFiles, place: str) -> None:
        blobs.write("a/1", b"secret")
        assert hdfs.stat(f"{place}/blobs/a/1").mode == 0o600
        assert hdfs.stat(f"{place}/blobs/a").mode == 0o700
        assert hdfs.stat(f"{place}/blobs").mode == 0o700

    def test_nothing_is_left_beside(self, blobs: Blobs, hdfs: HdfsFiles, place: str) -> None:
        blobs.write("a/1", b"first")
        with pytest.raises(FileExistsError):
            blobs.write("a/1", b"second")
        assert hdfs.list(f"{place}/blobs/.tmp") == []

    def test_writes_and_deletes_in_one_directory_do_not_hurt_each_other(self, blobs: Blobs) -> None:
        def churn(number: int) -> None:
            for turn in range(4):
                blobs.write(f"a/{number}-{turn}", b"")
                blobs.delete(f"a/{number}-{turn}")

        assert in_threads(3, churn) == []
        assert blobs.list() == []


class TestLocalFiles(FilesContract):
    @pytest.fixture
    def files(self) -> Files:
        return LocalFiles()

    @pytest.fixture
    def root(self, tmp_path: Path) -> str:
        return str(tmp_path)


class TestHdfsFiles(FilesContract):
    @pytest.fixture
    def files(self, hdfs: HdfsFiles) -> Files:
        return hdfs

    @pytest.fixture
    def root(self, place: str) -> str:
        return place


def test_files_are_closed_when_written(hdfs: HdfsFiles, place: str) -> None:
    # How small files are closed depends on the internals of hdfs-native.
    for number in range(8):
        path = f"{place}/{number}"
        hdfs.write(path, [b"x" * 1000 * number])
        assert hdfs.client.call("ask", partial(_is_closed, path), changes=False)


async def _is_closed(path: str, client: AsyncClient) -> bool:
    return await client.recover_lease(path)


def test_urls(hadoop: MiniCluster, hdfs: HdfsFiles, place: str) -> None:
    named = HdfsFiles.open(f"{hadoop.hdfs_url}{place}", Configuration.of({}))
    hdfs.write(f"{place}/a", [b"x"])
    assert named.stat(f"{place}/a") == hdfs.stat(f"{place}/a")
    assert hdfs.uri(f"{place}/a") == f"{hadoop.hdfs_url}{place}/a"
    assert path_of(hdfs.uri(f"{place}/a")) == f"{place}/a"


def test_a_nameservice_is_tried_until_one_serves(hadoop: MiniCluster) -> None:
    conf = Configuration.of(
        {
            "fs.defaultFS": "hdfs://both",
            "dfs.nameservices": "both",
            "dfs.ha.namenodes.both": "nn1, nn2",
            "dfs.namenode.rpc-address.both.nn1": f"127.0.0.1:{free_ports(1)[0]}",
            "dfs.namenode.rpc-address.both.nn2": hadoop.hdfs_url.removeprefix("hdfs://"),
            "dfs.client.failover.proxy.provider.both": "org.apache.hadoop.hdfs.server.namenode.ha."
            "ObserverReadProxyProvider",
        }
    )
    files = HdfsFiles.open("hdfs:///x", conf)
    assert files.uri("/x") == "hdfs://both/x"
    assert files.stat("/").is_directory


def test_others_files_are_refused(
    hadoop: MiniCluster, hdfs: HdfsFiles, place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    hdfs.write(f"{place}/a", [b"x"], 0o600)
    monkeypatch.setenv("HADOOP_USER_NAME", "mallory")
    theirs = HdfsFiles.open(hadoop.hdfs_url, Configuration.of({}))
    attempts: list[Callable[[], object]] = [
        lambda: list(theirs.read(f"{place}/a")),
        lambda: theirs.write(f"{place}/b", [b"x"]),
        lambda: theirs.write(f"{place}/b", [b"x" * CHUNK * 2]),
        lambda: theirs.delete(f"{place}/a"),
        lambda: theirs.chmod(f"{place}/a", 0o644),
        lambda: HdfsBlobs(theirs.client, place).write("b", b"x"),
    ]
    for attempt in attempts:
        with pytest.raises(PermissionError, match="mallory") as caught:
            attempt()
        assert isinstance(caught.value, RefusedError)
        assert "\n" not in str(caught.value)


def test_an_access_control_list_tells_who_can_write(hdfs: HdfsFiles, place: str) -> None:
    assert hdfs.acl_writers(place) == ()
    eve = AclEntry("user", "access", "rwx", "eve")
    hdfs.client.call(
        "let eve write", lambda native: native.modify_acl_entries(place, [eve]), changes=True
    )
    assert hdfs.acl_writers(place) == ("user:eve",)
    assert hdfs.stat(place).mode & 0o020


def test_many_threads_share_a_link(hdfs: HdfsFiles, place: str) -> None:
    def work(number: int) -> None:
        data = b"%d" % number * 100
        hdfs.write(f"{place}/{number}", [data])
        assert b"".join(hdfs.read(f"{place}/{number}")) == data

    assert in_threads(12, work) == []
    assert len(hdfs.list(place)) == 12
