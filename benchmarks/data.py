"""What data in HDFS cost: in TensorFlow through ``hdfs://``, and for ytf itself.

    python -m benchmarks.data [--repeat 5] [--megabytes 1024] [MEASUREMENT ...]

An HDFS is started on this machine. The two sides of a ratio take turns, in one
process and with warm caches; each is the median of its times. ``MEASUREMENTS``
below lists what is measured; all of it, unless some are named.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from hdfs_native import Client, WriteOptions
from tests.native.tensorflow_process import PYTHON, TensorFlowProcess, plugin_directory

from benchmarks.table import Row, print_table
from ytf.hadoop.conf import Configuration
from ytf.minicluster import ClusterOptions, MiniCluster
from ytf.storage.hdfs import HdfsBlobs
from ytf.storage.hdfs_client import HdfsClient

READ_BARE = 0.45
READ_MAPPED = 0.9
CHECKPOINT_S = 0.35
WRITTEN = 0.8
IMPORT_MS = 30.0

_SMALL = b"x" * 1000

# Records of a JPEG image and a label, in a local file and in HDFS.
_RECORDS = """
import time

def example(number):
    pixels = tf.random.stateless_uniform([160, 160, 3], [number, 1], 0, 256, tf.int32)
    image = tf.io.encode_jpeg(tf.cast(pixels, tf.uint8)).numpy()
    return tf.train.Example(features=tf.train.Features(feature={{
        "image": tf.train.Feature(bytes_list=tf.train.BytesList(value=[image])),
        "label": tf.train.Feature(int64_list=tf.train.Int64List(value=[number])),
    }})).SerializeToString()

examples = [example(number) for number in range(64)]
count = {megabytes} * (1 << 20) // len(examples[0])
with tf.io.TFRecordWriter(local) as writer:
    for number in range(count):
        writer.write(examples[number % 64])
g.copy(local, remote)

def parse(record, decode):
    found = tf.io.parse_single_example(record, {{
        "image": tf.io.FixedLenFeature([], tf.string), "label": tf.io.FixedLenFeature([], tf.int64),
    }})
    return tf.cast(decode(found["image"]), tf.float32) / 255.0, found["label"]

def as_bytes(record):
    return parse(record, lambda image: tf.io.decode_raw(image, tf.uint8))

def as_jpeg(record):
    return parse(record, lambda image: tf.io.decode_jpeg(image, 3))

one_after_the_other = tf.data.Options()
one_after_the_other.experimental_optimization.map_parallelization = False

def read_bare(path):
    return tf.data.TFRecordDataset(path)

def read_as_bytes(path):
    return tf.data.TFRecordDataset(path).map(as_bytes).with_options(one_after_the_other)

def read_as_jpeg(path):
    return tf.data.TFRecordDataset(path).map(as_jpeg).with_options(one_after_the_other)

def read_as_bytes_in_parallel(path):
    return tf.data.TFRecordDataset(path).map(as_bytes, tf.data.AUTOTUNE)

def read_as_jpeg_in_parallel(path):
    return tf.data.TFRecordDataset(path).map(as_jpeg, tf.data.AUTOTUNE)

def timed(dataset):
    began = time.perf_counter()
    read = int(dataset.reduce(0, lambda sofar, *_: sofar + 1))
    assert read == count, read
    return time.perf_counter() - began
"""

_WRITERS = """
import time
import hdfs_native
piece = bytes(range(256)) * 4096
client = hdfs_native.Client({url!r})

def by_plugin(path, count):
    began = time.perf_counter()
    with g.GFile({url!r} + path, "wb") as file:
        for _ in range(count):
            file.write(piece)
    return time.perf_counter() - began

def by_hdfs_native(path, count):
    began = time.perf_counter()
    with client.create(path, hdfs_native.WriteOptions(overwrite=True)) as file:
        for _ in range(count):
            file.write(piece)
    return time.perf_counter() - began
"""

_CHECKPOINT = """
import time
checkpoint = tf.train.Checkpoint(weights=tf.Variable(tf.zeros([100])))
def save(path):
    began = time.perf_counter()
    checkpoint.save(path)
    return time.perf_counter() - began
"""

_IMPORT = """
import ctypes, sys, time
import tensorflow
began = time.perf_counter()
ctypes.CDLL(sys.argv[1])
print(1000 * (time.perf_counter() - began))
"""


@dataclass(frozen=True)
class Bench:
    """What every measurement gets."""

    hadoop: MiniCluster
    tensorflow: TensorFlowProcess
    """A TensorFlow with the plugin."""
    scratch: Path
    repeat: int
    megabytes: int

    def times(self, *pieces_of_code: str) -> list[float]:
        """Let pieces of code, whose ``result`` is a time, take turns; the median of each."""
        rounds = [
            [float(self.tensorflow.run(code)) for code in pieces_of_code]
            for _ in range(self.repeat)
        ]
        return [statistics.median(times) for times in zip(*rounds, strict=True)]


def reading(bench: Bench) -> list[Row]:
    """Records from HDFS beside records from a local file."""
    local, remote = str(bench.scratch / "records"), f"{bench.hadoop.hdfs_url}/bench/records"
    bench.tensorflow.run(f"local, remote = {local!r}, {remote!r}")
    bench.tensorflow.run(_RECORDS.format(megabytes=bench.megabytes))
    rows = []
    for way, name, must in (
        ("read_bare", "bare", READ_BARE),
        # A map that costs little and one that costs much, one record after the other: what
        # Dataset.map promises by default. TensorFlow would make it parallel without being asked.
        ("read_as_bytes", "to bytes", READ_MAPPED),
        ("read_as_jpeg", "to images", READ_MAPPED),
        # On all processors: the DataNode, which is on this machine here, competes for them.
        ("read_as_bytes_in_parallel", "to bytes in parallel", None),
        ("read_as_jpeg_in_parallel", "to images in parallel", None),
    ):
        here, there = bench.times(
            *(f"result = timed({way}({path}))" for path in ("local", "remote"))
        )
        rows += [
            Row(f"records, {name}: local", bench.megabytes / here, "MB/s"),
            Row(f"records, {name}: HDFS", bench.megabytes / there, "MB/s"),
            Row(f"records, {name}: HDFS / local", here / there, "", must, at_least=True),
        ]
    bench.tensorflow.run("g.remove(local); g.remove(remote)")
    return rows


def writing(bench: Bench) -> list[Row]:
    """A large file through the plugin beside hdfs-native's own writer."""
    bench.tensorflow.run(_WRITERS.format(url=bench.hadoop.hdfs_url))
    plugin, native = bench.times(
        f"result = by_plugin('/bench/written', {bench.megabytes})",
        f"result = by_hdfs_native('/bench/written', {bench.megabytes})",
    )
    bench.tensorflow.run("client.delete('/bench/written', False)")
    return [
        Row("a file written: hdfs-native", bench.megabytes / native, "MB/s"),
        Row("a file written: plugin", bench.megabytes / plugin, "MB/s"),
        Row("a file written: plugin / hdfs-native", native / plugin, "", WRITTEN, at_least=True),
    ]


def checkpoints(bench: Bench) -> list[Row]:
    """A checkpoint of 100 floats: several small files."""
    bench.tensorflow.run(_CHECKPOINT)
    local, remote = bench.scratch / "checkpoint", f"{bench.hadoop.hdfs_url}/bench/checkpoint"
    here, there = bench.times(f"result = save({str(local)!r})", f"result = save({remote!r})")
    return [
        Row("a small checkpoint: local", here, "s"),
        Row("a small checkpoint: HDFS", there, "s", CHECKPOINT_S),
    ]


def importing(bench: Bench) -> list[Row]:
    """What the plugin adds to ``import tensorflow``."""
    (library,) = plugin_directory().glob("*.so")
    times = [
        float(subprocess.check_output([PYTHON, "-c", _IMPORT, library], text=True))
        for _ in range(min(3, bench.repeat))
    ]
    return [Row("loading the plugin", statistics.median(times), "ms", IMPORT_MS)]


def small_files(bench: Bench) -> list[Row]:
    """What a small file costs ytf itself, as the journal writes them."""
    client = HdfsClient(bench.hadoop.hdfs_url, Configuration.load(bench.hadoop.conf_dir))
    blobs, native = HdfsBlobs(client, "/bench/blobs"), Client(bench.hadoop.hdfs_url)
    native.mkdirs("/bench/blobs", 0o700, True)
    ours, theirs = [], []
    for number in range(4 * bench.repeat):
        began = time.perf_counter()
        blobs.write(f"segments/{number}", _SMALL)
        ours.append(time.perf_counter() - began)
        began = time.perf_counter()
        with native.create(f"/bench/{number}", WriteOptions()) as file:
            file.write(_SMALL)
        theirs.append(time.perf_counter() - began)
    return [
        Row("a small file: hdfs-native as it is", 1000 * statistics.median(theirs), "ms"),
        Row("a small file: ytf's journal", 1000 * statistics.median(ours), "ms"),
    ]


MEASUREMENTS: dict[str, Callable[[Bench], list[Row]]] = {
    "reading": reading,
    "writing": writing,
    "checkpoints": checkpoints,
    "importing": importing,
    "small_files": small_files,
}
"""Each has a name for the command line, and returns its rows of the table."""


def main() -> int:
    """Print the table; 1 if a limit is not kept."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("measurements", nargs="*", metavar="MEASUREMENT")
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument("--megabytes", type=int, default=1024)
    args = parser.parse_args()
    unknown = set(args.measurements) - set(MEASUREMENTS)
    if unknown:
        parser.error(f"no measurement {', '.join(sorted(unknown))}: {', '.join(MEASUREMENTS)}")
    rows: list[Row] = []
    with tempfile.TemporaryDirectory() as place:
        scratch = Path(place)
        with MiniCluster(
            scratch / "cluster", ClusterOptions(nodes=1, heap_mb=512), stop_with_owner=True
        ) as hadoop:
            process = TensorFlowProcess(hadoop.environ)
            process.run(f"g.makedirs('{hadoop.hdfs_url}/bench')")
            bench = Bench(hadoop, process, scratch, args.repeat, args.megabytes)
            try:
                for name in args.measurements or MEASUREMENTS:
                    rows += MEASUREMENTS[name](bench)
            finally:
                process.end()
    return 0 if print_table(rows) else 1


if __name__ == "__main__":
    sys.exit(main())
