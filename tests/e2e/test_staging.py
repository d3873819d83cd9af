"""Jobs on this machine that stage files: a small disk, an HDFS that hangs."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.harness import Ytf, task
from ytf.hadoop.conf import Configuration
from ytf.minicluster import MiniCluster
from ytf.processes import command_line, descendants
from ytf.storage.hdfs import HdfsFiles
from ytf.testing.waiting import eventually


@pytest.fixture
def small_disk(home: Path) -> Iterator[Path]:
    """``YTF_HOME``, with the tasks' working directories, on a small disk of its own."""
    home.mkdir()
    subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=4m,mode=700", "ytf-test", str(home)], check=True
    )
    yield home
    subprocess.run(["umount", str(home)], check=True)


def test_each_task_gets_its_share_and_leaves_its_output(ytf: Ytf) -> None:
    (ytf.work / "data").mkdir()
    for number in range(5):
        (ytf.work / "data" / f"part {number}").write_text(str(number))
    job = ytf.submit(
        "chief:1,worker:2",
        "mkdir out; ls parts > out/names",
        *("--stage_in_sharded", "worker:data/part*:parts"),
        *("--stage_in", "chief:data:parts"),
        *("--stage_out", "out:results/{job}/{task}"),
    )
    job.end("SUCCEEDED")
    [results] = (ytf.work / "results").iterdir()
    names = {place.name: (place / "names").read_text() for place in results.iterdir()}
    assert names == {
        "chief-0": "".join(f"part {number}\n" for number in range(5)),
        "worker-0": "part 0\npart 2\npart 4\n",
        "worker-1": "part 1\npart 3\n",
    }


def test_a_disk_that_is_too_small_is_told_and_not_filled(small_disk: Path, ytf: Ytf) -> None:
    (ytf.work / "big").write_bytes(os.urandom(8 << 20))
    job = ytf.submit("worker:1", "true", "--stage_in", "big")
    status = job.end("FAILED")
    assert task(status, "worker:0").exit_code == 126
    assert "stage-in failed: 8.4 MB are to be written" in status.diagnostics
    assert "put fewer tasks on a node" in status.diagnostics


def test_a_helper_that_is_killed_while_hdfs_hangs(ytf: Ytf, hadoop: MiniCluster) -> None:
    files = HdfsFiles.open(hadoop.hdfs_url, Configuration.load(hadoop.conf_dir))
    files.mkdir("/tests", 0o777)
    data = os.urandom(3 << 20)
    files.write("/tests/staged by a killed helper", [data], 0o644)
    hadoop.kill("dn", signal.SIGSTOP)
    try:
        job = ytf.submit(
            "worker:1",
            f"cmp 'in/staged by a killed helper' {ytf.work}/data",
            *("--stage_in", f"{hadoop.hdfs_url}/tests/staged*:in"),
        )
        (ytf.work / "data").write_bytes(data)
        starter = job.starter("worker:0")

        def helper() -> int | None:
            below = descendants(starter)
            return next((pid for pid in below if "stage_in" in command_line(pid)), None)

        os.kill(eventually(helper, describe="the helper") or 0, signal.SIGKILL)
    finally:
        os.kill(hadoop.pid("dn") or 0, signal.SIGCONT)
    job.end("SUCCEEDED")
    files.delete("/tests/staged by a killed helper")
    assert any("it was killed by signal 9" in line for line in job.logs("worker"))
