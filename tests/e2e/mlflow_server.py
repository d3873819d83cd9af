"""A real tracking server of MLflow for tests, and what it knows."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest

from ytf.testing.waiting import eventually

ENVIRONMENT = Path(__file__).parents[2] / ".venv-mlflow"
PYTHON = str(ENVIRONMENT / "bin" / "python")
QUIET = {"MLFLOW_DISABLE_TELEMETRY": "true", "YTF_MLFLOW_TIMEOUT": "2m"}
"""Variables for programs that use the server: nothing goes elsewhere, and a busy machine may take
its time."""
_START_S = 200.0


@dataclass
class TrackedRun:
    """One run, as the server tells it."""

    id: str
    name: str
    status: str
    parent: str | None
    tags: dict[str, str]
    params: dict[str, str]
    metrics: dict[str, float]
    tasks: list[TrackedRun] = field(default_factory=list)


@dataclass(frozen=True)
class Server:
    """A tracking server at an address."""

    url: str

    def runs(self, experiment: str) -> dict[str, TrackedRun]:
        """The runs of an experiment that have no others above them, by name."""
        found = self._get("api/2.0/mlflow/experiments/get-by-name", experiment_name=experiment)
        body = {"experiment_ids": [found["experiment"]["experiment_id"]], "max_results": 1000}
        answer = self._open("api/2.0/mlflow/runs/search", json.dumps(body).encode())
        runs = [_run(each) for each in json.loads(answer).get("runs", [])]
        for run in sorted(runs, key=lambda run: run.name):
            for above in runs:
                if run.parent == above.id:
                    above.tasks.append(run)
        tops = [run for run in runs if run.parent is None]
        assert len({run.name for run in tops}) == len(tops)
        return {run.name: run for run in tops}

    def artifact(self, run: TrackedRun, path: str) -> str:
        """The text of an artifact."""
        return self._open(f"get-artifact?{urlencode({'path': path, 'run_uuid': run.id})}").decode()

    def _get(self, path: str, **query: str) -> Any:
        return json.loads(self._open(f"{path}?{urlencode(query)}"))

    def _open(self, path: str, data: bytes | None = None) -> bytes:
        headers = {"Content-Type": "application/json"}
        request = urllib.request.Request(f"{self.url}/{path}", data, headers)
        with urllib.request.urlopen(request, timeout=60) as answer:
            text: bytes = answer.read()
        return text


def _run(told: Any) -> TrackedRun:
    info, data = told["info"], told["data"]
    tags = {tag["key"]: tag["value"] for tag in data.get("tags", [])}
    return TrackedRun(
        id=info["run_id"],
        name=info["run_name"],
        status=info["status"],
        parent=tags.get("mlflow.parentRunId"),
        tags=tags,
        params={param["key"]: param["value"] for param in data.get("params", [])},
        metrics={metric["key"]: metric["value"] for metric in data.get("metrics", [])},
    )


@contextmanager
def tracking_server(folder: Path) -> Iterator[Server]:
    """A server that keeps what it is told below a directory."""
    if not Path(PYTHON).exists():
        pytest.fail(f"there is no {ENVIRONMENT}: run scripts/environment mlflow")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    words = [PYTHON, "-m", "mlflow", "server", "--host", "127.0.0.1", "--port", str(port)]
    words += ["--workers", "1", "--backend-store-uri", f"sqlite:///{folder}/store.db"]
    words += ["--artifacts-destination", str(folder / "artifacts")]
    # Not the consumers of its job queue, which are four more processes.
    more = {**QUIET, "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false"}
    log = folder / "server.log"
    with log.open("wb") as output:
        process = subprocess.Popen(
            words,
            stdout=output,
            stderr=subprocess.STDOUT,
            env={**os.environ, **more},
            cwd=folder,
            start_new_session=True,
        )
    server = Server(f"http://127.0.0.1:{port}")

    def answers() -> bool:
        assert process.poll() is None, log.read_text()
        try:
            return server._open("health") == b"OK"
        except OSError:
            return False

    try:
        eventually(answers, _START_S, lambda: f"MLflow answers: {log.read_text()}")
        yield server
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
