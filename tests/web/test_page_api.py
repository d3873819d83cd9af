"""The page API over real connections: what is served, to whom, and what never is."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path

import msgspec
import pytest

from tests.specs.usages import task_usage
from tests.web.fake_job import FakeJob
from tests.web.raw_client import SECRET, Reply, connected
from ytf.specs.ids import ContainerId, TaskId
from ytf.specs.status import (
    ClusterSpec,
    JobState,
    JobStatus,
    LogLocation,
    TaskState,
    TaskStatus,
)
from ytf.specs.usage import TaskUsage, UsageHistory
from ytf.web.client_api import ClientApi
from ytf.web.job_page import POLICY
from ytf.web.messages import HttpError, Request
from ytf.web.page_api import PageApi
from ytf.web.request_auth import RequestVerifier
from ytf.web.server import HttpServer


@dataclass
class ShownJob(FakeJob):
    """A job with a page."""

    waiting_for: str = "Waiting for a container for worker:0."
    places: dict[str, LogLocation] = field(default_factory=dict)
    usage: TaskUsage | None = None
    histories: dict[str, UsageHistory] = field(default_factory=dict)

    def waits_for(self) -> str:
        return self.waiting_for

    def log_location(self, task: TaskId) -> LogLocation | None:
        return self.places.get(task)

    def usage_history(self, task: TaskId) -> UsageHistory | None:
        return self.histories.get(task)

    def status_with_usage(self) -> JobStatus:
        tasks = [
            TaskStatus(
                group="worker",
                index=0,
                state=TaskState.RUNNING,
                attempt=1,
                memory_mb=1024,
                usage=self.usage,
            )
        ]
        return msgspec.structs.replace(self.status(), tasks=tuple(tasks))

    def status(self) -> JobStatus:
        task = TaskStatus(group="worker", index=0, state=TaskState.RUNNING, attempt=1)
        return msgspec.structs.replace(super().status(), tasks=(task,))


class FakePageAuth:
    """Admits all requests but those for ``/forbidden``, and notes their senders."""

    def __init__(self) -> None:
        self.peers: list[str] = []

    def url(self, master: str) -> str:
        return f"{master}/"

    async def admit(self, request: Request) -> str:
        self.peers.append(request.peer)
        if request.path == "/forbidden":
            raise HttpError(403, "you may not")
        return request.path[1:]


@dataclass
class Served:
    job: ShownJob
    auth: FakePageAuth
    port: int

    async def get(self, path: str, method: str = "GET") -> Reply:
        async with connected(self.port) as peer:
            return await peer.raw(f"{method} {path} HTTP/1.1\r\n\r\n".encode())


@pytest.fixture
async def served() -> AsyncIterator[Served]:
    server = HttpServer(RequestVerifier(SECRET))
    job, auth = ShownJob(), FakePageAuth()
    ClientApi(server, job)
    PageApi(server, job, auth, secret=SECRET)
    yield Served(job, auth, await server.listen("127.0.0.1"))
    await server.close()


async def test_the_page_and_the_same_as_json(served: Served) -> None:
    page = await served.get("/")
    assert page.status == 200
    assert page.headers["content-type"] == "text/html; charset=utf-8"
    assert page.headers["content-security-policy"] == POLICY
    assert b"Waiting for a container for worker:0." in page.body
    status = await served.get("/api/status")
    assert msgspec.json.decode(status.body, type=JobStatus) == served.job.status_with_usage()
    assert (await served.get("/api/events")).json()[0]["text"] == "ü"
    assert (await served.get("/api/spec")).json() is None
    served.job.spec = ClusterSpec(generation=1, revision=2, members={"ps": ("h:1",)})
    assert (await served.get("/api/spec")).json()["members"] == {"ps": ["h:1"]}
    for reply in (page, status):
        assert reply.headers["cache-control"] == "no-store"
        assert reply.headers["x-content-type-options"] == "nosniff"
        assert reply.headers["referrer-policy"] == "no-referrer"
    assert set(served.auth.peers) == {"127.0.0.1"}


async def test_what_programs_use_is_on_the_page_and_for_prometheus(served: Served) -> None:
    assert b'<section id="usage"></section>' in (await served.get("/")).body
    assert (await served.get("/api/usage")).json() == {}
    version = (await served.get("/api/version")).json()
    served.job.usage = task_usage(memory_bytes=512 * 1024 * 1024)
    served.job.histories["worker:0"] = UsageHistory(
        start=1.0, interval_s=5.0, series={"cpu_cores": [None, 0.5]}
    )
    page = await served.get("/")
    section = await served.get("/usage")
    assert b"512M of 1.0G" in section.body
    assert section.body in page.body
    assert section.headers["content-type"] == "text/html; charset=utf-8"
    told = (await served.get("/api/usage")).json()
    assert told["worker:0"]["series"] == {"cpu_cores": [None, 0.5]}
    assert (await served.get("/api/status")).json()["tasks"][0]["usage"]["cpu_s"] == 12.5
    metrics = await served.get("/metrics")
    assert metrics.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
    assert (
        b'ytf_task_cpu_seconds_total{job="local_1",group="worker",index="0"} 12.5' in metrics.body
    )
    for reply in (section, metrics):
        assert reply.headers["cache-control"] == "no-store"
    assert (await served.get("/api/version")).json() == version, "usage alone redraws no page"


async def test_the_version_changes_whenever_the_page_does(served: Served) -> None:
    seen = [(await served.get("/api/version")).json()]
    assert f'data-version="{seen[0]}"'.encode() in (await served.get("/")).body
    assert (await served.get("/api/version")).json() == seen[0]
    served.job.set(JobState.SUCCEEDED)
    seen.append((await served.get("/api/version")).json())
    served.job.waiting_for = "Waiting for something else."
    seen.append((await served.get("/api/version")).json())
    assert len(set(seen)) == 3


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/forbidden", 403),
        ("GET", "/api", 404),
        ("GET", "/api/secret", 404),
        ("GET", "/tasks/worker/0/log", 404),
        ("GET", "/tasks/worker/0/log/", 404),
        ("GET", "/tasks/../0/log", 404),
        ("GET", "/tasks/worker/-1/log", 404),
        ("POST", "/", 405),
        ("PUT", "/api/status", 405),
        ("DELETE", "/tasks/worker/0/log", 405),
    ],
)
async def test_what_is_not_there_is_said_in_words(
    served: Served, method: str, path: str, status: int
) -> None:
    reply = await served.get(path, method)
    assert (reply.status, reply.headers["content-type"]) == (status, "text/plain; charset=utf-8")
    assert reply.body.strip()


async def test_the_other_surfaces_are_as_they_were(served: Served) -> None:
    assert (await served.get("/client/v1/status")).status == 401
    unknown = await served.get("/client/v1/unknown")
    assert (unknown.status, unknown.headers["content-type"]) == (404, "application/json")
    assert served.auth.peers == [], "the page's authorization was not asked"


async def test_the_end_of_a_log_that_lies_here(served: Served, tmp_path: Path) -> None:
    logs = tmp_path / "a log" / "1"
    logs.mkdir(parents=True)
    (logs / "stderr").write_bytes(b"<b>first</b>\n" + b"x" * 40_000 + b"last\n")
    served.job.places["worker:0"] = LogLocation(
        container=ContainerId("c1"), control=None, url=logs.as_uri()
    )
    log = "/tasks/worker/0/log"
    reply = await served.get(log)
    assert (reply.status, reply.headers["content-type"]) == (200, "text/plain; charset=utf-8")
    assert len(reply.body) == 32 * 1024
    assert reply.body.endswith(b"xlast\n")
    assert (await served.get(f"{log}?stream=stderr&size=5")).body == b"last\n"
    assert (await served.get(f"{log}?stream=stdout")).status == 404
    for query in ("stream=../../secret", "stream=stderr&size=-1", "size=x"):
        assert (await served.get(f"{log}?{query}")).status == 400


async def test_a_log_that_cannot_be_read_is_where_its_node_has_it(served: Served) -> None:
    async with connected(served.port) as nobody:
        closed = nobody.writer.get_extra_info("sockname")[1]
    url = "http://node7:8042/node/containerlogs/c1/ann"
    for control in (None, f"127.0.0.1:{closed}"):
        served.job.places["worker:0"] = LogLocation(
            container=ContainerId("c1"), control=control, url=url
        )
        reply = await served.get("/tasks/worker/0/log")
        assert reply.status == 404
        assert url in reply.body.decode()
