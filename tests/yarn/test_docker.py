"""Tasks in a docker image on a real YARN, with a real engine."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from tests import engine as engines
from tests.engine import Engine
from tests.yarn.driver import HERE, HOLD, Yarn
from ytf.minicluster import ClusterOptions, MiniCluster
from ytf.starter.engine import LABEL
from ytf.testing.waiting import eventually

SHOW = (
    'cat "$DTF_TASK_SCRIPT"; echo "$TEXT"; echo "in $container as $(id -u)"; '
    'ls "$HADOOP_CONF_DIR" "$TF_PLUGGABLE_DEVICE_LIBRARY_PATH"; '
)
TENSORFLOW = Path(__file__).parents[2] / ".venv-tf"
HDFS_PROGRAM = """\
import os
import tensorflow as tf
at = os.environ["DTF_OUTPUT_PATH"]
with tf.io.gfile.GFile(at + "/told") as file:
    told = file.read()
made = at + "/in an image"
tf.io.gfile.makedirs(made)
with tf.io.TFRecordWriter(made + "/records") as writer:
    for number in range(1000):
        writer.write(b"%04d" % number)
records = [int(record.numpy()) for record in tf.data.TFRecordDataset(made + "/records")]
print(told, "in", os.environ["container"], len(records), sum(records))
"""


@pytest.fixture(scope="module")
def engine() -> Iterator[Engine]:
    with engines.started() as engine:
        yield engine


def submit(yarn: Yarn, engine: Engine, **fields: object) -> str:
    """Submit a job in an image; its id."""
    spec = {
        "framework": "none",
        "docker_image": engines.IMAGE,
        "docker": {"engine": "podman", "engine_env": engine.settings},
        **fields,
    }
    (yarn.work / "job.yaml").write_text(yaml.safe_dump(spec), encoding="utf-8")
    return yarn.run("ytf", "submit", "--backend", "yarn", "job.yaml").stdout.strip()


def starter_of(engine: Engine, container: str) -> int:
    """The process of the starter that runs a container of the engine."""
    wanted = f'{{{{index .Config.Labels "{LABEL}"}}}}'
    return int(engine.run("inspect", "--format", wanted, container).split(".")[1])


def test_a_job_in_an_image_whose_starter_is_killed(yarn: Yarn, engine: Engine) -> None:
    gate = yarn.work / "gate"
    (yarn.work / "train.sh").write_text("# shipped\n")
    job = submit(
        yarn,
        engine,
        groups={
            "worker": {
                "count": 1,
                "resources": {"memory": 256},
                "on_failure": "restart-task",
                "framework": "tensorflow",
            },
            # On the node itself.
            "ps": {"count": 1, "resources": {"memory": 128}, "docker_image": ""},
        },
        command=SHOW + HERE + HOLD,
        script="train.sh",
        output=str(gate),
        task_env={"GATE": str(gate), "TEXT": "two\nlines: $HOME 'ü'"},
    )
    yarn.wait_running(["worker:0", "ps:0"])
    (container,) = engine.containers()
    # Between the two is an epoch, if the ResourceManager has been restarted.
    assert container.startswith("ytf-container_")
    assert f"_{job.removeprefix('application_')}_01_" in container

    os.kill(starter_of(engine, container), signal.SIGKILL)
    yarn.wait_running(["worker:0"], attempt=2)
    eventually(lambda: container not in engine.containers(), describe="the first is removed")
    yarn.open_gate()
    yarn.wait(job, "SUCCEEDED")
    yarn.nothing_is_left(job)
    engine.wait_empty()

    lines = yarn.run("ytf", "logs", job, "worker:0").stdout.splitlines()
    for line in ("# shipped", "two", "lines: $HOME 'ü'", f"in podman as {os.getuid()}"):
        assert f"worker:0 | {line}" in lines
    for file in ("hdfs-site.xml", "libytf_tensorflow_hdfs.so"):
        assert f"worker:0 | {file}" in lines
    assert (gate / "worker:0.2").stat().st_uid == os.getuid()
    assert f"ps:0 | in  as {os.getuid()}" in yarn.run("ytf", "logs", job, "ps:0").stdout


@pytest.mark.tensorflow
@pytest.mark.timeout(480)
def test_tensorflow_in_an_image_reads_and_writes_hdfs(yarn: Yarn, engine: Engine) -> None:
    # TensorFlow's 1.4 GB are mounted, as the input path: to copy them into an image takes longer.
    environment = TENSORFLOW.resolve()
    folder = f"/tmp/{yarn.work.name}"
    yarn.files.mkdir(folder)
    yarn.files.write(f"{folder}/told", [b"written by another client"])
    (yarn.work / "train.py").write_text(HDFS_PROGRAM)
    job = submit(
        yarn,
        engine,
        framework="tensorflow",
        groups={"worker": {"count": 1, "resources": {"memory": 2048}}},
        docker_image=engine.make_python_image(environment),
        command="$DTF_INPUT_PATH/bin/python $DTF_TASK_SCRIPT",
        script="train.py",
        input=str(environment),
        output=f"{yarn.cluster.hdfs_url}{folder}",
    )
    lines = yarn.run("ytf", "logs", "-f", job, timeout_s=240).stdout
    assert yarn.status(job)["final_status"] == "SUCCEEDED", lines
    assert "worker:0 | written by another client in podman 1000 499500\n" in lines
    stored = yarn.files.list(f"{folder}/in an image")
    # Each record is its length, four bytes of it, and two checksums.
    assert [(each.name, each.size) for each in stored] == [("records", 1000 * (8 + 4 + 4 + 4))]
    yarn.nothing_is_left(job)
    engine.wait_empty()


def test_an_image_that_the_nodes_do_not_have(yarn: Yarn, engine: Engine) -> None:
    groups = {"worker": {"count": 1, "resources": {"memory": 128}}}
    job = submit(yarn, engine, groups=groups, command="true", docker_image="localhost/nope:7")
    status = yarn.wait(job, "FAILED")
    assert "the image localhost/nope:7 is not on this node" in status["diagnostics"]
    assert "exited with code 6" in status["diagnostics"]


@pytest.mark.yarn
def test_a_cluster_that_is_removed_leaves_no_container(
    yarn_home: Path, tmp_path: Path, engine: Engine
) -> None:
    (tmp_path / "gate").mkdir()
    with MiniCluster(
        tmp_path / "cluster", ClusterOptions(nodes=2), stop_with_owner=True
    ) as cluster:
        yarn = Yarn(cluster, yarn_home, tmp_path)
        submit(
            yarn,
            engine,
            groups={"worker": {"count": 2, "resources": {"memory": 128}, "placement": "apart"}},
            command=HERE + HOLD,
            output=str(yarn.work / "gate"),
            task_env={"GATE": str(yarn.work / "gate")},
        )
        yarn.wait_running(["worker:0", "worker:1"])
        assert len(engine.containers()) == 2
        cluster.kill("nm1")  # nobody is left to end its container but us
    assert engine.containers() == []
