"""A server with as much of MLflow's REST API as ytf uses, for tests of one process."""

from __future__ import annotations

import json
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit


class FakeMlflow:
    """What the server was told, and how it behaves."""

    def __init__(self) -> None:
        self.url = ""
        self.runs: dict[str, dict[str, Any]] = {}
        self.artifacts: dict[str, str] = {}
        self.experiments: dict[str, str] = {}
        self.headers: list[dict[str, str]] = []
        self.artifact_root = "mlflow-artifacts:/0"
        self.answers: list[tuple[int, bytes]] = []
        """Given instead of the true ones, one by one."""
        self.redirect_to: str | None = None
        self.gate = threading.Event()
        """Requests wait for it."""
        self.gate.set()

    def of_name(self, name: str) -> dict[str, Any]:
        """The run of that name."""
        (found,) = [run for run in self.runs.values() if run["name"] == name]
        return found

    def handle(self, method: str, target: str, body: bytes) -> tuple[int, object]:
        """Answer one request."""
        parts = urlsplit(target)
        name = parts.path.removeprefix("/api/2.0/mlflow/")
        query = {key: values[0] for key, values in parse_qs(parts.query).items()}
        if method == "PUT":
            self.artifacts[parts.path.partition("/artifacts/")[2]] = body.decode()
            return 200, {}
        given = json.loads(body) if body else {}
        if name == "runs/create":
            run = f"run{len(self.runs)}"
            tags = {tag["key"]: tag["value"] for tag in given["tags"]}
            self.runs[run] = {
                "id": run,
                "name": given["run_name"],
                "experiment": given["experiment_id"],
                "tags": tags,
                "params": {},
                "metrics": {},
                "status": "RUNNING",
            }
            return 200, self._told(run)
        if name == "runs/get":
            return 200, self._told(query["run_id"])
        if name == "experiments/get-by-name":
            found = self.experiments.get(query["experiment_name"])
            if found is None:
                return 404, {"error_code": "RESOURCE_DOES_NOT_EXIST", "message": "none"}
            return 200, {"experiment": {"experiment_id": found}}
        if name == "experiments/create":
            self.experiments[given["name"]] = made = f"e{len(self.experiments)}"
            return 200, {"experiment_id": made}
        own = self.runs[given["run_id"]]
        if name == "runs/log-batch":
            for kind in ("tags", "params", "metrics"):
                own[kind] |= {each["key"]: each["value"] for each in given[kind]}
        elif name == "runs/update":
            own["status"] = given["status"]
        elif name == "runs/delete":
            own["status"] = "DELETED"
        return 200, {}

    def _told(self, run: str) -> object:
        own = self.runs[run]
        place = f"{self.artifact_root}/{run}/artifacts"
        info = {"run_id": run, "experiment_id": own["experiment"], "artifact_uri": place}
        return {"run": {"info": info}}


@contextmanager
def fake_mlflow(tls: ssl.SSLContext | None = None) -> Iterator[FakeMlflow]:
    """A running server, by HTTP or, with ``tls``, by HTTPS."""
    fake = FakeMlflow()

    class Handler(BaseHTTPRequestHandler):
        def _answer(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            fake.gate.wait(60)
            fake.headers.append(dict(self.headers.items()))
            if fake.redirect_to is not None:
                self.send_response(307)
                self.send_header("Location", fake.redirect_to + self.path)
                self.send_header("Content-Length", "0")
                self.end_headers()
                return
            if fake.answers:
                code, data = fake.answers.pop(0)
            else:
                code, told = fake.handle(self.command, self.path, body)
                data = json.dumps(told).encode()
            self.send_response(code)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        do_GET = do_POST = do_PUT = _answer  # noqa: N815

        def log_message(self, *_: object) -> None:
            """Be quiet."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.daemon_threads = True
        if tls is not None:
            server.socket = tls.wrap_socket(server.socket, server_side=True)
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        fake.url = f"http{'s' if tls else ''}://127.0.0.1:{server.server_address[1]}"
        try:
            yield fake
        finally:
            fake.gate.set()
            server.shutdown()
            thread.join()
