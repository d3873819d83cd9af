"""The local backend as the master sees it: orders to the node, events back.

Containers are granted at once: a laptop is over-committed on purpose, and the
memory of each container is watched by the node. With ``YTF_LOCAL_MEMORY_MB``
set, requests wait in order until what is granted fits into that much.
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

from ytf.backends.api import Launch
from ytf.backends.local.burial import JOB_VARIABLE, remove_leftovers
from ytf.backends.local.record import history_of, keep_record, noted_kill, replace
from ytf.backends.local.removal import remove_tree
from ytf.backends.local.uploads import place
from ytf.errors import InternalError, SettingsError
from ytf.master.commands import CancelRequest, ReleaseContainer, RequestContainer
from ytf.master.events import (
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
from ytf.specs.names import ContainerId, NodeId, RequestId, TaskId, group_of, index_of
from ytf.specs.status import JobRecord
from ytf.starter import bootstrap

MEMORY_VARIABLE = "YTF_LOCAL_MEMORY_MB"

_LINE_LIMIT = 64 << 20
"""The node's first line names every container it has: many thousands at most."""
_NODE_DIED = (
    "the job's node process died, and the tasks it ran on this machine with it\n"
    "hint: somebody killed it, or the kernel did when memory ran out (dmesg tells): submit the "
    "job again"
)


class LocalContainers:
    """Implements ``ContainerBackend`` on one machine, over the line to the node.

    The line's number is in ``YTF_NODE_FD``. Without it there is no node (the
    job is being buried by hand): no container lives and none can be had, and
    :meth:`finish` itself removes what is left.

    When the node dies its containers end by themselves, and ``BackendGone`` is
    told: the master then records the job as FAILED, and :meth:`finish` removes
    what is left. If the node was stopped by somebody who could not reach the
    master, that is told before, as ``KillRequested``.

    There is one node, so a request's ``avoid`` is not heeded: refusing the
    only machine there is would end a job whose policy is to go on.
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
        self._starter_command = list(starter_command or bootstrap.command(sys.executable))
        self._logs = Path(history_of(str(job_dir)), "logs")
        self._node = NodeId(socket.gethostname())
        self._node_pid: int | None = None
        self._memory_mb = _memory_of(self._environ)
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

    async def start(self, attempt: int, tracking_url: str) -> None:
        """Meet the node, and let clients and starters know where this master is."""
        self._attempt = attempt
        number = self._environ.get("YTF_NODE_FD")
        if number is not None:
            await self._meet_node(int(number))
        elif attempt > 1:
            self._events.put_nowait(ContainersRecovered(containers=(), complete=True))
        known = {"url": tracking_url, "attempt": attempt, "pid": os.getpid()}
        replace(str(self._job_dir / "master.json"), json.dumps(known))

    async def _meet_node(self, number: int) -> None:
        line = socket.socket(fileno=number)
        line.set_inheritable(False)
        reader, self._writer = await asyncio.open_unix_connection(sock=line, limit=_LINE_LIMIT)
        first = await reader.readline()
        if not first:
            self._lose_node()
            return
        hello = json.loads(first)
        if hello["op"] != "hello" or hello["attempt"] != self._attempt:
            raise InternalError(f"the node greeted attempt {self._attempt} with {hello}")
        self._node_pid = hello["pid"]
        for container in hello["live"]:
            self._live[container] = hello["memory_mb"][container]
            self._ordered.add(container)
        for completion in hello["ended"]:
            self._events.put_nowait(_completed(completion))
        if self._attempt > 1:
            recovered = ContainersRecovered(containers=tuple(self._live), complete=True)
            self._events.put_nowait(recovered)
        self._listening = asyncio.create_task(self._listen(reader))

    async def events(self) -> AsyncIterator[BackendEvent]:
        """What happens, until :meth:`finish`."""
        while (event := await self._events.get()) is not None:
            yield event

    def acknowledge(self, container: ContainerId) -> None:
        """The node need not tell this completion to a next master."""
        self._send({"op": "ack", "container": container})

    def request(self, command: RequestContainer) -> None:
        """Ask for one container; a request that was already made is not made again."""
        if command.request in self._requested:
            return
        self._requested.add(command.request)
        asked = command.resources.memory_mb
        if self._memory_mb is not None and asked > self._memory_mb:
            reason = (
                f"a task of {command.group} asks for {asked} MB, and {MEMORY_VARIABLE} allows"
                f" {self._memory_mb} MB for all"
            )
            self._events.put_nowait(RequestRefused(request=command.request, reason=reason))
            return
        self._waiting.append(command)
        self._grant()

    def cancel(self, command: CancelRequest) -> None:
        """Take a request back, if it still waits."""
        waiting = [each for each in self._waiting if each.request != command.request]
        self._waiting = deque(waiting)
        self._grant()

    def launch(self, launch: Launch) -> None:
        """Make the working directory, with copies of the job's files, and order the starter."""
        container = launch.container
        if container not in self._live or container in self._ordered:
            return
        self._ordered.add(container)
        self._launching[container] = asyncio.create_task(self._prepare(launch))

    def release(self, command: ReleaseContainer) -> None:
        """Kill a container; one that was never launched is given back at once."""
        container = command.container
        if container in self._ordered and container not in self._launching:
            self._send({"op": "kill", "container": container})
            return
        self._events.put_nowait(ContainerCompleted(container=container, cause=Cause.RELEASED))
        self._free(container)

    def progress(self, share: float) -> None:
        """Nothing to do: who looks at a local job asks its master."""

    def supply(self) -> str:
        """What this machine still grants."""
        if self._memory_mb is None:
            return f"{self._node} grants every request at once"
        free = self._memory_mb - sum(self._live.values())
        said = f"{self._node} has {max(free, 0)} of {self._memory_mb} MB free ({MEMORY_VARIABLE})"
        if self._waiting:
            first = self._waiting[0]
            said += (
                f"; {len(self._waiting)} requests wait, the first (of {first.group})"
                f" for {first.resources.memory_mb} MB"
            )
        return said

    def log_url(self, task: TaskId, attempt: int, container: ContainerId) -> str | None:
        """The directory of the attempt's ``stdout`` and ``stderr``."""
        return (self._logs_of(task) / str(attempt)).as_uri()

    async def finish(self, record: JobRecord) -> None:
        """Keep the record and tell the node, which kills and removes what is left, and ends.

        Where there is no node (any more), that is done here.
        """
        keep_record(str(self._job_dir), msgspec.json.encode(record).decode())
        # A copy in progress cannot be stopped; with nothing live, nothing comes of it.
        self._live.clear()
        await asyncio.gather(*self._launching.values())
        if self._writer is not None and not self._gone:
            self._send({"op": "finished"})
        if self._listening is not None:
            self._listening.cancel()
            await asyncio.gather(self._listening, return_exceptions=True)
        if self._writer is not None:
            # Closing sends what is still buffered first.
            self._writer.close()
            try:
                await self._writer.wait_closed()
            except ConnectionError:
                self._lose_node()
        if self._writer is None or self._gone:
            await asyncio.to_thread(remove_leftovers, self._job_dir)
        self._events.put_nowait(None)

    # -- the line to the node ---------------------------------------------------

    async def _listen(self, reader: asyncio.StreamReader) -> None:
        try:
            while line := await reader.readline():
                self._take(json.loads(line))
        except ConnectionError:
            pass
        self._lose_node()

    def _take(self, message: dict[str, Any]) -> None:
        if message["op"] == "ping":
            self._send({"op": "pong"})
            return
        container = ContainerId(message["container"])
        if message["op"] == "failed":
            self._events.put_nowait(LaunchFailed(container=container, reason=message["reason"]))
        else:
            self._events.put_nowait(_completed(message))
        self._free(container)

    def _send(self, message: dict[str, Any]) -> None:
        if self._writer is not None and not self._gone:
            # Not msgspec: a path or variable need not be valid UTF-8.
            self._writer.write(json.dumps(message).encode() + b"\n")

    def _lose_node(self) -> None:
        if self._gone:
            return
        self._gone = True
        self._live.clear()
        killed = noted_kill(str(self._job_dir))
        if killed is None:
            self._events.put_nowait(BackendGone(reason=_NODE_DIED))
            return
        by, reason = killed
        self._events.put_nowait(KillRequested(by=by, reason=reason))
        self._events.put_nowait(BackendGone(reason=f"the job was killed by {by}"))

    # -- granting and launching ---------------------------------------------------

    def _grant(self) -> None:
        """Grant what fits, strictly in the order it was asked for."""
        while self._waiting and not self._gone:
            asked = self._waiting[0].resources.memory_mb
            if self._memory_mb is not None and sum(self._live.values()) + asked > self._memory_mb:
                return
            command = self._waiting.popleft()
            self._granted += 1
            container = ContainerId(
                f"container_{self._job}_{self._attempt:02d}_{self._granted:06d}"
            )
            self._live[container] = asked
            self._events.put_nowait(
                ContainerAllocated(request=command.request, container=container, node=self._node)
            )

    def _free(self, container: ContainerId) -> None:
        self._live.pop(container, None)
        self._grant()

    def _logs_of(self, task: TaskId) -> Path:
        return self._logs / f"{group_of(task)}-{index_of(task)}"

    async def _prepare(self, launch: Launch) -> None:
        container = launch.container
        directory = self._job_dir / "containers" / container
        logs = self._logs_of(launch.task)
        try:
            directory.mkdir(mode=0o700, parents=True)
            logs.mkdir(mode=0o700, parents=True, exist_ok=True)
            files = self._job_dir / "files"
            if files.is_dir():
                await asyncio.to_thread(place, files, directory)
        except OSError as exc:
            del self._launching[container]
            if container in self._live:
                reason = f"cannot make its working directory {directory}: {exc}"
                self._events.put_nowait(LaunchFailed(container=container, reason=reason))
                self._free(container)
            return
        del self._launching[container]
        if container not in self._live:
            # Released, or the node died, while the files were copied.
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

    def _environment(self, launch: Launch, logs: Path) -> dict[str, str]:
        """What the container's environment has beyond the submitter's, which the node adds."""
        starter = {
            **launch.starter,
            "secret_file": str(self._job_dir / "secret"),
            "master_file": str(self._job_dir / "master.json"),
            "host": "127.0.0.1",
            "log_dir": str(logs),
            "parent": self._node_pid,
        }
        unset = {name: text for name, text in launch.defaults.items() if name not in self._environ}
        return {
            **unset,
            **launch.env,
            JOB_VARIABLE: self._job,
            "YTF_STARTER": json.dumps(starter),
        }


def _completed(message: dict[str, Any]) -> ContainerCompleted:
    return ContainerCompleted(
        container=ContainerId(message["container"]),
        cause=Cause(message["cause"]),
        exit_code=message["exit_code"],
        signal=message["signal"],
        diagnostics=message["diagnostics"],
        tail=message["tail"],
    )


def _memory_of(environ: Mapping[str, str]) -> int | None:
    text = environ.get(MEMORY_VARIABLE)
    if not text:
        return None
    if not text.isdecimal() or int(text) == 0:
        raise SettingsError(
            f"{MEMORY_VARIABLE} is {text!r}", hint="give a whole number of MB, such as 16384"
        )
    return int(text)
