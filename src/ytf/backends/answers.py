"""What a master is asked by a job's handle, and what its answers mean: the same everywhere.

Where the master is, and who answers in its place once the job is over, each
backend knows itself.
"""

from __future__ import annotations

import contextlib
import secrets
from collections.abc import Sequence

import msgspec

from ytf.errors import InternalError, NotFoundError
from ytf.specs.cluster import ClusterSpec
from ytf.specs.names import JobId, TaskId
from ytf.specs.status import JobEvent, JobRecord, JobStatus
from ytf.specs.wording import did_you_mean
from ytf.starter.auth import Signer
from ytf.starter.http import Answer, Channel


class Told(msgspec.Struct, frozen=True):
    """The answer of ``/client/v1/wait``."""

    version: int
    status: JobStatus


def signed_call(
    url: str, secret: bytes, method: str, path: str, body: bytes, timeout_s: float
) -> Answer:
    """One request to a master and its verified answer; raises ``ChannelError``, of many kinds."""
    # A connection each: it costs little, and a handle needs no closing.
    channel = Channel(url, Signer(secret), f"client/{secrets.token_hex(8)}")
    with contextlib.closing(channel):
        return channel.call(method, path, body, timeout_s)


def why_not_yet(answer: Answer, method: str, path: str) -> str | None:
    """Why a master wants to be asked again; None if this is its answer (200 or 404).

    Raises ``InternalError`` for any other.
    """
    if answer.status in (200, 404):
        return None
    if answer.status != 503:
        raise InternalError(
            f"the master answered {method} {path} with {answer.status}: {answer.error()}"
        )
    return answer.error()


def cluster_spec(answer: Answer | None, record: JobRecord | None) -> ClusterSpec | None:
    """Who is where, as the master says or, without an answer, the record."""
    if answer is None:
        kept = None if record is None else record.cluster_spec
        return None if kept is None else msgspec.convert(kept, ClusterSpec)
    if answer.status == 404:
        return None
    return msgspec.json.decode(answer.body, type=ClusterSpec)


def events(answer: Answer | None, record: JobRecord | None) -> list[JobEvent]:
    """The job's story, as the master says or, without an answer, the record."""
    if answer is None:
        return [] if record is None else list(record.events)
    return msgspec.json.decode(answer.body, type=list[JobEvent])


def check_tasks(job: JobId, wanted: Sequence[TaskId], has: Sequence[TaskId]) -> None:
    """Raise ``NotFoundError`` for a task that a job does not have."""
    for task in wanted:
        if task not in has:
            hint = did_you_mean(task, has, otherwise=f"it has {', '.join(has[:8])}")
            raise NotFoundError(f"{job} has no task {task}", hint=hint)
