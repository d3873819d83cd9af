"""Calls to HDFS end, and failures are told in our own words."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator

import pytest

from ytf.errors import OutcomeUnknownError, SettingsError, UnreachableError
from ytf.hadoop.conf import Configuration
from ytf.storage import hdfs_link
from ytf.storage.hdfs import HdfsBlobs, HdfsFiles
from ytf.storage.hdfs_link import HdfsLink
from ytf.testing.hadoop import Cluster
from ytf.testing.hadoop.ports import free_ports
from ytf.testing.waiting import eventually

NOTHING = Configuration.of({})


@pytest.fixture
def silent() -> Iterator[str]:
    """A peer that takes connections and says nothing."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield f"hdfs://127.0.0.1:{server.getsockname()[1]}"


def threads_of_this_process() -> int:
    return len(os.listdir("/proc/self/task"))


def test_a_peer_that_says_nothing_does_not_hang_us(silent: str) -> None:
    files = HdfsFiles(HdfsLink(silent, NOTHING, timeout_s=0.3))
    began = time.monotonic()
    with pytest.raises(UnreachableError, match=r"look at /x at hdfs://.*no answer within 0.3 s"):
        files.stat("/x")
    with pytest.raises(OutcomeUnknownError, match="no answer"):
        files.delete("/x")
    with pytest.raises(OSError, match="no answer"):
        HdfsBlobs(files.link, "/x").write("a", b"x")
    assert time.monotonic() - began < 10


def test_what_timed_out_is_destroyed_after_a_rest(
    silent: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Long enough for a cancelled call to let go of its client, even on a busy machine.
    monkeypatch.setattr(hdfs_link, "_REST_S", 2.0)
    files = HdfsFiles(HdfsLink(silent, NOTHING, timeout_s=0.05))
    before = threads_of_this_process()
    for _ in range(100):
        with pytest.raises(UnreachableError):
            files.stat("/x")
    # Each client has a thread for each processor; forty may be resting.
    assert threads_of_this_process() <= before + 60 * (os.cpu_count() or 1)


def test_nobody_there() -> None:
    files = HdfsFiles.open(f"hdfs://127.0.0.1:{free_ports(1)[0]}", NOTHING)
    with pytest.raises(UnreachableError, match="Connection refused") as caught:
        files.delete("/x")
    assert caught.value.hint is not None


def test_a_host_that_does_not_exist() -> None:
    with pytest.raises(UnreachableError, match=r"no-such-host\.invalid"):
        HdfsFiles.open("hdfs://no-such-host.invalid:8020", NOTHING).stat("/")


def test_the_next_namenode_is_asked_when_one_says_nothing(hadoop: Cluster, silent: str) -> None:
    conf = Configuration.of(
        {
            "dfs.ha.namenodes.both": "nn1, nn2",
            "dfs.namenode.rpc-address.both.nn1": silent.removeprefix("hdfs://"),
            "dfs.namenode.rpc-address.both.nn2": hadoop.hdfs_url.removeprefix("hdfs://"),
        }
    )
    files = HdfsFiles(HdfsLink("hdfs://both", conf, timeout_s=1.0))
    with pytest.raises(OutcomeUnknownError, match="no answer"):
        files.rename("/x", "/y")
    assert files.stat("/").is_directory
    # What may be repeated is, at the next.
    assert HdfsFiles(HdfsLink("hdfs://both", conf, timeout_s=1.0)).stat("/").is_directory


@pytest.mark.parametrize(
    ("url", "conf", "authority"),
    [
        ("hdfs://nn:9000/a", {}, "hdfs://nn:9000"),
        ("hdfs://nn/a", {}, "hdfs://nn:8020"),
        ("hdfs:///a", {"fs.defaultFS": "hdfs://nn:9000/"}, "hdfs://nn:9000"),
        ("hdfs:///a", {"fs.defaultFS": "hdfs://nn"}, "hdfs://nn:8020"),
        ("hdfs:///a", {"fs.defaultFS": "hdfs://ns", "dfs.ha.namenodes.ns": "a,b"}, "hdfs://ns"),
    ],
)
def test_which_namenode_is_meant(url: str, conf: dict[str, str], authority: str) -> None:
    assert HdfsLink(url, Configuration.of(conf)).authority == authority


@pytest.mark.parametrize("default", ["file:///", "s3a://bucket", ""])
def test_no_namenode_is_named(default: str) -> None:
    with pytest.raises(SettingsError, match="names no NameNode"):
        HdfsLink("hdfs:///a", Configuration.of({"fs.defaultFS": default}))


def test_not_hdfs() -> None:
    with pytest.raises(SettingsError, match="not an hdfs:// URL"):
        HdfsLink("s3a://bucket/a", NOTHING)


def test_a_nameservice_without_addresses() -> None:
    link = HdfsLink("hdfs://ns", Configuration.of({"dfs.ha.namenodes.ns": "a,b"}))
    with pytest.raises(SettingsError, match="hdfs://ns cannot be used"):
        HdfsFiles(link).stat("/")


def test_goes_on_when_a_hung_namenode_does(hadoop: Cluster) -> None:
    files = HdfsFiles(HdfsLink(hadoop.hdfs_url, NOTHING, timeout_s=1.0))
    assert files.stat("/").is_directory
    hadoop.kill("nn", signal.SIGSTOP)
    try:
        with pytest.raises(UnreachableError, match="no answer"):
            files.stat("/")
    finally:
        hadoop.kill("nn", signal.SIGCONT)
    patient = HdfsFiles(HdfsLink(hadoop.hdfs_url, NOTHING))
    assert patient.stat("/").is_directory
    assert eventually(lambda: files.stat("/").is_directory)


FORKING = """
import os, sys
from ytf.hadoop.conf import Configuration
from ytf.storage.hdfs import HdfsFiles

files = HdfsFiles.open(sys.argv[1], Configuration.of({}))
assert files.stat("/").is_directory
child = os.fork()
assert files.stat("/").is_directory
if child:
    sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


def test_works_after_a_fork_and_ends(hadoop: Cluster) -> None:
    # As a script of its own, both processes ending as any program does.
    done = subprocess.run(
        [sys.executable, "-c", FORKING, hadoop.hdfs_url],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
