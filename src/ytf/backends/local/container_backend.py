"""Implements ``ContainerBackend`` on one machine: the master's side of the node's socket.

Requests are granted at once. So a laptop may be over-committed, on purpose; the
node limits the memory of each container. With ``YTF_LOCAL_MEMORY_MB`` set,
requests wait in order until all granted containers fit into that much memory.
"""

from __future__ import annotations

import asyncio
import json
import os
import socket
import sys
from collections import deque
from collections.abc import AsyncIterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from ytf.backends.api import EmptyRegistry, StarterLaunch, nothing_published
from ytf.backends.launch import helper_arguments
from ytf.backends.launch import starter_command as make_starter_command
from ytf.backends.local.files import remove_tree, write_atomically
from ytf.backends.local.finalize import remove_leftovers
from ytf.backends.local.job_processes import JOB_VARIABLE
from ytf.backends.local.records import history_dir, read_kill_note, write_record
from ytf.backends.local.staging import copy_staged_files
from ytf.errors import InternalError, SettingsError
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
    MessageNoted,
    RequestRefused,
)
from ytf.packaging.hdfs_plugin import find_plugin
from ytf.specs.ids import ContainerId, NodeId, RequestId, TaskId, group_of, index_of
from ytf.specs.status import JobRecord

MEMORY_VARIABLE = "YTF_LOCAL_MEMORY_MB"

_LINE_LIMIT = 64 << 20
"""Longest line in bytes. The node's first line names all its containers, perhaps thousands."""
_NODE_DIED = (
    "the process that runs the job on this machine died, and all tasks with it\n"
    "hint: a user killed it, or the kernel did when memory ran out (see dmesg): submit the "
    "job again"
)


class LocalContainerBackend:
    """Implements ``ContainerBackend``: sends orders to the node and turns its lines into events.

    ``YTF_NODE_FD`` is the file descriptor of the socket. If it is not set,
    there is no node, because a client finalizes the job: no container runs,
    none is granted, and :meth:`finish` itself removes what is left.

    When the node dies, its containers end by themselves, and ``BackendGone``
    is the event: the master then records the job as FAILED, and :meth:`finish`
    removes what is left. If a user stopped the node to kill a job whose master
    did not answer, ``KillRequested`` comes first.

    A request's ``avoid`` is ignored, because there is only one node: refusing
    it would end a job whose policy is to go on.
    """

    def __init__(
        self,
        job_dir: Path,
        *,
        environ: Mapping[str, str] | None = None,
        starter_command: Sequence[str] | None = None,
    ) -> None:
        self._job_dir = job_dir
        self._job = job_dir.name
        self._environ = os.environ if environ is None else environ
        self._starter_command = list(starter_command or make_starter_command(sys.executable))
        self._helper = helper_arguments()
        self._logs = Path(history_dir(str(job_dir)), "logs")
        self._node = NodeId(socket.gethostname())
        self._node_pid: int | None = None
        self._memory_mb = _memory_limit(self._environ)
        self._attempt = 0
        self._writer: asyncio.StreamWriter | None = None
        self._listening: asyncio.Task[None] | None = None
        self._gone = False
        self._events: asyncio.Queue[BackendEvent | None] = asyncio.Queue()
        self._requested: set[RequestId] = set()
        self._waiting: deque[RequestContainer] = deque()
        self._granted = 0
        self._live: dict[ContainerId, int] = {}
        self._ordered: set[ContainerId] = set()
        self._launching: dict[ContainerId, asyncio.Task[None]] = {}

    async def start(
        self, attempt: int, tracking_url: str, profiles: Sequence[ContainerProfile]
    ) -> None:
        """Connect to the node, and write this master's address for clients and starters.

        ``profiles`` does not matter here: the node knows its containers by their ids.
        """
        self._attempt = attempt
        number = self._environ.get("YTF_NODE_FD")
        if number is not None:
            await self._connect_node(int(number))
        elif attempt > 1:
            self._events.put_nowait(ContainersRecovered(containers=(), complete=True))
        address = {"url": tracking_url, "attempt": attempt, "pid": os.getpid()}
        write_atomically(str(self._job_dir / "master.json"), json.dumps(address))

    async def _connect_node(self, number: int) -> None:
        node = socket.socket(fileno=number)
        node.set_inheritable(False)
        reader, self._writer = await asyncio.open_unix_connection(sock=node, limit=_LINE_LIMIT)
        line = await reader.readline()
        if not line:
            self._lose_node()
            return
        hello = json.loads(line)
        if hello["op"] != "hello" or hello["attempt"] != self._attempt:
            raise InternalError(f"the node sent {hello} to master attempt {self._attempt}")
        self._node_pid = hello["pid"]
        for container in hello["live"]:
            self._live[container] = hello["memory_mb"][container]
            self._ordered.add(container)
        for completion in hello["ended"]:
            self._events.put_nowait(_completion(completion))
        if self._attempt > 1:
            recovered = ContainersRecovered(containers=tuple(self._live), complete=True)
            self._events.put_nowait(recovered)
        self._listening = asyncio.create_task(self._listen(reader))

    async def events(self) -> AsyncIterator[BackendEvent]:
        """Yield the events of the backend, until :meth:`finish`."""
        while (event := await self._events.get()) is not None:
            yield event

    def acknowledge(self, container: ContainerId) -> None:
        """Tell the node not to repeat this completion to the next master."""
        self._send({"op": "ack", "container": container})

    def request(self, command: RequestContainer) -> None:
        """Ask for one container; a request that was already made is not made again."""
        if command.request in self._requested:
            return
        self._requested.add(command.request)
        memory_mb = command.profile.resources.memory_mb
        if self._memory_mb is not None and memory_mb > self._memory_mb:
            reason = (
                f"a task of {command.profile.group} asks for {memory_mb} MB, and"
                f" {MEMORY_VARIABLE} allows {self._memory_mb} MB for all"
            )
            self._events.put_nowait(RequestRefused(request=command.request, reason=reason))
            return
        self._waiting.append(command)
        self._grant()

    def cancel(self, command: CancelRequest) -> None:
        """Cancel a request, if it still waits."""
        waiting = [each for each in self._waiting if each.request != command.request]
        self._waiting = deque(waiting)
        self._grant()

    def launch(self, launch: StarterLaunch) -> None:
        """Make the working directory with copies of the job's files, then start the starter."""
        container = launch.container
        if container not in self._live or container in self._ordered:
            return
        self._ordered.add(container)
        self._launching[container] = asyncio.create_task(self._prepare(launch))

    def release(self, command: ReleaseContainer) -> None:
        """Kill a container; one that was never launched completes at once."""
        container = command.container
        if container in self._ordered and container not in self._launching:
            self._send({"op": "kill", "container": container})
            return
        self._events.put_nowait(ContainerCompleted(container=container, cause=Cause.RELEASED))
        self._free(container)

    def report_progress(self, share: float) -> None:
        """Do nothing: clients of a local job ask its master."""

    def headroom_text(self) -> str:
        """Describe how much memory this machine still grants."""
        if self._memory_mb is None:
            return f"{self._node} grants every request at once"
        free = self._memory_mb - sum(self._live.values())
        text = f"{self._node} has {max(free, 0)} of {self._memory_mb} MB free ({MEMORY_VARIABLE})"
        if self._waiting:
            first = self._waiting[0]
            text += (
                f"; {len(self._waiting)} requests wait, the first (of {first.profile.group})"
                f" for {first.profile.resources.memory_mb} MB"
            )
        return text

    def log_url(self, task: TaskId, attempt: int, container: ContainerId) -> str | None:
        """Return the URL of the directory with the attempt's ``stdout`` and ``stderr``."""
        return (self._logs_of(task) / str(attempt)).as_uri()

    async def finish(
        self, record: JobRecord, empty_registry: EmptyRegistry = nothing_published
    ) -> bool:
        """Write the record and tell the node, which kills and removes what is left, and ends.

        Without a node, this does the node's part. The registry is emptied first: here the
        record is the end of the job. What stays in it, ``gc`` finds by the record.
        """
        await empty_registry()
        write_record(str(self._job_dir), msgspec.json.encode(record).decode())
        # A copy in progress cannot be stopped. As nothing is live, it launches nothing.
        self._live.clear()
        await asyncio.gather(*self._launching.values())
        if self._writer is not None and not self._gone:
            self._send({"op": "finished"})
        if self._listening is not None:
            self._listening.cancel()
            await asyncio.gather(self._listening, return_exceptions=True)
        if self._writer is not None:
            # This sends what is still buffered first.
            self._writer.close()
            try:
                await self._writer.wait_closed()
            except ConnectionError:
                self._lose_node()
        if self._writer is None or self._gone:
            await asyncio.to_thread(remove_leftovers, self._job_dir)
        self._events.put_nowait(None)
        return True

    # -- the socket to the node -------------------------------------------------

    async def _listen(self, reader: asyncio.StreamReader) -> None:
        try:
            while line := await reader.readline():
                self._handle(json.loads(line))
        except ConnectionError:
            pass
        self._lose_node()

    def _handle(self, message: dict[str, Any]) -> None:
        if message["op"] == "ping":
            self._send({"op": "pong"})
            return
        if message["op"] == "warning":
            self._events.put_nowait(MessageNoted(text=message["text"], is_warning=True))
            return
        container = ContainerId(message["container"])
        if message["op"] == "failed":
            self._events.put_nowait(LaunchFailed(container=container, reason=message["reason"]))
        else:
            self._events.put_nowait(_completion(message))
        self._free(container)

    def _send(self, message: dict[str, Any]) -> None:
        if self._writer is not None and not self._gone:
            # Not msgspec, because paths and variables need not be valid UTF-8.
            self._writer.write(json.dumps(message).encode() + b"\n")

    def _lose_node(self) -> None:
        if self._gone:
            return
        self._gone = True
        self._live.clear()
        killed = read_kill_note(str(self._job_dir))
        if killed is None:
            self._events.put_nowait(BackendGone(reason=_NODE_DIED))
            return
        by, reason = killed
        self._events.put_nowait(KillRequested(by=by, reason=reason))
        self._events.put_nowait(BackendGone(reason=f"the job was killed by {by}"))

    # -- granting and launching ---------------------------------------------------

    def _grant(self) -> None:
        """Grant what fits, strictly in the order of the requests."""
        while self._waiting and not self._gone:
            memory_mb = self._waiting[0].profile.resources.memory_mb
            used_mb = sum(self._live.values())
            if self._memory_mb is not None and used_mb + memory_mb > self._memory_mb:
                return
            command = self._waiting.popleft()
            self._granted += 1
            container = ContainerId(
                f"container_{self._job}_{self._attempt:02d}_{self._granted:06d}"
            )
            self._live[container] = memory_mb
            self._events.put_nowait(
                ContainerAllocated(request=command.request, container=container, node=self._node)
            )

    def _free(self, container: ContainerId) -> None:
        self._live.pop(container, None)
        self._grant()

    def _logs_of(self, task: TaskId) -> Path:
        return self._logs / f"{group_of(task)}-{index_of(task)}"

    async def _prepare(self, launch: StarterLaunch) -> None:
        container = launch.container
        directory = self._job_dir / "containers" / container
        logs = self._logs_of(launch.task)
        try:
            directory.mkdir(mode=0o700, parents=True)
            logs.mkdir(mode=0o700, parents=True, exist_ok=True)
            files = self._job_dir / "files"
            if files.is_dir():
                await asyncio.to_thread(copy_staged_files, files, directory)
        except OSError as exc:
            del self._launching[container]
            if container in self._live:
                reason = f"cannot make its working directory {directory}: {exc}"
                self._events.put_nowait(LaunchFailed(container=container, reason=reason))
                self._free(container)
            return
        del self._launching[container]
        if container not in self._live:
            # The container was released, or the node died, while the files were copied.
            await asyncio.to_thread(remove_tree, str(directory))
            return
        self._send(
            {
                "op": "launch",
                "container": container,
                "argv": self._starter_command,
                "env": self._environment(launch, logs),
                "cwd": str(directory),
                "stdout": str(logs / "starter.log"),
                "memory_mb": launch.memory_mb,
                "logs": str(logs),
                "attempt": launch.starter["attempt"],
            }
        )

    def _environment(self, launch: StarterLaunch, logs: Path) -> dict[str, str]:
        """Return what is added to the submitter's environment, which the node passes on."""
        starter: dict[str, object] = {
            **launch.starter,
            "secret_file": str(self._job_dir / "secret"),
            "master_file": str(self._job_dir / "master.json"),
            "host": "127.0.0.1",
            "log_dir": str(logs),
            "helper": self._helper,
            "parent": self._node_pid,
        }
        plugin = find_plugin() if launch.hdfs_plugin else None
        if plugin is not None:
            starter["hdfs_plugin"] = plugin
        if launch.starter.get("gpus"):
            starter["gpu_locks"] = str(self._job_dir.parent.parent / "gpus")
        if launch.docker is not None:
            # What is below overwrites variables that are the engine's, too.
            own = {name: self._environ[name] for name in launch.env if name in self._environ}
            mounts = [] if plugin is None else [plugin]
            starter["docker"] = {**launch.docker, "shadowed": own, "mounts": mounts}
        unset = {name: text for name, text in launch.defaults.items() if name not in self._environ}
        return {
            **unset,
            **launch.env,
            JOB_VARIABLE: self._job,
            "YTF_STARTER": json.dumps(starter),
        }


def _completion(message: dict[str, Any]) -> ContainerCompleted:
    return ContainerCompleted(
        container=ContainerId(message["container"]),
        cause=Cause(message["cause"]),
        exit_code=message["exit_code"],
        signal=message["signal"],
        diagnostics=message["diagnostics"],
        tail=message["tail"],
        tail_stream=message["tail_stream"],
    )


def _memory_limit(environ: Mapping[str, str]) -> int | None:
    text = environ.get(MEMORY_VARIABLE)
    if not text:
        return None
    if not text.isdecimal() or int(text) == 0:
        raise SettingsError(
            f"{MEMORY_VARIABLE} is {text!r}", hint="give a whole number of MB, such as 16384"
        )
    return int(text)
