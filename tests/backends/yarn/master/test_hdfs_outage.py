"""A job outlives an outage of HDFS, and ends with the right result also if that goes on."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from pathlib import Path

import pytest

from tests.backends.yarn.fake_cluster import allocation
from tests.backends.yarn.master.backend_world import PROFILES, URL, World, record
from ytf.backends.yarn import hdfs_layout
from ytf.backends.yarn.hdfs_layout import retry_hdfs
from ytf.backends.yarn.master import container_backend
from ytf.errors import UnreachableError
from ytf.hadoop.yarn.records import FinalApplicationStatus
from ytf.specs.status import FinalStatus
from ytf.storage.files import FileStatus
from ytf.storage.local_files import LocalFiles


class SafeMode(LocalFiles):
    """What HDFS is while its NameNode starts: nothing can be changed."""

    def __init__(self) -> None:
        self.is_on = True

    def write(self, path: str, chunks: Iterable[bytes], mode: int = 0o600) -> FileStatus:
        self._refuse()
        return super().write(path, chunks, mode)

    def delete(self, path: str) -> None:
        self._refuse()
        super().delete(path)

    def _refuse(self) -> None:
        if self.is_on:
            raise UnreachableError("the name node is in safe mode")


@pytest.fixture(autouse=True)
def _quickly(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hdfs_layout, "FIRST_RETRY_S", 0.001)


async def test_a_record_waits_for_hdfs_while_the_master_shows_that_it_lives(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    files = SafeMode()
    world = World(tmp_path, files=files)
    await world.backend.start(1, URL, PROFILES)
    finishing = asyncio.create_task(world.backend.finish(record(FinalStatus.SUCCEEDED)))
    for _ in range(2):
        await asyncio.wait_for(world.rm.beat.wait(), 60)
        world.rm.beat.clear()
        world.rm.answers.put_nowait(allocation())
    assert not world.rm.finishes
    files.is_on = False
    await asyncio.wait_for(finishing, 60)
    assert {status for status, _ in world.rm.finishes} == {FinalApplicationStatus.SUCCEEDED}
    assert world.home.record() == record(FinalStatus.SUCCEEDED)
    with pytest.raises(FileNotFoundError):
        files.stat(world.home.staging)
    assert "the name node is in safe mode; trying again in 0.001 s" in capfd.readouterr().err


async def test_without_a_record_the_job_ends_as_it_did_and_what_is_staged_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(container_backend, "RECORD_RETRY_TOTAL_S", 0.02)
    files = SafeMode()
    # It comes back too late, just when what is staged could be removed.
    monkeypatch.setattr(files, "delete", LocalFiles().delete)
    world = World(tmp_path, files=files)
    await world.backend.start(1, URL, PROFILES)
    await world.backend.finish(record(FinalStatus.SUCCEEDED))
    assert {status for status, _ in world.rm.finishes} == {FinalApplicationStatus.SUCCEEDED}
    assert world.home.record() is None
    assert world.home.files.stat(world.home.staging).is_directory
    assert "ends without a record, and its staging directory stays" in capfd.readouterr().err


async def test_what_cannot_be_removed_does_not_spoil_the_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(container_backend, "STAGING_RETRY_TOTAL_S", 0.02)
    files = SafeMode()
    world = World(tmp_path, files=files)
    world.home.files.mkdir(world.home.history)
    monkeypatch.setattr(files, "write", LocalFiles().write)
    await world.backend.start(1, URL, PROFILES)
    await world.backend.finish(record(FinalStatus.FAILED))
    assert world.home.record() == record(FinalStatus.FAILED)
    assert world.rm.closed
    assert "the staging directory stays: the name node is in safe mode" in capfd.readouterr().err


@pytest.mark.parametrize("kind", [FileNotFoundError, PermissionError])
async def test_what_does_not_pass_is_not_waited_for(kind: type[OSError]) -> None:
    tries = 0

    def work() -> None:
        nonlocal tries
        tries += 1
        raise kind("for good")

    with pytest.raises(kind):
        await retry_hdfs(work)
    assert tries == 1
