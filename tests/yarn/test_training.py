"""Real TensorFlow trains on a real YARN: the first examples, word for word but for paths."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.yarn.driver import Yarn
from ytf.minicluster import MiniCluster
from ytf.testing.waiting import eventually

ROOT = Path(__file__).parents[2]
MNIST = ROOT / "examples" / "mnist.py"
TENSORFLOW = ROOT / ".venv-tf"
JOB_S = 240
"""What a job may take on a busy machine, where importing TensorFlow alone takes long."""

pytestmark = [pytest.mark.tensorflow, pytest.mark.timeout(2 * JOB_S)]


@pytest.fixture(autouse=True)
def tensorflow() -> None:
    if not (TENSORFLOW / "bin" / "python").exists():
        pytest.fail(f"there is no {TENSORFLOW}: run scripts/environment tf")


def submit(yarn: Yarn, *words: str) -> str:
    """Submit as somebody does who works in TensorFlow's environment; the job's id."""
    words = ("--backend", "yarn", "--env", "current", "--timeout", str(JOB_S), *words)
    done = yarn.run("ytf-submit", *words, timeout_s=JOB_S, VIRTUAL_ENV=str(TENSORFLOW))
    return done.stdout.strip()


def finals(yarn: Yarn, job: str) -> list[dict[str, str]]:
    """What the workers came to, once the job is over."""
    lines = yarn.run("ytf", "logs", "-f", job, "worker", timeout_s=JOB_S).stdout.splitlines()
    status = yarn.status(job)
    assert status["final_status"] == "SUCCEEDED", status["diagnostics"]
    yarn.nothing_is_left(job)
    return [dict(re.findall(r"(\w+)=(\S+)", line)) for line in lines if " | FINAL " in line]


def make_data(yarn: Yarn, folder: str) -> None:
    yarn.run(str(TENSORFLOW / "bin" / "python"), str(MNIST), "--make_data", folder)


def assert_converged(ends: list[dict[str, str]], workers: int) -> None:
    assert {end["worker"] for end in ends} == {str(index) for index in range(workers)}
    for end in ends:
        assert float(end["loss"]) < 0.2, ends
        assert float(end["accuracy"]) > 0.95, ends


def test_simple_task_submission(yarn: Yarn) -> None:
    home = yarn.work
    make_data(yarn, f"{home}/data")
    job = submit(
        yarn, "-r", "ps:1,worker:4",
        f"""python {MNIST} \\
--job_name ${{DTF_TASK_JOB_NAME}} --task_index ${{DTF_TASK_INDEX}} \\
--ps_hosts ${{DTF_PS_HOSTS}} --worker_hosts ${{DTF_WORKER_HOSTS}} \\
--data_dir {home}/data --train_dir {home}/train""",
    )  # fmt: skip
    assert_converged(finals(yarn, job), workers=4)
    assert list((home / "train").glob("model.ckpt-*.index"))


def test_tensorboard_and_the_script_and_hdfs_side_by_side(yarn: Yarn) -> None:
    home = yarn.work
    make_data(yarn, f"{home}/data")
    yarn.files.mkdir("/user1/mnist/data")
    yarn.files.write("/user1/mnist/data/train.npz", [(home / "data" / "train.npz").read_bytes()])
    command = """ \\
--job_name ${DTF_TASK_JOB_NAME} --task_index ${DTF_TASK_INDEX} \\
--ps_hosts ${DTF_PS_HOSTS} --worker_hosts ${DTF_WORKER_HOSTS} \\
--data_dir ${DTF_INPUT_PATH} --train_dir ${DTF_OUTPUT_PATH}"""
    with nameservice(yarn.cluster, "users"):
        on_disk = submit(
            yarn, "--tensorboard", "-i", f"{home}/data", "-o", f"{home}/train10",
            "-r", "ps:1,worker:2", f"python {MNIST}{command}",
        )  # fmt: skip
        # The last example whole, with settings for what it leaves to the site.
        done = yarn.run(
            "ytf-submit", "--tensorboard",
            "-i", "hdfs://users/user1/mnist/data", "-o", "hdfs://users/user1/mnist/train10",
            "-r", "ps:1,worker:2", "-s", str(MNIST), "python ${DTF_TASK_SCRIPT}" + command,
            timeout_s=JOB_S, VIRTUAL_ENV=str(TENSORFLOW), YTF_ENV="current",
        )  # fmt: skip
        in_hdfs = done.stdout.strip()
        assert "note:" not in done.stderr, done.stderr
        with training_paused(yarn, in_hdfs):
            seen = eventually(lambda: losses(yarn, in_hdfs), 120, "TensorBoard shows the loss")
            assert yarn.status(in_hdfs)["state"] == "RUNNING"

        assert_converged(finals(yarn, on_disk), workers=2)
        assert_converged(finals(yarn, in_hdfs), workers=2)
    assert all(value > 0 for _, _, value in seen)
    written = [path.name for path in (home / "train10").iterdir()]
    stored = [each.name for each in yarn.files.list("/user1/mnist/train10")]
    for names in (written, stored):
        assert any(name.startswith("model.ckpt-") for name in names)
        assert any(name.startswith("events.out.tfevents") for name in names)
    for job in (on_disk, in_hdfs):
        said = yarn.run("ytf", "logs", job, "tensorboard").stdout
        assert "TensorBoard 2" in said, said


@contextmanager
def nameservice(cluster: MiniCluster, name: str) -> Iterator[None]:
    """Let clients and containers know the cluster's NameNode by the name of a nameservice."""
    file = cluster.conf_dir / "hdfs-site.xml"
    before = file.read_text()
    own = {
        "dfs.nameservices": name,
        f"dfs.ha.namenodes.{name}": "nn",
        f"dfs.namenode.rpc-address.{name}.nn": cluster.hdfs_url.removeprefix("hdfs://"),
    }
    more = "".join(
        f"<property><name>{key}</name><value>{value}</value></property>"
        for key, value in own.items()
    )
    file.write_text(before.replace("</configuration>", f"{more}</configuration>"))
    try:
        yield
    finally:
        file.write_text(before)


@contextmanager
def training_paused(yarn: Yarn, job: str) -> Iterator[None]:
    """Hold a training as soon as its chief worker has told of its first steps.

    The parameter server is stopped, and not the worker: that waits for it then, but ends what
    it is writing. In the middle of an append, readers would see nothing of the file's block.
    """
    with yarn.started("ytf", "logs", "-f", job, "worker:0") as logs:
        assert any("| step " in line for line in logs.output), "it ended without a step"
    program = process_of(job, "ps:0")
    os.kill(program, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(program, signal.SIGCONT)


def process_of(job: str, task: str) -> int:
    """The Python of a task that still runs."""
    wanted = {f"YTF_JOB_ID={job}".encode(), f"YTF_TASK={task}".encode()}
    for proc in Path("/proc").iterdir():
        with contextlib.suppress(OSError):
            if (
                proc.name.isdecimal()
                and wanted <= set((proc / "environ").read_bytes().split(b"\0"))
                and (proc / "cmdline").read_bytes().startswith(b"python\0")
            ):
                return int(proc.name)
    raise AssertionError(f"the program of {task} has ended already")


def losses(yarn: Yarn, job: str) -> list[tuple[float, int, float]]:
    """What TensorBoard shows of the loss so far: time, step and value of each point."""
    url = yarn.status(job)["tensorboard_url"]
    if url is None:
        return []
    try:
        with urllib.request.urlopen(
            urllib.parse.urljoin(url, "data/plugin/scalars/scalars?run=.&tag=loss"), timeout=5
        ) as answer:
            found: list[tuple[float, int, float]] = json.load(answer)
            return found
    except (urllib.error.URLError, ConnectionError, TimeoutError):
        return []


SUMMARIES = """
import os, pathlib, time
import tensorflow as tf

v1 = tf.compat.v1  # its summaries need no TensorBoard in the environment
v1.disable_eager_execution()
writer = v1.summary.FileWriter("logs")
for step in range(3):
    value = v1.Summary.Value(tag="loss", simple_value=1 / (1 + step))
    writer.add_summary(v1.Summary(value=[value]), step)
writer.flush()
print("written", flush=True)
while not (pathlib.Path(os.environ["GATE"]) / "go").exists():
    time.sleep(0.1)
"""


def test_tensorboard_shows_summaries_that_are_synced_while_they_are_written(
    yarn: Yarn, gate: str
) -> None:
    (yarn.work / "program.py").write_text(SUMMARIES)
    with nameservice(yarn.cluster, "users"):
        job = submit(
            yarn, "--tensorboard", "-o", "hdfs://users/user1/synced", "-r", "worker:1",
            "--sync_checkpoints", "logs:hdfs://users/user1/synced", "-s", "program.py",
            f"{gate} export GATE; exec python $DTF_TASK_SCRIPT",
        )  # fmt: skip
        with yarn.started("ytf", "logs", "-f", job, "worker:0") as logs:
            assert any("| written" in line for line in logs.output), yarn.status(job)["diagnostics"]
        seen = eventually(lambda: losses(yarn, job), 120, "TensorBoard shows the loss")
        assert [value for _, _, value in seen] == pytest.approx([1, 1 / 2, 1 / 3])
        assert yarn.status(job)["state"] == "RUNNING"
        yarn.open_gate()
        yarn.wait(job, "SUCCEEDED")
    yarn.nothing_is_left(job)


def test_multi_worker_mirrored(yarn: Yarn) -> None:
    job = submit(
        yarn, "-r", "worker:2", "-o", str(yarn.work / "plane"),
        "-s", str(ROOT / "examples" / "multi_worker.py"), "python $DTF_TASK_SCRIPT",
    )  # fmt: skip
    ends = finals(yarn, job)
    assert {end["worker"] for end in ends} == {"0", "1"}
    assert all(float(end["error"]) < 0.05 for end in ends), ends


READ_AND_WRITE = """
import os
import tensorflow as tf

tf.io.gfile.makedirs(os.environ["DTF_OUTPUT_PATH"])
path = os.path.join(os.environ["DTF_OUTPUT_PATH"], "x")
with tf.io.gfile.GFile(path, "w") as file:
    file.write(os.environ["YTF_TASK"])
with tf.io.gfile.GFile(path) as file:
    print("READ", file.read())
"""


def test_hdfs_on_one_machine(yarn: Yarn) -> None:
    (yarn.work / "program.py").write_text(READ_AND_WRITE)
    done = yarn.run(
        "ytf-submit", "--backend", "local", "--wait", "--logs", "--env", str(TENSORFLOW),
        "-r", "worker:1", "-o", "hdfs:///tmp/one-machine", "-s", "program.py",
        "python $DTF_TASK_SCRIPT", timeout_s=JOB_S,
    )  # fmt: skip
    assert "READ worker:0" in done.stderr
    assert b"".join(yarn.files.read("/tmp/one-machine/x")) == b"worker:0"
