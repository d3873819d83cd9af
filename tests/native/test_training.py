"""Keras keeps its models and its training on ``hdfs://``."""

from __future__ import annotations

import pytest

from tests.native.tensorflow_process import PYTHON_215, TensorFlowProcess
from ytf.minicluster import MiniCluster
from ytf.testing.waiting import eventually

pytestmark = [pytest.mark.yarn, pytest.mark.tensorflow, pytest.mark.timeout(600)]

# Trains in epochs of four steps. It waits in the third epoch until it is killed, if it may.
TRAIN = """
import os, time
import numpy as np
from tensorflow import keras

keras.utils.set_random_seed(1)
model = keras.Sequential([keras.layers.Input([4]), keras.layers.Dense(1)])
model.compile("sgd", "mse")
epochs = []

class Watch(keras.callbacks.Callback):
    def on_epoch_begin(self, epoch, logs=None):
        epochs.append(epoch)
        if epoch == 2 and waits:
            open(told, "w").close()
            while True:
                time.sleep(1)

model.fit(
    np.ones([16, 4], "float32"), np.ones([16, 1], "float32"), batch_size=4, epochs=5, verbose=0,
    callbacks=[keras.callbacks.BackupAndRestore(at + "/backup"), Watch()],
)
model.save(at + "/model.keras")
same = keras.models.load_model(at + "/model.keras")
points = np.arange(8, dtype="float32").reshape(2, 4)
result = [
    epochs, bool(np.allclose(model.predict(points, verbose=0), same.predict(points, verbose=0))),
    g.exists(at + "/backup") and bool(g.glob(at + "/backup/*")),
]
"""


@pytest.fixture(scope="module")
def killed(hadoop: MiniCluster, tmp_path_factory: pytest.TempPathFactory) -> str:
    """The directory of a process that was killed while it wrote files and trained."""
    at, told = "hdfs:///tmp/killed", tmp_path_factory.mktemp("killed") / "third epoch"
    process = TensorFlowProcess(hadoop.environ)
    process.run(
        f"""
at = {at!r}
g.makedirs(at)
log = g.GFile(at + "/log", "wb")
log.write(b"flushed")
log.flush()
log.write(b" and lost")
other = g.GFile(at + "/never flushed", "wb")
other.write(b"x" * 3_000_000)
"""
    )
    process.start(f"told, waits = {str(told)!r}, True\n{TRAIN}")
    eventually(told.exists, timeout_s=120, describe="the third epoch")
    process.kill()
    return at


def test_what_a_killed_process_flushed_is_there(tensorflow: TensorFlowProcess, killed: str) -> None:
    tensorflow.run(f"at = {killed!r}")
    assert tensorflow.run('result = read(at + "/log").decode()') == "flushed"
    # Nobody has to wait for the lease of a dead writer.
    assert tensorflow.run(
        'write(at + "/log", b"new"); write(at + "/never flushed", b"new"); '
        'result = [read(at + "/log").decode(), read(at + "/never flushed").decode()]'
    ) == ["new", "new"]


def test_training_that_was_killed_goes_on_and_its_model_is_saved(
    tensorflow: TensorFlowProcess, killed: str
) -> None:
    found = tensorflow.run(f"at, waits = {killed!r}, False\n{TRAIN}")
    assert found == [[2, 3, 4], True, False]


def test_a_gigabyte_is_the_same_after_its_way(tensorflow: TensorFlowProcess, at: str) -> None:
    """Many blocks: written, read from front to back, and read at many places."""
    assert tensorflow.run(
        """
import hashlib, random
size = 4 << 20
twice = 2 * random.Random(5).randbytes(size)
right, found = hashlib.md5(), hashlib.md5()
with g.GFile(at + "/large", "wb") as file:
    for number in range(256):
        data = twice[number:number + size]
        right.update(data)
        file.write(data)
wrong = 0
with g.GFile(at + "/large", "rb") as file:
    while data := file.read(3_000_001):
        found.update(data)
    for place in [random.Random(6).randrange(0, 256 * size - 1000) for _ in range(200)]:
        number, start = divmod(place, size)
        expected = twice[number + start:number + min(start + 1000, size)]
        expected += twice[number + 1:number + 1 + 1000 - len(expected)]
        file.seek(place)
        wrong += file.read(1000) != expected
length = g.stat(at + "/large").length
g.remove(at + "/large")
result = [length, found.hexdigest() == right.hexdigest(), wrong]
"""
    ) == [1 << 30, True, 0]


def test_tensorflow_2_15_has_the_same_plugin(hadoop: MiniCluster) -> None:
    process = TensorFlowProcess(hadoop.environ, PYTHON_215)
    process.run("at = 'hdfs:///tmp/test_2_15'; g.rmtree(at) if g.exists(at) else None")
    assert process.run(
        """
g.makedirs(at + "/a/b")
write(at + "/a/ä 1", b"one\\n")
with g.GFile(at + "/a/ä 1", "a") as file:
    file.write("two\\n")
    file.flush()
    file.write("three")
g.rename(at + "/a/ä 1", at + "/a/2")
g.copy(at + "/a/2", at + "/a/3")
g.remove(at + "/a/2")
walked = [[path, folders, files] for path, folders, files in g.walk(at)]
try:
    read(at + "/none")
except tf.errors.NotFoundError as exc:
    missing = exc.message
result = [walked, read(at + "/a/3").decode(), at in missing, g.stat(at + "/a/3").length]
"""
    ) == [
        [["hdfs:///tmp/test_2_15", ["a"], []], ["hdfs:///tmp/test_2_15/a", ["b"], ["3"]],
         ["hdfs:///tmp/test_2_15/a/b", [], []]],
        "one\ntwo\nthree", True, 13,
    ]  # fmt: skip
    assert process.run(
        """
with tf.io.TFRecordWriter(at + "/records") as writer:
    for number in range(1000):
        writer.write(b"%d" % number)
weights = tf.Variable(tf.ones([1000]))
checkpoint = tf.train.Checkpoint(weights=weights)
manager = tf.train.CheckpointManager(checkpoint, at + "/checkpoints", max_to_keep=1)
manager.save()
weights.assign(tf.zeros([1000]))
checkpoint.restore(manager.save()).assert_consumed()
summaries = tf.summary.create_file_writer(at + "/summaries")
with summaries.as_default():
    tf.summary.scalar("loss", 1.0, 1)
summaries.flush()
(events,) = g.glob(at + "/summaries/*")
result = [
    sum(map(int, tf.data.TFRecordDataset(at + "/records").as_numpy_iterator())),
    float(weights[0]), len(g.glob(at + "/checkpoints/*.index")),
    len(list(v1.train.summary_iterator(events))),
]
"""
    ) == [499500, 0.0, 1, 2]
    session = """
with v1.Graph().as_default():
    step = v1.train.get_or_create_global_step()
    more = v1.assign_add(step, 1)
    with v1.train.MonitoredTrainingSession(
        checkpoint_dir=at + "/session", save_checkpoint_steps=2
    ) as session:
        for _ in range(3):
            result = int(session.run(more))
"""
    assert [process.run(session), process.run(session)] == [3, 6]
    assert process.end() == 0
