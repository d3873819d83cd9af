"""What TensorFlow does with files works on ``hdfs://``."""

from __future__ import annotations

import pytest

from tests.native.conftest import webhdfs
from tests.native.tensorflow_process import TensorFlowError, TensorFlowProcess
from ytf.minicluster import MiniCluster

pytestmark = [pytest.mark.yarn, pytest.mark.tensorflow, pytest.mark.timeout(600)]


def test_files_are_written_read_appended_renamed_copied_and_removed(
    tensorflow: TensorFlowProcess, at: str
) -> None:
    assert tensorflow.run(
        """
write(at + "/a", b"first")
write(at + "/a", b"one\\n")
with g.GFile(at + "/a", "ab") as file:
    file.write(b"two\\n")
    before = file.tell()
with g.GFile(at + "/new", "a") as file:
    file.write("by appending")
g.rename(at + "/a", at + "/b")
g.copy(at + "/b", at + "/c")
write(at + "/b", b"")
g.rename(at + "/b", at + "/new", overwrite=True)
stat = g.stat(at + "/c")
g.makedirs(at + "/x/y/z")
g.mkdir(at + "/x/w")
walked = [[path, sorted(folders), sorted(files)] for path, folders, files in g.walk(at)]
g.rmtree(at + "/x")
g.remove(at + "/new")
result = [
    before, read(at + "/c").decode(), stat.length, stat.mtime_nsec > 1e18,
    walked[0], sorted(g.listdir(at)), g.exists(at + "/b"), g.isdir(at), g.isdir(at + "/c"),
]
"""
    ) == [
        8, "one\ntwo\n", 8, True,
        [at, ["x"], ["c", "new"]], ["c"], False, True, False,
    ]  # fmt: skip


def test_names_of_all_kinds(tensorflow: TensorFlowProcess, at: str) -> None:
    names = ["a b", "ä€😀", "50%", "a#b?c", "[x]", "{y}", "-", "q'\"", ".hidden", "x" * 200]
    assert tensorflow.run(
        f"""
names = {names!r}
for name in names:
    write(at + "/" + name, name.encode())
found = sorted(g.listdir(at))
content = [read(at + "/" + name).decode() for name in found]
result = [
    found, content, sorted(g.glob(at + "/a*")),
    read(at + "//./x/../-").decode(), g.exists(at + "/ä€😀/"),
]
"""
    ) == [sorted(names), sorted(names), [f"{at}/a b", f"{at}/a#b?c"], "-", True]


@pytest.mark.parametrize(
    ("code", "error"),
    [
        ("read(at + '/none')", "NotFoundError"),
        ("read(at)", "FailedPreconditionError"),
        ("read(at + '/file/below')", "FailedPreconditionError"),
        ("write(at, b'x')", "FailedPreconditionError"),
        ("write(at + '/none/x', b'x')", "NotFoundError"),
        ("write(at + '/file/x', b'x')", "FailedPreconditionError"),
        ("g.mkdir(at + '/none/x')", "NotFoundError"),
        ("g.makedirs(at + '/file')", "FailedPreconditionError"),
        ("g.makedirs(at + '/file/x')", "FailedPreconditionError"),
        ("g.remove(at + '/none')", "NotFoundError"),
        ("g.remove(at)", "FailedPreconditionError"),
        ("g.rmtree(at + '/none')", "NotFoundError"),
        ("g.listdir(at + '/none')", "NotFoundError"),
        ("g.stat(at + '/none')", "NotFoundError"),
        ("g.rename(at + '/none', at + '/x')", "NotFoundError"),
        ("g.rename(at + '/file', at + '/none/x')", "NotFoundError"),
        ("g.rename(at + '/file', at + '/other')", "AlreadyExistsError"),
        ("g.rename(at + '/file', at + '/full', overwrite=True)", "FailedPreconditionError"),
        ("read(at + '/a:b')", "InvalidArgumentError"),
        ("g.stat('hdfs://no-such-host.invalid:8020/x')", "FailedPreconditionError"),
        ("g.stat('hdfs://no-such-service/x')", "FailedPreconditionError"),
        ("g.rmtree('hdfs:///')", "FailedPreconditionError"),
    ],
)
def test_errors_are_tensorflows_and_name_the_path(
    tensorflow: TensorFlowProcess, at: str, code: str, error: str
) -> None:
    tensorflow.run("for name in ('file', 'other', 'full/x'):\n"
                   "    g.makedirs(at + '/full'); write(at + '/' + name, b'x')")  # fmt: skip
    with pytest.raises(TensorFlowError) as raised:
        tensorflow.run(code)
    assert raised.value.kind == error
    if error != "AlreadyExistsError":
        assert "hdfs://" in str(raised.value)


def test_another_users_files_are_denied(
    tensorflow: TensorFlowProcess, hadoop: MiniCluster, at: str
) -> None:
    # A client takes its user when it is made, and there is one for each name of a cluster.
    port = hadoop.daemons["nn"].ports["rpc"]
    tensorflow.run(f"import os; theirs = at.replace('hdfs://', 'hdfs://localhost:{port}')")
    tensorflow.run("os.environ['HADOOP_USER_NAME'] = 'mallory'; g.exists(theirs)")
    tensorflow.run("del os.environ['HADOOP_USER_NAME']; write(at + '/file', b'x')")
    for code in ("write(theirs + '/new', b'x')", "g.remove(theirs + '/file')",
                 "g.rename(theirs + '/file', theirs + '/new')"):  # fmt: skip
        with pytest.raises(TensorFlowError, match=rf"PermissionDenied.*{at[8:]}.*mallory"):
            tensorflow.run(code)


def test_a_quota_and_a_disk_that_are_full(
    tensorflow: TensorFlowProcess, hadoop: MiniCluster, at: str
) -> None:
    tensorflow.run(
        "g.makedirs(at + '/few'); g.makedirs(at + '/small'); g.makedirs(at + '/nowhere')"
    )
    webhdfs(hadoop, f"{at[7:]}/few", "SETQUOTA", namespacequota=2)
    webhdfs(hadoop, f"{at[7:]}/small", "SETQUOTA", storagespacequota=1000)
    # For blocks that only archives may hold, this HDFS is as good as full.
    webhdfs(hadoop, f"{at[7:]}/nowhere", "SETSTORAGEPOLICY", storagepolicy="COLD")
    tensorflow.run("write(at + '/few/1', b'x')")
    for code, text in (
        ("write(at + '/few/2', b'x')", "quota"),
        ("write(at + '/small/1', b'x')", "quota"),
        ("write(at + '/nowhere/1', b'x')", "no DataNode has room"),
    ):
        with pytest.raises(TensorFlowError, match=text) as raised:
            tensorflow.run(code)
        assert raised.value.kind == "ResourceExhaustedError"
        assert f"{at}/" in str(raised.value)
        assert hadoop.hdfs_url in str(raised.value)


def test_a_long_list(tensorflow: TensorFlowProcess, at: str) -> None:
    """More than the thousand names that the NameNode tells in one answer."""
    assert tensorflow.run(
        """
for number in range(1100):
    g.makedirs(at + "/%d" % number)
result = [sorted(map(int, g.listdir(at))) == list(range(1100)), len(g.glob(at + "/1*"))]
"""
    ) == [True, 211]


def test_datasets(tensorflow: TensorFlowProcess, at: str) -> None:
    assert tensorflow.run(
        """
import gzip
for shard in range(3):
    options = tf.io.TFRecordOptions(compression_type="GZIP")
    with tf.io.TFRecordWriter(at + "/zip-%d" % shard, options) as writer:
        for number in range(100):
            writer.write(b"%d" % (100 * shard + number))
    with tf.io.TFRecordWriter(at + "/plain-%d" % shard) as writer:
        for number in range(100):
            writer.write(b"%d" % (100 * shard + number) * 1000)
write(at + "/lines.gz", gzip.compress(b"a\\nb\\n"))
write(at + "/fixed", b"head" + b"0123" * 5)
files = tf.data.Dataset.list_files(at + "/zip-*", shuffle=False)
zipped = files.interleave(lambda name: tf.data.TFRecordDataset(name, "GZIP"), 3)
plain = tf.data.TFRecordDataset(sorted(g.glob(at + "/plain-*")), num_parallel_reads=3)
lines = tf.data.TextLineDataset(at + "/lines.gz", "GZIP")
tf.data.Dataset.range(1000).save(at + "/saved")
snapshot = tf.data.Dataset.range(50).snapshot(at + "/snapshot")
result = [
    sum(int(record) for record in zipped.as_numpy_iterator()),
    sum(len(record) for record in plain.as_numpy_iterator()),
    [line.decode() for line in lines.as_numpy_iterator()],
    len(list(tf.data.FixedLengthRecordDataset(at + "/fixed", 4, header_bytes=4))),
    int(sum(tf.data.Dataset.load(at + "/saved").as_numpy_iterator())),
    [int(sum(snapshot.as_numpy_iterator())) for _ in range(2)],
]
"""
    ) == [44850, 10 * 1000 + 90 * 2000 + 200 * 3000, ["a", "b"], 5, 499500, [1225, 1225]]


def test_checkpoints_and_models(tensorflow: TensorFlowProcess, at: str) -> None:
    assert tensorflow.run(
        """
weights = tf.Variable(tf.zeros([1000, 100]))
checkpoint = tf.train.Checkpoint(weights=weights)
manager = tf.train.CheckpointManager(checkpoint, at + "/checkpoints", max_to_keep=2)
for value in range(3):
    weights.assign(tf.fill([1000, 100], float(value)))
    manager.save()
weights.assign_add(tf.ones([1000, 100]))
checkpoint.restore(manager.latest_checkpoint).assert_consumed()
options = tf.train.CheckpointOptions(experimental_enable_async_checkpoint=True)
checkpoint.save(at + "/async/model", options=options)
checkpoint.sync()

class Doubled(tf.Module):
    @tf.function(input_signature=[tf.TensorSpec([], tf.float32)])
    def double(self, x):
        return 2 * x

tf.saved_model.save(Doubled(), at + "/saved")
result = [
    float(weights[0, 0]), sorted(name for name in g.listdir(at + "/checkpoints")),
    bool(tf.train.latest_checkpoint(at + "/async")),
    float(tf.saved_model.load(at + "/saved").double(21.0)),
]
"""
    ) == [
        2.0,
        ["checkpoint", "ckpt-2.data-00000-of-00001", "ckpt-2.index",
         "ckpt-3.data-00000-of-00001", "ckpt-3.index"],
        True,
        42.0,
    ]  # fmt: skip


def test_summaries_are_read_while_they_are_written(tensorflow: TensorFlowProcess, at: str) -> None:
    assert tensorflow.run(
        """
def scalar(value):
    return v1.Summary(value=[v1.Summary.Value(tag="loss", simple_value=value)])

with v1.Graph().as_default():
    writer = v1.summary.FileWriter(at)
seen = []
for step in range(5):
    writer.add_summary(scalar(float(step)), step)
    writer.flush()
    (name,) = g.listdir(at)
    seen.append(len(list(v1.train.summary_iterator(at + "/" + name))))
writer.close()
result = seen
"""
    ) == [2, 3, 4, 5, 6]


def test_a_monitored_session(tensorflow: TensorFlowProcess, at: str) -> None:
    code = """
with v1.Graph().as_default():
    step = v1.train.get_or_create_global_step()
    more = v1.assign_add(step, 1)
    v1.summary.scalar("step", step)
    with v1.train.MonitoredTrainingSession(
        checkpoint_dir=at, save_checkpoint_steps=2, save_summaries_steps=1
    ) as session:
        for _ in range(5):
            result = int(session.run(more))
"""
    assert [tensorflow.run(code), tensorflow.run(code)] == [5, 10]


def test_a_forked_child_reads_and_writes(tensorflow: TensorFlowProcess, at: str) -> None:
    assert tensorflow.run(
        """
import os
write(at + "/before", b"by the parent")
reader = g.GFile(at + "/before", "rb")
reader.read(3)
writer = g.GFile(at + "/parents", "wb")
writer.write(b"kept")
child = os.fork()
if child == 0:
    code = 3
    try:
        write(at + "/child", reader.read() + read(at + "/before"))
        code = 0
    finally:
        os._exit(code)
_, status = os.waitpid(child, 0)
writer.write(b" whole")
writer.close()
reader.seek(0)
assert reader.read() == b"by the parent"
result = [status, read(at + "/child").decode(), read(at + "/parents").decode()]
"""
    ) == [0, "the parentby the parent", "kept whole"]


def test_a_reader_waits_for_a_datanode_to_come_back(
    tensorflow: TensorFlowProcess, hadoop: MiniCluster, at: str
) -> None:
    tensorflow.run(
        'write(at + "/data", b"x" * 200_000_000); file = g.GFile(at + "/data", "rb"); '
        "begun = len(file.read(1_000_000))"
    )
    hadoop.kill("dn")
    tensorflow.start("result = begun + len(file.read())")
    try:
        assert tensorflow.process.poll() is None
    finally:
        hadoop.restart("dn")
    assert tensorflow.finish() == 200_000_000
