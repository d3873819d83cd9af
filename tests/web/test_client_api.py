from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass

import msgspec
import pytest

from tests.web.fake_job import FakeJob
from tests.web.raw_client import SECRET, connected
from ytf.specs.status import ClusterSpec, JobEvent, JobState, JobStatus
from ytf.testing.waiting import eventually_async
from ytf.web.client_api import ClientApi
from ytf.web.request_auth import RequestVerifier
from ytf.web.server import HttpServer


@dataclass
class Served:
    job: FakeJob
    api: ClientApi
    server: HttpServer
    port: int


@pytest.fixture
async def served() -> AsyncIterator[Served]:
    server = HttpServer(RequestVerifier(SECRET))
    job = FakeJob()
    api = ClientApi(server, job, hold_s=0.2)
    yield Served(job, api, server, await server.listen("127.0.0.1"))
    api.close()
    await server.close()
    assert job.waiting == 0


async def test_what_can_be_read(served: Served) -> None:
    async with connected(served.port) as peer:
        reply = await peer.ask("GET", "/client/v1/status")
        assert msgspec.json.decode(reply.body, type=JobStatus) == served.job.status()
        reply = await peer.ask("GET", "/client/v1/events")
        assert msgspec.json.decode(reply.body, type=list[JobEvent]) == served.job.events()
        assert (await peer.ask("GET", "/client/v1/starters")).json() == [
            {"task": "ps:0", "container": "c1", "node": "n:1", "control": "h:7"}
        ]
        assert (await peer.ask("GET", "/client/v1/cluster")).status == 404
        served.job.spec = ClusterSpec(generation=1, revision=2, members={"ps": ("h:1",)})
        assert (await peer.ask("GET", "/client/v1/cluster")).json() == {
            "generation": 1,
            "revision": 2,
            "members": {"ps": ["h:1"]},
        }


async def test_who_wants_a_shell_is_noted_and_told_where(served: Served) -> None:
    async with connected(served.port) as peer:
        body: object = {"container": "c1", "by": "alice"}
        assert (await peer.ask("POST", "/client/v1/shell", body)).json()["control"] == "h:7"
        assert served.job.shells == [("ps:0", "alice")]
        gone = await peer.ask("POST", "/client/v1/shell", {"container": "c2", "by": "alice"})
        assert gone.status == 404
        wrongs: list[object] = [None, [], {"container": "c1"}, {"container": 1, "by": "alice"}]
        for wrong in wrongs:
            assert (await peer.ask("POST", "/client/v1/shell", wrong)).status == 400
    assert len(served.job.shells) == 1


async def test_wait_answers_at_once_when_something_is_new(served: Served) -> None:
    async with connected(served.port) as peer:
        reply = (await peer.ask("GET", "/client/v1/wait?version=0")).json()
        assert (reply["version"], reply["status"]["state"]) == (1, "RUNNING")
        # A master that was restarted may have a lower version than the client knows.
        assert (await peer.ask("GET", "/client/v1/wait?version=9")).json()["version"] == 1


async def test_wait_answers_when_something_changes(served: Served) -> None:
    served.api._hold_s = 600.0
    async with connected(served.port) as peer:
        await peer.start("GET", "/client/v1/wait?version=1")
        await eventually_async(lambda: served.job.waiting == 1)
        begun = time.monotonic()
        served.job.set(JobState.SUCCEEDED)
        reply = (await peer.finish()).json()
        assert time.monotonic() - begun < 60, "it waited for the end of the hold"
        assert (reply["version"], reply["status"]["state"]) == (2, "SUCCEEDED")


async def test_wait_says_the_same_after_the_hold(served: Served) -> None:
    async with connected(served.port) as peer:
        begun = time.monotonic()
        assert (await peer.ask("GET", "/client/v1/wait?version=1")).json()["version"] == 1
        assert time.monotonic() - begun >= 0.2


async def test_wait_is_answered_when_the_master_ends(served: Served) -> None:
    served.api._hold_s = 600.0
    async with connected(served.port) as peer:
        await peer.start("GET", "/client/v1/wait?version=1")
        await eventually_async(lambda: served.job.waiting == 1)
        served.api.close()
        closing = asyncio.create_task(served.server.close(grace_s=600.0))
        assert (await peer.finish()).json()["version"] == 1
        begun = time.monotonic()
        await closing
        assert time.monotonic() - begun < 60, "it waited for the end of the grace"


async def test_a_lost_client_leaves_no_wait(served: Served) -> None:
    served.api._hold_s = 600.0
    async with connected(served.port) as peer:
        await peer.start("GET", "/client/v1/wait?version=1")
        await eventually_async(lambda: served.job.waiting == 1)
        peer.drop()
        await eventually_async(lambda: served.job.waiting == 0)


@pytest.mark.parametrize("query", ["", "?version=", "?version=x", "?version=-1", "?version=%C2%B2"])
async def test_wait_needs_a_version(served: Served, query: str) -> None:
    async with connected(served.port) as peer:
        assert (await peer.ask("GET", f"/client/v1/wait{query}")).status == 400


async def test_kill(served: Served) -> None:
    async with connected(served.port) as peer:
        assert (
            await peer.ask("POST", "/client/v1/kill", {"by": "ann", "reason": "ü"})
        ).json() == {}
        assert served.job.killed == [("ann", "ü")]
        assert (await peer.ask("POST", "/client/v1/kill", {"reason": "x"})).status == 400
        assert (await peer.ask("POST", "/client/v1/kill")).status == 400
        served.job.journal_works = False
        reply = await peer.ask("POST", "/client/v1/kill", {"by": "ann"})
        assert reply.status == 503
        assert "disk full" in reply.json()["error"]


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/client/v1/status"),
        ("GET", "/client/v1/wait?version=0"),
        ("GET", "/client/v1/cluster"),
        ("GET", "/client/v1/events"),
        ("GET", "/client/v1/starters"),
        ("POST", "/client/v1/kill"),
    ],
)
async def test_only_clients_may_ask(served: Served, method: str, path: str) -> None:
    async with connected(served.port, "container_1/report") as starter:
        assert (await starter.ask(method, path, {"by": "me"})).status == 401
    async with connected(served.port) as unsigned:
        assert (await unsigned.raw(f"{method} {path} HTTP/1.1\r\n\r\n".encode())).status == 401
    assert not served.job.killed
