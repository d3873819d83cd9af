"""Speaks the REST API of an MLflow tracking server, version 2.0, as far as ytf needs it.

Not with the package ``mlflow``: importing it takes seconds, its calls last minutes if the
server does not answer, and some write to stdout (ADR 37). Access is set by the variables
that ``mlflow`` reads, too: ``MLFLOW_TRACKING_USERNAME`` and ``_PASSWORD``, or
``MLFLOW_TRACKING_TOKEN``; ``MLFLOW_TRACKING_SERVER_CERT_PATH``, ``MLFLOW_TRACKING_INSECURE_TLS``.
"""

from __future__ import annotations

import base64
import json
import ssl
import time
import urllib.error
import urllib.request
from collections.abc import Mapping
from http.client import HTTPException
from typing import Any
from urllib.parse import quote, unquote, urlencode, urlsplit

_API = "/api/2.0/mlflow/"
_ARTIFACTS = "/api/2.0/mlflow-artifacts/artifacts/"
_CALL_S = 10.0
"""How long one call may take that has no answer."""
_RETRY_S = 0.5
_MOST_BYTES = 4 << 20
"""The longest answer that is read."""
_LONGEST_VALUE = 250
"""The longest value of a parameter that every version of MLflow takes."""
_LONGEST_TAG = 5000
_MOST_IN_BATCH = 100
_DEFAULT_EXPERIMENT = "0"
_NOT_MLFLOW = "its answer is none of MLflow's: is it a tracking server?"


class MlflowError(Exception):
    """The server could not be reached, or refused a call. The text names no passwords."""


class Run:
    """One run: its id, the experiment that it is in, and where its artifacts are kept."""

    def __init__(self, answer: Any) -> None:
        try:
            info = answer["run"]["info"]
            self.id = str(info["run_id"])
            self.experiment = str(info["experiment_id"])
            self.artifacts = str(info["artifact_uri"])
        except (KeyError, TypeError) as exc:
            raise MlflowError(_NOT_MLFLOW) from exc

    @property
    def is_stored_by_server(self) -> bool:
        """Whether the server itself stores artifacts, rather than its clients in some store."""
        parts = urlsplit(self.artifacts)
        return parts.scheme == "mlflow-artifacts" and not parts.netloc


class MlflowServer:
    """A tracking server. Calls block for ``_CALL_S`` at most, but for slow names and answers.

    ``retry_s`` is how long calls that may be repeated are, after a failure of the network.
    """

    def __init__(self, uri: str, environ: Mapping[str, str], *, retry_s: float = 0.0) -> None:
        parts = urlsplit(uri)
        host = parts.netloc.rpartition("@")[2]
        self.url = f"{parts.scheme}://{host}{parts.path.rstrip('/')}"
        """The address, without a user's name and password."""
        self._headers = _authorization(parts.username, parts.password, environ)
        handlers: list[urllib.request.BaseHandler] = [_NoRedirects()]
        if parts.scheme == "https":
            handlers.append(urllib.request.HTTPSHandler(context=_tls(environ)))
        self._opener = urllib.request.build_opener(*handlers)
        self._retry_s = retry_s

    def experiment(self, environ: Mapping[str, str]) -> str:
        """Return the id of the experiment that MLflow's variables name; it is made if need be."""
        if environ.get("MLFLOW_EXPERIMENT_ID"):
            return environ["MLFLOW_EXPERIMENT_ID"]
        name = environ.get("MLFLOW_EXPERIMENT_NAME")
        if not name:
            return _DEFAULT_EXPERIMENT
        try:
            found = self._get("experiments/get-by-name", experiment_name=name)
            return str(found["experiment"]["experiment_id"])
        except _AbsentError:
            made = self._post("experiments/create", {"name": name})
            return str(made["experiment_id"])
        except (KeyError, TypeError) as exc:
            raise MlflowError(_NOT_MLFLOW) from exc

    def create_run(self, experiment: str, name: str, tags: Mapping[str, str]) -> Run:
        """Begin a run."""
        body = {
            "experiment_id": experiment,
            "run_name": name,
            "start_time": _now_ms(),
            "tags": _pairs(tags, _LONGEST_TAG),
        }
        return Run(self._post("runs/create", body))

    def get_run(self, run: str) -> Run:
        """Find a run."""
        return Run(self._get("runs/get", run_id=run))

    def log(
        self,
        run: str,
        *,
        params: Mapping[str, str] | None = None,
        metrics: Mapping[str, float] | None = None,
        tags: Mapping[str, str] | None = None,
    ) -> None:
        """Add parameters, metrics and tags to a run: as many as one call takes."""
        now = _now_ms()
        body = {
            "run_id": run,
            "params": _pairs(params or {}, _LONGEST_VALUE)[:_MOST_IN_BATCH],
            "tags": _pairs(tags or {}, _LONGEST_TAG)[:_MOST_IN_BATCH],
            "metrics": [
                {"key": key, "value": value, "timestamp": now, "step": 0}
                for key, value in (metrics or {}).items()
            ],
        }
        self._post("runs/log-batch", body, repeatable=True)

    def end_run(self, run: str, status: str) -> None:
        """Give a run its end: FINISHED, FAILED or KILLED."""
        body = {"run_id": run, "status": status, "end_time": _now_ms()}
        self._post("runs/update", body, repeatable=True)

    def delete_run(self, run: str) -> None:
        """Remove a run that was begun in vain."""
        self._post("runs/delete", {"run_id": run}, repeatable=True)

    def store_text(self, run: Run, name: str, text: str) -> None:
        """Store an artifact of a run of which the server stores them.

        Not elsewhere (``hdfs://``, ``s3://``): a server shall not tell ytf where to write.
        """
        path = quote(f"{unquote(urlsplit(run.artifacts).path).strip('/')}/{name}")
        data = text.encode("utf-8", "replace")
        self._call("PUT", self.url + _ARTIFACTS + path, data, "text/plain", repeatable=True)

    def _get(self, name: str, **query: str) -> Any:
        return self._call("GET", f"{self.url}{_API}{name}?{urlencode(query)}", repeatable=True)

    def _post(self, name: str, body: object, *, repeatable: bool = False) -> Any:
        data = json.dumps(body).encode()
        url = self.url + _API + name
        return self._call("POST", url, data, "application/json", repeatable=repeatable)

    def _call(
        self,
        method: str,
        url: str,
        data: bytes | None = None,
        kind: str | None = None,
        *,
        repeatable: bool,
    ) -> Any:
        headers = self._headers if kind is None else {**self._headers, "Content-Type": kind}
        request = urllib.request.Request(url, data, headers, method=method)
        last = time.monotonic() + (self._retry_s if repeatable else 0.0)
        while True:
            try:
                return self._answer(request)
            except urllib.error.HTTPError as exc:
                with exc:
                    message = _refusal(exc)
                if exc.code == 404:
                    raise _AbsentError(message) from exc
                if exc.code < 500 or time.monotonic() > last:
                    raise MlflowError(message) from exc
            except (OSError, HTTPException, ValueError) as exc:
                if time.monotonic() > last:
                    reason = exc.reason if isinstance(exc, urllib.error.URLError) else exc
                    raise MlflowError(str(reason) or type(exc).__name__) from exc
            time.sleep(_RETRY_S)

    def _answer(self, request: urllib.request.Request) -> Any:
        with self._opener.open(request, timeout=_CALL_S) as response:
            data = response.read(_MOST_BYTES + 1)
        if len(data) > _MOST_BYTES:
            raise MlflowError("its answer is too long")
        return json.loads(data) if data.strip() else {}


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    """Goes nowhere else: the user's password is for this server."""

    def redirect_request(self, *_: object, **__: object) -> None:
        """Have the redirection raised as an error."""


class _AbsentError(MlflowError):
    """What was asked for does not exist."""


def _authorization(
    user: str | None, password: str | None, environ: Mapping[str, str]
) -> dict[str, str]:
    user = unquote(user) if user else environ.get("MLFLOW_TRACKING_USERNAME")
    password = unquote(password) if password else environ.get("MLFLOW_TRACKING_PASSWORD")
    if user and password:
        pair = base64.b64encode(f"{user}:{password}".encode()).decode()
        return {"Authorization": f"Basic {pair}"}
    token = environ.get("MLFLOW_TRACKING_TOKEN")
    return {"Authorization": f"Bearer {token}"} if token else {}


def _tls(environ: Mapping[str, str]) -> ssl.SSLContext:
    context = ssl.create_default_context(
        cafile=environ.get("MLFLOW_TRACKING_SERVER_CERT_PATH") or None
    )
    if environ.get("MLFLOW_TRACKING_INSECURE_TLS", "").lower() in ("true", "1"):
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context


def _refusal(error: urllib.error.HTTPError) -> str:
    """What the server says of a call that it refused."""
    try:
        told = json.loads(error.read(_MOST_BYTES))
        return f"HTTP {error.code}: {str(told['message'])[:500]}"
    except (OSError, HTTPException, ValueError, KeyError, TypeError):
        return f"HTTP {error.code} {error.reason}"


def _pairs(values: Mapping[str, str], longest: int) -> list[dict[str, str]]:
    return [{"key": key, "value": value[:longest]} for key, value in values.items()]


def _now_ms() -> int:
    return int(time.time() * 1000)
