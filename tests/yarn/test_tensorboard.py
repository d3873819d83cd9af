"""A job's TensorBoard shows what is in HDFS, whatever happens there meanwhile."""

from __future__ import annotations

import json
import os
import re
import subprocess
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
from hdfs_native import Client

from tests.yarn.driver import Yarn
from ytf.packaging.tensorboard import find_tensorboard
from ytf.testing.waiting import eventually

# In the process of those that train: TensorBoard is installed there.
pytestmark = pytest.mark.tensorflow

FOLDER = "/user1/summaries"
SUMMARIES = """
import sys
from tensorboard.compat.proto.event_pb2 import Event
from tensorboard.compat.proto.summary_pb2 import Summary
from tensorboard.summary.writer.record_writer import RecordWriter

writer = RecordWriter(open(sys.argv[1], "wb"))
writer.write(Event(file_version="brain.Event:2").SerializeToString())
for step in range(int(sys.argv[2])):
    summary = Summary(value=[Summary.Value(tag="loss", simple_value=1.0)])
    writer.write(Event(step=step, summary=summary).SerializeToString())
writer.close()
"""


class Board:
    """A running TensorBoard on a directory in HDFS, and the means to write summaries there."""

    def __init__(self, yarn: Yarn, python: Path, said: Path) -> None:
        self._yarn, self._python, self._said = yarn, python, said

    def summaries(self, steps: int) -> bytes:
        """The content of a file with that many points."""
        file = self._yarn.work / "summaries"
        self._yarn.run(str(self._python), "-I", "-c", SUMMARIES, str(file), str(steps))
        return file.read_bytes()

    def write(self, run: str, data: bytes) -> str:
        """Write summaries of a run; returns the path of the file."""
        self._yarn.files.mkdir(f"{FOLDER}/{run}", 0o755)
        path = f"{FOLDER}/{run}/events.out.tfevents.1"
        self._yarn.files.write(path, [data], 0o644)
        return path

    def points(self, run: str) -> int:
        """How many points of a run it shows."""
        url = re.search(r" at (http://\S+/) ", self.said())
        if url is None:
            return 0
        page = f"{url[1]}data/plugin/scalars/scalars?run={run}&tag=loss"
        try:
            with urllib.request.urlopen(page, timeout=5) as answer:
                return len(json.load(answer))
        except (urllib.error.URLError, ConnectionError, TimeoutError):
            return 0

    def wait_for(self, run: str, points: int) -> None:
        """Return when it shows all points of a run."""
        eventually(lambda: self.points(run) == points, 60, self.said)

    def said(self) -> str:
        """What it has printed."""
        return self._said.read_text()


@pytest.fixture
def board(yarn: Yarn, monkeypatch: pytest.MonkeyPatch) -> Iterator[Board]:
    monkeypatch.setenv("YTF_HOME", str(yarn.home))
    command = find_tensorboard()
    python, said = Path(command.environment or "", "bin", "python"), yarn.work / "said"
    assert command.argv[0] == python.name
    yarn.files.mkdir(FOLDER, 0o755)
    hadoop = {"HADOOP_CONF_DIR": str(yarn.cluster.conf_dir), "HADOOP_USER_NAME": "somebody"}
    with said.open("wb") as file:
        process = subprocess.Popen(
            [python, *command.argv[1:], "--logdir", f"{yarn.cluster.hdfs_url}{FOLDER}",
             "--host", "127.0.0.1", "--port", "0", "--reload_interval", "1"],
            env=os.environ | hadoop, stdout=file, stderr=file,
        )  # fmt: skip
        try:
            yield Board(yarn, python, said)
        finally:
            process.kill()
            process.wait()
            yarn.files.delete(FOLDER)


def test_it_goes_on_while_a_file_is_appended_to(yarn: Yarn, board: Board) -> None:
    five, eight = board.summaries(5), board.summaries(8)
    assert eight.startswith(five)
    path = board.write("first", five)
    board.wait_for("first", 5)
    file = Client(yarn.cluster.hdfs_url).append(path)
    file.write(eight[len(five) :])
    # It has looked at the first one again when it shows another.
    board.write("second", five)
    board.wait_for("second", 5)
    file.close()
    board.wait_for("first", 8)


def test_it_goes_on_after_an_error_of_hdfs(yarn: Yarn, board: Board) -> None:
    # The directories are root's, and TensorBoard is not: what it may not read is an error.
    board.write("first", board.summaries(5))
    yarn.files.chmod(FOLDER, 0o700)
    told = "cannot look for summaries in hdfs://"
    eventually(lambda: board.said().count(told) > 1, 60, board.said)
    yarn.files.chmod(FOLDER, 0o755)
    board.wait_for("first", 5)
