"""Every example trains, converges, and leaves nothing behind."""

from __future__ import annotations

import json
import os
import socket
import urllib.error
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import yaml

from tests.e2e.network import other_machine
from tests.examples.conftest import EXAMPLES, JOB_S, Commands, Job, finals
from ytf.testing.waiting import eventually

pytestmark = pytest.mark.timeout(JOB_S + 60)

BETWEEN_GRAPH = (
    "python $DTF_TASK_SCRIPT --job_name $DTF_TASK_JOB_NAME --task_index $DTF_TASK_INDEX "
    "--ps_hosts $DTF_PS_HOSTS --worker_hosts $DTF_WORKER_HOSTS --train_dir $DTF_OUTPUT_PATH"
)


def script(name: str) -> tuple[str, str]:
    return "-s", str(EXAMPLES / name)


def test_ring(ytf: Commands) -> None:
    job = ytf.submit(
        *("--wait", "--framework", "none", "-r", "worker:3", *script("ring.py")),
        "python3 $DTF_TASK_SCRIPT",
    )
    ends = job.finals()
    assert {end.pop("worker") for end in ends} == {"0", "1", "2"}
    assert ends[0] == ends[1] == ends[2]
    assert float(ends[0]["loss"]) < 1e-5
    assert (ends[0]["slope"], ends[0]["offset"]) == ("3.0000", "2.0000")


@pytest.mark.tensorflow
def test_between_graph_with_tensorboard(ytf: Commands, tensorflow: str, tmp_path: Path) -> None:
    job = ytf.submit(
        *("--env", tensorflow, "-r", "ps:1,worker:2", "-t", "-o", str(tmp_path / "out")),
        *(*script("between_graph.py"), BETWEEN_GRAPH),
    )
    eventually(
        lambda: tensorboard_serves(job), describe="TensorBoard serves its page", timeout_s=60
    )
    status = job.wait()
    assert status["final_status"] == "SUCCEEDED", status["diagnostics"]
    assert not tensorboard_serves(job)

    ends = job.finals("worker")
    assert {end["worker"] for end in ends} == {"0", "1"}
    for end in ends:
        assert float(end["loss"]) < 0.05
        assert float(end["slope"]) == pytest.approx(3, abs=0.1)
        assert float(end["offset"]) == pytest.approx(2, abs=0.1)
    names = os.listdir(tmp_path / "out")
    # Worker 0 saves as it ends, while the other one may still have steps to do.
    (chief,) = (end for end in ends if end["worker"] == "0")
    saved = [
        int(name[len("model.ckpt-") : -len(".index")]) for name in names if name.endswith(".index")
    ]
    assert int(chief["step"]) <= max(saved) <= 600
    assert any(name.startswith("events.out.tfevents") for name in names)


def tensorboard_serves(job: Job) -> bool:
    url = job.status()["tensorboard_url"]
    if not isinstance(url, str):
        return False
    try:
        with urllib.request.urlopen(url, timeout=5) as answer:
            return b"TensorBoard" in answer.read()
    except (urllib.error.URLError, ConnectionError, TimeoutError):
        return False


@pytest.mark.tensorflow
def test_parameter_server(ytf: Commands, tensorflow: str, tmp_path: Path) -> None:
    spec = yaml.safe_load((EXAMPLES / "parameter_server.yaml").read_text())
    spec["env"] = tensorflow
    spec["script"] = str(EXAMPLES / spec["script"])
    # One process less to import TensorFlow; two make no other path through ytf.
    spec["groups"]["worker"]["count"] = 1
    (tmp_path / "job.yaml").write_text(yaml.safe_dump(spec))
    done = ytf.run("ytf", "submit", "job.yaml", "--wait")

    (end,) = Job(ytf, ytf.jobs[-1], done).finals("chief")
    assert float(end["loss"]) < 0.6 * float(end["first"])
    assert float(end["accuracy"]) > 0.85


@pytest.mark.tensorflow
def test_multi_worker_resumes_after_a_crash(ytf: Commands, tensorflow: str, tmp_path: Path) -> None:
    job = ytf.submit(
        *("--wait", "--env", tensorflow, "-r", "worker:2", "--on_failure", "restart-job"),
        *("-o", str(tmp_path / "out"), *script("multi_worker.py")),
        "python $DTF_TASK_SCRIPT --crash_at_epoch 3",
    )
    assert (tmp_path / "out" / "crashed").exists()
    ends = job.finals("worker")
    assert {end["worker"] for end in ends} == {"0", "1"}
    for end in ends:
        # The three epochs before the crash count: alone, these would not do.
        assert end["epochs"] == "3"
        assert float(end["error"]) < 0.05
    tasks = job.status()["tasks"]
    assert isinstance(tasks, list)
    assert [task["attempt"] for task in tasks] == [2, 2]


@pytest.mark.tensorflow
def test_in_graph_client_on_servers(ytf: Commands, tensorflow: str) -> None:
    job = ytf.submit(
        *("--servers", "--client", "--env", tensorflow, "-r", "ps:1,worker:2"),
        f"python {EXAMPLES / 'in_graph.py'}",
    )
    (last,) = [line for line in job.done.stdout.splitlines() if line.startswith("FINAL ")]
    assert float(finals(last)["error"]) < 1e-3
    assert job.status()["final_status"] == "SUCCEEDED"
    assert "worker:1 serves at" in job.logs("worker:1")


@pytest.mark.tensorflow
def test_a_client_attached_to_servers_leaves_them_running(ytf: Commands, tensorflow: str) -> None:
    job = ytf.submit("--servers", "--env", tensorflow, "-r", "ps:1,worker:1")
    done = ytf.run("ytf", "attach", job.id, f"python {EXAMPLES / 'in_graph.py'}")
    (last,) = [line for line in done.stdout.splitlines() if line.startswith("FINAL ")]
    assert float(finals(last)["error"]) < 1e-3
    status = job.status()
    assert status["state"] == "RUNNING"
    tasks = status["tasks"]
    assert isinstance(tasks, list)
    assert {(task["state"], task["attempt"]) for task in tasks} == {("RUNNING", 1)}
    # Whoever reaches such a server may read and write files: nobody else does.
    port = tasks[0]["port"]
    with other_machine() as outsider:
        socket.create_connection((outsider.ipv4, port), 10).close()
        assert outsider.connect(outsider.ipv4, port).startswith("no connection")


@pytest.mark.tensorflow
def test_several_clients_at_once_on_servers_that_stay(ytf: Commands, tensorflow: str) -> None:
    """Between-graph by two clients at a time, twice, and an in-graph one; then a look inside."""
    job = ytf.submit("--servers", "--env", tensorflow, "-r", "ps:1,worker:2")
    program = f"python {EXAMPLES / 'between_graph_client.py'}"

    def attach(index: int) -> dict[str, str]:
        done = ytf.run("ytf", "attach", job.id, "--index", str(index), program)
        (last,) = [line for line in done.stdout.splitlines() if line.startswith("FINAL ")]
        return finals(last)

    with ThreadPoolExecutor(2) as pool:
        ends = list(pool.map(attach, (0, 1)))
    assert [end["worker"] for end in ends] == ["0", "1"]
    # Both have trained one model: the last of them has seen the other's steps.
    assert max(int(end["step"]) for end in ends) > 300
    for end in ends:
        assert float(end["slope"]) == pytest.approx(3, abs=0.2)
        assert float(end["offset"]) == pytest.approx(2, abs=0.2)

    # The variables have stayed on the ps: a client that comes later goes on with them.
    later = attach(1)
    assert int(later["step"]) > 850
    whole = ytf.run("ytf", "attach", job.id, f"python {EXAMPLES / 'in_graph.py'}")
    (last,) = [line for line in whole.stdout.splitlines() if line.startswith("FINAL ")]
    assert float(finals(last)["error"]) < 1e-3

    look = "python -c 'import os, tensorflow; print(os.environ[\"TF_CONFIG\"])'"
    inside = ytf.run("ytf", "shell", job.id, "worker:1", look).stdout
    assert json.loads(inside)["task"] == {"type": "worker", "index": 1}
    tasks = job.status()["tasks"]
    assert isinstance(tasks, list)
    assert {(task["state"], task["attempt"]) for task in tasks} == {("RUNNING", 1)}


@pytest.mark.tensorflow
def test_train_and_evaluate_then_evaluate_alone(
    ytf: Commands, tensorflow: str, tmp_path: Path
) -> None:
    common = (
        *("--wait", "--env", tensorflow, "-o", str(tmp_path / "out")),
        *(*script("train_and_evaluate.py"), "python $DTF_TASK_SCRIPT"),
    )
    job = ytf.submit("-r", "chief:1,worker:1,ps:1,evaluator:1", *common)
    (chief,) = job.finals("chief")
    assert float(chief["loss"]) < 1e-3
    (judged,) = job.finals("evaluator")
    assert int(judged["step"]) >= 300
    assert float(judged["loss"]) < 1e-3

    alone = ytf.submit("-r", "evaluator:1", *common)
    (again,) = alone.finals("evaluator")
    assert again["step"] == judged["step"]
    assert again["loss"] == judged["loss"]
