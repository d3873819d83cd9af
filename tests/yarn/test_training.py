"""Real TensorFlow trains on a real YARN: the first examples, word for word but for paths."""

from __future__ import annotations

import re
import urllib.error
import urllib.request
from pathlib import Path

import pytest

from tests.yarn.driver import Yarn
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
    (home / "data").mkdir()
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
    home, hdfs = yarn.work, f"{yarn.cluster.hdfs_url}/users/user1/mnist"
    (home / "data").mkdir()
    make_data(yarn, f"{home}/data")
    make_data(yarn, f"{hdfs}/data")
    command = """ \\
--job_name ${DTF_TASK_JOB_NAME} --task_index ${DTF_TASK_INDEX} \\
--ps_hosts ${DTF_PS_HOSTS} --worker_hosts ${DTF_WORKER_HOSTS} \\
--data_dir ${DTF_INPUT_PATH} --train_dir ${DTF_OUTPUT_PATH}"""
    on_disk = submit(
        yarn, "--tensorboard", "-i", f"{home}/data", "-o", f"{home}/train10",
        "-r", "ps:1,worker:2", f"python {MNIST}{command}",
    )  # fmt: skip
    in_hdfs = submit(
        yarn, "--tensorboard", "-i", "hdfs:///users/user1/mnist/data", "-o", f"{hdfs}/train10",
        "-r", "ps:1,worker:2", "-s", str(MNIST), "python ${DTF_TASK_SCRIPT}" + command,
    )  # fmt: skip
    eventually(lambda: tensorboard_serves(yarn, on_disk), 120, "TensorBoard serves its page")

    assert_converged(finals(yarn, on_disk), workers=2)
    assert_converged(finals(yarn, in_hdfs), workers=2)
    written = [path.name for path in (home / "train10").iterdir()]
    stored = [each.name for each in yarn.files.list("/users/user1/mnist/train10")]
    for names in (written, stored):
        assert any(name.startswith("model.ckpt-") for name in names)
        assert any(name.startswith("events.out.tfevents") for name in names)
    said = yarn.run("ytf", "logs", in_hdfs, "tensorboard").stdout
    assert "TensorBoard 2" in said, said


def tensorboard_serves(yarn: Yarn, job: str) -> bool:
    url = yarn.status(job)["tensorboard_url"]
    if url is None:
        return False
    try:
        with urllib.request.urlopen(url, timeout=5) as answer:
            return b"TensorBoard" in answer.read()
    except (urllib.error.URLError, ConnectionError, TimeoutError):
        return False


def test_multi_worker_mirrored(yarn: Yarn) -> None:
    job = submit(
        yarn, "-r", "worker:2", "-o", str(yarn.work / "plane"),
        "-s", str(ROOT / "examples" / "multi_worker.py"), "python $DTF_TASK_SCRIPT",
    )  # fmt: skip
    ends = finals(yarn, job)
    assert {end["worker"] for end in ends} == {"0", "1"}
    assert all(float(end["error"]) < 0.05 for end in ends), ends
