"""Files are written whole and moved once, whatever hdfs-native's own retries do."""

from __future__ import annotations

import asyncio
from typing import cast

import pytest
from hdfs_native import AsyncClient, WriteOptions

from ytf.hadoop.conf import Configuration
from ytf.storage import hdfs_link
from ytf.storage.hdfs_link import HdfsLink
from ytf.storage.hdfs_writing import move_into_place, write_small


class Namespace:
    """A client of an HDFS in memory, with hdfs-native's habits."""

    def __init__(self) -> None:
        self.files: dict[str, bytes] = {}
        self.closed: set[str] = set()
        self.early_closes = 0
        self.lose_the_block = False
        self.lose_the_answer = False

    async def create(self, path: str, options: WriteOptions) -> Writer:
        if path in self.files:
            raise FileExistsError(path)
        self.files[path] = b""
        return Writer(self, path)

    async def delete(self, path: str, recursive: bool) -> bool:
        return self.files.pop(path, None) is not None

    async def get_file_info(self, path: str) -> None:
        if path not in self.files:
            raise FileNotFoundError(path)

    async def rename(self, source: str, target: str, overwrite: bool) -> None:
        for _ in range(2 if self.lose_the_answer else 1):
            if source not in self.files:
                raise FileNotFoundError(source)
            if target in self.files:
                raise FileExistsError(target)
            self.files[target] = self.files.pop(source)


class Writer:
    def __init__(self, namespace: Namespace, path: str) -> None:
        self._namespace = namespace
        self._path = path
        self._closing = 0

    async def write(self, data: bytes) -> int:
        self._namespace.files[self._path] += data
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
def link(namespace: Namespace, monkeypatch: pytest.MonkeyPatch) -> HdfsLink:
    client = cast(AsyncClient, namespace)
    monkeypatch.setattr(hdfs_link._Threads, "_client", lambda threads, wish: client)
    return HdfsLink("hdfs://nowhere", Configuration.of({}), timeout_s=10.0)


@pytest.mark.parametrize("early_closes", [0, 1, 3])
def test_a_nap_is_cut_short(link: HdfsLink, namespace: Namespace, early_closes: int) -> None:
    namespace.early_closes = early_closes
    write_small(link, "/a", b"data", 0o600)
    assert namespace.files == {"/a": b"data"}
    assert namespace.closed == {"/a"}


def test_a_file_that_was_nudged_too_early_is_written_again(
    link: HdfsLink, namespace: Namespace
) -> None:
    namespace.lose_the_block = True
    write_small(link, "/a", b"data", 0o600)
    assert namespace.files == {"/a": b"data"}
    assert namespace.closed == {"/a"}


def test_a_file_that_never_closes_is_written_again(link: HdfsLink, namespace: Namespace) -> None:
    namespace.early_closes = 100
    write_small(link, "/a", b"data", 0o600)
    assert namespace.files == {"/a": b"data"}
    assert namespace.closed == {"/a"}


def test_a_rename_whose_answer_was_lost_is_a_rename(link: HdfsLink, namespace: Namespace) -> None:
    namespace.files["/t"] = b"mine"
    namespace.lose_the_answer = True
    move_into_place(link, "/t", "/a")
    assert namespace.files == {"/a": b"mine"}


def test_a_taken_place_is_refused(link: HdfsLink, namespace: Namespace) -> None:
    namespace.files.update({"/t": b"mine", "/a": b"theirs"})
    with pytest.raises(FileExistsError):
        move_into_place(link, "/t", "/a")
    assert namespace.files == {"/t": b"mine", "/a": b"theirs"}
