"""A fake NodeManager whose containers write while their logs are read."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

C = "container_1700000000000_0001_01_000001"


class LogNode:
    """The log files of one container; ``before_reading`` is called ahead of every read."""

    def __init__(self) -> None:
        self.address = ""
        self.files: dict[str, bytes] = {}
        self.sent = 0
        self.reads: list[int] = []
        self.before_reading: Callable[[], None] = lambda: None

    def answer(self, path: str) -> bytes:
        found = re.fullmatch(rf"/ws/v1/node/containers/{C}/logs(?:/(.+)\?size=-(\d+))?", path)
        assert found is not None, path
        if found[1] is None:
            listed = [
                {"fileName": name, "fileSize": str(len(data))} for name, data in self.files.items()
            ]
            return json.dumps({"containerLogsInfo": {"containerLogInfo": listed}}).encode()
        self.before_reading()
        name, size = found[1], int(found[2])
        self.reads.append(size)
        data = self.files[name]
        end = f"End of LogType:{name}.This log file belongs to a running container".encode()
        if not data:
            return end
        head = (
            f"Container: {C} on n:1\nLogAggregationType: LOCAL\n=====\nLogType:{name}\n"
            f"LogLastModifiedTime:Mon Nov 16 05:22:46 +0000 2026\nLogLength:{len(data)}\n"
            "LogContents:\n"
        )
        self.sent += min(size, len(data))
        return head.encode() + data[-size:] + end


@contextmanager
def log_node() -> Iterator[LogNode]:
    """One that listens."""
    node = LogNode()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = node.answer(self.path)
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            try:
                self.wfile.write(body)
            except ConnectionError:
                self.close_connection = True  # the reader has all it wants

        def log_request(self, code: int | str = "-", size: int | str = "-") -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        node.address = f"127.0.0.1:{server.server_port}"
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield node
        finally:
            server.shutdown()
            thread.join(10)
