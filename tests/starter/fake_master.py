"""A small master for tests: speaks docs/protocols.md §1 with signatures of its own making.

Nothing of the starter's code is used here, so that both must be right.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import threading
import time
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

HOLD_S = 0.3
PATIENCE_S = 15.0

SECRET = b"a secret only for tests"


def sign(secret: bytes, *parts: str) -> str:
    return hmac.new(secret, "\n".join(parts).encode(), hashlib.sha256).hexdigest()


class Report:
    """One report as it came in."""

    def __init__(self, kind: str, body: dict[str, Any]) -> None:
        self.kind = kind
        self.body = body
        self.at = time.monotonic()

    def __repr__(self) -> str:
        return f"{self.kind}{self.body}"


class FakeMaster:
    """Takes reports, gives the orders and cluster specs a test sets.

    ``down`` makes it answer ``down_with``, ``revoked`` 409; ``unwritten`` are
    reports that it cannot make durable.
    """

    def __init__(self, secret: bytes, port: int = 0) -> None:
        self.secret = secret
        self.reports: list[Report] = []
        self.polls: list[dict[str, Any]] = []
        self.actors: dict[str, int] = {}
        self.refused: list[str] = []
        self.down = False
        self.down_with = 503
        self.turned_away = 0
        self.revoked = False
        self.unwritten: set[str] = set()
        self._number = 1
        self._order = {"attempt": 0, "generation": 0, "stop": False, "grace_s": 10.0}
        self._spec: dict[str, Any] | None = None
        self._registered = 0
        self._news = threading.Condition()
        self._closing = False
        self._server = _Server(("127.0.0.1", port), _Handler)
        self._server.master = self
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,))
        self._thread.start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    @property
    def revision(self) -> int:
        return int(self._spec["revision"]) if self._spec else 0

    def close(self) -> None:
        """Vanish, connections and all."""
        with self._news:
            if self._closing:
                return
            self._closing = True
            self._news.notify_all()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def order(self, **changes: float) -> None:
        with self._news:
            self._order.update(changes)
            self._number += 1
            self._news.notify_all()

    def note_registered(self, attempt: int) -> None:
        """Have heard of a registration another way than by a report."""
        with self._news:
            self._registered = attempt
            self._number += 1
            self._news.notify_all()

    def publish(self, generation: int, members: dict[str, list[str]]) -> None:
        with self._news:
            self._spec = {
                "generation": generation,
                "revision": self.revision + 1,
                "members": members,
            }
            self._news.notify_all()

    def expect(self, kind: str, attempt: int) -> dict[str, Any]:
        """Wait for a report and return its body."""

        def find() -> dict[str, Any] | None:
            for report in self.reports:
                if report.kind == kind and report.body["attempt"] == attempt:
                    return report.body
            return None

        self.wait_for(find, f"{kind} of attempt {attempt}")
        return find() or {}

    def wait_for(self, find: Callable[[], object], what: str) -> None:
        with self._news:
            assert self._news.wait_for(lambda: bool(find()), PATIENCE_S), (
                f"no {what}; reports: {self.reports}, refused: {self.refused}"
            )

    def meet(self, group: str = "worker", attempt: int = 0, generation: int = 0) -> str:
        """Wait for one task's registration and publish a spec with it alone; its address."""
        body = self.expect("register", attempt)
        address = f"{body['host']}:{body['port']}"
        self.publish(generation, {group: [address]})
        return address

    # Used by the handler

    def check(self, method: str, path: str, header: str, body: bytes) -> str | None:
        actor, counter, digest, signature = header.split(" ")
        assert digest == hashlib.sha256(body).hexdigest()
        right = sign(self.secret, method, path, actor, counter, digest)
        with self._news:
            new = int(counter) > self.actors.get(actor, 0)
            if signature != right or not new:
                self.refused.append(f"{method} {path} of {actor}")
                self._news.notify_all()
                return None
            self.actors[actor] = int(counter)
        return signature

    def answer(self, method: str, path: str, body: bytes) -> tuple[int, dict[str, Any]]:
        if self.down:
            with self._news:
                self.turned_away += 1
                self._news.notify_all()
            return self.down_with, {"error": "the journal cannot be written"}
        if self.revoked:
            return 409, {"error": "this container is not of this job"}
        with self._news:
            if (method, path) == ("GET", "/starter/v1/cluster"):
                return (200, self._spec) if self._spec else (404, {"error": "no spec yet"})
            kind = path.removeprefix("/starter/v1/")
            if method != "POST" or kind not in ("register", "poll", "started", "exited"):
                return 400, {"error": f"{method} {path}?"}
            if kind in self.unwritten:
                return 503, {"error": "the journal cannot be written"}
            value = json.loads(body)
            if kind == "poll":
                self.polls.append(value)
                self._news.notify_all()
                self._news.wait_for(lambda: self._has_news_for(value), HOLD_S)
            else:
                self.reports.append(Report(kind, value))
                self._news.notify_all()
            order = {"number": self._number, **self._order}
            known = [r.body["attempt"] for r in self.reports if r.kind == "register"]
            registered = max([*known, self._registered])
            return 200, {"order": order, "revision": self.revision, "registered": registered}

    def _has_news_for(self, poll: dict[str, Any]) -> bool:
        newer = self._number > poll["order"] or self.revision > poll["revision"]
        return self._closing or self.down or self.revoked or newer

    @property
    def closing(self) -> bool:
        return self._closing


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    master: FakeMaster


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Server

    def _serve(self) -> None:
        master = self.server.master
        body = self.rfile.read(int(self.headers["Content-Length"]))
        signature = master.check(self.command, self.path, self.headers["Ytf-Auth"], body)
        if signature is None:
            self._send(401, b"{}", None)
            return
        status, value = master.answer(self.command, self.path, body)
        if master.closing:
            self.close_connection = True
            return
        data = json.dumps(value).encode()
        digest = hashlib.sha256(data).hexdigest()
        right = sign(master.secret, "answer", signature, str(status), digest)
        self._send(status, data, f"{digest} {right}")

    do_GET = _serve  # noqa: N815
    do_POST = _serve  # noqa: N815

    def _send(self, status: int, data: bytes, auth: str | None) -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(len(data)))
        if auth is not None:
            self.send_header("Ytf-Auth", auth)
        self.end_headers()
        self.wfile.write(data)

    def log_request(self, code: object = "-", size: object = "-") -> None:
        """Stay quiet."""
