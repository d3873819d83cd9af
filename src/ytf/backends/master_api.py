"""Calls a master's client API and decodes its answers, for the job handles of all backends.

Each backend itself finds the master, and the record once the job is over.
"""

from __future__ import annotations

import contextlib
import secrets
from collections.abc import Sequence
from typing import TypeVar

import msgspec

from ytf.decoding import convert, decode_json
from ytf.errors import InternalError, NotFoundError, UnreachableError, did_you_mean
from ytf.specs.ids import JobId, TaskId
from ytf.specs.status import ClusterSpec, JobEvent, JobRecord, JobStatus
from ytf.wire.http_client import Answer, NotSentError, SignedChannel
from ytf.wire.signing import Signer

_LONGEST_REASON = 4096
_T = TypeVar("_T")


class WaitResponse(msgspec.Struct, frozen=True):
    """The answer of ``/client/v1/wait``."""

    version: int
    status: JobStatus


def signed_call(
    url: str, secret: bytes, method: str, path: str, body: bytes, timeout_s: float
) -> Answer:
    """Send one request to a master and return its verified answer; raises ``ChannelError``."""
    # One connection per call: it costs little, and a handle need not be closed.
    try:
        channel = SignedChannel(url, Signer(secret), f"client/{secrets.token_hex(8)}")
    except ValueError as exc:
        raise NotSentError(f"the master's address is not understood: {exc}") from exc
    with contextlib.closing(channel):
        return channel.call(method, path, body, timeout_s)


def decode(answer: Answer, kind: type[_T]) -> _T:
    """Return the value in an answer; raises ``UnreachableError`` if it is not understood."""
    try:
        return decode_json(answer.body, kind)
    except (msgspec.DecodeError, RecursionError) as exc:
        raise UnreachableError(
            f"the answer of the job is not understood: {exc}",
            hint="was the job submitted with another version of ytf? Use that one for it, too",
        ) from exc


def kill_body(by: str, reason: str) -> bytes:
    """Return the body of a kill, with as much of the reason as a master takes."""
    return msgspec.json.encode({"by": by, "reason": reason[:_LONGEST_REASON]})


def retry_reason(answer: Answer, method: str, path: str) -> str | None:
    """Return why a call must be repeated (503), or None for an answer (200 or 404).

    Raises ``InternalError`` for any other HTTP status.
    """
    if answer.status in (200, 404):
        return None
    if answer.status != 503:
        raise InternalError(
            f"the master answered {method} {path} with {answer.status}: {answer.error()}"
        )
    return answer.error()


def decode_cluster_spec(answer: Answer | None, record: JobRecord | None) -> ClusterSpec | None:
    """Return the cluster spec from the master's answer or, without an answer, from the record."""
    if answer is None:
        recorded = None if record is None else record.cluster_spec
        return None if recorded is None else convert(recorded, ClusterSpec)
    if answer.status == 404:
        return None
    return decode(answer, ClusterSpec)


def decode_events(answer: Answer | None, record: JobRecord | None) -> list[JobEvent]:
    """Return the events from the master's answer or, without an answer, from the record."""
    if answer is None:
        return [] if record is None else list(record.events)
    return decode(answer, list[JobEvent])


def check_tasks(job: JobId, wanted: Sequence[TaskId], has: Sequence[TaskId]) -> None:
    """Raise ``NotFoundError`` for a task that a job does not have."""
    for task in wanted:
        if task not in has:
            hint = did_you_mean(task, has, otherwise=f"it has {', '.join(has[:8])}")
            raise NotFoundError(f"{job} has no task {task}", hint=hint)
