"""Opens a shell in the container of a running task: finds its starter and connects to it.

The way: the job's secret, which only its owner can read; the task's state, from
the status; its starter's address, from the master, which notes who asked; then a
signed request to the starter, after which the connection is an encrypted stream
(docs/protocols.md §2).
"""

from __future__ import annotations

import contextlib
import os
import secrets
import socket
import time
from dataclasses import dataclass

import msgspec

from ytf.backends import master_api
from ytf.backends.api import JobCredentials, JobHandle
from ytf.errors import NotFoundError, RefusedError, SpecError, UnreachableError
from ytf.specs.ids import ContainerId, JobId, TaskId, task_id
from ytf.specs.job import CLIENT
from ytf.specs.status import JobStatus, StarterAddress, TaskState, TaskStatus
from ytf.wire.frames import (
    FROM_CLIENT,
    FROM_STARTER,
    MAX_PAYLOAD,
    FrameReader,
    FrameWriter,
    keep_alive,
)
from ytf.wire.http_client import ChannelError, SignatureError, SignedChannel
from ytf.wire.shell_messages import OPEN, OpenMessage, WindowSize
from ytf.wire.signing import Signer

_MASTER_S = 15.0
"""How long a job may be without a master that answers before a client gives up."""
_CALL_S = 10.0
_RETRY_S = 0.2


@dataclass(frozen=True, kw_only=True)
class ShellRequest:
    """What to run: ``command`` None is an interactive shell, ``size`` None is no terminal."""

    command: str | None
    size: WindowSize | None

    def message(self) -> bytes:
        """Return the first message of the stream; raises ``SpecError`` for one that is too long."""
        term = os.environ.get("TERM", "dumb")
        opening = OpenMessage(self.command, self.size, term).encode()
        if len(opening) > MAX_PAYLOAD:
            raise SpecError(
                f"a command of {len(self.command or '')} characters is too long",
                hint="put it into a file, and give that as input: ytf shell ID TASK < script.sh",
            )
        return opening


class ShellConnection:
    """The stream to a shell: what it is called, its socket, and its frames both ways."""

    def __init__(self, task: TaskId, sock: socket.socket, key: bytes, received: bytes) -> None:
        self.task = task
        self.sock = sock
        self.reader = FrameReader(key, FROM_STARTER)
        self.reader.feed(received)
        self.writer = FrameWriter(key, FROM_CLIENT)

    def close(self) -> None:
        """Close the connection; everything that runs in the shell is then killed."""
        self.sock.close()


def find_task(status: JobStatus, wanted: str) -> TaskStatus:
    """Return the running task that ``worker:0``, or ``chief`` where it is the only one, names.

    Raises ``NotFoundError`` if there is none, ``RefusedError`` if no shell can be opened in it.
    """
    ids = {task_id(task.group, task.index): task for task in status.tasks}
    of_group = [name for name, task in ids.items() if task.group == wanted]
    if len(of_group) > 1:
        raise NotFoundError(
            f"{status.id} has {len(of_group)} tasks {wanted}", hint=f"one is {of_group[0]}"
        )
    name = of_group[0] if of_group else TaskId(wanted)
    master_api.check_tasks(status.id, [name], list(ids))
    task = ids[name]
    if task.group == CLIENT:
        raise RefusedError(f"{name} runs at the terminal of its user, not in a container")
    if task.state.is_final:
        raise RefusedError(
            f"{name} has ended: it is {task.state.value}",
            hint=f"`ytf logs {status.id} {name}` shows what it wrote",
        )
    if task.state is not TaskState.RUNNING or task.container is None:
        raise RefusedError(
            f"the program of {name} does not run now: it is {task.state.value}",
            hint=f"`ytf status {status.id}` shows when it does",
        )
    return task


def open_shell(handle: JobHandle, wanted: str, request: ShellRequest) -> ShellConnection:
    """Open a shell in a running task's container.

    Raises ``NotFoundError`` for a job that has ended or a task that it does not
    have, ``RefusedError`` for other users and for tasks that do not run.
    """
    credentials = handle.credentials()
    opening = request.message()
    task = find_task(handle.status(), wanted)
    name = task_id(task.group, task.index)
    assert task.container is not None  # find_task has checked it
    starter = _starter(credentials, name, ContainerId(task.container))
    connection = _connect(credentials, starter)
    try:
        connection.sock.settimeout(_CALL_S)
        connection.sock.sendall(connection.writer.frame(OPEN, opening))
    except OSError as exc:
        connection.close()
        raise _unreachable(name, starter, str(exc)) from exc
    return connection


def _starter(credentials: JobCredentials, task: TaskId, container: ContainerId) -> StarterAddress:
    """Ask the master for a starter's address. A master that is being replaced is waited for."""
    deadline = time.monotonic() + _MASTER_S
    body = msgspec.json.encode({"container": container, "by": credentials.user})
    path = "/client/v1/shell"
    while True:
        why: str | None = "it has not registered yet"
        try:
            master = credentials.find_master()
            if master is not None:
                answer = master_api.signed_call(
                    master.url, credentials.secret, "POST", path, body, _CALL_S
                )
                why = master_api.retry_reason(answer, "POST", path)
                if why is None and answer.status == 404:
                    raise RefusedError(
                        f"{task} has just ended, or was started anew",
                        hint=f"`ytf status {credentials.job}` tells; then try again",
                    )
                if why is None:
                    return master_api.decode(answer, StarterAddress)
        except ChannelError as exc:
            why = str(exc)
        if time.monotonic() > deadline:
            raise UnreachableError(
                f"the master of {credentials.job}, which knows where {task} is, does not answer: "
                f"{why}",
                hint=f"`ytf status {credentials.job}` tells what is known of it; then try again",
            )
        time.sleep(_RETRY_S)


def _connect(credentials: JobCredentials, starter: StarterAddress) -> ShellConnection:
    signer = Signer(credentials.secret)
    actor = f"client/{secrets.token_hex(16)}/{starter.container}"
    channel = SignedChannel(f"http://{starter.control}", signer, actor)
    with contextlib.closing(channel):
        try:
            body = msgspec.json.encode({"by": credentials.user})
            answer, stream = channel.open_stream("POST", "/control/v1/shell", body, _CALL_S)
        except SignatureError as exc:
            raise UnreachableError(
                f"what listens at {starter.control} is not the starter of {starter.task}: {exc}",
                hint=f"the task may have just ended: see `ytf status {credentials.job}`",
            ) from exc
        except ChannelError as exc:
            raise _unreachable(starter.task, starter, str(exc)) from exc
    if stream is None:
        raise _refusal(credentials.job, starter.task, answer.status, answer.error())
    keep_alive(stream.sock)
    key = bytes.fromhex(signer.stream_key(stream.signature, str(answer.json()["nonce"])))
    return ShellConnection(starter.task, stream.sock, key, stream.received)


def _unreachable(task: TaskId, starter: StarterAddress, why: str) -> UnreachableError:
    return UnreachableError(
        f"the starter of {task} cannot be reached at {starter.control}: {why}",
        hint="this machine must reach the control_ports of the nodes: see docs/security.md",
    )


def _refusal(job: JobId, task: TaskId, status: int, why: str) -> RefusedError:
    if status == 429:
        return RefusedError(f"{why}: no more are allowed", hint="leave one of them first")
    if status == 404 and "/control/" in why:
        return RefusedError(
            f"{task} was started by a version of ytf that has no shells", hint="submit it anew"
        )
    return RefusedError(why, hint=f"`ytf status {job}` shows the state of {task}")
