"""How long stage-in takes, against a plain copy of the same files with hdfs-native.

    python -m benchmarks.stage_in [--files 2000] [--size 1000000] [--repeat 3]

Each is a process of its own, from its start to its end, with all files listed and copied
into a new directory of the same disk, from a real HDFS on this machine whose files
are in the page cache. The plain copy is a loop over hdfs-native's client: one file
after the other, and in as many threads as stage-in has streams. All take turns; medians.
It needs Java.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from benchmarks.table import Row, print_table
from ytf.backends.launch import helper_arguments
from ytf.hadoop.conf import Configuration
from ytf.minicluster import ClusterOptions, MiniCluster
from ytf.storage.copy_pool import STREAMS
from ytf.storage.hdfs import HdfsFiles

PLACE = "/stage-in"
PLAIN = """
import sys
from concurrent.futures import ThreadPoolExecutor
from hdfs_native import Client
url, place, threads = sys.argv[1:]
client = Client(url)
def get(path):
    with client.read(path) as source, open(path.rpartition("/")[2], "wb") as target:
        target.write(source.read())
paths = [each.path for each in client.list_status(place, True) if not each.isdir]
if threads == "1":
    for path in paths:
        get(path)
else:
    with ThreadPoolExecutor(int(threads)) as pool:
        list(pool.map(get, paths))
"""


def main() -> int:
    """Print the table; 1 if a limit is not kept."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--files", type=int, default=2000)
    parser.add_argument("--size", type=int, default=1_000_000)
    parser.add_argument("--repeat", type=int, default=3)
    options = parser.parse_args()
    with (
        tempfile.TemporaryDirectory() as place,
        MiniCluster(Path(place, "cluster"), ClusterOptions(nodes=1)) as cluster,
    ):
        files = HdfsFiles.open(cluster.hdfs_url, Configuration.load(cluster.conf_dir))
        _write(files, options.files, options.size)
        environ = {**os.environ, "HADOOP_CONF_DIR": str(cluster.conf_dir)}
        plain = [sys.executable, "-c", PLAIN, cluster.hdfs_url, PLACE]
        commands = {
            "stage-in": [sys.executable, *helper_arguments(), "ytf.storage.stage_in"],
            "one": [*plain, "1"],
            "threads": [*plain, str(STREAMS)],
        }
        request = {
            "sources": [{"url": f"hdfs://{PLACE}", "to": ".", "shard": False}],
            "index": 0,
            "tasks": 1,
            "node": "here",
        }
        took: dict[str, list[float]] = {name: [] for name in commands}
        for _ in range(options.repeat):
            for name, command in commands.items():
                work = Path(place, "work")
                work.mkdir()
                began = time.monotonic()
                subprocess.run(
                    command,
                    cwd=work,
                    env=environ,
                    input=json.dumps(request) + "\n",
                    text=True,
                    stdout=subprocess.DEVNULL,
                    check=True,
                )
                took[name].append(time.monotonic() - began)
                _check(work, options.files, options.size)
                shutil.rmtree(work)
    ours, one, threads = (statistics.median(times) for times in took.values())
    what = f"{options.files} files, {options.files * options.size / 1e9:.1f} GB"
    rows = [
        Row(f"stage-in of {what}, {STREAMS} streams", ours, "s"),
        Row("plain hdfs-native, one after the other", one, "s"),
        Row(f"plain hdfs-native, {STREAMS} threads", threads, "s"),
        Row("stage-in / one after the other", ours / one, "", 1.25),
        Row(f"stage-in / {STREAMS} threads", ours / threads, "", 1.25),
    ]
    return 0 if print_table(rows) else 1


def _write(files: HdfsFiles, count: int, size: int) -> None:
    files.mkdir(PLACE, 0o755)
    data = os.urandom(size)
    with ThreadPoolExecutor(STREAMS) as pool:
        list(pool.map(lambda number: files.write(f"{PLACE}/{number:05}", [data]), range(count)))


def _check(work: Path, count: int, size: int) -> None:
    found = [path.stat().st_size for path in work.iterdir() if path.is_file()]
    assert found == [size] * count, f"{len(found)} files, {sum(found)} bytes"


if __name__ == "__main__":
    sys.exit(main())
