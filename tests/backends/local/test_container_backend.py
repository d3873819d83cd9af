"""The master's side of the node's socket, with the test as the node."""

from __future__ import annotations

import asyncio
import json
import os
import socket
import threading
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from ytf.backends.api import StarterLaunch
from ytf.backends.launch import helper_arguments
from ytf.backends.local import container_backend as module
from ytf.backends.local.container_backend import LocalContainerBackend
from ytf.backends.local.records import write_kill_note
from ytf.errors import SettingsError
from ytf.machine.commands import CancelRequest, ContainerProfile, ReleaseContainer, RequestContainer
from ytf.machine.events import (
    BackendEvent,
    BackendGone,
    Cause,
    ContainerAllocated,
    ContainerCompleted,
    ContainersRecovered,
    KillRequested,
    LaunchFailed,
    RequestRefused,
)
from ytf.specs.ids import ContainerId, JobId, NodeId, RequestId, TaskId
from ytf.specs.job import Resources
from ytf.specs.status import FinalStatus, JobRecord, JobState, JobStatus
from ytf.testing.waiting import eventually_async

JOB = "local_20260101000000_abcd"
RECORD = JobRecord(
    status=JobStatus(
        id=JobId(JOB),
        name="n",
        user="ada",
        queue="default",
        backend="local",
        state=JobState.SUCCEEDED,
        final_status=FinalStatus.SUCCEEDED,
    ),
    spec={},
    cluster_spec=None,
    events=(),
)


def container_id(number: int, attempt: int = 1) -> ContainerId:
    return ContainerId(f"container_{JOB}_{attempt:02d}_{number:06d}")


class FakeNode:
    """A backend, and the node's end of its socket."""

    def __init__(self, job_dir: Path) -> None:
        self.job_dir = job_dir
        self.history = job_dir.parent.parent / "history" / JOB
        ours, theirs = socket.socketpair()
        self._line: socket.socket | None = ours
        self._fd = theirs.detach()
        self.hello: dict[str, Any] = {
            "op": "hello",
            "pid": 4711,
            "attempt": 1,
            "live": [],
            "ended": [],
            "memory_mb": {},
        }

    async def start(self, *, attempt: int = 1, **environ: str) -> LocalContainerBackend:
        self.backend = LocalContainerBackend(
            self.job_dir,
            environ={"YTF_NODE_FD": str(self._fd), **environ},
            starter_command=["starter"],
        )
        assert self._line is not None
        self._reader, self._writer = await asyncio.open_unix_connection(sock=self._line)
        self.send(**{**self.hello, "attempt": attempt})
        await self.backend.start(attempt, "http://127.0.0.1:1", ())
        self._events = self.backend.events()
        return self.backend

    def send(self, **message: Any) -> None:
        self._writer.write(json.dumps(message).encode() + b"\n")

    async def receive(self) -> dict[str, Any]:
        line = await asyncio.wait_for(self._reader.readline(), 60)
        message: dict[str, Any] = json.loads(line)
        return message

    async def event(self) -> BackendEvent:
        return await asyncio.wait_for(anext(self._events), 60)

    async def granted(self, number: int = 1) -> ContainerId:
        self.backend.request(container_request(number))
        allocated = await self.event()
        assert isinstance(allocated, ContainerAllocated)
        return allocated.container

    async def vanish(self) -> None:
        self._writer.close()
        await self._writer.wait_closed()


@pytest.fixture
async def node(tmp_path: Path) -> AsyncIterator[FakeNode]:
    job_dir = tmp_path / "jobs" / JOB
    job_dir.mkdir(parents=True)
    (tmp_path / "history" / JOB).mkdir(parents=True)
    node = FakeNode(job_dir)
    yield node
    await node.vanish()
    await node.backend.finish(RECORD)


def container_request(number: int, memory_mb: int = 100, **more: Any) -> RequestContainer:
    return RequestContainer(
        request=RequestId(f"r{number}"),
        profile=ContainerProfile(group="worker", resources=Resources(memory=memory_mb)),
        priority=1,
        **more,
    )


def launch(container: ContainerId, **more: Any) -> StarterLaunch:
    return StarterLaunch(
        container=container,
        task=TaskId("worker:3"),
        env={"A": "a"},
        defaults={"SET": "default", "UNSET": "default"},
        starter={"job": JOB, "attempt": 4},
        memory_mb=100,
        **more,
    )


async def test_a_request_is_granted_at_once_wherever_it_wants_not_to_be(node: FakeNode) -> None:
    backend = await node.start()
    here = NodeId(socket.gethostname())
    backend.request(container_request(1, avoid=(here,)))
    backend.request(container_request(1))
    backend.request(container_request(2))
    assert [await node.event(), await node.event()] == [
        ContainerAllocated(request=RequestId("r1"), container=container_id(1), node=here),
        ContainerAllocated(request=RequestId("r2"), container=container_id(2), node=here),
    ]
    assert "at once" in backend.headroom_text()


async def test_clients_learn_where_the_master_is(node: FakeNode) -> None:
    await node.start()
    address = json.loads((node.job_dir / "master.json").read_bytes())
    assert address == {"url": "http://127.0.0.1:1", "attempt": 1, "pid": os.getpid()}


async def test_a_launch_orders_the_starter_with_all_it_needs(node: FakeNode) -> None:
    (node.job_dir / "files").mkdir()
    (node.job_dir / "files" / "train.py").write_text("pass")
    backend = await node.start(SET="by the submitter")
    container = await node.granted()
    backend.launch(launch(container))
    backend.launch(launch(container))
    order = await node.receive()
    starter = json.loads(order["env"].pop("YTF_STARTER"))
    logs = node.history / "logs" / "worker-3"
    directory = node.job_dir / "containers" / container
    assert order == {
        "op": "launch",
        "container": container,
        "argv": ["starter"],
        "env": {"A": "a", "UNSET": "default", "YTF_JOB_ID": JOB},
        "cwd": str(directory),
        "stdout": str(logs / "starter.log"),
        "memory_mb": 100,
        "logs": str(logs),
        "attempt": 4,
    }
    assert starter == {
        "job": JOB,
        "attempt": 4,
        "secret_file": str(node.job_dir / "secret"),
        "master_file": str(node.job_dir / "master.json"),
        "host": "127.0.0.1",
        "log_dir": str(logs),
        "helper": helper_arguments(),
        "parent": 4711,
    }
    assert (directory / "train.py").read_text() == "pass"
    assert logs.is_dir()
    # The second launch was none: the next thing said is the kill.
    backend.release(ReleaseContainer(container=container))
    assert await node.receive() == {"op": "kill", "container": container}


async def test_completions_and_acknowledgements(node: FakeNode) -> None:
    backend = await node.start()
    container = await node.granted()
    node.send(
        op="completed",
        container=container,
        cause="memory",
        exit_code=None,
        signal=9,
        diagnostics="too much",
        tail="last words",
        tail_stream="stdout",
    )
    assert await node.event() == ContainerCompleted(
        container=container,
        cause=Cause.MEMORY,
        signal=9,
        diagnostics="too much",
        tail="last words",
        tail_stream="stdout",
    )
    backend.acknowledge(container)
    assert await node.receive() == {"op": "ack", "container": container}


async def test_a_launch_that_fails_at_the_node(node: FakeNode) -> None:
    await node.start()
    container = await node.granted()
    node.send(op="failed", container=container, reason="no such program")
    assert await node.event() == LaunchFailed(container=container, reason="no such program")


async def test_a_launch_without_room_for_its_directory(node: FakeNode) -> None:
    backend = await node.start()
    container = await node.granted()
    (node.job_dir / "containers").write_text("in the way")
    backend.launch(launch(container))
    failed = await node.event()
    assert isinstance(failed, LaunchFailed)
    assert "cannot make its working directory" in failed.reason


async def test_release_before_launch_gives_back_at_once(node: FakeNode) -> None:
    backend = await node.start()
    container = await node.granted()
    backend.release(ReleaseContainer(container=container))
    assert await node.event() == ContainerCompleted(container=container, cause=Cause.RELEASED)
    backend.launch(launch(container))
    assert not (node.job_dir / "containers" / container).exists()


async def test_release_while_files_are_copied(
    node: FakeNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    (node.job_dir / "files").mkdir()
    copying, go_on = threading.Event(), threading.Event()

    def slowly(files: Path, directory: Path) -> None:
        copying.set()
        assert go_on.wait(60)

    monkeypatch.setattr(module, "copy_staged_files", slowly)
    backend = await node.start()
    container = await node.granted()
    backend.launch(launch(container))
    assert await asyncio.to_thread(copying.wait, 5)
    backend.release(ReleaseContainer(container=container))
    assert await node.event() == ContainerCompleted(container=container, cause=Cause.RELEASED)
    go_on.set()
    other = await node.granted(2)
    backend.launch(launch(other))
    order = await node.receive()
    assert (order["op"], order["container"]) == ("launch", other)
    await eventually_async(lambda: not (node.job_dir / "containers" / container).exists())


async def test_a_new_master_hears_of_ends_first_then_of_what_lives(node: FakeNode) -> None:
    ended = {
        "op": "completed",
        "container": "gone",
        "cause": "exited",
        "exit_code": 1,
        "signal": None,
        "diagnostics": "",
        "tail": "",
        "tail_stream": "stderr",
    }
    node.hello |= {"live": ["here"], "ended": [ended], "memory_mb": {"here": 100}}
    backend = await node.start(attempt=2)
    assert await node.event() == ContainerCompleted(
        container=ContainerId("gone"), cause=Cause.EXITED, exit_code=1
    )
    assert await node.event() == ContainersRecovered(
        containers=(ContainerId("here"),), complete=True
    )
    backend.release(ReleaseContainer(container=ContainerId("here")))
    assert await node.receive() == {"op": "kill", "container": "here"}
    backend.request(container_request(1))
    allocated = await node.event()
    assert isinstance(allocated, ContainerAllocated)
    assert allocated.container == container_id(1, attempt=2)


async def test_the_nodes_death_is_the_last_event(node: FakeNode) -> None:
    backend = await node.start()
    container = await node.granted()
    await node.vanish()
    gone = await node.event()
    assert isinstance(gone, BackendGone)
    # Nothing of this does anything any more, nor harm.
    backend.request(container_request(2))
    backend.launch(launch(container))
    backend.acknowledge(container)
    await backend.finish(RECORD)
    assert not node.job_dir.exists()
    kept = (node.history / "record.json").read_bytes()
    assert msgspec.json.decode(kept, type=JobRecord) == RECORD


async def test_a_node_stopped_by_somebody_is_a_kill(node: FakeNode) -> None:
    await node.start()
    write_kill_note(str(node.job_dir), "ada", "enough")
    await node.vanish()
    assert await node.event() == KillRequested(by="ada", reason="enough")
    assert await node.event() == BackendGone(reason="the job was killed by ada")


async def test_it_shows_the_node_that_it_lives(node: FakeNode) -> None:
    await node.start()
    node.send(op="ping")
    assert await node.receive() == {"op": "pong"}


async def test_finish_keeps_the_record_and_tells_the_node(node: FakeNode) -> None:
    backend = await node.start()
    await backend.finish(RECORD)
    assert (node.history / "record.json").exists()
    assert await node.receive() == {"op": "finished"}
    assert node.job_dir.exists(), "the node removes it"
    with pytest.raises(StopAsyncIteration):
        await node.event()


async def test_the_registry_is_empty_once_there_is_a_record(node: FakeNode) -> None:
    backend = await node.start()
    seen = []

    async def empty() -> bool:
        seen.append((node.history / "record.json").exists())
        return False

    assert await backend.finish(RECORD, empty)
    assert seen == [False]
    assert (node.history / "record.json").exists()


async def test_without_a_node_finish_removes_all(tmp_path: Path) -> None:
    job_dir = tmp_path / "jobs" / JOB
    job_dir.mkdir(parents=True)
    (tmp_path / "history" / JOB).mkdir(parents=True)
    backend = LocalContainerBackend(job_dir, environ={})
    await backend.start(3, "http://127.0.0.1:1", ())
    assert await anext(backend.events()) == ContainersRecovered(containers=(), complete=True)
    await backend.finish(RECORD)
    assert not job_dir.exists()


async def test_a_log_url_leads_to_the_attempts_directory(node: FakeNode) -> None:
    backend = await node.start()
    url = backend.log_url(TaskId("worker:3"), 2, container_id(1))
    assert url == (node.history / "logs" / "worker-3" / "2").as_uri()


class TestMemoryOfTheMachine:
    async def test_requests_wait_in_order_until_they_fit(self, node: FakeNode) -> None:
        backend = await node.start(YTF_LOCAL_MEMORY_MB="300")
        backend.request(container_request(1, 200))
        backend.request(container_request(2, 200))
        backend.request(container_request(3, 50))
        first = await node.event()
        assert isinstance(first, ContainerAllocated)
        said = backend.headroom_text()
        assert "has 100 of 300 MB free" in said
        assert "2 requests wait, the first (of worker) for 200 MB" in said
        backend.release(ReleaseContainer(container=first.container))
        assert isinstance(await node.event(), ContainerCompleted)
        granted = [await node.event(), await node.event()]
        assert [e.request for e in granted if isinstance(e, ContainerAllocated)] == ["r2", "r3"]

    async def test_a_cancelled_request_lets_the_next_pass(self, node: FakeNode) -> None:
        backend = await node.start(YTF_LOCAL_MEMORY_MB="300")
        backend.request(container_request(1, 200))
        backend.request(container_request(2, 200))
        backend.request(container_request(3, 50))
        await node.event()
        backend.cancel(CancelRequest(request=RequestId("r2")))
        allocated = await node.event()
        assert isinstance(allocated, ContainerAllocated)
        assert allocated.request == "r3"

    async def test_more_than_there_is_is_refused(self, node: FakeNode) -> None:
        backend = await node.start(YTF_LOCAL_MEMORY_MB="300")
        backend.request(container_request(1, 301))
        refused = await node.event()
        assert isinstance(refused, RequestRefused)
        assert "asks for 301 MB" in refused.reason

    async def test_what_lives_from_before_counts(self, node: FakeNode) -> None:
        node.hello |= {"live": ["here"], "memory_mb": {"here": 250}}
        backend = await node.start(attempt=2, YTF_LOCAL_MEMORY_MB="300")
        await node.event()
        backend.request(container_request(1, 100))
        assert "has 50 of 300 MB free" in backend.headroom_text()
        node.send(
            op="completed",
            container="here",
            cause="exited",
            exit_code=0,
            signal=None,
            diagnostics="",
            tail="",
            tail_stream="stderr",
        )
        assert isinstance(await node.event(), ContainerCompleted)
        assert isinstance(await node.event(), ContainerAllocated)

    @pytest.mark.parametrize("text", ["much", "0", "-1", "1.5"])
    def test_nonsense_is_refused(self, tmp_path: Path, text: str) -> None:
        with pytest.raises(SettingsError, match="YTF_LOCAL_MEMORY_MB"):
            LocalContainerBackend(tmp_path, environ={"YTF_LOCAL_MEMORY_MB": text})
