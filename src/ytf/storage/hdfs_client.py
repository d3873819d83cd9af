"""Calls HDFS through hdfs-native, with a timeout, failover and our own errors for every call.

hdfs-native has no timeouts, its blocking calls cannot be interrupted, and its
threads do not survive a fork. So all calls run on its asynchronous client, in
an event loop in a daemon thread, where a call that takes too long is cancelled.

A native client must not be destroyed soon after a call. Destroying it holds
Python's global interpreter lock and waits for the client's threads, and one of
them may need that lock to report the end of the call. Nor may one of those
threads destroy it, which happens if Python collects garbage in it. So native
clients are kept for the life of the process, and shared by all ``HdfsClient``s
with equal settings; those of hung connections are destroyed by us, and much later.
"""

from __future__ import annotations

import asyncio
import atexit
import concurrent.futures
import os
import threading
import time
from collections.abc import Awaitable, Callable
from contextvars import Context
from typing import TYPE_CHECKING, NamedTuple, TypeVar
from urllib.parse import urlsplit

from async_timeout import timeout
from hdfs_native import AsyncClient

from ytf.errors import (
    NotFoundError,
    OutcomeUnknownError,
    RefusedError,
    SettingsError,
    UnreachableError,
    YtfError,
)
from ytf.hadoop.conf import Configuration
from ytf.storage.hdfs_errors import NOT_NOW, timeout_error, translate_error

if TYPE_CHECKING:
    from typing_extensions import TypeVarTuple, Unpack

    _Ts = TypeVarTuple("_Ts")

T = TypeVar("T")

TIMEOUT_S = 60.0
"""How long one call may take: longer than a garbage collection pause of a NameNode."""

COMMAND_ANSWER_S = 10.0
"""How long NameNodes may be silent to a command that a user has typed and waits for."""

FAILOVER_S = 30.0
"""How long a standby NameNode may take to become active."""

_DEFAULT_PORT = 8020
_FAILOVER_PAUSE_S = 0.5
_SILENT_AGAIN_S = 1.0
"""What a call of a command gets soon after NameNodes were silent for all of the time."""
_SLACK_S = 5.0
# A native client is destroyed this long after its last call at the earliest.
_RETIRED_S = 300.0
_QUIET_S = 1.0
_QUIET_POLL_S = 0.001


class HdfsClient:
    """A client of one NameNode, or of a nameservice. Thread-safe, and usable after a fork.

    ``url`` is ``hdfs://host:port/…``, ``hdfs://nameservice/…`` or ``hdfs:///…``;
    missing parts come from the configuration. The user is ``HADOOP_USER_NAME``,
    else the operating system's user; with Kerberos, the principal. The first
    call connects.

    ``timeout_s`` limits each call. ``answer_s`` is for commands, whose users wait:
    how long the NameNodes may be silent, all together and over several calls.
    Calls that wait for DataNodes, too, have ``timeout_s`` all the same.
    """

    def __init__(
        self,
        url: str,
        conf: Configuration,
        *,
        timeout_s: float = TIMEOUT_S,
        answer_s: float | None = None,
    ) -> None:
        self.authority = _authority(url, conf)
        self.timeout_s = timeout_s
        self._namenodes = max(1, len(_namenodes(self.authority, conf)))
        self.has_standby = self._namenodes > 1
        self._answer_s = answer_s
        self._conf = conf
        self._first = 0
        self._answered = False
        self._silent_since: float | None = None
        self._has_heard_standby = False
        self._gave_up_at: float | None = None

    def call(
        self,
        action: str,
        function: Callable[[AsyncClient], Awaitable[T]],
        *,
        changes: bool,
        repeatable: bool = False,
        transfers: bool = False,
    ) -> T:
        """Return the result of ``function``, called with the native client.

        ``action`` completes "cannot …" in errors. ``changes`` says whether the
        call changes anything: then a lost answer is an ``OutcomeUnknownError``,
        otherwise an ``UnreachableError``. A ``repeatable`` call has the same
        effect twice as once. In a nameservice it is repeated while no NameNode
        is active, for at most ``FAILOVER_S``. One that ``transfers`` data waits
        for DataNodes as well.
        """
        action = f"{action} at {self.authority}"
        while True:
            limit_s = self.timeout_s if transfers else self._answer_limit_s()
            try:
                return self._call(action, function, limit_s, changes=changes)
            except (UnreachableError, OutcomeUnknownError):
                # Another NameNode is tried first from now on. hdfs-native itself goes on to
                # the next one, unless one hangs, and raises the error of the last.
                self._first += 1
                if not (repeatable and self._awaits_failover()):
                    self._gave_up_at = time.monotonic()
                    raise
            time.sleep(_FAILOVER_PAUSE_S)

    def _answer_limit_s(self) -> float:
        """How long the NameNode may take for a call.

        A command makes several calls. Once the NameNodes have been silent for all of
        the time, the calls that follow soon are not made to wait as long again.
        """
        if self._answer_s is None:
            return self.timeout_s
        gave_up_at = self._gave_up_at
        if gave_up_at is not None and time.monotonic() < gave_up_at + self._answer_s:
            return min(self._answer_s, _SILENT_AGAIN_S)
        # Each NameNode has its share.
        return self._answer_s / self._namenodes

    def _awaits_failover(self) -> bool:
        """Whether, after a failure, another NameNode may still become active.

        A command waits for a standby that answers, not for NameNodes that are all silent.
        """
        now = time.monotonic()
        self._silent_since = since = self._silent_since or now
        limit_s = FAILOVER_S
        if self._answer_s is not None and not self._has_heard_standby:
            limit_s = min(limit_s, self._answer_s)
        return self.has_standby and now < since + limit_s

    def _call(
        self,
        action: str,
        function: Callable[[AsyncClient], Awaitable[T]],
        limit_s: float,
        *,
        changes: bool,
    ) -> T:
        key = self._key()
        try:
            result = _client_thread().run(key, function, limit_s)
        except (TimeoutError, asyncio.TimeoutError, concurrent.futures.TimeoutError):
            # The connection may be dead without an error: the next call makes a new one.
            _client_thread().retire(key)
            raise timeout_error(action, limit_s, changes=changes) from None
        except YtfError:
            raise
        except Exception as exc:
            error = translate_error(exc, action, changes=changes, answered_before=self._answered)
            self._has_heard_standby |= any(name in str(exc) for name in NOT_NOW)
            if isinstance(error, (RefusedError, NotFoundError)):
                self._silent_since = None
            raise error from exc
        self._answered, self._silent_since = True, None
        self._has_heard_standby, self._gave_up_at = False, None
        return result

    def _key(self) -> _ClientKey:
        settings = _settings(self.authority, self._conf, self._first)
        user = os.environ.get("HADOOP_USER_NAME", "")
        return _ClientKey(self.authority, user, tuple(sorted(settings.items())))


def _authority(url: str, conf: Configuration) -> str:
    parts = urlsplit(url)
    if parts.scheme == "hdfs" and not parts.netloc:
        parts = urlsplit(conf.get_trimmed("fs.defaultFS") or "")
        if parts.scheme != "hdfs" or not parts.netloc:
            raise SettingsError(
                f"{url} names no NameNode, and fs.defaultFS is "
                f"{conf.get_trimmed('fs.defaultFS') or 'not set'}",
                hint="write hdfs://host:port/…, or set fs.defaultFS in core-site.xml",
            )
    if parts.scheme != "hdfs":
        raise SettingsError(f"{url} is not an hdfs:// URL")
    authority = f"hdfs://{parts.netloc}"
    if parts.port is None and not _namenodes(authority, conf):
        return f"{authority}:{_DEFAULT_PORT}"
    return authority


def _namenodes(authority: str, conf: Configuration) -> list[str]:
    """Return the ids of a nameservice's NameNodes; [] for the address of a single one."""
    parts = urlsplit(authority)
    return conf.get_list(f"dfs.ha.namenodes.{parts.hostname}") if parts.port is None else []


def _settings(authority: str, conf: Configuration, first: int) -> dict[str, str]:
    """Return the configuration for hdfs-native, with NameNode number ``first`` tried first."""
    settings = {name: conf.get_trimmed(name) or "" for name in conf.names()}
    nameservice = urlsplit(authority).hostname
    ids = _namenodes(authority, conf)
    if ids:
        # hdfs-native accepts no spaces in a list, and tries NameNodes in this order.
        turn = first % len(ids)
        settings[f"dfs.ha.namenodes.{nameservice}"] = ",".join(ids[turn:] + ids[:turn])
    # An observer NameNode may answer with an outdated listing: fencing (ADR 4)
    # needs the listing of the active one.
    settings[f"dfs.client.failover.proxy.provider.{nameservice}"] = (
        "org.apache.hadoop.hdfs.server.namenode.ha.ConfiguredFailoverProxyProvider"
    )
    # Each NameNode is tried once. Before a second round hdfs-native sleeps, and
    # that crashes the asynchronous client (0.14.7: "there is no reactor running").
    settings["dfs.client.failover.max.attempts"] = str(max(0, len(ids) - 1))
    return settings


class _ClientKey(NamedTuple):
    """Native clients with equal keys are interchangeable."""

    authority: str
    user: str
    settings: tuple[tuple[str, str], ...]


class _ClientLoop(asyncio.SelectorEventLoop):
    """An event loop that knows whether a thread of a native client is calling it.

    Such a thread passes on the result of a call, and may be interrupted in that by whoever
    waits for the result.
    """

    def __init__(self) -> None:
        super().__init__()
        self.calls = 0

    def call_soon_threadsafe(
        self,
        callback: Callable[[Unpack[_Ts]], object],
        *args: Unpack[_Ts],
        context: Context | None = None,
    ) -> asyncio.Handle:
        self.calls += 1
        try:
            return super().call_soon_threadsafe(callback, *args, context=context)
        finally:
            # Nothing that lets another thread run may come after this.
            self.calls -= 1


class _ClientThread:
    """An event loop in a daemon thread, with the native clients that run in it.

    The frame of the thread holds references to all of it. So nothing is
    destroyed when the process ends, nor in a forked child.
    """

    def __init__(self) -> None:
        self.pid = os.getpid()
        self._lock = threading.Lock()
        self._clients: dict[_ClientKey, AsyncClient] = {}
        self._retired: list[tuple[float, AsyncClient]] = []
        self._loop = _ClientLoop()
        threading.Thread(target=self._serve, name="hdfs", daemon=True).start()

    def run(
        self, key: _ClientKey, function: Callable[[AsyncClient], Awaitable[T]], timeout_s: float
    ) -> T:
        """Return the result of ``function``, called with the native client, or ``TimeoutError``."""
        client = self._client(key)
        call = _within(function, client, timeout_s)
        future = asyncio.run_coroutine_threadsafe(call, self._loop)
        try:
            return future.result(timeout_s + _SLACK_S)
        finally:
            # If the caller stops waiting, for example by Ctrl-C, the call is cancelled.
            future.cancel()

    def retire(self, key: _ClientKey) -> None:
        """Do not use this native client for further calls."""
        with self._lock:
            client = self._clients.pop(key, None)
            if client is not None:
                self._retired.append((time.monotonic(), client))

    def _client(self, key: _ClientKey) -> AsyncClient:
        with self._lock:
            client = self._clients.get(key)
            if client is None:
                self._destroy_retired()
                try:
                    client = AsyncClient(key.authority, dict(key.settings))
                except RuntimeError as exc:
                    raise SettingsError(
                        f"{key.authority} cannot be used: {exc}",
                        hint="check fs.defaultFS and dfs.nameservices in the configuration",
                    ) from exc
                self._clients[key] = client
            return client

    def _destroy_retired(self) -> None:
        long_ago = time.monotonic() - _RETIRED_S
        while self._retired and self._retired[0][0] <= long_ago:
            _, client = self._retired.pop(0)
            # An exception of its last call may still refer to it, in a cycle that Python
            # would collect in any thread.
            del client.inner

    def wait_quiet(self) -> None:
        """Return when no thread of a native client runs Python code."""
        deadline = time.monotonic() + _QUIET_S
        while self._loop.calls and time.monotonic() < deadline:
            time.sleep(_QUIET_POLL_S)

    def _serve(self) -> None:
        self._loop.run_forever()


async def _within(
    function: Callable[[AsyncClient], Awaitable[T]], client: AsyncClient, timeout_s: float
) -> T:
    async with timeout(timeout_s):
        return await function(client)


_current: _ClientThread | None = None
_current_lock = threading.Lock()


def _client_thread() -> _ClientThread:
    global _current
    with _current_lock:
        if _current is None or _current.pid != os.getpid():
            _current = _ClientThread()
        return _current


def _after_fork() -> None:
    """Replace the lock: a thread of the parent, which does not exist here, may have held it."""
    global _current_lock
    _current_lock = threading.Lock()


def _before_exit() -> None:
    """Let native clients finish: Python ends threads that want to run during its own end.

    Theirs would abort the process.
    """
    current = _current
    if current is not None and current.pid == os.getpid():
        current.wait_quiet()


os.register_at_fork(after_in_child=_after_fork)
atexit.register(_before_exit)
