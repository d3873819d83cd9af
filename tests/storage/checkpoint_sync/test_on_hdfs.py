"""Snapshots on a real HDFS: taken over, restored, fenced."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.storage.checkpoint_sync.programs import ROOT, Attempt, Clock, new_directory
from ytf.hadoop.conf import Configuration
from ytf.minicluster import MiniCluster
from ytf.storage.checkpoint_sync.store import FencedWriterError
from ytf.storage.hdfs import HdfsFiles


@pytest.mark.yarn
def test_a_later_attempt_restores_and_fences_the_earlier(
    hadoop: MiniCluster, tmp_path: Path
) -> None:
    hdfs = HdfsFiles.open("hdfs:///", Configuration.load(hadoop.conf_dir))
    clock = Clock()
    old = Attempt(new_directory(tmp_path, 1), hdfs, clock)
    new = Attempt(new_directory(tmp_path, 2), hdfs, clock, 2)
    try:
        assert old.begin() == {}
        for number in (1, 2):
            old.program.save(number)
            # HDFS has no such names: it is synced, but not shown.
            old.program.write("logs/12:30", b"%d" % number)
            old.program.overwrite("ünïcode dir/model.pt", bytes([number]) * (3 << 20))
            old.sync()
        assert list(old.engine.store.blocked) == ["logs/12:30"]
        assert [each.name for each in hdfs.list(ROOT)] == [
            ".ytf-sync",
            "checkpoint",
            "ckpt-2.data",
            "ckpt-2.index",
            "ünïcode dir",
        ]
        assert new.begin() == old.program.contents()
        old.program.save(3)
        with pytest.raises(FencedWriterError, match="attempt 2"):
            old.sync()
        new.program.remove("ünïcode dir/model.pt")
        new.program.write("file", b"1")
        new.program.write("directory/file", b"1")
        new.sync()
        assert b"".join(hdfs.read(f"{ROOT}/checkpoint")) == b"ckpt-2"
        assert "ünïcode dir" not in [each.name for each in hdfs.list(ROOT)]
        names = [each.name for each in hdfs.list(f"{ROOT}/.ytf-sync")]
        assert names == ["claim-2"]
        # A file becomes a directory, and a directory a file: the next one completes the same.
        new.program.remove("file")
        new.program.write("file/x", b"2")
        new.program.remove("directory/file")
        (new.program.directory / "directory").rmdir()
        new.program.write("directory", b"2")
        new.sync()
        for _ in range(2):
            assert b"".join(hdfs.read(f"{ROOT}/file/x")) == b"2"
            assert b"".join(hdfs.read(f"{ROOT}/directory")) == b"2"
            last = Attempt(new_directory(tmp_path, 3), hdfs, clock, 3)
            assert last.begin() == new.program.contents()
    finally:
        hdfs.delete(ROOT)
