"""Files are written completely and renamed once, despite the retries of hdfs-native."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import cast

import pytest
from hdfs_native import AsyncClient, WriteOptions

from ytf.errors import UnreachableError
from ytf.hadoop.conf import Configuration
from ytf.storage import hdfs_client
from ytf.storage.files import CHUNK
from ytf.storage.hdfs import HdfsFiles, move_into_place, write_small
from ytf.storage.hdfs_client import HdfsClient


class Namespace:
    """A native client of an HDFS in memory, which behaves like hdfs-native."""

    def __init__(self) -> None:
        self.files: dict[str, bytes] = {}
        self.closed: set[str] = set()
        self.largest_write = 0
        self.early_closes = 0
        self.lose_the_block = False
        self.lose_the_answer = False
        self.failures: list[Exception] = []
        """What the next calls raise; if it is empty, they succeed."""

    def _serve(self) -> None:
        if self.failures:
            raise self.failures.pop(0)

    async def create(self, path: str, options: WriteOptions) -> Writer:
        for _ in range(2 if self.lose_the_answer else 1):
            if path in self.files:
                self.lose_the_answer = False
                raise FileExistsError(path)
            self.files[path] = b""
        self._serve()
        return Writer(self, path)

    async def delete(self, path: str, recursive: bool) -> bool:
        self._serve()
        return self.files.pop(path, None) is not None

    async def get_file_info(self, path: str) -> None:
        self._serve()
        if path not in self.files:
            raise FileNotFoundError(path)

    async def rename(self, source: str, target: str, overwrite: bool) -> None:
        for _ in range(2 if self.lose_the_answer else 1):
            if source not in self.files:
                raise FileNotFoundError(source)
            if target in self.files:
                raise FileExistsError(target)
            self.files[target] = self.files.pop(source)
        self._serve()


class Writer:
    def __init__(self, namespace: Namespace, path: str) -> None:
        self._namespace = namespace
        self._path = path
        self._closing = 0

    async def write(self, data: bytes) -> int:
        self._namespace.files[self._path] += data
        self._namespace.largest_write = max(self._namespace.largest_write, len(data))
        return len(data)

    async def hsync(self) -> None:
        pass

    async def close(self) -> None:
        namespace = self._namespace
        self._closing += 1
        if namespace.lose_the_block and self._closing > 1:
            raise RuntimeError("LeaseExpiredException")
        if namespace.lose_the_block or self._closing <= namespace.early_closes:
            namespace.lose_the_block &= self._closing == 1
            await asyncio.sleep(0.5)
        namespace.closed.add(self._path)


@pytest.fixture
def namespace() -> Namespace:
    return Namespace()


@pytest.fixture
def client(namespace: Namespace, monkeypatch: pytest.MonkeyPatch) -> HdfsClient:
    native = cast(AsyncClient, namespace)
    monkeypatch.setattr(hdfs_client._ClientThread, "_client", lambda thread, key: native)
    return HdfsClient("hdfs://nowhere", Configuration.of({}), timeout_s=10.0)


@pytest.fixture
def pair(client: HdfsClient, monkeypatch: pytest.MonkeyPatch) -> HdfsClient:
    """The same, as a nameservice of two NameNodes."""
    monkeypatch.setattr(hdfs_client, "_FAILOVER_PAUSE_S", 0.0)
    return HdfsClient("hdfs://both", Configuration.of({"dfs.ha.namenodes.both": "a,b"}))


@pytest.mark.parametrize("early_closes", [0, 1, 3])
def test_the_sleep_of_a_close_is_cut_short(
    client: HdfsClient, namespace: Namespace, early_closes: int
) -> None:
    namespace.early_closes = early_closes
    write_small(client, "/a", b"data", 0o600)
    assert namespace.files == {"/a": b"data"}
    assert namespace.closed == {"/a"}


@pytest.mark.parametrize("lose_the_block", [False, True])
@pytest.mark.parametrize("size", [0, CHUNK, CHUNK + 1, 3 * CHUNK])
def test_each_chunk_has_the_time_of_one_call(
    client: HdfsClient, namespace: Namespace, size: int, lose_the_block: bool
) -> None:
    namespace.lose_the_block = lose_the_block
    data = bytes(range(250)) * (size // 250) + b"x" * (size % 250)
    write_small(client, "/a", data, 0o600)
    assert namespace.files == {"/a": data}
    assert namespace.closed == {"/a"}
    assert namespace.largest_write <= CHUNK


def test_a_file_whose_close_was_cancelled_too_early_is_written_again(
    client: HdfsClient, namespace: Namespace
) -> None:
    namespace.lose_the_block = True
    write_small(client, "/a", b"data", 0o600)
    assert namespace.files == {"/a": b"data"}
    assert namespace.closed == {"/a"}


def test_a_file_that_never_closes_is_written_again(
    client: HdfsClient, namespace: Namespace
) -> None:
    namespace.early_closes = 100
    write_small(client, "/a", b"data", 0o600)
    assert namespace.files == {"/a": b"data"}
    assert namespace.closed == {"/a"}


def test_a_rename_whose_answer_was_lost_is_a_rename(
    client: HdfsClient, namespace: Namespace
) -> None:
    namespace.files["/t"] = b"mine"
    namespace.lose_the_answer = True
    move_into_place(client, "/t", "/a")
    assert namespace.files == {"/a": b"mine"}


def test_a_taken_place_is_refused(client: HdfsClient, namespace: Namespace) -> None:
    namespace.files.update({"/t": b"mine", "/a": b"theirs"})
    with pytest.raises(FileExistsError):
        move_into_place(client, "/t", "/a")
    assert namespace.files == {"/t": b"mine", "/a": b"theirs"}


def test_a_new_file_whose_answer_was_lost_is_ours(client: HdfsClient, namespace: Namespace) -> None:
    namespace.lose_the_answer = True
    write_small(client, "/t", b"mine", 0o600)
    assert namespace.files == {"/t": b"mine"}


STANDBY = RuntimeError('RPCError("org.apache.hadoop.ipc.StandbyException", "not in standby")')
BROKEN = OSError("Connection refused (os error 111)")


def test_a_write_waits_for_the_next_namenode(pair: HdfsClient, namespace: Namespace) -> None:
    namespace.failures = [BROKEN, STANDBY, STANDBY]
    write_small(pair, "/t", b"data", 0o600)
    assert namespace.files == {"/t": b"data"}
    assert namespace.failures == []


@pytest.mark.parametrize("failure", [BROKEN, STANDBY])
def test_a_rename_that_a_dead_namenode_did_is_not_done_again(
    pair: HdfsClient, namespace: Namespace, failure: Exception
) -> None:
    namespace.files["/t"] = b"mine"
    namespace.failures = [failure, BROKEN, STANDBY]
    move_into_place(pair, "/t", "/a")
    assert namespace.files == {"/a": b"mine"}
    assert namespace.failures == []


def test_a_rename_that_no_namenode_did_is_done_by_the_next(
    pair: HdfsClient, namespace: Namespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    namespace.files["/t"] = b"mine"
    rename = namespace.rename

    async def not_yet(source: str, target: str, overwrite: bool) -> None:
        monkeypatch.setattr(namespace, "rename", rename)
        raise STANDBY

    monkeypatch.setattr(namespace, "rename", not_yet)
    namespace.failures = [STANDBY]
    move_into_place(pair, "/t", "/a")
    assert namespace.files == {"/a": b"mine"}


def test_without_a_standby_a_failure_is_raised_at_once(
    client: HdfsClient, namespace: Namespace
) -> None:
    calls: list[Callable[[], None]] = [
        lambda: write_small(client, "/t", b"data", 0o600),
        lambda: move_into_place(client, "/t", "/a"),
    ]
    for call in calls:
        namespace.failures = [BROKEN, BROKEN]
        with pytest.raises(ConnectionError, match="Connection refused"):
            call()
        assert namespace.failures == [BROKEN]


def test_waiting_for_a_failover_ends(
    pair: HdfsClient, namespace: Namespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hdfs_client, "FAILOVER_S", 0.2)
    namespace.failures = [STANDBY] * 1_000_000
    with pytest.raises(UnreachableError, match="not in standby") as caught:
        HdfsFiles(pair).stat("/")
    assert "try again" in str(caught.value.hint)
    left = len(namespace.failures)
    assert left < 999_999
    # After the first call has waited in vain, another call does not wait.
    with pytest.raises(UnreachableError):
        HdfsFiles(pair).stat("/")
    assert len(namespace.failures) == left - 1
    namespace.failures = [STANDBY, FileNotFoundError("/"), STANDBY]
    with pytest.raises(UnreachableError):
        HdfsFiles(pair).stat("/")
    with pytest.raises(FileNotFoundError):
        HdfsFiles(pair).stat("/")
    # Any answer restarts the time limit.
    with pytest.raises(FileNotFoundError):
        HdfsFiles(pair).stat("/")
    assert namespace.failures == []
