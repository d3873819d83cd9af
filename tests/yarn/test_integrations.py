"""Jobs on a real YARN that torchx runs, and that a real MLflow tracks."""

from __future__ import annotations

import json
import re
from pathlib import Path

from tests.e2e.harness import without_colours
from tests.e2e.mlflow_server import PYTHON, QUIET, tracking_server
from tests.yarn.driver import HERE, HOLD, Yarn

TORCHX_RUN = ("torchx", "run", "-s", "yarn", "-cfg", "backend=yarn,env=node")


def test_torchx_runs_and_shows_an_app(yarn: Yarn) -> None:
    (yarn.work / "words.txt").write_text("shipped\n")
    command = ("bash", "-c", "cat words.txt; echo ${app_id} ${replica_id} >&2")
    done = yarn.run(*TORCHX_RUN, "--wait", "utils.sh", "--num_replicas", "2", *command)
    handle = done.stdout.strip()
    app = handle.removeprefix("yarn://torchx/")
    assert app.startswith("application_")
    status = yarn.run("torchx", "status", handle).stdout
    assert re.search(r"State: SUCCEEDED\s+Num Restarts: 0", status)
    lines = without_colours(yarn.run("torchx", "log", handle).stdout).splitlines()
    told = [
        f"sh/{replica} {text}" for replica in (0, 1) for text in (f"{app} {replica}", "shipped")
    ]
    assert sorted(lines) == sorted(told)
    assert re.search(rf"{handle} +SUCCEEDED", yarn.run("torchx", "list", "-s", "yarn").stdout)
    yarn.nothing_is_left(app)


def test_torchx_cancels_an_app(yarn: Yarn, gate: str) -> None:
    command = (gate + HERE + HOLD).replace("$$", "$$$$")  # torchx replaces variables in it
    done = yarn.run(*TORCHX_RUN, "utils.sh", "bash", "-c", command)
    handle = done.stdout.strip()
    app = handle.removeprefix("yarn://torchx/")
    yarn.wait_running(["sh:0"])
    assert "State: RUNNING" in yarn.run("torchx", "status", handle).stdout
    yarn.run("torchx", "cancel", handle)
    assert "cancelled with torchx" in yarn.wait(app, "KILLED")["diagnostics"]
    assert "State: CANCELLED" in yarn.run("torchx", "status", handle).stdout
    yarn.nothing_is_left(app)


TRACKED = """
import json, os, sys
os.environ.update(json.loads(sys.argv[2]))
import mlflow
import ytf

mlflow.set_tracking_uri(sys.argv[1])
mlflow.set_experiment("on yarn")
job = ytf.submit(
    ytf.JobSpec(
        name="tracked",
        framework="none",
        command="echo $MLFLOW_RUN_ID $MLFLOW_TRACKING_URI; test $DTF_TASK_INDEX = 0",
        groups={"worker": ytf.TaskGroupSpec(count=2, resources=ytf.Resources(memory=128))},
    ),
    backend="yarn",
)
assert not job.wait().succeeded
"""


def test_mlflow_has_a_run_of_the_job_and_of_each_task(yarn: Yarn, tmp_path: Path) -> None:
    (yarn.work / "tracked.py").write_text(TRACKED)
    (tmp_path / "mlflow").mkdir()
    with tracking_server(tmp_path / "mlflow") as server:
        yarn.run(PYTHON, "tracked.py", server.url, json.dumps(QUIET))
        run = server.runs("on yarn")["tracked"]
        job = run.tags["ytf.job_id"]
        assert job.startswith("application_")
        assert run.status == "FAILED"
        assert run.params["worker.count"] == "2"
        assert "worker:1 exited with code 1" in server.artifact(run, "diagnostics.txt")
        assert [task.name for task in run.tasks] == ["worker:0", "worker:1"]
        failed = run.tasks[1]
        assert failed.status == "FAILED"
        log = server.artifact(failed, "logs/worker-1.txt")
        assert f"stdout: {failed.id} {server.url}" in log
    yarn.nothing_is_left(job)
