"""Reading logs from a NodeManager, with answers recorded from a real one."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from ytf.errors import NotFoundError, RefusedError, UnreachableError
from ytf.hadoop.logs import NodeLog, list_node_logs, stream_node_log
from ytf.minicluster.daemons import free_ports

C = "container_1700000000000_0001_01_000001"
BANNER = (
    f"Container: {C} on localhost:28041\nLogAggregationType: LOCAL\n{'=' * 68}\n"
    "LogType:{0}\nLogLastModifiedTime:Mon Nov 16 05:22:46 +0000 2026\nLogLength:{1}\n"
    "LogContents:\n{2}End of LogType:{0}.This log file belongs to a running container "
    f"({C}) and so may not be complete.\n{'*' * 68}\n\n"
)
LISTED = """{"containerLogsInfo":{"logAggregationType":"LOCAL","containerLogInfo":[
{"fileName":"stdout","fileSize":"6"},{"fileName":"odd","fileSize":"10"}]}}"""
TRAP = "LogContents:\nEnd of LogType:trap\n"
ANSWERS = {
    f"/{C}/logs": (200, LISTED),
    "/one/logs": (
        200,
        '{"containerLogsInfo":[{"containerLogInfo":{"fileName":"stdout","fileSize":"6"}},{}]}',
    ),
    "/page/logs": (200, "<html>"),
    "/deep/logs": (200, "[" * 100_000),
    "/endless/logs": (
        200,
        '{"containerLogsInfo":{"containerLogInfo":{"fileName":"stdout","fileSize":1e999}}}',
    ),
    "/forgotten/logs": (503, '{"RemoteException":{"message":"Unknown container."}}'),
    "/theirs/logs": (403, ""),
    "/broken/logs": (500, ""),
    f"/{C}/logs/stdout?size=-65542": (200, BANNER.format("stdout", 6, "hello\n")),
    f"/{C}/logs/odd?size=-65540": (200, BANNER.format("odd", 10, "first line")),
    f"/{C}/logs/empty?size=-65536": (200, BANNER.format("empty", 0, "")),
    f"/{C}/logs/trap?size=-{65536 + len(TRAP)}": (200, BANNER.format("trap", len(TRAP), TRAP)),
    f"/{C}/logs/no?size=-65536": (404, "Cannot find this log on the local disk."),
}


class Node(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        status, body = ANSWERS[self.path.removeprefix("/ws/v1/node/containers")]
        self.send_response(status)
        self.send_header("Content-Length", str(len(body.encode())))
        self.end_headers()
        self.wfile.write(body.encode())

    def log_request(self, code: int | str = "-", size: int | str = "-") -> None:
        pass


@pytest.fixture
def node() -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), Node) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield f"127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join(10)


def read(node: str, log: NodeLog, beyond: int = 0) -> bytes:
    return b"".join(stream_node_log(node, C, log, beyond=beyond))


def test_lists(node: str) -> None:
    assert list_node_logs(node, C) == [NodeLog("stdout", 6), NodeLog("odd", 10)]
    assert list_node_logs(node, "one") == [NodeLog("stdout", 6)]


def test_the_banner_is_removed(node: str) -> None:
    assert read(node, NodeLog("stdout", 6)) == b"hello\n"
    assert read(node, NodeLog("odd", 10), beyond=6) == b"line"
    assert read(node, NodeLog("empty", 0)) == b""


def test_a_log_may_look_like_a_banner(node: str) -> None:
    assert read(node, NodeLog("trap", len(TRAP))) == TRAP.encode()


def test_what_is_not_there(node: str) -> None:
    with pytest.raises(NotFoundError, match="forgotten"):
        list_node_logs(node, "forgotten")
    with pytest.raises(NotFoundError, match="logs/no"):
        read(node, NodeLog("no", 0))
    with pytest.raises(RefusedError, match="does not show"):
        list_node_logs(node, "theirs")


def test_a_node_that_does_not_answer_well(node: str) -> None:
    for answer in ("page", "deep", "endless"):
        with pytest.raises(UnreachableError, match="no list of logs"):
            list_node_logs(node, answer)
    with pytest.raises(UnreachableError, match="answered 500"):
        list_node_logs(node, "broken")
    with pytest.raises(UnreachableError, match="does not answer"):
        list_node_logs(f"127.0.0.1:{free_ports(1)[0]}", C)


def test_a_node_that_says_nothing() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        node = f"127.0.0.1:{silent.getsockname()[1]}"
        with pytest.raises(UnreachableError, match="does not answer"):
            list_node_logs(node, C, timeout_s=0.2)
        with pytest.raises(UnreachableError, match="does not answer"):
            b"".join(stream_node_log(node, C, NodeLog("stdout", 6), timeout_s=0.2))
