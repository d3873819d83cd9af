"""Nameservices and mount tables work, and so does what goes on while their nodes are lost."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from tests.native.tensorflow_process import TensorFlowError, TensorFlowProcess
from ytf.minicluster import MiniCluster
from ytf.testing.waiting import eventually

pytestmark = [pytest.mark.yarn, pytest.mark.tensorflow, pytest.mark.timeout(600)]

LONG_S = 300
"""The time limit of the process that waits for daemons to start, on a busy machine, too."""
SHORT_S = 8
"""The time limit of the process that has a short one."""

MOUNTS = {
    "fs.viewfs.mounttable.views.link./data": "hdfs://ytf/tmp/mounted",
    "fs.viewfs.mounttable.views.linkFallback": "hdfs://ytf/",
}

# Writes at its own pace until it is told to stop; tells how far it has come.
WRITE_ON = """
import hashlib, os, time
md5 = hashlib.md5()
count = 0
with g.GFile(at + "/long", "wb") as file:
    while not os.path.exists(control + "/stop"):
        data = os.urandom(1 << 20)
        md5.update(data)
        file.write(data)
        count += 1
        with open(control + "/written.new", "w") as told:
            told.write(str(count))
        os.rename(control + "/written.new", control + "/written")
        time.sleep(0.02)
found = hashlib.md5(read(at + "/long"))
result = [count, found.hexdigest() == md5.hexdigest(), g.stat(at + "/long").length == count << 20]
"""


@pytest.fixture(scope="module")
def environ(hadoop_pair: MiniCluster, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The configuration of the pair, with a mount table."""
    conf = tmp_path_factory.mktemp("conf")
    for name in ("core-site.xml", "hdfs-site.xml"):
        tree = ET.parse(hadoop_pair.conf_dir / name)
        for key, value in MOUNTS.items() if name == "core-site.xml" else ():
            added = ET.SubElement(tree.getroot(), "property")
            ET.SubElement(added, "name").text = key
            ET.SubElement(added, "value").text = value
        tree.write(conf / name)
    return {"HADOOP_CONF_DIR": str(conf)}


@pytest.fixture(scope="module")
def tensorflow(environ: dict[str, str]) -> Iterator[TensorFlowProcess]:
    process = TensorFlowProcess({**environ, "YTF_HDFS_TIMEOUT_S": str(LONG_S)})
    yield process
    assert process.end() == 0


@pytest.fixture(scope="module")
def impatient(environ: dict[str, str]) -> Iterator[TensorFlowProcess]:
    """A process that waits ``SHORT_S`` for HDFS."""
    process = TensorFlowProcess({**environ, "YTF_HDFS_TIMEOUT_S": str(SHORT_S)})
    process.run("g.exists('hdfs:///tmp')")
    yield process
    assert process.end() == 0


@pytest.fixture
def written(tensorflow: TensorFlowProcess, at: str, tmp_path: Path) -> Callable[[], int]:
    """A file is being written; returns how many megabytes of it."""
    tensorflow.run(f"control = {str(tmp_path)!r}")
    tensorflow.start(WRITE_ON)

    def count() -> int:
        told = tmp_path / "written"
        return int(told.read_text()) if told.exists() else 0

    eventually(lambda: count() >= 6, timeout_s=60, describe="more than a block to be written")
    return count


def finish(
    tensorflow: TensorFlowProcess,
    hadoop_pair: MiniCluster,
    written: Callable[[], int],
    tmp_path: Path,
) -> None:
    """Let it write some more blocks, and check that all of them are as they were written."""
    so_far = written()

    def describe() -> str:
        tails = (f"{name}:\n{hadoop_pair.log_tail(name)}" for name in ("nn", "nn2", "dn"))
        return "\n".join(("more blocks to be written", *tails))

    # As long as the plugin itself may wait, and no longer.
    eventually(lambda: written() > so_far + 12, timeout_s=LONG_S, describe=describe)
    (tmp_path / "stop").touch()
    count, is_same, is_whole = tensorflow.finish()
    assert count > so_far
    assert (is_same, is_whole) == (True, True)


@pytest.mark.parametrize("url", ["hdfs://ytf/tmp", "viewfs://views/data", "viewfs://views/tmp"])
def test_a_cluster_by_each_of_its_names(tensorflow: TensorFlowProcess, url: str) -> None:
    tensorflow.run("g.makedirs('hdfs:///tmp/mounted/names'); g.makedirs('hdfs:///tmp/names')")
    default = "hdfs:///tmp/mounted/names" if "data" in url else "hdfs:///tmp/names"
    assert tensorflow.run(
        f"""
at, same = {url + "/names"!r}, {default!r}
g.makedirs(at + "/a/b")
write(at + "/a/ä 1", b"one")
with g.GFile(at + "/a/ä 1", "ab") as file:
    file.write(b"+")
g.rename(at + "/a/ä 1", at + "/a/2")
move = g.rename if at.startswith("hdfs") else g.copy
move(at + "/a/2", same + "/a/3")
result = [sorted(g.listdir(at + "/a")), read(same + "/a/3").decode(), g.glob(at + "/a/3")]
g.rmtree(same + "/a")
"""
    ) == [
        ["3", "b"] if url.startswith("hdfs") else ["2", "3", "b"],
        "one+",
        [url + "/names/a/3"],
    ]


@pytest.mark.parametrize(
    ("url", "text"),
    [
        ("viewfs:///x", "fs.defaultFS is hdfs://ytf"),
        ("viewfs://unknown/x", "No viewfs fallback mount found"),
        ("hdfs://unknown/x", "unknown:8020 is neither a host nor a nameservice"),
    ],
)
def test_names_that_lead_nowhere(tensorflow: TensorFlowProcess, url: str, text: str) -> None:
    with pytest.raises(TensorFlowError, match=text) as raised:
        tensorflow.run(f"g.stat({url!r})")
    assert raised.value.kind == "FailedPreconditionError"


def test_mounts_are_not_renamed_into_each_other(tensorflow: TensorFlowProcess) -> None:
    tensorflow.run("g.makedirs('viewfs://views/data/x')")
    with pytest.raises(TensorFlowError, match="across"):
        tensorflow.run("g.rename('viewfs://views/data/x', 'viewfs://views/tmp/x')")


@pytest.mark.parametrize("way", ["killed", "asked"])
def test_a_failover_while_files_are_read_and_written(
    tensorflow: TensorFlowProcess,
    hadoop_pair: MiniCluster,
    at: str,
    tmp_path: Path,
    written: Callable[[], int],
    way: str,
) -> None:
    active = hadoop_pair.active_nn().name
    if way == "killed":
        hadoop_pair.kill(active)
    assert hadoop_pair.fail_over_hdfs() != active
    finish(tensorflow, hadoop_pair, written, tmp_path)
    if way == "killed":
        hadoop_pair.restart(active)


def test_a_file_is_read_on_without_namenodes_and_opened_when_one_is_back(
    tensorflow: TensorFlowProcess, impatient: TensorFlowProcess, hadoop_pair: MiniCluster, at: str
) -> None:
    tensorflow.run(
        'write(at + "/data", b"x" * 20_000_000); file = g.GFile(at + "/data", "rb"); '
        "begun = len(file.read(1_000_000))"
    )
    for name in ("nn", "nn2"):
        hadoop_pair.kill(name)
    try:
        assert tensorflow.run("result = begun + len(file.read(18_000_000))") == 19_000_000
        began = time.monotonic()
        with pytest.raises(TensorFlowError) as raised:
            impatient.run(f"write({at!r} + '/new', b'x')")
        took_s = time.monotonic() - began
        assert raised.value.kind == "DeadlineExceededError"
        for daemon in ("nn", "nn2"):
            address = hadoop_pair.daemons[daemon].address("rpc")
            assert f"{address} refuses connections" in str(raised.value)
        assert SHORT_S - 1 <= took_s < SHORT_S + 5
        tensorflow.start("result = [len(read(at + '/data')), write(at + '/new', b'x')]")
    finally:
        for name in ("nn2", "nn"):
            hadoop_pair.restart(name)
    assert tensorflow.finish() == [20_000_000, None]


def test_a_namenode_that_hangs_is_left_for_the_other_one_if_that_answers(
    impatient: TensorFlowProcess, hadoop_pair: MiniCluster
) -> None:
    # Clients ask nn first.
    if hadoop_pair.active_nn().name == "nn":
        hadoop_pair.fail_over_hdfs()
    hadoop_pair.kill("nn", signal.SIGSTOP)
    try:
        # A name that it has not used has a client that has asked nobody yet.
        assert impatient.run("result = g.isdir('viewfs://views/tmp')") is True
        hadoop_pair.kill("nn2", signal.SIGSTOP)
        with pytest.raises(TensorFlowError, match=f"did not answer for {SHORT_S} s"):
            impatient.run("g.stat('hdfs:///tmp')")
    finally:
        for name in ("nn", "nn2"):
            hadoop_pair.kill(name, signal.SIGCONT)
    assert impatient.run("result = g.isdir('hdfs:///tmp')") is True


def test_a_file_is_written_on_after_its_datanode_was_lost(
    tensorflow: TensorFlowProcess,
    hadoop_pair: MiniCluster,
    at: str,
    tmp_path: Path,
    written: Callable[[], int],
) -> None:
    hadoop_pair.kill("dn")
    hadoop_pair.restart("dn")
    finish(tensorflow, hadoop_pair, written, tmp_path)


def test_a_writer_whose_file_was_replaced_does_not_write_to_the_new_one(
    tensorflow: TensorFlowProcess, impatient: TensorFlowProcess, at: str
) -> None:
    tensorflow.run('file = g.GFile(at + "/file", "wb"); file.write(b"old" * 3_000_000)')
    impatient.run(f"write({at!r} + '/file', b'new')")
    with pytest.raises(TensorFlowError, match=f"{at}/file"):
        tensorflow.run("file.close()")
    assert tensorflow.run("result = read(at + '/file').decode()") == "new"
