"""Jobs are tracked in a real MLflow, and run just the same without one."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import closing

import pytest

from tests.client.mlflow.fake_mlflow import fake_mlflow
from tests.e2e.harness import Job, Ytf
from tests.e2e.mlflow_server import PYTHON, QUIET, Server, tracking_server
from tests.e2e.test_integrations_page import blocks


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with tracking_server(tmp_path_factory.mktemp("mlflow")) as started:
        yield started


def run_script(ytf: Ytf, text: str, python: str = "python", **variables: str) -> tuple[str, str]:
    """Run a script that uses ytf; what it prints, and what is logged."""
    begin = "import logging, os, ytf\nlogging.basicConfig(level=logging.INFO)\n"
    (ytf.work / "script.py").write_text(begin + text, encoding="utf-8")
    ytf.env |= {**QUIET, **variables}
    done = ytf.run(python, "script.py", timeout_s=250)
    return done.stdout, done.stderr


TRACKED = """
import mlflow

mlflow.set_tracking_uri(os.environ["SERVER"])
mlflow.set_experiment("tracked jobs")

def train(rate):
    index = int(os.environ["DTF_TASK_INDEX"])
    mlflow.log_metric("loss", rate + index)
    if rate > 1:
        raise ValueError("it diverged")
    return index

print(ytf.run(train, 2, args=(0.5,), name="good", memory="1 GiB", task_env={"KEY": "hush"}))
try:
    ytf.run(train, args=(2.0,), name="bad", memory="1 GiB")
except ytf.RunFailed as error:
    print(repr(error.__cause__))
with mlflow.start_run(run_name="mine"):
    mlflow.log_param("rate", 0.1)
    job = ytf.submit(
        ytf.JobSpec(
            name="inside",
            framework="none",
            command="echo $MLFLOW_RUN_ID $MLFLOW_TRACKING_URI",
            groups={"worker": ytf.TaskGroupSpec(count=1), "ps": ytf.TaskGroupSpec(count=1)},
        )
    )
    job.wait().raise_for_status()
    for line in job.logs(["worker"]):
        print(line.text)
try:
    ytf.submit(ytf.JobSpec(groups={"a": ytf.TaskGroupSpec(count=1)}, command="x", name="never",
                           files={"a": "/does/not/exist"}))
except ytf.SpecError:
    print("refused")
"""


@pytest.mark.frameworks
def test_runs_of_jobs_and_tasks(ytf: Ytf, server: Server) -> None:
    printed, logged = run_script(ytf, TRACKED, PYTHON, SERVER=server.url)
    lines = [line for line in printed.splitlines() if "View " not in line]
    assert lines[:2] == ["[0, 1]", "ValueError('it diverged')"]
    runs = server.runs("tracked jobs")
    assert runs.keys() == {"good", "bad", "mine"}

    good = runs["good"]
    assert good.status == "FINISHED"
    assert good.params["worker.count"] == "2"
    assert good.params["worker.memory_mb"] == "1024"
    assert good.metrics["duration_s"] > 0
    assert good.metrics["worker.restarts"] == 0
    assert good.tags["ytf.job_id"].startswith("local_")
    assert good.tags["ytf.state"] == "SUCCEEDED"
    assert [task.name for task in good.tasks] == ["worker:0", "worker:1"]
    for index, task in enumerate(good.tasks):
        assert task.status == "FINISHED"
        assert task.metrics["loss"] == 0.5 + index
        assert task.metrics["attempts"] == 1
        assert task.tags["ytf.job_id"] == good.tags["ytf.job_id"]
    described = server.artifact(good, "job.yaml")
    assert "name: good" in described
    assert "KEY: …" in described
    assert "hush" not in described
    assert f"run {good.id} at {server.url}" in logged

    bad = runs["bad"]
    assert bad.status == "FAILED"
    assert bad.metrics["worker.failed"] == 1
    assert bad.tasks[0].status == "FAILED"
    assert (bad.tasks[0].metrics["exit_code"], bad.tasks[0].metrics["loss"]) == (1, 2)
    assert "worker:0 exited with code 1" in server.artifact(bad, "diagnostics.txt")
    log = server.artifact(bad.tasks[0], "logs/worker-0.txt")
    assert "stderr: ValueError: it diverged" in log

    mine = runs["mine"]
    assert mine.status == "FINISHED"
    assert (mine.params["rate"], mine.params["name"]) == ("0.1", "inside")
    assert [task.name for task in mine.tasks] == ["ps:0", "worker:0"]
    assert lines[2:] == [f"{mine.tasks[1].id} {server.url}", "refused"]
    assert "WARNING:ytf" not in logged


@pytest.mark.frameworks
def test_the_code_of_the_page(ytf: Ytf, server: Server) -> None:
    printed, _ = run_script(ytf, blocks("python"), PYTHON, MLFLOW_TRACKING_URI=server.url)
    assert "[0.125, 0.125]" in printed
    run = server.runs("wine")["first try"]
    assert [(task.name, task.metrics["loss"]) for task in run.tasks] == [
        ("worker:0", 0.125),
        ("worker:1", 0.125),
    ]


PLAIN = """
print(ytf.run(lambda: sorted(v for v in os.environ if v.startswith("MLFLOW_RUN")), memory="1 GiB"))
import sys
print("mlflow" in sys.modules)
"""


NOT_WAITED_FOR = """
ytf.submit(ytf.JobSpec(
    name="brief", framework="none", command="true", groups={"worker": ytf.TaskGroupSpec(count=1)},
))
open(os.environ["GATE"] + "/last", "w").close()
"""


def test_a_process_that_does_not_wait_for_its_job_still_tells_of_it(ytf: Ytf) -> None:
    with fake_mlflow() as fake:
        created, go_on = fake.handle, threading.Event()

        def handle(method: str, target: str, body: bytes) -> tuple[int, object]:
            assert target.endswith("runs/create") or go_on.wait(60)
            return created(method, target, body)

        fake.handle = handle  # type: ignore[method-assign]
        ytf.env["MLFLOW_TRACKING_URI"] = fake.url
        (ytf.work / "script.py").write_text("import os, ytf\n" + NOT_WAITED_FOR)
        started = ytf.start("python", "script.py")
        ytf.told("last")
        go_on.set()
        assert started.wait(60) == 0
        run = fake.of_name("brief")
    assert run["params"]["worker.count"] == "1"
    Job(ytf, run["tags"]["ytf.job_id"]).end("SUCCEEDED")


def test_a_server_that_never_answers_costs_a_bounded_time(ytf: Ytf) -> None:
    with closing(socket.create_server(("127.0.0.1", 0))) as silent:
        url = f"http://someone:secret@127.0.0.1:{silent.getsockname()[1]}"
        printed, logged = run_script(
            ytf, PLAIN, MLFLOW_TRACKING_URI=url, YTF_MLFLOW_TIMEOUT="300ms"
        )
    assert printed == "[[]]\nFalse\n"
    assert "has not answered within 0.3 s: the job runs without it" in logged
    assert "secret" not in logged


def test_a_server_that_is_down_is_told_at_once(ytf: Ytf) -> None:
    with closing(socket.create_server(("127.0.0.1", 0))) as gone:
        port = gone.getsockname()[1]
    begun = time.monotonic()
    printed, logged = run_script(
        ytf, PLAIN, MLFLOW_TRACKING_URI=f"http://127.0.0.1:{port}", YTF_MLFLOW_TIMEOUT="100s"
    )
    assert printed == "[[]]\nFalse\n"
    assert "Connection refused: the job runs without it" in logged
    assert time.monotonic() - begun < 100


def test_mlflow_can_be_switched_off(ytf: Ytf) -> None:
    with closing(socket.create_server(("127.0.0.1", 0))) as server:
        url = f"http://127.0.0.1:{server.getsockname()[1]}"
        printed, logged = run_script(ytf, PLAIN, MLFLOW_TRACKING_URI=url, YTF_MLFLOW_TIMEOUT="0")
        server.setblocking(False)
        with pytest.raises(BlockingIOError):
            server.accept()
    assert printed == "[[]]\nFalse\n"
    assert "MLflow" not in logged
